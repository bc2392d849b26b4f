"""The page works with a keyboard, a finger, a screen reader, on a phone and in dark mode."""

import pytest
from pages import LAPTOP, check_access

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
PHONE = {"width": 400, "height": 800}
ACTIVE = "document.activeElement"


def selected(page):
    """Return the numbers of the selected cells on each map."""
    return [
        one.locator("[aria-selected=true]").evaluate_all(
            "all => all.map((cell) => Number(cell.id.split('-').at(-1)))"
        )
        for one in page.locator("#maps-body .map").all()
    ]


def test_arrow_keys_move_over_the_map(page):
    page.locator("#view-link").focus()
    page.keyboard.press("Tab")
    assert page.evaluate(f"{ACTIVE}.getAttribute('aria-label')") == "Cells of the true map"
    before = selected(page)
    # The map has three rows and four columns, so this ends in the south-west from any start.
    for key, times in [("ArrowDown", 3), ("ArrowLeft", 4)]:
        for _ in range(times):
            page.keyboard.press(key)
    assert before != [[0], [0]] == selected(page)
    readout = page.locator("#map-readout")
    for key, cell, words in [
        ("ArrowUp", 4, "row 2, column 1"),
        ("ArrowRight", 5, "row 2, column 2"),
        ("ArrowDown", 1, "row 1, column 2"),
        ("ArrowDown", 1, "row 1, column 2"),  # the end of the map
        ("ArrowLeft", 0, "row 1, column 1"),
    ]:
        page.keyboard.press(key)
        assert selected(page) == [[cell], [cell]]
        assert (
            page.evaluate(f"{ACTIVE}.getAttribute('aria-activedescendant')") == f"map-left-{cell}"
        )
        assert words in readout.inner_text()
        assert readout.inner_text() == page.locator(f"#map-left-{cell}").get_attribute("aria-label")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(f"{ACTIVE}.getAttribute('aria-activedescendant')") == "map-right-4"
    assert selected(page) == [[4], [4]]


def test_every_focused_element_shows_its_focus(page):
    page.locator("details summary").evaluate_all("all => all.forEach((one) => one.click())")
    seen = []
    page.keyboard.press("Tab")
    while not page.evaluate(f"{ACTIVE} === document.body || {ACTIVE}.dataset.seen"):
        page.evaluate(f"{ACTIVE}.dataset.seen = true")
        seen.append(page.evaluate(f"{ACTIVE}.id || {ACTIVE}.textContent.trim().slice(0, 30)"))
        ring = f"getComputedStyle({ACTIVE}).outline"
        assert page.evaluate(f"{ring}Style") == "solid", seen[-1]
        assert page.evaluate(f"parseFloat({ring}Width)") >= 2, seen[-1]
        page.keyboard.press("Tab")
    controls = {"region", "promise", "mechanism", "n", "map-view", "map-zoom"}
    assert controls | {"privacy-delta", "utility-kind", "planner-n"} <= set(seen)


def test_a_finger_reads_a_cell(visit):
    with visit(viewport=PHONE, has_touch=True, is_mobile=True) as page:
        for number in (2, 7):
            page.locator(f"#map-right-{number}").tap()
            assert page.locator("#map-readout").inner_text().startswith(f"Cell {number} ")
            assert selected(page) == [[number], [number]]
            tip = page.locator("#maps-body figure:last-child .tip")
            assert tip.is_visible(), "what it says is at the cell"
            box = tip.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]


def test_a_table_on_a_phone_shows_who_must_be_trusted(visit):
    with visit(viewport=PHONE | {"width": 360}) as page:
        for table in page.locator("table.cards").all():
            if table.is_visible():
                for cell in table.locator("td").all():
                    box = cell.bounding_box()
                    assert box["x"] + box["width"] <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_nothing(visit, viewport, scheme):
    with visit(viewport=viewport, color_scheme=scheme) as page:
        page.locator("details summary").evaluate_all("all => all.forEach((one) => one.click())")
        check_access(page, "color-contrast", "target-size")


@pytest.mark.parametrize("width", [400, 360, 320])
def test_a_phone_need_not_scroll_sideways(visit, width):
    with visit(viewport=PHONE | {"width": width}) as page:
        page.locator("details summary").evaluate_all("all => all.forEach((one) => one.click())")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
