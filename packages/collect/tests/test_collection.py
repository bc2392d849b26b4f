"""A collection through all its roles, and what each of them refuses."""

import json
import os
import re
from dataclasses import replace
from fractions import Fraction
from math import exp, factorial

import numpy as np
import pytest
from collection_parts import campaign, closed, opened, store_file, tokens_of
from pages import geojson, square
from shuffledp.errors import InputError
from shuffledp.mechanisms.signed_dummies import SignedDummiesParameters
from shuffledp_collect.analyst import Opened, read_opened
from shuffledp_collect.batch import close_round, read_batch
from shuffledp_collect.campaign import canonical, make_campaign, parse_campaign, read_campaign
from shuffledp_collect.cli import main as command
from shuffledp_collect.device import Device, draw_messages, make_envelope, read_ticket
from shuffledp_collect.estimate import estimate_cells, estimate_regions, noise_law
from shuffledp_collect.laws import make_laws
from shuffledp_collect.messages import BLANK, plus, seal, token
from shuffledp_collect.mixer import Answer, Store
from shuffledp_collect.tables import Table, clumps, draw_below, poisson, range_of_sum, two_sided

MECHANISMS = ["two-servers", "signed-dummies"]
CELLS, PEOPLE, FEWEST = 5, 40, 30  # of `campaign()`, where people come


# --- Tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
def test_two_sided_tables(eps):
    theta = exp(-eps / 2.0)
    table = two_sided(eps)
    expected = theta ** abs(table.values) * (1 - theta) / (1 + theta)
    np.testing.assert_allclose(table.masses, expected, rtol=1e-12, atol=1e-30)
    cut = two_sided(eps, 5)
    weights = theta ** np.abs(cut.values - 5.0)
    assert cut.first == 0
    np.testing.assert_allclose(cut.masses, weights / weights.sum(), rtol=1e-12, atol=1e-30)


def test_clumps_make_a_negative_binomial_number():
    number, size = clumps(0.6, 0.7)
    # Its generating function at some points, by the closed form.
    for at in (0.0, 0.3, 0.9, -0.5):
        clump = float(size.masses @ at**size.values)
        found = float(number.masses @ np.power(clump, number.values))
        assert found == pytest.approx((0.4 / (1.0 - 0.6 * at)) ** 0.7, rel=1e-12)
    table = poisson(3.2)
    exact = [exp(-3.2) * 3.2**t / factorial(int(t)) for t in table.values]
    np.testing.assert_allclose(table.masses, exact, rtol=1e-12, atol=1e-30)


def test_dummies_of_another_size_are_drawn():
    parameters = SignedDummiesParameters(0.6, 5.0, np.inf, 50, 7, 1.4)
    number, _ = clumps(0.6, 1.4 * CELLS / 7)
    laws = make_laws("signed-dummies", parameters, CELLS)
    assert [noise.number for noise in laws.device[:2]] == [number, number]


@pytest.mark.parametrize(("eps", "copies"), [(0.1, 2), (1.0, 48), (3.0, 200)])
def test_a_range_of_a_sum_misses_no_more_than_it_says(eps, copies):
    """By the exact law of the sum, and not much wider than its quantiles."""
    table, missed = two_sided(eps, 20), 1e-6
    law = np.array([1.0])
    for bit in f"{copies:b}":
        law = np.convolve(law, law)
        law = np.convolve(law, table.masses) if bit == "1" else law
    low, high = range_of_sum(table, copies, missed)
    values = np.arange(law.size)
    for outside in (values < low, values > high):
        assert law[outside].sum() <= missed
    deviation = np.sqrt(law @ (values - law @ values) ** 2)
    assert law[(values < low + deviation) | (values > high - deviation)].sum() > missed
    assert range_of_sum(Table(3, ()), 4, missed) == (12.0, 12.0)


def test_a_draw_counts_the_thresholds_that_are_reached():
    table = Table(-1, ("40" + "0" * 30, "c0" + "0" * 30))
    for first, expected in ((0x00, -1), (0x3F, -1), (0x40, 0), (0xBF, 0), (0xC0, 1), (0xFF, 1)):
        assert table.draw(lambda n, first=first: bytes([first]) + bytes(n - 1)) == expected


def test_uniform_cells_reject_what_is_left_over():
    given = iter([b"\xff\xff\xff\xff", b"\x00\x00\x00\x07"])
    assert draw_below(3, lambda n: next(given)) == 7 % 3


def test_rounding_is_below_any_promise():
    for mechanism in MECHANISMS:
        assert 0 < campaign(mechanism).laws.rounding(PEOPLE, CELLS) < Fraction(1, 2**100)


