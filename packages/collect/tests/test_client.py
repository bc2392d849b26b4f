"""The JavaScript client draws, seals and refuses as the Python one."""

import json
import os
import random
import re
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from collection_parts import campaign as planned
from collection_parts import private
from javascript import CLIENT, client, found
from scipy.stats import chi2
from shapely.geometry import Point, shape
from shuffledp.errors import InputError
from shuffledp_collect import participant
from shuffledp_collect.campaign import canonical, parse_campaign
from shuffledp_collect.device import draw_messages, read_ticket
from shuffledp_collect.laws import Laws, Noise
from shuffledp_collect.messages import HEAD, info, suite, token, token_hash
from shuffledp_collect.mixer import Answer, Store, make_store
from shuffledp_collect.tables import Table, clumps, poisson

K = 20
KEYS = [private(number) for number in (1, 2, 3)]
# A ring with a hole; two pieces, the second of which fills the hole; a triangle beside.
SHAPES = [
    {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]],
                                        [[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]]]},
    {"type": "MultiPolygon", "coordinates": [[[[5, 0], [6, 1], [5, 4], [4.5, 2], [5, 0]]],
                                             [[[1, 1], [1, 3], [3, 3], [3, 1], [1, 1]]]]},
    {"type": "Polygon", "coordinates": [[[7, 0], [9, 4], [6.5, 4], [7, 0]]]},
]  # fmt: skip


def encoded(text):
    return b64encode(text).decode()


@pytest.fixture(scope="module")
def campaign():
    made = planned(cells=K, eps=1.0, delta=1e-6, at_least=500, people=1000, colluding=50)
    return replace(
        made,
        title="Wo es laut ist – «näher» 🌍",
        question='Where did "noise" wake you\tup?\\ \x7f\u2028',
        address="http://localhost:1",
        # More rounds take longer to plan, and no client asks what they have together.
        rounds=tuple(key.public_key().public_bytes_raw() for key in KEYS),
    )


@pytest.fixture(scope="module")
def signed(campaign):
    """A campaign with dummies of all three kinds, which do not always fit into the slots."""
    number, size = clumps(0.5, 2.0)
    noises = (
        Noise("plus", number, size),
        Noise("minus", number, size),
        Noise("pair", poisson(1.5), Table(1, ())),
    )
    return parse_campaign(replace(campaign, laws=Laws(12, noises)).text)


def test_names_are_the_same(campaign, signed):
    both = [campaign, signed]
    answers = client(*({"job": "parse", "campaign": encoded(each.text)} for each in both))
    assert found(answers) == [each.name for each in both]


def _streams(campaign):
    """Random bytes, and those at the edges: of a threshold, of what is rejected."""
    rng = random.Random(1)
    for _ in range(30):
        yield rng.randbytes(4_000)
    for noise in campaign.laws.device:
        for threshold in noise.number.thresholds[::3]:
            edge = bytes.fromhex(threshold)
            for number in (edge, (max(int(threshold, 16) - 1, 0)).to_bytes(16, "big")):
                for word in ("ffffffff", "ffffffef", "fffffff0", "00000000"):
                    yield number + bytes.fromhex(word) + rng.randbytes(4_000)


def test_the_same_bytes_give_the_same_messages(campaign, signed):
    jobs, expected = [], []
    for each in (campaign, signed):
        for number, stream in enumerate(_streams(each)):
            cell, bytes_left = number % K, BytesIO(stream)
            messages = draw_messages(each, cell, bytes_left.read)
            expected.append([[message.hex() for message in messages], bytes_left.tell()])
            jobs.append(
                {"job": "draw", "campaign": encoded(each.text), "cell": cell,
                 "stream": stream[: bytes_left.tell() + 20].hex()}
            )  # fmt: skip
    # Some were drawn anew: 3 numbers, and a cell and a size for each of 11 messages, take less.
    assert max(used for _, used in expected) > 2 * (3 * 16 + 11 * 20)
    assert found(client(*jobs)) == expected


