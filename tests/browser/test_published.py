"""The page of a published map shows its files, in a real browser, to everybody."""

import json
import re
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import shuffledp
from browser.conftest import LAPTOP
from shuffledp.publishing.noise import Noise
from shuffledp.publishing.options import Levels, MapCells, Period, Protection, Source

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PHONE = {"width": 320, "height": 800}
READOUT, SUM = "#map-readout", "#map-sum"
EACH = ("CSV", "PNG")
TITLE = "Taps & <more> of January"


def publish(folder, **options):
    """Publish a map of records in 12 cells, most of them in the west."""
    rows = [
        f"u{i % 500},2024-01-{1 + i % 14:02d}T08:00:00Z,{0.1 + 0.2 * (i % 3)},{0.05 + i % 40 / 50}"
        for i in range(4_000)
    ]
    (folder / "taps.csv").write_text("\n".join(["card,when,lat,lon", *rows]) + "\n")
    columns = {"latitude": "lat", "longitude": "lon", "user": "card"}
    if "windows" in options:
        columns["time"] = "when"
    shuffledp.publish(
        Source(folder / "taps.csv", **columns), folder / "map", ledger=folder / "l.jsonl",
        protection=Protection("user", 1, records_per_user=4), title=TITLE,
        cells=MapCells("shape:3x4", box=(0, 0.6, 0, 0.8)), **options,
    )  # fmt: skip
    return folder / "map"