# --- The campaign --------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_campaign_is_read_as_it_was_written(mechanism):
    made = campaign(mechanism)
    again = parse_campaign(made.text)
    assert again == made and again.name == made.name
    again.check()
    assert 0 < made.eps["analyst"] <= 2.0
    assert made.eps["both"] is None  # both servers together see every record


def altered(change):
    document = json.loads(campaign().text)
    change(document)
    return canonical(document)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        campaign().text + b" ",
        campaign().text.replace(b'"version":2', b'"version":2.0'),
        campaign().text.replace(b'"version":2', b'"version":1'),
        campaign().text.replace(b'"people":400', b'"people":1e999'),
        campaign().text.replace(b'"people":400', b'"people":40,"people":400'),
        altered(lambda found: found.update(more=1)),
        altered(lambda found: found.pop("title")),
        altered(lambda found: found["cells"].update(count=1)),
        altered(lambda found: found.update(at_least=401)),
        altered(lambda found: found["mixer"]["thresholds"].reverse()),
        altered(lambda found: found["rounds"].append("00")),
        altered(lambda found: found.update(address="file:///etc/passwd")),
        altered(lambda found: found.update(address="http://mixer.example.org")),
        altered(lambda found: found.update(address="http://127.0.0.1@mixer.example.org")),
        altered(lambda found: found.update(address="https://")),
        altered(lambda found: found["cells"].update(sha256="0" * 64 + "\n")),
        altered(lambda found: found["mixer"]["thresholds"].insert(0, "0" * 32 + "\n")),
        altered(lambda found: found.update(address="http://x/\n")),
        campaign().text.replace(b'"title":"A place"', b'"title":"\\ud800"'),
    ],
)
def test_what_is_no_campaign_is_refused(text):
    with pytest.raises(InputError) as refused:
        parse_campaign(text)
    assert len(str(refused.value)) < 2000


def lower(thresholds):
    thresholds[3] = thresholds[2]


EDITS = [
    lambda found: found["promise"]["eps"].update(analyst="0.01"),
    lambda found: found["promise"]["eps"].update(both="9"),
    lambda found: found["promise"].update(delta="1e-09"),
    lambda found: lower(found["mixer"]["thresholds"]),
    lambda found: found.update(mixer=None),
    lambda found: found["parameters"].update(nu="3"),
]


@pytest.mark.parametrize("change", EDITS)
def test_every_role_refuses_an_edited_campaign(tmp_path, capsys, change):
    path, other = tmp_path / "campaign.json", tmp_path / "other"
    path.write_bytes(altered(change))
    other.write_text(f"{parse_campaign(path.read_bytes()).name}.{'0' * 32}")
    given = ["--campaign", str(path)]
    for words in (
        ["campaign", "check", str(path)],
        ["mixer", "new", str(tmp_path / "store"), *given, "--tokens", str(other)],
        ["report", *given, "--ticket", str(other), "--cell", "1"],
        ["open", str(other), *given, "--key", str(other), "--output", str(tmp_path / "out")],
        ["estimate", str(other), *given],
    ):
        assert command(words) == 2
        assert "is refused: the campaign" in capsys.readouterr().err
    assert {file.name for file in tmp_path.iterdir()} == {"campaign.json", "other"}


def test_more_rounds_cost_privacy_and_not_all_is_collected():
    assert campaign(rounds=3).parameters["eps"] < 0.7 * campaign().parameters["eps"]
    # The tables are of discrete Laplace noise, even where Gaussian noise has the smaller error.
    assert set(campaign(rounds=20).parameters) == {"eps", "nu"}
    with pytest.raises(InputError, match="can be collected"):
        make_campaign(
            *("t", "q", 5, "0" * 64, [bytes(32)], "http://localhost"),
            **{"eps": 1.0, "delta": 1e-3, "at_least": 9, "people": 9, "mechanism": "krr"},
        )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_came_to_each_round_counts_in_it(mechanism):
    """The mixed rounds lie between; noise by servers does not depend on who comes."""
    made = replace(campaign(mechanism), rounds=campaign(mechanism).rounds * 2)
    few, mixed, more = (
        made.views(came)["analyst"].epsilon(np.log(made.delta)).upper
        for came in ([FEWEST] * 2, [4 * FEWEST, FEWEST], [4 * FEWEST] * 2)
    )
    if mechanism == "two-servers":
        assert few == mixed == more
    else:
        assert 1.05 * more < mixed < few / 1.05


