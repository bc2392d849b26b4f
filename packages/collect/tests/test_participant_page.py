"""The participant's page in a browser, with a real mixer and the analyst behind it."""

import re
import secrets
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import page_parts
import pytest
import shapely
from collection_parts import Mixer, campaign, free_port, key_file, store_file
from page_parts import PHONE
from pages import LAPTOP, check_access, watched
from playwright.sync_api import expect
from shuffledp.figures.basemap import backdrop
from shuffledp.geography.regions import read_shapes
from shuffledp.page.maps import surroundings
from shuffledp_collect.analyst import open_batch
from shuffledp_collect.batch import close_round
from shuffledp_collect.campaign import parse_campaign
from shuffledp_collect.laws import Laws
from shuffledp_collect.messages import token
from shuffledp_collect.mixer import Store
from shuffledp_collect.participant import write_participant_folder

pytestmark = pytest.mark.slow
FILES = ["/", "/campaign.json", "/cells.geojson"]
ROWS, COLUMNS = 2, 3
FAILED = "error: Failed to load resource"


@dataclass
class Collection:
    """A campaign of two rounds without noise, its mixer, and who serves the page."""

    folder: Path
    campaign: object
    tickets: list
    address: str

    def link(self, suffix=""):
        """Return a link with an unused ticket."""
        return f"{self.address}/#{self.campaign.name}.{self.tickets.pop()}{suffix}"

    def respondents(self, number=1):
        with closing(Store(self.folder / f"{number}.store")) as store:
            return store.respondents

    def counts(self):
        with closing(Store(self.folder / "1.store")) as store:
            batch = close_round(store, self.folder / "batch")
        key = key_file(self.folder / "key")
        opened = open_batch(self.campaign, batch.path, key, self.folder / "counts", 1)
        assert (opened.foreign, opened.repeated, opened.out_of_range) == (0, 0, 0)
        return opened.counts.tolist()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def collecting(folder, basemap=None):
    cells, port = folder / "cells.geojson", free_port()
    cells.write_text(page_parts.cells(ROWS, COLUMNS, "<b>Old Town</b>"))
    around = None
    if basemap is not None:
        (folder / "basemap.geojson").write_text(basemap)
        bounds = shapely.total_bounds([each.geometry for each in read_shapes(cells, "cells")])
        around = surroundings(backdrop(folder / "basemap.geojson"), bounds)
    planned = campaign(
        cells=ROWS * COLUMNS, rounds=2, eps=1.0, delta=1e-6, at_least=500, people=1000, colluding=20
    )
    # Few and without noise, so that what was tapped can be counted.
    few = replace(
        planned,
        title="Where it is <loud> & why",
        question="Where did noise wake you up last night?",
        cells_sha256=sha256(cells.read_bytes()).hexdigest(),
        address=f"http://127.0.0.1:{port}",
        **{"at_least": 2, "colluding": 1, "laws": Laws(3)},
    )
    made = parse_campaign(few.text)
    tickets = [secrets.token_hex(16) for _ in range(40)]
    stores = []
    for number in (1, 2):
        tokens = [token(made, number, bytes.fromhex(each)) for each in tickets]
        stores.append(store_file(folder / f"{number}.store", made, tokens, number))
    write_participant_folder(folder / "page", made, cells, around)
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder / "page"))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    try:
        with Mixer(*stores, port=port):
            where = f"http://127.0.0.1:{served.server_address[1]}"
            yield Collection(folder, made, tickets, where)
    finally:
        served.shutdown()
        served.server_close()


@pytest.fixture
def fresh(tmp_path, browser):
    """A collection for one test, which may close the round."""
    with collecting(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory, browser):
    with collecting(tmp_path_factory.mktemp("participant")) as made:
        yield made


@pytest.fixture(scope="module")
def mapped(tmp_path_factory, browser):
    """A collection with a base map under its cells."""
    folder = tmp_path_factory.mktemp("mapped")
    with collecting(folder, page_parts.basemap(ROWS, COLUMNS)) as made:
        yield made