def test_python_opens_what_the_client_seals(campaign, signed, tmp_path):
    ticket, cell = bytes(range(16)), K - 1
    asked = [(each, number) for each in (campaign, signed) for number in (1, 3)]
    jobs = [
        {"job": "envelope", "campaign": encoded(each.text), "round": number,
         "ticket": ticket.hex(), "cell": cell}
        for each, number in asked
    ]  # fmt: skip
    answers = found(client(*jobs))
    for (each, number), envelope in zip(asked, answers, strict=True):
        made = bytes.fromhex(envelope)
        assert len(made) == HEAD + 52 * each.laws.slots
        assert made[:16] == token(each, number, ticket)
        messages = [
            suite().decrypt(made[start : start + 52], KEYS[number - 1], info=info(each, number))
            for start in range(HEAD, len(made), 52)
        ]
        assert (1 + 2 * cell).to_bytes(4, "big") in messages
        assert all(0 <= int.from_bytes(message, "big") <= 2 * K for message in messages)
        path = tmp_path / f"{each.name}.{number}"
        make_store(path, each, number, [token_hash(made[:16])])
        assert Store(path).take([made, made]) == [Answer.COUNTED] * 2


def test_the_key_schedule_of_the_rfc():
    """RFC 9180, A.1.1."""
    job = {
        "job": "schedule",
        "recipient": "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
        "info": "4f6465206f6e2061204772656369616e2055726e",
        "scalar": "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
    }
    assert found(client(job)) == [
        [
            "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
            "4531685d41d65f03dc48f6b8302c05b0",
            "56d890e5accaaf011cff4b7d",
        ]
    ]


def test_nobody_gives_the_client_its_random_numbers():
    ((names, arguments),) = found(client({"job": "names"}))
    assert names == [
        "Device", "Refused", "cellAt", "cellOf", "makeEnvelope", "parseCampaign", "readCells",
        "readTicket",
    ]  # fmt: skip
    assert arguments == 4  # campaign, round, ticket, cell
    for path in CLIENT.glob("*.js"):
        assert not re.search(r"Math\.random|Date\.now", path.read_text()), path.name
    asked = re.findall(r"getRandomValues", "".join(map(Path.read_text, CLIENT.glob("*.js"))))
    assert len(asked) == 1


def test_tickets_are_read_alike(campaign):
    good = f"{campaign.name}.{'0a' * 16}"
    bad = [
        "", "x", good[:-1], good.upper(), f"{'0' * 64}.{'0a' * 16}", good + ".", good + ".0",
        good + ".4", good + ".01", good + ".1.1", good + ".1e0", f"{good}\n{good}",
    ]  # fmt: skip
    jobs = [
        {"job": "ticket", "campaign": encoded(campaign.text), "text": text}
        for text in (good, f" {good}\n", f"{good}.3", *bad)
    ]
    plain, blank, third, *refused = client(*jobs)
    ticket = read_ticket(good, campaign).hex()
    assert plain == blank == {"found": [ticket, 1]} and third == {"found": [ticket, 3]}
    assert [text for text, answer in zip(bad, refused, strict=True) if "found" in answer] == []


