"""The page works as one file: offline, without scripts and on paper."""

from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import expect
from shuffledp.page.data import PLANNED
from shuffledp.page.render import render
from shuffledp.papers.page_section import COLUMNS, reproduction_data

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
ERRATA = Path(__file__).parents[2] / "docs" / "errata.md"


def test_the_page_is_one_file_that_fetches_nothing(run, visit):
    assert run.page.stat().st_size < 6e6
    with visit() as page:  # which checks its requests
        for section in ("answer", "maps", "choices", "privacy", "utility", "planner", "provenance"):
            assert page.locator(f"#{section}").is_visible()
        assert page.locator("#maps-body .map").count() == 2
        assert page.locator(".chart > [role=img]").count() == 2
        page.locator("#bounds summary").click()
        expect(page.locator(".chart > [role=img]")).to_have_count(4)  # drawn when it opens
        assert page.locator("#planner-body tbody tr").count() == len(PLANNED) + 4  # kinds of trust


def test_the_policy_of_the_page_forbids_fetching(run, browser):
    page = browser.new_page()
    page.goto(run.page.as_uri())
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


def test_answers_and_tables_do_not_need_scripts(run, visit):
    with visit(java_script_enabled=False) as page:
        assert "need JavaScript" in page.locator("noscript").inner_text()
        for place in run.data["regions"]:
            number = run.data["regions"].index(place)
            answer = page.locator(f"#answer .place[data-region='{number}']").inner_text()
            start, plans, tables = place["start"], place["plans"], place["tables"]
            (plan,) = [one for one in plans if {k: one[k] for k in start} == start]
            for words in ("verdict", "label", "accuracy", "trust", "single"):
                assert plan[words] in answer
            (table,) = [
                t for t in tables if {k: t[k] for k in ("n", "promise")}.items() <= start.items()
            ]
            assert place["about"] in answer and table["strength"] in answer
            shown = page.locator(f"#choices .place[data-region='{number}']")
            assert shown.get_by_role("row").count() == 1 + sum(
                1 + len(group["rows"]) for group in table["groups"]
            )
        assert page.get_by_role("row", name="Seed of the simulated noise").is_visible()


def test_a_print_shows_all_places_and_no_controls(run, visit):
    """Paper is white even in dark mode, and an A4 page has room for about 700 pixels."""
    with visit(viewport={"width": 700, "height": 1000}, color_scheme="dark") as page:
        page.emulate_media(media="print")
        places = page.locator(".place")
        assert places.count() == 2 * len(run.data["regions"]) == 4
        assert all(place.is_visible() for place in places.all())
        page.locator("#bounds summary").click()
        for hidden in ("nav", "select", "input", "button"):
            assert not any(one.is_visible() for one in page.locator(hidden).all())
        assert page.locator("#maps-body .map").first.is_visible()
        assert page.get_by_role("group", name="Bounds").is_visible(), "the key of the curves"
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        for part in page.locator("table, svg, pre").all():
            if part.is_visible():
                assert part.bounding_box()["x"] + part.bounding_box()["width"] <= 700


def test_a_run_without_targets_shows_its_sweep(run, visit):
    del run.clone.config["targets"]
    run.clone.run("--", "page")
    with visit(run.clone.path / "results" / "report.html") as page:
        assert page.locator("#answer .verdict").count() == 0
        assert not page.locator("#choices").is_visible()
        promises = page.locator("#promise option").all_inner_texts()
        assert len(promises) == 2 and all("eps0" in promise for promise in promises)
        assert page.locator("#maps-body .map").first.is_visible()
        assert page.locator("#utility-kind option").all_inner_texts() == [
            "Share to be moved, against eps"
        ]
        assert page.locator("#utility-chart [role=img]").is_visible()


def test_the_papers_numbers_are_filtered_and_their_errata_linked(run, visit, tmp_path):
    shown = [
        ("A", "II", "proposed", 0.03, 0.0341, None, None, "reproduced by the printed formula only"),
        ("A", "V-D text", None, 123108, 123094, None, None, "not reproduced"),
        ("D", "eq. (15)", None, 0.0206, 0.0206, 0.0664, 0.0666, "not reproduced"),
    ]
    names = ["paper", "table", "bound", "published", "as_printed", "lower", "upper", "verdict"]
    table = pd.DataFrame(shown, columns=names).reindex(columns=COLUMNS)
    table.to_csv(tmp_path / "values.csv", index=False)
    reproduction = reproduction_data(tmp_path / "values.csv", ERRATA)
    other = tmp_path / "report.html"
    other.write_text(render(run.data | {"reproduction": reproduction}))
    # Following a link within the page is not a request.
    with visit(other) as page:
        rows = page.locator("#reproduction-body tbody tr")
        count = page.locator("#values-count")
        assert (rows.count(), count.inner_text()) == (3, "3 of 3 numbers")
        assert "123108\t123094" in rows.nth(1).inner_text()
        assert "0.0664 to\n0.0666" in rows.nth(2).inner_text()
        page.locator("#values-verdict").select_option("not reproduced")
        assert (rows.count(), count.inner_text()) == (2, "2 of 3 numbers")
        page.locator("#values-paper").select_option("A")
        assert (rows.count(), count.inner_text()) == (1, "1 of 3 numbers")
        page.locator("#values-verdict").select_option("")
        entry = page.locator("#errata-A1")
        assert entry.get_attribute("open") is None
        rows.first.get_by_role("link", name="A1").click()
        # The browser reports the new fragment after the click.
        expect(entry).to_have_attribute("open", "")
        expect(entry.locator("code").first).to_be_visible()