@pytest.fixture(scope="module")
def one(browser, tmp_path_factory):
    """Return the folder of a map. `browser` comes first: it skips where there is none."""
    return publish(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def weeks(browser, tmp_path_factory):
    """Return the folder of a map of two weeks."""
    period = Period("2024-01-01", "2024-01-14", "week")
    return publish(tmp_path_factory.mktemp("weeks"), windows=period)


@pytest.fixture(scope="module")
def levels(browser, tmp_path_factory):
    """Return the folder of a map of days with levels of areas and times."""
    period = Period("2024-01-01", "2024-01-14", "day")
    shares = Levels({"shape:1x2": "0.2", "total": "0.1", "week": "0.3"})
    return publish(tmp_path_factory.mktemp("levels"), windows=period, levels=shares)


def text(page, selector):
    return page.locator(selector).inner_text().replace("−", "-").replace(",", "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_nothing_and_nobody_scrolls_sideways(weeks, open_page, viewport, scheme):
    with open_page(weeks / "map.html", viewport=viewport, color_scheme=scheme) as page:
        page.locator("details:not([open]) summary").evaluate_all(
            "all => all.forEach((one) => one.click())"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        # axe cannot determine the contrast of text on the shading at the sides of what scrolls.
        page.locator(".scroll").evaluate_all(
            "all => all.forEach((one) => { one.style.background = 'none'; })"
        )
        page.evaluate(AXE.read_text(encoding="utf-8"))
        # The rule about the size of touch targets is off by default.
        rules = {"target-size": {"enabled": True}}
        result = page.evaluate("rules => axe.run(document, { rules })", rules)
    assert {"color-contrast", "target-size"} <= {rule["id"] for rule in result["passes"]}
    faults = [
        (rule["id"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]])
        for rule in result["violations"]
    ]
    assert not faults, json.dumps(faults, indent=1)


def test_each_cell_is_read_out_as_in_the_table(one, open_page):
    table = pd.read_csv(one / "map.csv")
    with open_page(one / "map.html", has_touch=True, viewport=PHONE | {"width": 400}) as page:
        assert page.title() == page.locator("h1").inner_text() == TITLE
        for cell, row in table.iterrows():
            page.locator(f"#map-cell-{cell}").tap()
            said = text(page, READOUT)
            assert said.startswith(f"{row['name'].replace(',', '')}: estimate {row['estimate']};")
            assert f"95 % interval {row['low']} to {row['high']}" in said
            assert f"{row['joint_low']} to {row['joint_high']}" in said
            assert ("may be empty" in said) == (row["low"] == 0)
            assert page.locator(".tip").is_visible()
        hatched = page.locator("[role=option][fill^=url]")
        assert hatched.count() == (table["low"] == 0).sum()
        smallest = table["estimate"][table["low"] > 0].min()
        assert (
            1 < int(page.locator(".legend text").nth(1).text_content().replace(",", "")) <= smallest
        )


def test_sums_and_differences_have_the_intervals_of_their_noise(weeks, open_page):
    table, noise = pd.read_csv(weeks / "map.csv"), noise_of(weeks)
    first, second = (part["count"].to_numpy() for _, part in table.groupby("window"))
    cells = [0, 5, 7]
    with open_page(weeks / "map.html") as page:
        page.locator("#map-other").select_option("1")
        for cell in cells:
            page.locator(f"#map-cell-{cell}").click()
            page.get_by_role("button", name="Add this area to a sum").click()
        said = text(page, SUM)
        page.locator("#map-window").select_option("1")
        assert f": {second[cells].sum()}; 95 % interval" in text(page, SUM)
        page.get_by_role("button", name="Clear the sum").click()
        assert text(page, SUM) == "No area is added to a sum."
    total, difference = first[cells].sum(), (first - second)[cells].sum()
    width, wide = (noise.sum_half_width(number, 0.05) for number in (3, 6))
    assert f": {total}; 95 % interval {max(0, total - width)} to {total + width}." in said
    assert f"Difference from 2024-01-08: {difference}; " in said
    assert f"95 % interval {difference - wide} to {difference + wide}." in said


def test_levels_have_their_own_map_and_sums_the_interval_of_all_noise(levels, open_page):
    table = pd.read_csv(levels / "levels.csv")
    cells = pd.read_csv(levels / "map.csv")
    with open_page(levels / "map.html") as page:
        page.locator("#map-length").select_option("1")
        for level, name in enumerate(("cells", "shape:1x2", "total")):
            page.locator("#map-level").select_option(str(level))
            rows = table[(table["level"] == name) & (table["every"] == "week")]
            first = rows[rows["window"] == "2024-01-01"].iloc[0]
            page.locator("#map-cell-0").click()
            said = text(page, READOUT)
            assert f"estimate {first['estimate']}; " in said
            assert f"95 % interval {first['low']} to {first['high']}" in said
        page.locator("#map-level").select_option("0")
        page.locator("#map-length").select_option("0")
        page.locator("#map-window").select_option("3")
        page.locator("#map-other").select_option("5")
        for cell in (1, 2, 6):
            page.locator(f"#map-cell-{cell}").click()
            page.get_by_role("button", name="Add this area to a sum").click()
        said = text(page, SUM)
    ids = cells["id"].iloc[[1, 2, 6]].tolist()
    sums = shuffledp.area(levels, cells=ids).iloc[3]
    less = shuffledp.area(levels, cells=ids, windows=["2024-01-04"], minus=["2024-01-06"]).iloc[0]
    ends = [int(end) for row in (sums, less) for end in row[["low", "high"]]]
    shown = [int(end) for pair in re.findall(r"interval (-?\d+) to (-?\d+)", said) for end in pair]
    # The page rounds weights of noises up, so that its intervals may be one record wider.
    assert np.all(np.abs(np.array(shown) - ends) <= 1)


def test_an_area_is_drawn_with_the_pointer(one, open_page):
    table = pd.read_csv(one / "map.csv")
    with open_page(one / "map.html") as page:
        page.get_by_role("button", name="Draw an area to sum").click()
        boxes = [page.locator(f"#map-cell-{cell}").bounding_box() for cell in (0, 5)]
        (west, south), (east, north) = (
            (box["x"] + box["width"] * share, box["y"] + box["height"] * (1 - share))
            for box, share in zip(boxes, (0.2, 0.8), strict=True)
        )
        page.mouse.move(west, south)
        page.mouse.down()
        for corner in ((east, south), (east, north), (west, north)):
            page.mouse.move(*corner)
        page.mouse.up()
        said = text(page, SUM)
    total = table["count"].iloc[[0, 1, 4, 5]].sum()
    assert said.startswith("Sum of 4 areas")
    assert f": {total}; 95 % interval" in said


def noise_of(folder):
    """Return the law of the noise that the statement of a map names."""
    statement = json.loads((folder / "statement.json").read_text())
    return Noise("laplace", statement["mechanism"]["scale"])


def test_the_keyboard_reaches_the_map_and_moves_over_it(one, open_page):
    with open_page(one / "map.html") as page:
        page.locator("#map-zoom").focus()
        page.keyboard.press("Tab")
        active = "document.activeElement.getAttribute"
        assert page.evaluate(f"{active}('aria-label')") == "Cells of the map"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        for key, times in [("ArrowDown", 3), ("ArrowLeft", 4), ("ArrowUp", 1), ("ArrowRight", 2)]:
            for _ in range(times):
                page.keyboard.press(key)
        assert page.evaluate(f"{active}('aria-activedescendant')") == "map-cell-6"
        assert text(page, READOUT).startswith("row 2 column 3:")


def saved(page, name):
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    return download.value.suggested_filename, download.value.path().read_bytes()


def test_the_table_and_the_map_can_be_saved(weeks, open_page):
    with open_page(weeks / "map.html") as page:
        width = page.locator(".map").bounding_box()["width"]
        page.locator("#map-zoom").check()
        zoomed = page.locator(".map").bounding_box()["width"]
        (table, rows), (picture, pixels) = (saved(page, f"Save as {each}") for each in EACH)
    assert (table, picture) == ("Taps-more-of-January.csv", "Taps-more-of-January.png")
    pd.testing.assert_frame_equal(pd.read_csv(BytesIO(rows)), pd.read_csv(weeks / "map.csv"))
    assert Image.open(BytesIO(pixels)).width == pytest.approx(2 * zoomed, abs=2)
    assert zoomed > 2 * width


def test_a_saved_level_names_it_and_shows_the_legend(levels, open_page):
    """The table has the rows of levels.csv, and the picture ends with a legend and a caption."""
    with open_page(levels / "map.html") as page:
        page.locator("#map-level").select_option("1")
        page.locator("#map-length").select_option("1")
        assert text(page, "figcaption").startswith("Estimate Rectangles in 1 rows and 2 columns 20")
        drawn = [page.locator(each).bounding_box()["height"] for each in (".map", ".scalebar")]
        (table, rows), (picture, pixels) = (saved(page, f"Save as {each}") for each in EACH)
    assert table == "Taps-more-of-January-Rectangles-in-1-rows-and-2-columns-week.csv"
    assert picture == table.replace(".csv", ".png")
    expected = pd.read_csv(levels / "levels.csv")
    expected = expected[(expected["level"] == "shape:1x2") & (expected["every"] == "week")]
    pd.testing.assert_frame_equal(
        pd.read_csv(BytesIO(rows)), expected.reset_index(drop=True), check_dtype=False
    )
    image = np.asarray(Image.open(BytesIO(pixels)).convert("RGB")).astype(int)
    below = image[int(2 * drawn[0]) : int(2 * sum(drawn))]
    assert (np.ptp(below, axis=2) > 60).any()  # the colours of the legend


def test_the_page_says_why_it_opens_with_a_coarser_level(browser, open_page, tmp_path):
    (tmp_path / "counts.csv").write_text("cell,count\n1-1,9\n2-2,9\n")
    shuffledp.publish(
        tmp_path / "counts.csv", tmp_path / "map", ledger=tmp_path / "l.jsonl",
        protection=Protection("record", 0.1), levels=Levels({"shape:2x2": 0}),
        cells=MapCells("shape:8x8", box=(0, 0.6, 0, 0.8)),
    )  # fmt: skip
    with open_page(tmp_path / "map" / "map.html") as page:
        assert "opens with the level Rectangles in 2 rows" in text(page, "#map p >> nth=0")


def test_districts_of_stops_are_land_around_them(browser, open_page, tmp_path):
    stops = [
        f"{i},{0.1 * (i % 3)},{0.1 * (i // 3)},{'inner' if i < 6 else 'outer'}" for i in range(9)
    ]
    (tmp_path / "stops.csv").write_text("id,latitude,longitude,district\n" + "\n".join(stops))
    (tmp_path / "taps.csv").write_text("stop\n" + "\n".join(str(i % 9) for i in range(900)))
    shuffledp.publish(
        Source(tmp_path / "taps.csv", place="stop"), tmp_path / "map", ledger=tmp_path / "l.jsonl",
        protection=Protection("record", 1), levels=Levels({"district": 0}),
        cells=MapCells(tmp_path / "stops.csv", elsewhere=True),
    )  # fmt: skip
    with open_page(tmp_path / "map" / "map.html") as page:
        circle = page.locator("#map-cell-0").bounding_box()
        page.locator("#map-level").select_option("1")
        boxes = [page.locator(f"#map-cell-{i}").bounding_box() for i in range(2)]
        page.locator("#map-cell-0").hover()
        assert text(page, READOUT).startswith("inner: estimate ")
    assert min(box["height"] for box in boxes) > 5 * circle["height"]
    west, east = sorted(boxes, key=lambda box: box["x"])
    assert west["x"] + west["width"] == pytest.approx(east["x"], abs=12)  # with strokes


def test_table_and_promise_need_no_scripts_and_the_page_may_fetch_nothing(one, browser):
    for scripts in (False, True):
        page = browser.new_page(java_script_enabled=scripts)
        page.goto((one / "map.html").as_uri())
        assert page.get_by_role("table").count() == 2
        assert page.locator("noscript").is_visible() != scripts
        if scripts:
            refused = page.evaluate(
                """async () => {
                  const blocked = new Promise((told) => document.addEventListener(
                    "securitypolicyviolation", (event) => told(event.effectiveDirective)));
                  const failed = await fetch("data:text/plain,here").then(() => false, () => true);
                  return [failed, failed ? await blocked : null];
                }"""
            )
            assert refused == [True, "connect-src"]
        page.close()


def test_a_page_of_trips_shows_where_those_of_a_place_go(browser, open_page, tmp_path):
    ids = ["A", "B", "C", "D"]
    places = [f"{each},{0.1 * (i % 2)},{0.1 * (i // 2)}" for i, each in enumerate(ids)]
    (tmp_path / "stops.csv").write_text("id,latitude,longitude\n" + "\n".join(places))
    rows = [f"{ids[i % 3]},{ids[i % 4]},2024-0{1 + i % 2}-01" for i in range(3_000)]
    (tmp_path / "trips.csv").write_text("a,b,day\n" + "\n".join(rows))
    shuffledp.publish(
        Source(tmp_path / "trips.csv", place="a", to_place="b", time="day"), tmp_path / "map",
        ledger=tmp_path / "l.jsonl", protection=Protection("record", 1),
        levels=Levels({"total": "0.2"}), cells=MapCells(tmp_path / "stops.csv"),
        windows=Period("2024-01-01", "2024-02-29", "month"),
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "map" / "map.csv")
    levels = pd.read_csv(tmp_path / "map" / "levels.csv")
    choices = {0: ("cells", "to_cells"), 1: ("to_cells", "cells")}
    with open_page(tmp_path / "map" / "map.html") as page:
        page.locator("#map-window").select_option("1")
        for mode, name in enumerate(("pairs", "pairs", "departures", "arrivals")):
            page.locator("#map-level").select_option(str(mode))
            place = page.locator("#map-place")
            assert place.is_visible() == (mode < 2)
            if mode < 2:
                place.select_option("2")
            for cell in (1, 3):
                page.locator(f"#map-cell-{cell}").click()
                page.get_by_role("button", name="Add this area to a sum").click()
            said, total = text(page, READOUT), text(page, SUM)
            origin, destination = [("C", "D"), ("D", "C"), ("D", "total"), ("total", "D")][mode]
            rows = table if name == "pairs" else levels[levels["level"] == name]
            rows = rows[(rows["origin"] == origin) & (rows["destination"] == destination)]
            row = rows[rows["window"] == "2024-02"].iloc[0]
            assert f"estimate {row['estimate']}; " in said
            assert f"interval {row['low']} to {row['high']}." in said.replace("  ", " ")
            if mode < 2:
                fixed, chosen = choices[mode]
                area = {fixed: ["C"], chosen: ["B", "D"]}
            else:
                area = {("cells", "to_cells")[mode - 2]: ["B", "D"]}
            summed = shuffledp.area(tmp_path / "map", windows=["2024-02"], **area).iloc[0]
            found = [int(each) for each in re.findall(r"interval (-?\d+) to (-?\d+)", total)[0]]
            assert np.all(abs(np.array(found) - summed[["low", "high"]].tolist()) <= 1)
        (file, saved_rows), _ = (saved(page, f"Save as {each}") for each in EACH)
    assert file == "A-private-map-Arrivals-windows.csv"
    arrivals = levels[levels["level"] == "arrivals"].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_csv(BytesIO(saved_rows)), arrivals, check_dtype=False)