def _changed(campaign, noises):
    """Yield campaigns with one change: its description, and the bytes."""
    document = json.loads(campaign.text)

    def made(**changes):
        return canonical(document | changes)

    for name in document:
        left = {key: value for key, value in document.items() if key != name}
        yield f"without {name}", canonical(left)
    others = {
        "version": [0, 1, "2", True, None],
        "title": ["", "x" * 201, "🌍" * 200, 1, None],
        "question": ["", "x" * 501],
        "cells": [{}, document["cells"] | {"more": 1}, document["cells"] | {"count": 1},
                  document["cells"] | {"count": 10**6 + 1}, {"count": K, "sha256": "0" * 63},
                  {"count": K, "sha256": "G" * 64}],
        "mechanism": ["x" * 41, 3],
        "parameters": [{"a": 1}, {"a": "1.0"}, {"a": "01"}, {"a": "1e-8"}, {"a": "1e-08"},
                       {"a": "0.0001"}, {"a": "0.00001"}, {"a": "1e+16"}, {"a": "1e16"},
                       {"a": "1e999"}, {"a": "inf"}, {"a": "nan"}, {"a": "-1"}, {"a": "1e-400"},
                       {"a": "123456789012345680000.0"}, {"a": "9007199254740993"},
                       {"a": "9007199254740994.0"}, {"a": "0.30000000000000004"},
                       {"a": "0.300000000000000040"}, {"a": ""}, []],
        "people": [0, -1, 10**10 + 1, 499, "1000"],
        "at_least": [0, 1001, 50],
        "colluding": [-1, 500, 499],
        "slots": [0, 4001, 4000],
        "device": [None, {}, noises[:1] * 4, noises[:1] * 3, [noises[0] | {"sign": "both"}],
                   [noises[0] | {"seed": 1}]],
        "mixer": [{}, {"first": 0, "thresholds": []}, {"first": 1.5, "thresholds": []},
                  {"first": 0, "thresholds": ["f" * 32, "0" * 32]},
                  {"first": 0, "thresholds": ["F" * 32]}, {"first": 0, "thresholds": ["0" * 31]},
                  {"first": 1000001, "thresholds": []}],
        "analyst": [{"first": -65536, "thresholds": []}, {"first": -65537, "thresholds": []}],
        "promise": [document["promise"] | {"neighbours": "addition"},
                    document["promise"] | {"unit": "one word"},
                    document["promise"] | {"eps": {}}, document["promise"] | {"delta": "1e-6"},
                    document["promise"] | {"delta": "0.1"}],
        "rounds": [[], ["0" * 64], document["rounds"][:2], ["0" * 63] * 3, [0, 1, 2], None],
        "address": ["", "ftp://localhost", "https://", "https://é", "http://a b", "https://a",
                    "http://a", "http://localhost", "http://[::1]:80", "http://127.0.0.1@a/"],
        "more": [None, 1],
        "__proto__": [{}, 1],
        "toString": ["x"],
    }  # fmt: skip
    for name, values in others.items():
        for value in values:
            yield f"{name}: {value!r:.60}", made(**{name: value})
    text = campaign.text
    yield from {
        "nothing": b"",
        "no object": b"[]",
        "null": b"null",
        "a line's end": text + b"\n",
        "a blank": text.replace(b'":', b'": ', 1),
        "a mark of order": b"\xef\xbb\xbf" + text,
        "no UTF-8": text.replace(b"loc", b"\xff\xfe\xfd"),
        "half": text[: len(text) // 2],
        "a key twice": text[:-1] + b',"address":"https://a"}',
        "another order": json.dumps(dict(sorted(document.items(), reverse=True))).encode(),
        "escaped": json.dumps(document, sort_keys=True, separators=(",", ":")).encode(),
        "2.0": text.replace(b'"version":2', b'"version":2.0'),
        "2e0": text.replace(b'"version":2', b'"version":2e0'),
        "2^53+1": text.replace(b'"people":1000', b'"people":9007199254740993'),
        "deep": b"[" * 100_000,
        "half a letter": made(title="?").replace(b'"?"', b'"\\ud800"'),
        "a line's end in a checksum": made(cells={"count": K, "sha256": "0" * 64 + "\n"}),
        "a line's end in an address": made(address="https://a\n"),
    }.items()


def _read(text):
    try:
        return {"found": parse_campaign(text).name}
    except InputError:
        return "refused"


def test_what_python_refuses_is_refused(campaign, signed):
    words, texts = zip(*_changed(campaign, json.loads(signed.text)["device"]), strict=True)
    answers = client(*({"job": "parse", "campaign": encoded(text)} for text in texts))
    ours = [_read(text) for text in texts]
    theirs = ["refused" if "refused" in answer else answer for answer in answers]
    assert [each for each in zip(words, ours, theirs, strict=True) if each[1] != each[2]] == []
    assert ours.count("refused") > 90
    assert 10 < len(ours) - ours.count("refused") < 30


def _cells(campaign, document):
    text = json.dumps(document).encode()
    checksum = sha256(text).hexdigest()
    made = replace(campaign, cells=len(SHAPES), cells_sha256=checksum)
    return {"job": "cells", "campaign": encoded(made.text), "cells": encoded(text), "points": []}


def test_a_point_is_in_the_cell_that_python_finds(campaign):
    features = [
        {"type": "Feature", "properties": {"name": f" {each['type']} "}, "geometry": each}
        for each in SHAPES
    ]
    rng = np.random.default_rng(1)
    points = rng.uniform([-1, -1], [10, 5], (2000, 2)).tolist()
    points += [[x / 2, y / 2] for x in range(-1, 20) for y in range(-1, 10)]  # on borders, too
    polygons = [shape(each) for each in SHAPES]
    expected = [
        next((number for number, each in enumerate(polygons) if each.covers(Point(point))), None)
        for point in points
    ]
    job = _cells(campaign, {"type": "FeatureCollection", "features": features})
    ((names, cells),) = found(client(job | {"points": points}))
    assert names == [each["type"] for each in SHAPES]
    assert cells == expected
    assert set(cells) == {None, 0, 1, 2}


def test_a_map_that_is_none_is_refused(campaign):
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    broken = {"type": "Polygon", "coordinates": [[[0, 0], ["1", 0], [1, 1], [0, 0]]]}
    documents = [
        {"type": "GeometryCollection", "geometries": geometries}
        for geometries in (SHAPES[:2], [*SHAPES, SHAPES[0]], [*SHAPES[:2], line],
                           [*SHAPES[:2], broken], None)
    ]  # fmt: skip
    right = _cells(campaign, {"type": "GeometryCollection", "geometries": SHAPES})
    altered = right | {"cells": encoded(json.dumps(SHAPES).encode())}
    first, *others = client(right, altered, *(_cells(campaign, each) for each in documents))
    assert "found" in first
    assert [each for each in others if "found" in each] == []


def _chances(table):
    """Return the probability of each value from 0."""
    return np.concatenate([np.zeros(table.first), table.masses])


def _sums(noise, most):
    """Return the probabilities of the numbers of messages of one noise, up to a number."""
    size = np.zeros(most + 1)
    chances = _chances(noise.size)[: most + 1]
    size[: chances.size] = chances
    total, power = np.zeros(most + 1), np.eye(1, most + 1)[0]
    for chance in _chances(noise.number):
        total += chance * power
        power = np.convolve(power, size)[: most + 1]
    return total


def _law(laws):
    """Return the probabilities of (plus, minus) dummies of an envelope, ``(slots, slots)``."""
    room = laws.slots - 1
    joint = np.eye(1, (room + 1) ** 2)[0].reshape(room + 1, room + 1)
    for noise in laws.device:
        sums, more = _sums(noise, room), np.zeros_like(joint)
        for number, chance in enumerate(sums):
            up = number if noise.sign != "minus" else 0
            down = number if noise.sign != "plus" else 0
            more[up:, down:] += chance * joint[: room + 1 - up, : room + 1 - down]
        joint = more
    joint[np.add.outer(np.arange(room + 1), np.arange(room + 1)) > room] = 0.0
    return joint / joint.sum()


def _unlikely(seen, chances, times):
    """Whether counts contradict probabilities; rare values are grouped to 50 expected each."""
    groups, room = [[0.0, 0.0]], 50.0
    for index in np.argsort(chances, axis=None):
        if groups[-1][0] >= room:
            groups.append([0.0, 0.0])
        groups[-1][0] += chances.flat[index] * times
        groups[-1][1] += seen.flat[index]
    expected, seen = np.array(groups).T
    assert expected.min() >= room and expected.size > 1
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - 1) < 1e-9


