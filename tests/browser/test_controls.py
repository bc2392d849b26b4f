"""Each control of the page has its effect, and the numbers agree with the tables."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import expect
from shuffledp import Setting
from shuffledp.accounting.accountant import curve
from shuffledp.accounting.registry import get_bound
from shuffledp.figures.bounds import guarantee_steps
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.mechanisms.registry import MECHANISMS as MECHANISM_OF
from shuffledp.mechanisms.target_calibration import Released
from shuffledp.page.sentences import TRUST_GROUPS
from shuffledp.pipeline.selection import at_target, at_targets

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
READOUT = re.compile(
    r"Cell (\d+) .*: truth (\S+), estimate (\S+) ± (\S+) \(.*, from (\S+) to (\S+)\."
)
RELEASED = "#maps-body figure:last-child .map .cell"
TARGET = 1e-6
MECHANISMS = ["gaussian", "krr", "discrete-laplace"]


def tell(page, **chosen):
    """Set controls of the whole page."""
    for control, value in chosen.items():
        choose(page, control, value)


def choose(page, control, value):
    page.locator(f"#{control}").select_option(str(value))


def offered(page, control):
    return page.locator(f"#{control} option").evaluate_all("all => all.map((one) => one.value)")


def number(text):
    return float(text.replace(",", ""))


def readouts(page):
    """Return cell, truth, estimate, two standard errors and interval of every cell."""
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


def eps_of(promise):
    return float(promise.removeprefix("eps = "))


def released(run, n, promise, mechanism):
    """Return estimates and standard errors of the cells, in records."""
    table = run.table(f"releases/town.shape.target-{mechanism}.parquet")
    table = table[(table["repetition"] == 0) & (table["estimator"] == "raw")]
    rows = table[(table["n"] == n) & (table["eps"] == eps_of(promise))].sort_values("cell")
    return n * rows[["estimate", "standard_error"]].to_numpy()


def plan_of(run, *choice):
    """Return the plan of the town for n, promise and mechanism."""
    plans = run.data["regions"][0]["plans"]
    return next(p for p in plans if (p["n"], p["promise"], p["mechanism"]) == choice)


def test_every_number_on_the_maps_agrees_with_the_tables(run, page):
    samples = run.table("samples/town.shape.parquet")
    shown = 0
    for n in offered(page, "n"):
        for promise in offered(page, "promise"):
            for mechanism in offered(page, "mechanism"):
                tell(page, n=n, promise=promise, mechanism=mechanism)
                truths = samples[samples["n"] == int(n)].sort_values("cell")["count"]
                expected = released(run, int(n), promise, mechanism)
                lines = readouts(page)
                assert [line[0] for line in lines] == list(range(12))
                assert [line[1] for line in lines] == truths.tolist()
                for (*_, estimate, wide, low, high), (right, error) in zip(
                    lines, expected, strict=True
                ):
                    # The page has numbers with two decimals and shows one of them.
                    assert estimate == pytest.approx(right, abs=0.056)
                    assert wide == pytest.approx(2 * error, abs=0.061)
                    assert low == pytest.approx(max(0, right - 2 * error), abs=0.066)
                    assert high == pytest.approx(max(0, right + 2 * error), abs=0.066)
                    shown += 1
                assert CATALOGUE[mechanism].label in page.locator("#map-title").inner_text()
    assert shown == 2 * 2 * 3 * 12


def test_the_maps_show_errors_and_unknown_cells(run, page):
    tell(page, n=400, promise="eps = 1", mechanism="krr")
    values = released(run, 400, "eps = 1", "krr")
    samples = run.table("samples/town.shape.parquet")
    truths = samples[samples["n"] == 400].sort_values("cell")["count"].to_numpy()

    choose(page, "map-view", "estimate")
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


def test_a_cell_is_found_by_its_name_or_number(page):
    field, readout = page.locator("#map-cell"), page.locator("#map-readout")
    field.focus()
    names = page.locator("#map-cells option").evaluate_all("all => all.map((one) => one.value)")
    assert len(names) == 12
    for typed, cell in [(names[7], 7), ("4", 4), (names[2].upper(), 2)]:
        field.fill(typed)
        assert readout.inner_text().startswith(f"Cell {cell} ")
        assert field.get_attribute("aria-invalid") == "false"
    for wrong in ("", "12", "-1", "nowhere"):
        field.fill(wrong)
        assert readout.inner_text().startswith("Cell 2 ")
        assert field.get_attribute("aria-invalid") == "true"
    page.locator("#map-right-5").click()
    assert (field.input_value(), field.get_attribute("aria-invalid")) == ("5", "false")


def test_a_place_is_chosen_for_the_whole_page(run, page):
    assert page.locator("#maps-body svg .cell").count() == 2 * 12
    assert "Sea: nobody's" in page.locator("#maps-body").inner_text()
    title = run.data["regions"][1]["title"]
    choose(page, "region", title)
    titles = [place.inner_text() for place in page.locator(".place h3").all() if place.is_visible()]
    assert titles == [title]
    (answer,) = [place for place in page.locator("#answer .place").all() if place.is_visible()]
    assert f"Recommended for one map of {title}: shuffle+INV" in answer.inner_text()
    assert page.locator("#maps-body svg .cell").count() == 2 * 6
    assert "Sea: nobody's" not in page.locator("#maps-body").inner_text()
    assert offered(page, "mechanism") == ["gaussian", "krr"]
    assert " in 6 cells" in page.locator("#privacy-answer").inner_text()
    assert page.locator("#planner-k").input_value() == "6"
    assert offered(page, "privacy-eps0") == ["1"]
    assert offered(page, "utility-reference") == ["gaussian", "krr"]
    village = at_targets(run.table("utility/village.shape.csv"))
    choose(page, "promise", "eps = 1")
    drawn = numbers_drawn(page)
    for row in village[(village["eps"] == 1) & (village["estimator"] == "raw")].itertuples():
        assert float(drawn[CATALOGUE[row.mechanism].label, row.n]) == four_digits(row.tv_distance)


def test_the_table_of_mechanisms_agrees_with_the_run(run, page):
    table = at_targets(run.table("utility/town.shape.csv"))
    last = table[(table["n"] == table["n"].max()) & (table["eps"] == 2)]
    rows = last[last["estimator"] == "raw"].set_index("mechanism")
    place = page.locator("#choices .place").first
    groups = [group.locator("tr").all() for group in place.locator("tbody").all()]
    # The curator's mechanisms come first, the one with the smallest expected error before others.
    assert [group[0].inner_text() for group in groups] == list(
        map(TRUST_GROUPS.get, ("curator", "local"))
    )
    central = rows.drop("krr").sort_values("expected_cell_error")
    order = [*central.itertuples(), *rows.loc[["krr"]].itertuples()]
    lines = [line for group in groups for line in group[1:]]
    for line, row in zip(lines, order, strict=True):
        label, expected, error, moved, messages, own = line.locator("th, td").all_inner_texts()
        assert label == CATALOGUE[row.Index].label
        assert float(expected) == pytest.approx(row.expected_cell_error, abs=5.1e-3)
        assert float(moved.removesuffix("\xa0%")) == pytest.approx(
            100 * row.tv_distance, abs=5.1e-3
        )
        assert float(error) == pytest.approx(row.cell_error, abs=5.1e-3)
        assert float(messages) == pytest.approx(row.messages, abs=5.1e-3)
        if math.isinf(row.local_eps0):
            assert own == "none: it reveals the record"
        else:
            assert float(own) == pytest.approx(row.local_eps0, abs=5.1e-3)


def read_off(page, place="bounds-answer"):
    answer = page.locator(f"#{place}").inner_text()
    return float(re.match(r"Certified: eps = (\S+) at", answer)[1])


def test_eps_is_read_off_at_the_target_and_at_any_delta(run, page):
    utility = at_target(run.table("utility/town.shape.parquet"), TARGET)
    curves = run.table("privacy/town.shape.curves.parquet")
    points = run.table("privacy/town.shape.parquet")
    page.locator("#bounds summary").click()
    for n in map(int, offered(page, "n")):
        tabled = curves if n == curves["n"].max() else points
        for eps0 in map(float, offered(page, "privacy-eps0")):
            tell(page, n=n)
            choose(page, "privacy-eps0", f"{eps0:g}")
            page.locator("#privacy-delta").fill(f"{TARGET:g}")
            (right,) = {*utility[(utility["n"] == n) & (utility["eps0"] == eps0)]["eps"]}
            assert right <= read_off(page) <= 1.01 * right
            # Between two points of the table the page shows the larger eps, never the smaller one.
            page.locator("#privacy-delta").fill("1e-4")
            curve = get_bound("upper").curve(Setting(n, 12, eps0))
            certified = curve.epsilon(math.log(1e-4)).upper
            upper = tabled[(tabled["n"] == n) & (tabled["eps0"] == eps0)]
            upper = upper[(upper["bound"] == "upper") & (upper["log10_delta"] <= -4)]
            assert certified <= read_off(page) <= 1.01 * min([right, *upper["eps"]])
            assert f"n = {n}, k = 12, eps0 = {eps0:g}" in page.locator(
                "#privacy-chart svg"
            ).get_attribute("aria-label")


def test_a_promise_of_a_user_names_all_records_and_offers_no_command_for_one(run, visit, tmp_path):
    data, words = run.data, "all records of one user (at most 3 check-ins) by as many others"
    for region in data["regions"]:
        region["replaced"] = words
    escaped = json.dumps(data).replace("</", "<\\/")
    start, _, rest = run.page.read_text().partition('id="data">')
    path = tmp_path / "page.html"
    path.write_text(f'{start}id="data">{escaped}</script>{rest.partition("</script>")[2]}')
    with visit(path) as page:
        answer = page.locator("#privacy-answer")
        for delta in ("1e-5", "9.999999999e-6"):
            page.locator("#privacy-delta").fill(delta)
            assert answer.inner_text().endswith(f"The replacement of {words} is protected.")
            assert "shuffledp" not in answer.inner_text()
        page.locator("#privacy-delta").fill("1e-300")
        assert answer.inner_text().endswith("has a certified delta of 1e-300.")
        page.locator("#bounds").evaluate("details => details.open = true")
        expect(page.locator("#people-note")).to_contain_text("check-ins for")
        assert "shuffledp" not in page.locator("#bounds-answer").inner_text()


def test_a_promise_is_read_off_at_its_own_delta(run, page):
    for promise in offered(page, "promise"):
        for mechanism in offered(page, "mechanism"):
            tell(page, promise=promise, mechanism=mechanism)
            assert page.locator("#privacy-delta").input_value() == "1e-5"
            assert read_off(page, "privacy-answer") <= eps_of(promise)
            page.locator("#privacy-delta").fill("9.999999999e-6")
            assert "the next larger eps" in page.locator("#privacy-answer").inner_text()
            page.locator("#privacy-delta").fill("1e-5")
    tell(page, mechanism="gaussian", promise="eps = 1")
    page.locator("#privacy-delta").fill("1e-6")
    assert read_off(page, "privacy-answer") > 1, "Gaussian noise for 1e-5 promises less at 1e-6"
    words = "eps = 1 and delta = 1e-5"
    for part in ("#choices", "#planner-body"):
        assert words in page.locator(f"{part} caption").first.inner_text()


def test_a_smaller_delta_never_gets_the_eps_of_a_larger_one(page):
    """An eps that is certified at the target is not shown for a slightly smaller delta."""
    page.locator("#bounds summary").click()
    answer = page.locator("#bounds-answer")
    for typed, exact in [
        ("1e-6", True),
        ("0.000001", True),
        ("10e-7", True),
        ("9.999999999e-7", False),
        ("1.000000001e-6", False),
    ]:
        page.locator("#privacy-delta").fill(typed)
        assert ("the next larger eps" not in answer.inner_text()) == exact, typed


def test_text_that_is_no_delta_is_refused_with_a_reason(page):
    field = page.locator("#privacy-delta")
    for wrong in ("", "0", "1", "-1", "-1e-6", "much", "0x64", "1e-6e", "1_0e-6", "2e0", "٣e-6"):
        field.fill(wrong)
        assert "between 0 and 1" in page.locator("#privacy-answer").inner_text()
        assert field.get_attribute("aria-invalid") == "true"
        field.fill("1e-6")
        assert read_off(page, "privacy-answer") > 0
        assert field.get_attribute("aria-invalid") == "false"


def test_the_page_accepts_every_delta_that_the_command_accepts(page):
    field, answer = page.locator("#privacy-delta"), page.locator("#privacy-answer")
    tell(page, mechanism="krr")
    for typed in ("1e-400", " 1E-400", ".0001e-396", "+1e-400"):
        field.fill(typed)
        assert "No eps of this table has a certified delta of" in answer.inner_text()
        assert f"--delta {typed.strip()}" in answer.inner_text()
    tell(page, mechanism="discrete-laplace", promise="eps = 1")
    field.fill("1e-400")
    assert read_off(page, "privacy-answer") == 1
    field.fill(".5")
    assert read_off(page, "privacy-answer") == 0
    assert "NaN" not in page.locator("main").inner_text()


def test_each_bound_can_be_left_out(run, page):
    page.locator("#bounds summary").click()
    lines = page.locator("#privacy-chart [data-mark=line]")
    boxes = page.get_by_role("group", name="Bounds").get_by_role("checkbox")
    assert boxes.count() == len(run.data["regions"][0]["privacy"]["bounds"]) == 4
    expect(lines).to_have_count(4)  # drawn when it opens
    band = page.locator("#privacy-chart [data-mark=rule][stroke-width='3']")
    assert band.count() == 1, "from one certified end to the other"
    for left, box in enumerate(boxes.all()):
        box.uncheck()
        assert lines.count() == 3 - left
    assert band.count() == 0
    boxes.first.check()
    assert lines.count() == 1
    # The misprinted formula is struck out: its kind is not shown by colour alone.
    assert page.locator("fieldset s").all_inner_texts() == ["single-bin-as-printed"]


def test_distances_agree_with_the_table(run, page):
    table = at_targets(run.table("utility/town.shape.csv"))
    for promise in offered(page, "promise"):
        for estimator in offered(page, "utility-estimator"):
            rows = table[(table["eps"] == eps_of(promise)) & (table["estimator"] == estimator)]
            means = {(CATALOGUE[r.mechanism].label, r.n): r.tv_distance for r in rows.itertuples()}
            choose(page, "utility-kind", "n")
            tell(page, promise=promise)
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
    assert "no advantage of the shuffle model" in page.locator("#utility-body").inner_text()
    for eps0 in offered(page, "utility-eps0"):
        for estimator in offered(page, "utility-estimator"):
            choose(page, "utility-eps0", eps0)
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


def guarantee(page):
    """Return the steps of the chosen mechanism's curve, from the CSV file that the page saves."""
    with page.expect_download() as saved:
        page.locator("#privacy-body button", has_text="CSV").first.click()
    head, *lines = saved.value.path().read_text().splitlines()
    assert head == "eps,log10_delta"
    return [tuple(map(float, line.split(","))) for line in lines]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_line_of_a_guarantee_is_nowhere_below_the_accountant(run, page, mechanism):
    rng = np.random.default_rng(3)
    for n in offered(page, "n"):
        for promise in offered(page, "promise"):
            tell(page, n=n, promise=promise, mechanism=mechanism)
            steps = np.array(guarantee(page))
            name, value = plan_of(run, int(n), promise, mechanism)["parameters"].split("=")
            parameters = MECHANISM_OF[mechanism].form(**{name: float(value)})
            released = Released(MECHANISM_OF[mechanism], parameters)
            certified = curve(Setting(int(n), 12, mechanism=released))
            for eps in rng.uniform(0, steps[-1, 0], 20):
                drawn = steps[np.searchsorted(steps[:, 0], eps, side="right") - 1, 1]
                assert certified.log_delta(eps).promised <= drawn * math.log(10)