@pytest.fixture
def visit(browser):
    """Context manager: a link in a browser of its own. What it complains of, or asks for, fails."""

    @contextmanager
    def opened(collection, link, files=FILES, complaints=(), reports=None, **options):
        with watched(browser, link, **options) as (page, said, asked):
            yield page
        assert [words for words in said if not words.startswith(tuple(complaints))] == []
        own = [request for request in asked if request.url.startswith(collection.address)]
        assert [request.url.removeprefix(collection.address).split("#")[0] for request in own] == (
            list(files)
        )
        sent = [request for request in asked if request not in own]
        assert reports is None or len(sent) == reports
        for request in sent:
            campaign = collection.campaign
            assert request.method == "POST"
            assert re.fullmatch(
                re.escape(f"{campaign.address}/v1/{campaign.name}/") + "[12]", request.url
            )
            assert len(request.post_data_buffer) == 32 + 52 * campaign.laws.slots
            assert request.headers["content-type"] == "text/plain"
            assert not {"referer", "cookie"} & {
                name for name, value in request.headers.items() if value
            }
        assert len({request.post_data_buffer for request in sent}) <= 1  # always the same

    return opened


def spot(page, cell):
    """The middle of a cell on the screen, relative to the map."""
    expect(page.locator("#map")).to_be_visible()
    box = page.locator("#map").bounding_box()
    shape = page.locator("#cells").bounding_box()
    row, column = divmod(cell, COLUMNS)
    return {
        "x": shape["x"] - box["x"] + shape["width"] * (column + 0.5) / COLUMNS,
        "y": shape["y"] - box["y"] + shape["height"] * (ROWS - row - 0.5) / ROWS,
    }


def tap(page, cell):
    page.locator("#map").click(position=spot(page, cell))


def ends(page, title):
    expect(page.locator("#answer-title")).to_have_text(title, timeout=30_000)


def report(page, cell, title="Counted"):
    """Send a cell, and wait for the answer with this title."""
    tap(page, cell)
    page.locator("#send").click()
    ends(page, title)


KEPT = """async () => {
  const opening = indexedDB.open("shuffledp", 1);
  await new Promise((resolve) => { opening.onsuccess = resolve; });
  const rounds = opening.result.transaction("rounds").objectStore("rounds").getAll();
  await new Promise((resolve) => { rounds.onsuccess = resolve; });
  return [rounds.result.map((each) => each.ended ?? each.envelope.length),
    localStorage.length + sessionStorage.length + document.cookie.length];
}"""


