"""Snakemake's report of a run is one file that shows figures and tables offline, with captions."""

import pytest
from workflow.conftest import copy

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
TABLES = {
    "utility/comparison.csv", "utility/town.shape.csv", "tables/individual.town.shape.eps0-1.html"
}  # fmt: skip


@pytest.fixture(scope="module")
def report(browser, whole, tmp_path_factory):
    """Return the file of the report. `browser` comes first: it skips where there is none."""
    clone = copy(whole, tmp_path_factory.mktemp("report") / "clone")
    clone.run("--report", "report.html")
    return clone.path / "report.html"


def test_every_figure_and_main_table_has_category_label_and_caption(report, open_page):
    results = report.parent / "results"
    expected = {f"figures/{path.name}" for path in (results / "figures").glob("*.png")} | TABLES
    with open_page(report) as page:
        shown = page.evaluate("results")
        categories = page.evaluate("categories")
    assert {name.removeprefix("results/") for name in shown} == expected
    assert all(entry["caption"] and entry["labels"]["result"] for entry in shown.values())
    listed = [name for parts in categories.values() for part in parts.values() for name in part]
    assert sorted(listed) == sorted(shown)
    assert all(name[:3] == f"{number}. " for number, name in enumerate(sorted(categories), 1))


def test_a_reader_finds_the_main_figure_its_caption_and_its_table(report, open_page):
    with open_page(report) as page:
        assert "Share this report only with people who may see the data" in page.inner_text("body")
        page.get_by_text("1. The main result").click()
        figure, table = (
            page.locator("tr", has=page.get_by_text(name, exact=True))
            for name in ("comparison", "table of the comparison")
        )
        with page.expect_download() as download:
            table.locator("[iconname=eye]").click()
        saved = download.value.path().read_bytes()
        assert saved == (report.parent / "results/utility/comparison.csv").read_bytes()
        figure.locator("[iconname=eye]").click()
        page.wait_for_function("[...document.images].some((image) => image.naturalWidth > 1000)")
        figure.locator("[iconname=information-circle]").click()
        page.get_by_text("The cost of doing without a trusted curator").wait_for()