# --- Roles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_envelope_has_one_length_and_no_foreign_message(mechanism):
    made = campaign(mechanism)
    for _ in range(50):
        drawn = draw_messages(made, 2)
        assert len(drawn) == made.laws.slots
        words = [int.from_bytes(message, "big") for message in drawn]
        assert plus(2) in drawn
        assert all(0 <= word <= 2 * CELLS for word in words)
    assert len(make_envelope(made, 1, bytes(16), 0)) == 32 + 52 * made.laws.slots
    with pytest.raises(InputError, match="cells 0 to 4"):
        draw_messages(made, CELLS)


def test_a_ticket_is_of_one_campaign():
    ticket = os.urandom(16)
    assert read_ticket(f"{campaign().name}.{ticket.hex()}\n", campaign()) == ticket
    for wrong in ("", f"{'0' * 64}.{ticket.hex()}", f"{campaign().name}.{ticket.hex()}0"):
        with pytest.raises(InputError):
            read_ticket(wrong, campaign())
    assert token(campaign(rounds=3), 1, ticket) != token(campaign(rounds=3), 2, ticket)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_from_records_to_estimates(tmp_path, mechanism):
    made, tickets = campaign(mechanism), [os.urandom(16) for _ in range(PEOPLE)]
    tokens = [token(made, 1, ticket) for ticket in tickets]
    store = Store(store_file(tmp_path / "store", made, tokens))
    records = np.arange(FEWEST) % 2
    envelopes = [
        make_envelope(made, 1, ticket, int(cell))
        for ticket, cell in zip(tickets, records, strict=False)
    ]
    with pytest.raises(InputError, match="stays open"):
        close_round(store, tmp_path / "batch")
    assert set(store.take(envelopes)) == {Answer.COUNTED}
    odd = [envelopes[0], envelopes[0][:16] + envelopes[1][16:], b"", os.urandom(len(envelopes[0]))]
    assert store.take(odd) == [Answer.COUNTED, Answer.USED, Answer.WRONG, Answer.UNKNOWN]
    assert store.respondents == FEWEST
    batch = close_round(store, tmp_path / "batch")
    assert store.written and store.size == 0
    late = make_envelope(made, 1, tickets[-1], 0)
    assert store.take([late, envelopes[0]]) == [Answer.CLOSED, Answer.COUNTED]
    # The holder of a token without the nonce does not learn whether it was used.
    assert store.take([odd[1], late[:16] + bytes(len(late) - 16)]) == [Answer.CLOSED] * 2
    with pytest.raises(InputError, match="was written"):
        close_round(store, tmp_path / "other")
    assert read_batch(tmp_path / "batch", made) == batch

    counted = opened(tmp_path, made, batch)
    assert not (tmp_path / "key").exists()
    assert (counted.foreign, counted.repeated, counted.out_of_range) == (0, 0, 0)
    again = read_opened(tmp_path / "counts", made)
    assert again.text == counted.text
    found = estimate_cells(made, again)
    # Ten deviations: no random failure.
    truth = np.bincount(records, minlength=CELLS)
    assert np.all(np.abs(found.estimate - truth) < 10.0 * found.standard_error + 5.0)
    assert np.all(found.low_all <= found.low) and np.all(found.high <= found.high_all)


def test_repeated_foreign_and_wrong_messages_are_not_counted(tmp_path):
    made = campaign("signed-dummies")
    slots = made.laws.slots
    body = [seal(made, 1, [plus(1)] + [BLANK] * (slots - 1)) for _ in range(PEOPLE)]
    body[0][0] = body[1][0]  # a second time
    body[2][0] = os.urandom(52)  # not sealed
    body[3] = seal(made, 1, [plus(CELLS)] * slots)  # no such cell
    body[4] = seal(made, 1, [b"long"] * slots)
    body[5] = [body[5][0]] * slots  # by a mixer that could recognise it in the map
    tokens = tokens_of(made, PEOPLE)
    sent = [each + bytes(16) + b"".join(some) for each, some in zip(tokens, body, strict=True)]
    found = opened(tmp_path, made, closed(tmp_path, made, sent))
    assert (found.foreign, found.repeated, found.out_of_range) == (1, slots, 2 * slots)
    assert found.counts.tolist() == [0, PEOPLE - 4, 0, 0, 0]


def test_a_device_reports_once_a_round(tmp_path):
    made, device = campaign(rounds=3), Device(tmp_path / "device")
    device.report(made, 2, bytes(16), 1)
    with pytest.raises(InputError, match="took part in round 2"):
        device.report(made, 2, bytes(16), 1)
    with pytest.raises(InputError, match="rounds 1 to 3"):
        device.report(made, 4, bytes(16), 1)
    assert device.took_part(made) == device.took_part() == 1
    with pytest.raises(OSError, match="the envelope waits"):
        device.send(made, 2, patience=0.0)
    (waiting,) = (tmp_path / "device").iterdir()
    assert waiting.stat().st_mode & 0o777 == 0o600