def test_what_is_tapped_is_what_the_analyst_counts(fresh, visit):
    """By mouse, finger and keys; where the answer was lost, once."""
    with visit(fresh, fresh.link(), reports=1) as page:
        expect(page.locator("h1")).to_have_text("Where it is <loud> & why")
        expect(page.locator("#send")).to_be_disabled()
        tap(page, 0)
        expect(page.locator("#choice")).to_have_text(
            "Your choice: <b>Old Town</b>, around 50.500° north, 0.500° east."
        )
        report(page, 4)
        expect(page.locator("#answer-title")).to_be_focused()
        assert "cell 4" not in page.content().partition("<script")[0]
        expect(page.locator("#answer-words")).to_contain_text("You took part in 1 of 2 rounds.")
        assert page.evaluate(KEPT) == [["counted"], 0]
    with visit(
        fresh, fresh.link(), reports=1, viewport=PHONE, has_touch=True, is_mobile=True
    ) as page:
        page.locator("#map").tap(position=spot(page, 2))
        page.locator("#send").tap()
        ends(page, "Counted")
    with visit(fresh, fresh.link(), reports=1) as page:
        expect(page.locator("#map")).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.locator("#map")).to_be_focused()
        # Two rows and three columns: this ends in the south-west, from wherever it starts.
        for key in ["ArrowDown"] * 3 + ["ArrowLeft"] * 3 + ["ArrowUp", "ArrowRight"]:
            page.keyboard.press(key)
        expect(page.locator("#choice")).to_contain_text("cell 4,")
        for _ in ("closer", "farther", "send"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        ends(page, "Counted")
    with visit(fresh, fresh.link(), complaints=[FAILED], reports=3) as page:
        answers = ["lost", "nobody"]

        def answer(route):
            if not answers:
                return route.continue_()
            if answers.pop() == "lost":
                route.fetch()
            return route.abort()

        page.route("**/v1/**", answer)
        report(page, 5)
    assert fresh.respondents() == 4
    assert fresh.counts() == [0, 0, 1, 0, 2, 1]


def test_places_lie_under_the_cells(mapped, visit):
    """Without another request; what a name holds is text."""
    with visit(mapped, mapped.link(), reports=1) as page:
        expect(page.locator("#map")).to_be_visible()
        assert page.locator("#under path").evaluate_all(
            "all => all.map((one) => one.getAttribute('class'))"
        ) == ["water", "district", "river"]
        names = page.locator("#names text")
        assert sorted(names.all_text_contents()) == ["<b>West</b> End", "Flow"]
        assert page.locator("#source").inner_text() == "Map: Sea: </script><i>nobody's</i>"
        # West End is two of three columns, and the river crosses all.
        boxes = [page.locator(f"#under .{kind}").bounding_box() for kind in ("district", "river")]
        whole = page.locator("#cells").bounding_box()
        assert boxes[0]["x"] == pytest.approx(whole["x"], abs=5)
        assert boxes[0]["width"] == pytest.approx(2 / 3 * whole["width"], rel=0.03)
        assert boxes[0]["height"] == pytest.approx(whole["height"], rel=0.03)
        assert boxes[1]["width"] > 0.9 * whole["width"]
        size = names.first.bounding_box()["height"]
        for cell, words in [
            (0, "<b>Old Town</b>"),
            (1, "cell 1 in <b>West</b> End"),
            (2, "cell 2"),
        ]:
            tap(page, cell)
            expect(page.locator("#choice")).to_contain_text(f"Your choice: {words}, around")
        tap(page, 1)
        page.locator("#closer").click()
        for name in names.all():
            assert name.bounding_box()["height"] == pytest.approx(size, rel=0.2), (
                "as large as before"
            )
        page.locator("#send").click()
        ends(page, "Counted")
        page.set_viewport_size(PHONE)  # what is gone is not drawn again
        assert "West" not in page.locator("main").inner_text()


def test_small_cells_come_closer(shared, visit):
    with visit(shared, shared.link(), reports=0) as page:
        tap(page, 1)
        before = page.locator("#cells").bounding_box()
        closer, farther = page.locator("#closer"), page.locator("#farther")
        expect(farther).to_have_attribute("aria-disabled", "true")
        for times in (2, 4):
            closer.click()
            width = page.locator("#cells").bounding_box()["width"]
            assert width == pytest.approx(times * before["width"], rel=0.01)
        tap(page, 1)
        expect(page.locator("#choice")).to_contain_text("cell 1,")
        page.locator("#map").focus()
        page.keyboard.press("ArrowUp")  # out of what was seen, which follows
        tap(page, 4)
        expect(page.locator("#choice")).to_contain_text("cell 4,")
        for button in (closer, farther):  # as far as it goes
            while button.get_attribute("aria-disabled") == "false":
                button.click()
        assert page.locator("#cells").bounding_box() == pytest.approx(before, abs=1)


def test_what_waits_outlives_the_page(shared, visit):
    before = shared.respondents()
    twice = ["/", "/campaign.json", "/cells.geojson", "/", "/campaign.json", "/", "/campaign.json"]
    with visit(shared, shared.link(), twice, [FAILED]) as page:
        expect(page.locator("#map")).to_be_visible()  # its cells are read before it is left
        page.route("**/v1/**", lambda route: route.abort())
        report(page, 1, "Not counted yet")
        length = 32 + 52 * shared.campaign.laws.slots
        assert page.evaluate(KEPT) == [[length], 0]
        page.unroute("**/v1/**")
        page.reload()
        ends(page, "Counted")
        assert page.evaluate(KEPT) == [["counted"], 0]
        page.reload()
        ends(page, "Counted")
        expect(page.locator("#map")).not_to_be_visible()
    assert shared.respondents() == before + 1


def test_a_mixer_whose_store_is_away_is_asked_again(fresh, visit):
    store, away = fresh.folder / "1.store", fresh.folder / "away"
    with visit(fresh, fresh.link(), complaints=[FAILED]) as page:
        expect(page.locator("#map")).to_be_visible()
        store.rename(away)
        report(page, 3, "Not counted yet")
        expect(page.locator("#answer-words")).to_contain_text(
            "the mixer cannot take the envelope now"
        )
        away.rename(store)
        ends(page, "Counted")
        assert page.evaluate(KEPT) == [["counted"], 0]
    assert fresh.respondents() == 1


def test_a_browser_reports_once_in_a_round(shared, visit):
    before = shared.respondents(1), shared.respondents(2)
    first, second = shared.link(), shared.link()
    with visit(shared, first, reports=1) as page:
        other = page.context.new_page()  # both show the map
        other.goto(second)
        report(page, 1)
        tap(other, 2)
        other.locator("#send").click()
        expect(other.locator("#fault")).to_contain_text("this browser already took part in round 1")
        other.reload()
        ends(other, "Counted")
        other.goto(f"{second}.2")  # which alone loads nothing anew
        report(other, 3)
        expect(other.locator("#answer-words")).to_contain_text("You took part in 2 of 2 rounds.")
    assert (shared.respondents(1), shared.respondents(2)) == (before[0] + 1, before[1] + 1)


def test_what_the_mixer_refuses_is_said(fresh, visit):
    used = fresh.link()
    unknown = f"{fresh.address}/#{fresh.campaign.name}.{'0' * 32}"
    with visit(fresh, used, reports=1) as page:
        report(page, 0)
    with visit(fresh, used, complaints=[FAILED], reports=1) as page:
        report(page, 0, "Not counted")
        expect(page.locator("#answer-words")).to_contain_text("Another report came with this")
        assert page.evaluate(KEPT) == [["used"], 0]
    with visit(fresh, unknown, complaints=[FAILED], reports=2) as page:
        report(page, 0, "Not counted")
        words = page.locator("#answer-words")
        expect(words).to_contain_text("The mixer says: the token is not valid in this round.")
        page.locator("#again").click()
        expect(page.locator("#again")).to_be_visible()
    with visit(fresh, fresh.link(), reports=1) as page:
        report(page, 0)
    assert fresh.counts() == [2, 0, 0, 0, 0, 0]
    with visit(fresh, fresh.link(), complaints=[FAILED], reports=1) as page:
        report(page, 0, "This round is closed")
        assert page.evaluate(KEPT) == [["closed"], 0]


def test_another_name_or_an_altered_file_is_refused(shared, visit):
    good = shared.link()
    start, _, ticket = good.partition("#")
    other = f"{'0' * 64}.{ticket.partition('.')[2]}"
    for link, words in [
        (f"{start}#{other}", "belongs to another campaign, or the campaign was edited"),
        (start, "the link has no ticket"),
        (f"{good}.3", "rounds 1 to 2"),
    ]:
        with visit(shared, link, FILES[:2], reports=0) as page:
            expect(page.locator("#fault")).to_contain_text(words)
            expect(page.locator("#map")).not_to_be_visible()
    # By turns: the title, and a cell.
    for file, words, files in [
        ("campaign.json", "belongs to another campaign, or the campaign was edited", FILES[:2]),
        ("cells.geojson", "the map is not the one of the campaign", FILES),
    ]:
        path = shared.folder / "page" / file
        before = path.read_bytes()
        path.write_bytes(before.replace(b"loud", b"calm").replace(b"Old", b"New"))
        try:
            with visit(shared, good, files, reports=0) as page:
                expect(page.locator("#fault")).to_contain_text(words)
                expect(page.locator("#map")).not_to_be_visible()
        finally:
            path.write_bytes(before)


def test_other_scripts_are_blocked(shared, visit):
    path = shared.folder / "page" / "index.html"
    before = path.read_text()
    added = "<script>window.injected = true;</script><svg onload='window.injected = true'></svg>"
    blocked = ["error: Executing inline", "error: Fetch API"]
    blocked += ["error: This document requires", "error: Connecting to"]
    try:
        path.write_text(before.replace("</main>", f"</main>{added}"))
        with visit(shared, shared.link(), complaints=blocked, reports=0) as page:
            expect(page.locator("#map")).to_be_visible()
            assert page.evaluate("window.injected") is None
            told = page.evaluate(
                """async (elsewhere) => {
                  const told = [];
                  document.addEventListener(
                    "securitypolicyviolation", (event) => told.push(event.effectiveDirective));
                  const made = document.createElement("script");
                  try { made.textContent = "injected = true;"; } catch { told.push("typed"); }
                  document.body.append(made);
                  const all = [elsewhere, location.origin.replace("127.0.0.1", "localhost")];
                  for (const address of all) await fetch(address).catch(() => told.push("failed"));
                  await new Promise((resolve) => setTimeout(resolve, 100));
                  return [told.sort(), window.injected ?? null];
                }""",
                f"{shared.campaign.address}/v1/{'0' * 64}/1",
            )
            fetched = ["connect-src"] * 2 + ["failed"] * 2
            assert told == [[*fetched, "require-trusted-types-for", "typed"], None]
        path.write_text(before.replace("guarded(main());", "guarded(main()) ;"))
        with visit(shared, shared.link(), FILES[:1], blocked, reports=0) as page:
            expect(page.locator("#map")).not_to_be_visible()
    finally:
        path.write_text(before)


def test_it_is_not_shown_inside_another_page(shared, visit):
    link = shared.link()
    with visit(
        shared, f"{shared.address}/campaign.json", ["/campaign.json", *FILES[:1]], [FAILED]
    ) as page:
        page.evaluate(
            """(link) => new Promise((resolve) => {
              const frame = document.createElement("iframe");
              Object.assign(frame, { src: link, onload: resolve });
              document.body.append(frame);
            })""",
            link,
        )
        fault = page.frame_locator("iframe").locator("#fault")
        expect(fault).to_contain_text("must not be shown inside another")


def test_it_must_come_by_https(shared, browser):
    page = browser.new_page()
    index = shared.folder / "page" / "index.html"
    page.route("http://page.example/**", lambda route: route.fulfill(path=index))
    page.goto(f"http://page.example/{shared.link().partition('/#')[2]}")
    expect(page.locator("#fault")).to_contain_text("must come by https")
    page.close()


def test_the_promise_is_never_said_too_small(shared, visit):
    eps = shared.campaign.eps
    with visit(shared, shared.link(), reports=0) as page:
        expect(page.locator("#map")).to_be_visible()
        words = page.locator("#views dd").all_inner_texts()
        said = [re.search(r"most ([\d.]+) times .*\(eps ([\d.]+)\)", each) for each in words[:3]]
        for view, found in zip(("analyst", "shuffler", "public"), said, strict=True):
            assert eps[view] <= float(found[2]) < eps[view] + 0.01
            assert 2.71828 ** eps[view] - 0.001 <= float(found[1]) < 2.71828 ** eps[view] + 0.02
        assert eps["both"] is None and words[3] == "They could see your place."
        limits = page.locator("#limits").inner_text()
        assert "1 in 1,000,000" in limits and "all 2 rounds together" in limits
        assert "at least 2 people in a round, of whom 1 may" in limits
        whole = page.inner_text("body")
        assert "If analyst and mixer join hands" in whole and "Experimental" in whole
        assert "The analyst decrypts every report" in whole and "Nobody sees" not in whole
        assert "A mixer that counts honestly" in whole and "are never opened" not in whole
        assert shared.campaign.name in whole


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_nothing(mapped, visit, viewport, scheme):
    options = {"viewport": viewport, "color_scheme": scheme, "bypass_csp": True}
    with visit(mapped, mapped.link(), **options) as page:
        tap(page, 1)
        check_access(page, "color-contrast")
        page.locator("#send").click()
        ends(page, "Counted")
        check_access(page, "color-contrast")
