"""The page of a published map shows its files, and works like the page of a run."""

import json

import pandas as pd
import pytest
import shuffledp
from pages import LAPTOP, check_access
from shuffledp.publishing.noise import Noise

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
PHONE = {"width": 360, "height": 800}
READOUT, SUM = "#map-readout", "#map-sum"


def publish(folder, **options):
    """Publish a map of records in 12 cells, most of them in the west."""
    rows = [
        f"u{i % 500},2024-01-{1 + i % 14:02d}T08:00:00Z,{0.1 + 0.2 * (i % 3)},{0.05 + i % 40 / 50}"
        for i in range(4_000)
    ]
    (folder / "taps.csv").write_text("\n".join(["card,when,lat,lon", *rows]) + "\n")
    return shuffledp.publish(
        folder / "taps.csv", folder / "map", ledger=folder / "l.jsonl", unit="user", eps=1,
        records_per_user=4, latitude="lat", longitude="lon", user="card", cells="shape:3x4",
        box=(0, 0.6, 0, 0.8), title="Taps & <more> of January", **options,
    )  # fmt: skip


@pytest.fixture(scope="session")
def maps(tmp_path_factory, browser):
    """Publish two maps, one of two weeks. `browser` comes first: it skips where there is none."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("one", "weeks")}
    weeks = {"time": "when", "period": ("2024-01-01", "2024-01-14"), "every": "week"}
    publish(folders["one"])
    publish(folders["weeks"], **weeks)
    return {name: folder / "map" for name, folder in folders.items()}


@pytest.fixture(params=["one", "weeks"])
def folder(maps, request):
    return maps[request.param]


def open_all(page):
    page.locator("details:not([open]) summary").evaluate_all(
        "all => all.forEach((one) => one.click())"
    )


def text(page, selector):
    return page.locator(selector).inner_text().replace("−", "-").replace(",", "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_nothing(folder, open_page, viewport, scheme):
    with open_page(folder / "map.html", viewport=viewport, color_scheme=scheme) as page:
        open_all(page)
        check_access(page, "color-contrast", "target-size")


@pytest.mark.parametrize("width", [360, 320])
def test_a_phone_need_not_scroll_sideways(folder, open_page, width):
    with open_page(folder / "map.html", viewport=PHONE | {"width": width}) as page:
        open_all(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_each_cell_is_read_out_as_in_the_table(maps, open_page):
    table = pd.read_csv(maps["one"] / "map.csv")
    with open_page(maps["one"] / "map.html") as page:
        for cell, row in table.iterrows():
            page.locator(f"#map-cell-{cell}").click()
            said = text(page, READOUT)
            assert said.startswith(f"{row['name'].replace(',', '')}: estimate {row['estimate']};")
            assert f"95 % interval {row['low']} to {row['high']}" in said
            assert f"{row['joint_low']} to {row['joint_high']}" in said
            assert ("may be empty" in said) == (row["low"] == 0)


def test_sums_and_differences_have_the_intervals_of_their_noise(maps, open_page):
    folder = maps["weeks"]
    table, noise = pd.read_csv(folder / "map.csv"), noise_of(folder)
    first, second = (part["noisy_count"].to_numpy() for _, part in table.groupby("window"))
    with open_page(folder / "map.html") as page:
        page.locator("#map-other").select_option("1")
        for cell in (0, 5, 7):
            page.locator(f"#map-cell-{cell}").click()
            page.get_by_role("button", name="Add this cell to a sum").click()
        said = text(page, SUM)
    cells = [0, 5, 7]
    total, difference = first[cells].sum(), (first - second)[cells].sum()
    width, wide = (noise.sum_half_width(number, 0.05) for number in (3, 6))
    assert f": {total}; 95 % interval {max(0, total - width)} to {total + width}." in said
    assert f"Difference from 2024-01-08: {difference}; " in said
    assert f"95 % interval {difference - wide} to {difference + wide}." in said


def noise_of(folder):
    """Return the law of the noise that the statement of a map names."""
    return Noise(
        "laplace", json.loads((folder / "statement.json").read_text())["mechanism"]["scale"]
    )


def test_the_keyboard_reaches_the_map_and_moves_over_it(maps, open_page):
    with open_page(maps["one"] / "map.html") as page:
        page.locator("#map-zoom").focus()
        page.keyboard.press("Tab")
        active = "document.activeElement.getAttribute"
        assert page.evaluate(f"{active}('aria-label')") == "Cells of the map"
        for key, times in [("ArrowDown", 3), ("ArrowLeft", 4), ("ArrowUp", 1), ("ArrowRight", 2)]:
            for _ in range(times):
                page.keyboard.press(key)
        assert page.evaluate(f"{active}('aria-activedescendant')") == "map-cell-6"
        assert text(page, READOUT).startswith("row 2 column 3:")


def test_the_page_names_the_map_as_it_was_named(maps, open_page):
    with open_page(maps["one"] / "map.html") as page:
        assert page.title() == page.locator("h1").inner_text() == "Taps & <more> of January"


def test_the_colours_begin_below_the_smallest_count(maps, open_page):
    table = pd.read_csv(maps["one"] / "map.csv")
    smallest = table["estimate"][table["low"] > 0].min()
    with open_page(maps["one"] / "map.html") as page:
        assert 1 < int(text(page, ".legend .ticks span >> nth=0")) <= smallest