def _python(campaign, cell, times):
    return [[each.hex() for each in draw_messages(campaign, cell)] for _ in range(times)]


def _javascript(campaign, cell, times):
    job = {"job": "messages", "campaign": encoded(campaign.text), "cell": cell, "times": times}
    return found(client(job))[0]


@pytest.mark.parametrize(
    ("slots", "times"), [(2, 110), pytest.param(3, 2_000, marks=pytest.mark.slow)]
)
def test_a_record_is_at_any_place_of_its_envelope(campaign, slots, times):
    """A right client fails in one of 1e9 runs."""
    small = parse_campaign(replace(campaign, laws=Laws(slots)).text)
    job = {"job": "envelope", "campaign": encoded(small.text), "round": 1, "cell": 0}
    envelopes = found(client(*[job | {"ticket": "00" * 16}] * times))
    places = np.zeros(slots)
    for envelope in map(bytes.fromhex, envelopes):
        messages = [
            suite().decrypt(envelope[start : start + 52], KEYS[0], info=info(small, 1))
            for start in range(HEAD, len(envelope), 52)
        ]
        places[messages.index((1).to_bytes(4, "big"))] += 1
    assert not _unlikely(places, np.full(slots, 1 / slots), times)


@pytest.mark.parametrize(
    "times", [1_000, pytest.param(50_000, marks=pytest.mark.slow)], ids=["light", "long"]
)
@pytest.mark.parametrize("draw", [_python, _javascript])
def test_envelopes_have_the_law_of_the_tables(signed, draw, times):
    """A right client fails in one of 1e9 runs."""
    chances, cell = _law(signed.laws), 7
    seen, cells = np.zeros_like(chances), Counter()
    reports = draw(signed, cell, times)
    # Randomness that is used again would make half of them the same.
    assert sum(before == after for before, after in pairwise(reports)) < times / 10
    for messages in reports:
        first, *others = (int(message, 16) for message in messages)
        assert first == 1 + 2 * cell and len(others) == signed.laws.slots - 1
        dummies = [value for value in others if value]
        seen[sum(value % 2 for value in dummies), sum(1 - value % 2 for value in dummies)] += 1
        cells.update(dummies[:1])  # those of a clump are of one cell
    assert not _unlikely(seen, chances, times)
    of_cell = np.array([cells[1 + 2 * number] + cells[2 + 2 * number] for number in range(K)])
    if of_cell.sum() >= 50 * K:
        assert not _unlikely(of_cell, np.full(K, 1 / K), of_cell.sum())