def test_between_the_points_of_a_table_the_bounds_are_proven(page):
    """Even between few points the line is above the certified upper bound."""
    for n, eps0, eps in [(400, 4.0, [0.05, 0.5, 2.0]), (8000, 6.0, [1.0, 2.0, 3.0])]:
        certified = get_bound("upper").curve(Setting(n, 192, eps0))
        points = [[e, certified.log_delta(e).upper / math.log(10)] for e in eps]
        steps = np.array(page.evaluate("points => guaranteeSteps(points)", points))
        expected = guarantee_steps(*np.transpose(points))
        np.testing.assert_allclose(steps, np.transpose(expected), rtol=1e-9)
        for e in np.random.default_rng(4).uniform(eps[0], eps[-1], 100):
            drawn = steps[np.searchsorted(steps[:, 0], e, side="right") - 1, 1]
            assert certified.log_delta(e).upper <= drawn * math.log(10)


def test_an_address_restores_the_view(run, page, visit):
    title = run.data["regions"][1]["title"]
    tell(page, region=title, promise="eps = 1", mechanism="gaussian")
    choose(page, "map-view", "estimate")
    page.locator("#planner-n").fill("5000")
    page.locator("nav a", has_text="Maps").click()
    expect(page).to_have_url(re.compile("#maps&"))
    with visit(fragment=page.evaluate("location.hash")) as other:
        for control, value in [
            ("region", title),
            ("promise", "eps = 1"),
            ("mechanism", "gaussian"),
            ("map-view", "estimate"),
            ("planner-n", "5000"),
        ]:
            assert other.locator(f"#{control}").input_value() == value
        assert "Gaussian" in other.locator("#map-title").inner_text()
        assert other.locator("#maps").bounding_box()["y"] < 150, "and its place on the page"


