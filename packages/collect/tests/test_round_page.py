"""The page of a collected round, by its data and in a browser."""

import csv
import io
import re
from base64 import b64encode
from dataclasses import replace
from functools import partial
from hashlib import sha256

import numpy as np
import page_parts
import pytest
from collection_parts import campaign
from page_parts import PHONE
from pages import LAPTOP, check_access, opened
from shuffledp.errors import InputError
from shuffledp_collect import round_page
from shuffledp_collect.analyst import Opened
from shuffledp_collect.campaign import parse_campaign
from shuffledp_collect.cli import main
from shuffledp_collect.round_page import render_round, round_data

ROWS, COLUMNS = 3, 4
COUNTS = [0, 5, 70, 200, 0, 90, 140, 3, 35, 0, 12, 45]
TITLE = "Where it is <b>loud</b> & why"
CELLS = page_parts.cells(ROWS, COLUMNS, "<i>Old Town</i>")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Campaign, its cells and a base map beside it, and the counts of a round."""
    folder = tmp_path_factory.mktemp("collected")
    (folder / "cells.geojson").write_text(CELLS)
    (folder / "basemap.geojson").write_text(page_parts.basemap(ROWS, COLUMNS))
    planned = campaign(cells=ROWS * COLUMNS, rounds=2, at_least=300, colluding=10)
    known = replace(planned, title=TITLE, cells_sha256=sha256(CELLS.encode()).hexdigest())
    known = parse_campaign(known.text)
    (folder / "campaign.json").write_bytes(known.text)
    laws = [known.laws.mixer, known.laws.analyst]
    noise = round(sum(law.masses @ law.values for law in laws))
    counts = np.array(COUNTS) + noise
    counted = Opened(known.name, 1, sum(COUNTS), counts, 1, 2, 3)
    (folder / "counts.json").write_bytes(counted.text)
    (folder / "regions.csv").write_text('region,cell\n"North, or ""so""",8\n"North, or ""so""",9\n')
    return folder


@pytest.fixture
def estimate(files, capsys):
    """The command: what it printed as CSV."""

    def run(folder, *words):
        given = [str(folder / "counts.json"), "--campaign", str(folder / "campaign.json")]
        assert main(["estimate", *given, *map(str, words)]) == 0
        return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    return run


@pytest.fixture
def visit(browser):
    return partial(opened, browser)


def short(text):
    """A number as the page writes it."""
    value = round(float(text), 1) + 0.0
    return f"{value:,.1f}".removesuffix(".0")