def test_the_page_has_all_parts_and_no_links(campaign, tmp_path):
    cells = tmp_path / "cells"
    cells.write_bytes(os.urandom(10))
    known = replace(campaign, cells_sha256=sha256(cells.read_bytes()).hexdigest())
    participant.write_participant_folder(tmp_path / "page", known, cells)
    names = {path.name for path in (tmp_path / "page").iterdir()}
    assert names == {"index.html", "campaign.json", "cells.geojson"}
    assert (tmp_path / "page" / "campaign.json").read_bytes() == known.text
    assert (tmp_path / "page" / "cells.geojson").read_bytes() == cells.read_bytes()
    page = (tmp_path / "page" / "index.html").read_text()
    assert page == participant.make_page(known)
    assert "$" + "script" not in page and page.count("<script") == page.count("</script>") == 2
    assert not re.search(r"^(import|export)\b", page, re.MULTILINE)
    with pytest.raises(InputError, match="already exists"):
        participant.write_participant_folder(tmp_path / "page", known, cells)
    with pytest.raises(InputError, match="does not have the cells"):
        participant.write_participant_folder(tmp_path / "other", campaign, cells)
    around = {"layers": [], "names": [{"name": "</script><script>"}], "attribution": "$script"}
    page = participant.make_page(known, around)
    assert page.count("<script") == page.count("</script>") == 2
    found = re.search(r'id="around">(.*?)</script>', page)[1]
    assert json.loads(found) == around
    with pytest.raises(InputError, match=r"200,000 bytes .* simplify"):
        participant.make_page(known, around | {"attribution": 200_000 * "x"})
    for address in ("http://a;b", "http://a/'x'", "http://a/?b", "http://[::1]:80", "http://a,b"):
        with pytest.raises(InputError, match="without a query only"):
            participant.make_page(replace(known, address=address))