def test_a_link_restores_every_control(page, visit):
    page.locator("#bounds summary").click()
    tell(page, n=400, promise="eps = 1", mechanism="krr")
    choose(page, "privacy-eps0", "2")
    choose(page, "utility-kind", "ratio")
    page.locator("#map-zoom").check()
    page.locator("#map-right-5").click()
    shown = {
        one.get_attribute("id"): one.input_value()
        for one in page.locator("main select, main input[type=text]").all()
        if one.is_visible()
    }
    with visit(fragment=page.locator("#view-link").get_attribute("href")) as other:
        assert other.locator("#bounds").get_attribute("open") is not None
        assert {name: other.locator(f"#{name}").input_value() for name in shown} == shown
        assert other.locator("#privacy-eps0").is_visible()
        assert other.locator("#map-zoom").is_checked() and shown["map-cell"] == "5"
        assert other.locator("#map-readout").inner_text().startswith("Cell 5 ")
        assert other.locator("#map-left-5[aria-selected=true]").is_visible()


def test_a_nonsensical_address_changes_nothing(run, visit):
    with visit(fragment="#region=Atlantis&n=x&mechanism=%3Cb%3E&nothing") as page:
        assert page.locator("#region").input_value() == run.data["regions"][0]["title"]
        assert page.locator("#maps-body .map").count() == 2


