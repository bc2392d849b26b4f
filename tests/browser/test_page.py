"""The page as a file: alone, offline, whole without scripts and on paper."""

import pytest

pytestmark = pytest.mark.workflow


def test_it_is_one_file_that_asks_for_nothing(run, visit):
    assert run.page.stat().st_size < 6e6
    with visit() as page:  # which checks what it asks for
        for section in ("answer", "maps", "privacy", "utility", "provenance"):
            assert page.locator(f"#{section}").is_visible()
        assert page.locator("#maps-body svg, #privacy-body svg, #utility-body svg").count() >= 4


def test_its_policy_forbids_to_fetch(run, browser):
    page = browser.new_page()
    page.goto(run.page.as_uri())
    refused = page.evaluate(
        """async () => {
          const blocked = new Promise((told) => document.addEventListener(
            "securitypolicyviolation", (event) => told(event.effectiveDirective)));
          const failed = await fetch("data:text/plain,here").then(() => false, () => true);
          return [failed, await blocked];
        }"""
    )
    assert refused == [True, "connect-src"]
    page.close()


def test_answers_and_tables_are_there_without_scripts(run, visit):
    with visit(java_script_enabled=False) as page:
        assert "need JavaScript" in page.locator("noscript").inner_text()
        for place in run.data["regions"]:
            shown = page.locator(".place", has=page.get_by_role("heading", name=place["title"]))
            assert shown.is_visible()
            assert place["strength"] in shown.inner_text()
            assert shown.get_by_role("row").count() == 1 + len(place["table"]["rows"])
        assert page.get_by_role("row", name="Seed of the simulated noise").is_visible()


def test_on_paper_all_places_are_there_and_no_controls(run, page):
    page.emulate_media(media="print")
    places = page.locator(".place")
    assert places.count() == len(run.data["regions"]) == 2
    assert all(place.is_visible() for place in places.all())
    for hidden in ("nav", "select", "input"):
        assert not any(one.is_visible() for one in page.locator(hidden).all())
    assert page.locator("#maps-body svg").first.is_visible()


@pytest.mark.slow
def test_a_run_without_targets_shows_its_sweep(run, visit):
    del run.clone.config["targets"]
    run.clone.run("--", "page")
    with visit(run.clone.path / "results" / "report.html") as page:
        assert page.locator("#answer table").count() == 0
        promises = page.locator("#map-promise option").all_inner_texts()
        assert len(promises) == 2 and all("eps0" in promise for promise in promises)
        assert page.locator("#maps-body .map").first.is_visible()
        assert page.locator("#utility-kind option").all_inner_texts() == ["Distance against eps"]
        assert page.locator("#utility-chart [role=img]").is_visible()