@pytest.mark.slow
def test_a_cell_is_read_by_mouse_finger_and_keys(files, estimate, visit, tmp_path):
    rows = estimate(files, "--page", tmp_path / "out.html")

    def words(cell):
        row = rows[cell]
        place = {0: ", <i>Old Town</i>"}.get(
            cell, ", <b>West</b> End" if cell % COLUMNS < 2 else ""
        )
        return (
            f"Cell {cell}{place}: estimate {short(row['estimate'])} people, standard error "
            f"{short(row['standard_error'])}. 95 % interval {short(row['low'])} to "
            f"{short(row['high'])}; with all cells together {short(row['low_all'])} to "
            f"{short(row['high_all'])}."
        )

    with visit(tmp_path / "out.html") as page:
        readout = page.locator("#map-readout")
        assert page.locator("h1").inner_text() == TITLE
        assert page_parts.SEA in page.locator("#map").inner_text()
        names = page.locator("#map svg text").all_text_contents()
        assert {"<b>West</b> End", "Flow"} <= set(names)
        assert readout.inner_text().startswith(words(int(np.argmax(COUNTS))))
        for cell in (0, 6):
            page.locator(f"#map-cell-{cell}").hover()
            assert readout.inner_text().startswith(words(cell))
            tip = page.locator("#map .tip").inner_text()
            assert f"{short(rows[cell]['estimate'])} people" in tip
            assert f"{short(rows[cell]['low'])} to {short(rows[cell]['high'])}" in tip
        page.mouse.move(0, 0)  # else it points at a cell when the page scrolls
        page.locator("#map [role=listbox]").focus()
        for key, cell in [
            ("ArrowUp", 10), ("ArrowRight", 11), ("ArrowRight", 11), ("ArrowDown", 7),
            ("ArrowDown", 3), ("ArrowLeft", 2),
        ]:  # fmt: skip
            page.keyboard.press(key)
            assert readout.inner_text().startswith(words(cell)), key
            chosen = page.locator("#map [aria-selected=true]")
            assert chosen.get_attribute("id") == f"map-cell-{cell}"
            assert chosen.get_attribute("aria-label") == readout.inner_text()
    with visit(tmp_path / "out.html", viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.locator("#map-cell-5").tap()
        assert page.locator("#map-readout").inner_text().startswith(words(5))
        page.locator("#map-zoom").tap()
        assert page.locator("#map-cell-5").bounding_box()["width"] >= 28
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.slow
def test_the_table_and_its_file_are_what_the_command_prints(files, estimate, visit, tmp_path):
    rows = estimate(files, "--page", tmp_path / "out.html")
    with visit(tmp_path / "out.html") as page:
        lines = [
            [line.locator("th").inner_text(), *line.locator("td").all_inner_texts()]
            for line in page.locator("#cells tbody tr").all()
        ]
        with page.expect_download() as saved:
            page.locator("#cells-downloads button").click()
        with saved.value.path().open(newline="", encoding="utf-8") as stream:
            table = list(csv.DictReader(stream))
        # On the map: those that are surely not empty.
        page.select_option("#map-view", "sure")
        fills = [
            page.locator(f"#map-cell-{cell}").get_attribute("fill") for cell in range(len(rows))
        ]
    names = ["estimate", "standard_error", "low", "high", "low_all", "high_all", "projected"]
    sure = [float(row["low_all"]) > 0 for row in rows]
    assert 2 < sum(sure) < len(rows) - 2
    assert [fill.startswith("url(") for fill in fills] == [not each for each in sure]
    for cell, (row, saved_row) in enumerate(zip(rows, table, strict=True)):
        assert saved_row["cell"] == str(cell)
        assert saved_row["surely_somebody"] == str(int(sure[cell]))
        for name in names:
            assert float(saved_row[name]) == pytest.approx(float(row[name]), rel=1e-5, abs=1e-5)
    assert sorted(int(line[0].split(",")[0]) for line in lines) == list(range(len(rows)))
    estimates = [float(rows[int(line[0].split(",")[0])]["estimate"]) for line in lines]
    assert estimates == sorted(estimates, reverse=True)
    for line in lines:
        row = rows[int(line[0].split(",")[0])]
        said = [each.replace("\N{MINUS SIGN}", "-") for each in line[1:8]]
        assert said == [short(row[name]) for name in names]
        assert line[8] == ("yes" if float(row["low_all"]) > 0 else "")


@pytest.mark.slow
def test_the_promise_is_never_said_too_small(files, estimate, visit, tmp_path):
    estimate(files, "--page", tmp_path / "out.html")
    known = parse_campaign((files / "campaign.json").read_bytes())
    came = known.views([sum(COUNTS)])
    with visit(tmp_path / "out.html") as page:
        rows = page.locator("#privacy tbody tr").all()
        lines = [row.locator("td").all_inner_texts() for row in rows]
        whole = page.inner_text("body")
    for view, (promised, got, words) in zip(("analyst", "shuffler", "public"), lines, strict=False):
        truth = [known.eps[view], came[view].epsilon(float(np.log(known.delta))).promised]
        for value, said in zip(truth, (promised, got), strict=True):
            assert value <= float(said.removeprefix("eps = ")) <= 1.01 * value
        share = float(re.search(r"one at most ([\d.]+) %", words)[1]) / 100.0
        bound = (np.exp(known.eps[view]) + known.delta) / (1.0 + np.exp(known.eps[view]))
        assert bound <= share <= bound + 0.002
    assert lines[3] == ["nothing", "nothing", "They see every record."]
    assert "if mixer and analyst join hands" in whole and "Experimental." in whole
    assert known.name in whole and "a second time: 2; of no cell: 3" in whole


@pytest.mark.slow
def test_without_the_cells_there_is_a_table(files, estimate, visit, tmp_path):
    for name in ("campaign.json", "counts.json", "regions.csv"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    given = ["--regions", tmp_path / "regions.csv"]
    (region,) = estimate(tmp_path, "--page", tmp_path / "out.html", *given)
    with visit(tmp_path / "out.html") as page:
        assert page.locator("#map").count() == 0
        assert page.locator("#cells tbody tr").count() == len(COUNTS)
        line = page.locator("#regions tbody tr")
        assert line.locator("th").inner_text() == 'North, or "so"'
        assert line.locator("td").all_inner_texts()[:2] == ["2", short(region["estimate"])]
        with page.expect_download() as saved:
            page.locator("#regions-downloads button").click()
        with saved.value.path().open(newline="", encoding="utf-8") as stream:
            assert next(csv.DictReader(stream))["Region"] == 'North, or "so"'


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_nothing(files, estimate, visit, viewport, scheme, tmp_path):
    given = ["--regions", files / "regions.csv"]
    estimate(files, "--page", tmp_path / "out.html", *given)
    options = {"viewport": viewport, "color_scheme": scheme, "bypass_csp": True}
    with visit(tmp_path / "out.html", **options) as page:
        check_access(page, "color-contrast", "target-size")


def test_a_page_of_a_round_has_what_is_known_and_no_more(tmp_path, monkeypatch):
    made = campaign(cells=5, at_least=30)
    (tmp_path / "campaign.json").write_bytes(made.text)
    files = [tmp_path / "campaign.json", tmp_path / "counts.json"]

    def data(counts, **given):
        counted = Opened(made.name, 1, 100, np.array(counts), 0, 0, 0)
        files[1].write_bytes(counted.text)
        return round_data(made, counted, **given)

    some = data([400, 0, 0, 0, 0])
    assert some["sure"] == [True, False, False, False, False] and not some["noise"]
    assert "somebody is in 1 of 5 cells" in some["verdict"]
    assert some["map"] is None and some["rows"][0][0] == "0"
    assert data([0] * 5)["verdict"].startswith("100 people reported. The noise hides them all")
    answers = dict(some["answers"])
    assert "they see every record" in answers["What is not protected"]
    page = render_round(some)
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [b64encode(sha256(one.encode()).digest()).decode() for one in scripts]
    assert re.search("script-src (.*?);", page)[1].split() == [f"'sha256-{h}'" for h in hashes]
    assert not re.search(r"<(link|img|iframe)|<script[^>]+src=|@import|url\(http", page)
    monkeypatch.setattr(round_page, "_MAX_CELLS", 4)
    many = data([400, 0, 0, 0, 0])
    assert many["columns"] == {} and "estimate prints them all" in render_round(many)
    (tmp_path / "cells.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    monkeypatch.setattr(round_page, "_MAX_CELLS", 5)
    with pytest.raises(InputError, match="does not have the cells of the campaign"):
        data([0] * 5, cells=tmp_path / "cells.geojson")
    with pytest.raises(InputError, match="different cells"):
        data([0] * 5, regions={"south": [5]})
    words = ["estimate", str(files[1]), "--campaign", str(files[0]), "--page"]
    assert main([*words, str(tmp_path / "out.txt")]) == 2
    assert main([*words, str(tmp_path / "out.html")]) == 2  # other cells lie beside it
    assert not list(tmp_path.glob("out*"))
