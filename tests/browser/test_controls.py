"""Each control changes what it should, and the numbers shown are those of the tables."""

import math
import re

import pytest
from shuffledp import Setting
from shuffledp.accounting.registry import get_bound
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.pipeline.selection import at_target, at_targets, calibrated
from shuffledp.studies.certainty import certainty_table

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
READOUT = re.compile(
    r"Cell (\d+) .*: truth (\S+), estimate (\S+) ± (\S+) \(.*, from (\S+) to (\S+)\."
)
RELEASED = "#maps-body figure:last-child .map .cell"
TARGET = 1e-6


def choose(page, control, value):
    page.locator(f"#{control}").select_option(str(value))


def offered(page, control):
    return page.locator(f"#{control} option").evaluate_all("all => all.map((one) => one.value)")


def number(text):
    return float(text.replace(",", ""))


def readouts(page):
    """Cell, truth, estimate, two standard errors and the interval's ends, of every cell."""
    labels = page.locator(RELEASED).evaluate_all(
        "all => all.map((one) => one.getAttribute('aria-label'))"
    )
    return [[number(shown) for shown in READOUT.match(label).groups()] for label in labels]


def fills(page):
    return page.locator(RELEASED).evaluate_all(
        "all => all.map((one) => getComputedStyle(one).fill)"
    )