def test_all_parts_of_the_page_follow_one_choice(run, page):
    tell(page, n=400, promise="eps = 1", mechanism="krr")
    plan = plan_of(run, 400, "eps = 1", "krr")
    for words in (plan["verdict"], plan["accuracy"], plan["trust"], plan["single"]):
        assert words in page.locator("#answer .place").first.inner_text()
    assert plan["shown"] in page.locator("#maps-body").inner_text()
    assert page.locator("#map-noise").is_visible() == plan["noise"]
    label = page.locator("#own-chart svg").get_attribute("aria-label")
    assert "shuffle+INV for n = 400, k = 12" in label
    assert page.locator("#planner-command").inner_text() == (
        "shuffledp compare --n 400 --k 12 --eps 1 --delta 1e-5"
    )


def test_a_saved_map_does_not_contain_the_true_counts(run, page):
    tell(page, n=400, promise="eps = 1", mechanism="krr")
    with page.expect_download() as saved:
        page.locator("#maps-body button", has_text="CSV").click()
    rows = pd.read_csv(saved.value.path())
    assert list(rows.columns) == [
        "cell", "id", "name", "district", "estimate", "standard_error",
    ]  # fmt: skip
    expected = released(run, 400, "eps = 1", "krr")
    np.testing.assert_allclose(
        rows[["estimate", "standard_error"]], expected, atol=0.006, rtol=1e-3
    )
    with page.expect_download() as saved:
        page.locator("#maps-body button", has_text="PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    with Image.open(saved.value.path()) as picture:
        width, height = picture.size
        drawn = page.locator("#maps-body .map").last.bounding_box()
        # The picture is twice as fine; below are the source of the base map and the colour scale.
        assert width == pytest.approx(2 * drawn["width"], abs=2)
        assert height > 2 * drawn["height"] + 100
        assert len(picture.convert("RGB").getcolors(10**6)) > 20