# --- Estimates -----------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("cells", [1, 3])
def test_the_law_of_a_count_by_convolution(mechanism, cells):
    made, n = campaign(mechanism), 4
    found = noise_law(made, n, cells)
    for value, mass in direct_law(made, n, cells).items():
        assert found.masses[value - found.first] == pytest.approx(mass, abs=1e-10)
    assert found.masses.sum() == pytest.approx(1.0, abs=1e-10)


def direct_law(made, n, cells):
    """The law by its definition, message by message and user by user."""
    share, laws, total = cells / made.cells, made.laws, {0: 1.0}
    for table in [laws.mixer, laws.analyst] * cells:
        if table is not None:
            total = added(total, dict(zip(table.values.astype(int), table.masses, strict=True)))
    for noise in laws.device:
        if noise.sign == "pair":
            continue
        sign = 1 if noise.sign == "plus" else -1
        sizes = zip(noise.size.values.astype(int), noise.size.masses, strict=True)
        clump = {0: 1.0 - share, **{sign * size: share * mass for size, mass in sizes}}
        user, some = {}, {0: 1.0}
        for mass in noise.number.masses:
            for value, chance in some.items():
                user[value] = user.get(value, 0.0) + mass * chance
            some = added(some, clump)
        for _ in range(n):
            total = added(total, user)
    return total


def added(first, second):
    made = {}
    for a, p in first.items():
        for b, q in second.items():
            if p * q > 1e-18:
                made[a + b] = made.get(a + b, 0.0) + p * q
    return made


def test_regions_must_be_of_cells():
    found = Opened(campaign().name, 1, PEOPLE, np.arange(CELLS), 0, 0, 0)
    assert estimate_regions(campaign(), found, {"all": range(CELLS)}).estimate.shape == (1,)
    for wrong in ([], [1, 1], [CELLS]):
        with pytest.raises(InputError, match="different cells"):
            estimate_regions(campaign(), found, {"some": wrong})


def test_a_base_map_lies_under_the_participants_page_and_the_estimates(tmp_path):
    left, right = square(0, 0, 1, 1), square(1, 0, 2, 1)
    (tmp_path / "cells").write_text(geojson([("Polygon", left, {}), ("Polygon", right, {})]))
    known = {"name": "Left", "attribution": "A survey"}
    around = [("Polygon", left, known), ("Polygon", square(90, 0, 91, 1), {"name": "Far"})]
    (tmp_path / "map").write_text(geojson(around))
    folder = tmp_path / "campaign"
    new = ["campaign", "new", "--eps", "2", "--delta", "1e-3", "--at-least", "30"]
    new += ["--cells", str(tmp_path / "cells"), "--output", str(folder)]
    assert command([*new, "--basemap", str(tmp_path / "none")]) == 2 and not folder.exists()
    assert command([*new, "--basemap", str(tmp_path / "map")]) == 0
    page = (folder / "participant" / "index.html").read_text()
    around = json.loads(re.search(r'id="around">(.*?)</script>', page)[1])
    assert [layer["name"] for layer in around["layers"]] == ["Left"]  # what is far is left out
    assert around["attribution"] == "A survey"
    made = read_campaign(folder / "campaign.json")
    counts = Opened(made.name, 1, 30, np.array([60, 60]), 0, 0, 0)
    (tmp_path / "counts").write_bytes(counts.text)
    words = ["estimate", str(tmp_path / "counts"), "--campaign", str(folder / "campaign.json")]
    assert command([*words, "--page", str(tmp_path / "out.html")]) == 0
    found = re.search(r'id="data">(.*?)</script>', (tmp_path / "out.html").read_text())[1]
    data = json.loads(found)
    assert data["places"] == ["Left", ""] and data["map"]["attribution"] == "A survey"


def test_a_pipe_or_a_device_is_no_file(tmp_path, capsys):
    pipe, out = tmp_path / "pipe", str(tmp_path / "out")
    os.mkfifo(pipe)
    new = ["campaign", "new", "--eps", "1", "--delta", "1e-6", "--at-least", "9", "--output", out]
    for words in (
        [*new, "--cells", str(pipe)],
        ["campaign", "check", str(pipe)],
        ["open", str(tmp_path), "--campaign", "/dev/zero", "--key", str(pipe), "--output", out],
        ["estimate", "/dev/zero", "--campaign", str(pipe)],
        ["mixer", "serve", str(pipe)],
    ):
        with pytest.raises(SystemExit, match="2"):
            command(words)
        assert capsys.readouterr().err.endswith("is not a regular file\n")