def numbers_drawn(page):
    rows = page.locator("#utility-body details tbody tr").evaluate_all(
        "all => all.map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    return {(label, number(x)): value for label, x, value in rows}


def four_digits(value):
    return pytest.approx(value, rel=6e-4)


def of_target(run, n, eps, mechanism):
    """Estimates and standard errors of the cells, in records."""
    table = run.table(f"releases/town.shape.target-{mechanism}.parquet")
    table = table[(table["repetition"] == 0) & (table["estimator"] == "raw")]
    rows = table[(table["n"] == n) & (table["eps"] == eps)].sort_values("cell")
    return n * rows[["estimate", "standard_error"]].to_numpy()


def of_sweep(run, n, eps0, mechanism):
    """As `of_target`, of the first release at the privacy of this eps0."""
    releases = run.table(f"releases/town.shape.eps0-{eps0:g}.parquet")
    samples = run.table("samples/town.shape.parquet").pivot(index="n", columns="cell")["count"]
    counts = {size: row.to_numpy() for size, row in samples.iterrows()}
    table = certainty_table(
        calibrated(releases, "matched", TARGET), counts, region="town", grid="shape"
    )
    rows = table[(table["n"] == n) & (table["mechanism"] == mechanism)]
    rows = rows[(rows["repetition"] == 0) & (rows["estimator"] == "raw")].sort_values("cell")
    return rows[["estimate", "standard_error"]].to_numpy()


def released(run, n, promise, mechanism):
    kind, budget = re.match(r"(eps0?) = (\S+)", promise).groups()
    return {"eps": of_target, "eps0": of_sweep}[kind](run, n, float(budget), mechanism)


def test_every_number_on_the_maps_is_the_table_s(run, page):
    samples = run.table("samples/town.shape.parquet")
    shown = 0
    for n in offered(page, "map-n"):
        for promise in offered(page, "map-promise"):
            for mechanism in offered(page, "map-mechanism"):
                for control, value in [("n", n), ("promise", promise), ("mechanism", mechanism)]:
                    choose(page, f"map-{control}", value)
                truths = samples[samples["n"] == int(n)].sort_values("cell")["count"]
                expected = released(run, int(n), promise, mechanism)
                lines = readouts(page)
                assert [line[0] for line in lines] == list(range(12))
                assert [line[1] for line in lines] == truths.tolist()
                for (*_, estimate, wide, low, high), (right, error) in zip(
                    lines, expected, strict=True
                ):
                    # One decimal is shown, of numbers that the page carries with two.
                    assert estimate == pytest.approx(right, abs=0.056)
                    assert wide == pytest.approx(2 * error, abs=0.061)
                    assert low == pytest.approx(max(0, right - 2 * error), abs=0.066)
                    assert high == pytest.approx(max(0, right + 2 * error), abs=0.066)
                    shown += 1
                assert CATALOGUE[mechanism].label in page.locator("#map-title").inner_text()
    assert shown == 2 * (2 + 2) * 3 * 12


def test_the_maps_show_errors_and_what_is_not_known(run, page):
    choose(page, "map-n", 400)
    choose(page, "map-promise", "eps = 1")
    choose(page, "map-mechanism", "krr")
    values = released(run, 400, "eps = 1", "krr")
    samples = run.table("samples/town.shape.parquet")
    truths = samples[samples["n"] == 400].sort_values("cell")["count"].to_numpy()

    hatched = ["url(" in fill for fill in fills(page)]
    assert hatched == (values[:, 0] <= 0).tolist()

    choose(page, "map-view", "known")
    unknown = ["url(" in fill for fill in fills(page)]
    assert unknown == (values[:, 0] <= 2 * values[:, 1]).tolist()
    assert len(set(unknown)) == 2, "the run has cells of both kinds"
    assert "not known" in page.locator("#maps-body .legend").inner_text()

    choose(page, "map-view", "error")
    colours = [[int(part) for part in re.findall(r"\d+", fill)[:3]] for fill in fills(page)]
    errors = values[:, 0] - truths
    red, _, blue = colours[errors.argmin()]
    assert red < blue, "purple: too few"
    red, _, blue = colours[errors.argmax()]
    assert red > blue, "orange: too many"
    assert "error" in page.locator("#maps-body .legend").inner_text()


def test_a_place_is_chosen_for_the_whole_page(run, page):
    assert page.locator("#maps-body svg .cell").count() == 2 * 12
    assert "Sea: nobody's" in page.locator("#maps-body").inner_text()
    choose(page, "region", 1)
    titles = [place.inner_text() for place in page.locator(".place h3").all() if place.is_visible()]
    assert titles == [run.data["regions"][1]["title"]]
    assert page.locator("#maps-body svg .cell").count() == 2 * 6
    assert "Sea: nobody's" not in page.locator("#maps-body").inner_text()
    assert offered(page, "map-mechanism") == ["gaussian", "krr"]
    assert "k = 6 cells" in page.locator("#privacy-answer").inner_text()
    assert offered(page, "privacy-eps0") == ["1"]
    assert offered(page, "utility-reference") == ["gaussian", "krr"]
    village = at_targets(run.table("utility/village.shape.csv"))
    drawn = numbers_drawn(page)
    for row in village[(village["eps"] == 1) & (village["estimator"] == "raw")].itertuples():
        assert float(drawn[CATALOGUE[row.mechanism].label, row.n]) == four_digits(row.tv_distance)


def test_the_table_of_mechanisms_is_that_of_the_run(run, page):
    table = at_targets(run.table("utility/town.shape.csv"))
    last = table[(table["n"] == table["n"].max()) & (table["eps"] == 2)]
    rows = last[last["estimator"] == "raw"].sort_values("cell_error")
    lines = page.locator(".place").first.locator("tbody tr")
    assert lines.count() == len(rows) == 3
    for line, row in zip(lines.all(), rows.itertuples(), strict=True):
        label, distance, error, messages, own, trust = line.locator("th, td").all_inner_texts()
        assert (label, trust) == (CATALOGUE[row.mechanism].label, row.trust)
        assert float(distance) == pytest.approx(row.tv_distance, abs=5.1e-6)
        assert float(error) == pytest.approx(row.cell_error, abs=5.1e-3)
        assert float(messages) == pytest.approx(row.messages, abs=5.1e-3)
        if math.isinf(row.local_eps0):
            assert own == "none: it reveals all"
        else:
            assert float(own) == pytest.approx(row.local_eps0, abs=5.1e-3)


def read_off(page):
    answer = page.locator("#privacy-answer").inner_text()
    return float(re.match(r"Certified: eps = (\S+) at", answer)[1])


def test_eps_is_read_off_at_the_target_and_at_any_delta(run, page):
    utility = at_target(run.table("utility/town.shape.parquet"), TARGET)
    curves = run.table("privacy/town.shape.curves.parquet")
    points = run.table("privacy/town.shape.parquet")
    for n in map(int, offered(page, "privacy-n")):
        tabled = curves if n == curves["n"].max() else points
        for eps0 in map(float, offered(page, "privacy-eps0")):
            choose(page, "privacy-n", n)
            choose(page, "privacy-eps0", f"{eps0:g}")
            page.locator("#privacy-delta").fill(f"{TARGET:g}")
            (right,) = {*utility[(utility["n"] == n) & (utility["eps0"] == eps0)]["eps"]}
            assert right <= read_off(page) <= 1.01 * right
            # Between the points of the table the next larger eps is shown, never a smaller one.
            page.locator("#privacy-delta").fill("1e-4")
            curve = get_bound("upper").curve(Setting(n, 12, eps0))
            certified = curve.epsilon(math.log(1e-4)).upper
            upper = tabled[(tabled["n"] == n) & (tabled["eps0"] == eps0)]
            upper = upper[(upper["bound"] == "upper") & (upper["log10_delta"] <= -4)]
            assert certified <= read_off(page) <= 1.01 * min([right, *upper["eps"]])
            assert f"n = {n}, k = 12, eps0 = {eps0:g}" in page.locator(
                "#privacy-chart svg"
            ).get_attribute("aria-label")


def test_what_is_no_delta_is_refused_in_words(page):
    field = page.locator("#privacy-delta")
    for wrong in ("", "0", "1", "-1", "much"):
        field.fill(wrong)
        assert "between 0 and 1" in page.locator("#privacy-answer").inner_text()
        assert field.get_attribute("aria-invalid") == "true"
        field.fill("1e-6")
        assert read_off(page) > 0
        assert field.get_attribute("aria-invalid") == "false"


def test_each_bound_can_be_left_out(run, page):
    lines = page.locator("#privacy-chart [data-mark=line]")
    boxes = page.get_by_role("group", name="Bounds").get_by_role("checkbox")
    assert boxes.count() == len(run.data["regions"][0]["privacy"]["bounds"]) == 4
    assert lines.count() == 4
    assert page.locator("#privacy-chart [data-mark=area]").count() == 1, "the certified band"
    for left, box in enumerate(boxes.all()):
        box.uncheck()
        assert lines.count() == 3 - left
    assert page.locator("#privacy-chart [data-mark=area]").count() == 0
    boxes.first.check()
    assert lines.count() == 1
    # The papers' formula as printed is struck out, by its kind and not by colour alone.
    assert page.locator("fieldset s").all_inner_texts() == ["single-bin-as-printed"]


def test_distances_are_those_of_the_table(run, page):
    table = at_targets(run.table("utility/town.shape.csv"))
    for promise in offered(page, "utility-promise"):
        eps = float(promise.split("|")[0])
        for estimator in offered(page, "utility-estimator"):
            rows = table[(table["eps"] == eps) & (table["estimator"] == estimator)]
            means = {(CATALOGUE[r.mechanism].label, r.n): r.tv_distance for r in rows.itertuples()}
            choose(page, "utility-kind", "n")
            choose(page, "utility-promise", promise)
            choose(page, "utility-estimator", estimator)
            drawn = numbers_drawn(page)
            assert {key: float(value) for key, value in drawn.items()} == {
                key: four_digits(value) for key, value in means.items()
            }
            choose(page, "utility-kind", "ratio")
            for reference in offered(page, "utility-reference"):
                choose(page, "utility-reference", reference)
                drawn = numbers_drawn(page)
                assert drawn.keys() == means.keys()
                for (label, n), ratio in drawn.items():
                    right = means[label, n] / means[CATALOGUE[reference].label, n]
                    assert float(ratio) == four_digits(right)


def test_distances_against_eps_are_medians_of_the_run(run, page):
    choose(page, "utility-kind", "eps")
    assert not page.locator("#utility-reference").is_visible()
    table = run.table("utility/town.shape.parquet")
    table = table[(table["n"] == table["n"].max()) & (table["calibration"] == "matched")]
    for eps0 in offered(page, "utility-promise"):
        for estimator in offered(page, "utility-estimator"):
            choose(page, "utility-promise", eps0)
            choose(page, "utility-estimator", estimator)
            rows = table[(table["eps0"] == float(eps0)) & (table["estimator"] == estimator)]
            medians = rows.groupby(["mechanism", "eps"])["tv_distance"].median()
            drawn = numbers_drawn(page)
            for (mechanism, eps), median in medians.items():
                shown = [
                    value
                    for (label, x), value in drawn.items()
                    if label == CATALOGUE[mechanism].label and x == pytest.approx(eps, rel=1e-3)
                ]
                assert list(map(float, shown)) == [four_digits(median)]
