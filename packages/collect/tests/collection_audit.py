"""A black-box audit of a collection: device, mixer's store, batch and analyst, in each view.

Two neighbouring data sets are collected many times. On half of the collections an event is chosen
that tells them apart best; on the other half its chances are bounded by Clopper and Pearson. If
``P(event) <= exp(eps) Q(event) + delta`` fails for the bounds, the promise is broken. HPKE alone is
left out: a one-time pad of the same length stands for it, so that a collection takes milliseconds.
"""

import os
from base64 import b64encode
from collections import Counter
from contextlib import closing, contextmanager, nullcontext
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
from collection_parts import bodies, key_file, messages_of
from javascript import CLIENT, changed, client, found
from scipy.stats import beta
from shuffledp_collect import analyst, device, messages, mixer
from shuffledp_collect.analyst import open_batch
from shuffledp_collect.batch import close_round
from shuffledp_collect.device import make_envelope
from shuffledp_collect.messages import PLAIN, SEALED, plus, token, token_hash
from shuffledp_collect.mixer import Answer, Store, make_store

# Probability of a false alarm, for one view of one mechanism.
ALARM = 1e-6
_MEMORY = Path("/dev/shm")  # a disk would be flushed some ten times a collection
_FRONT = SEALED - PLAIN


class _Pad:
    """A cipher suite: a message's first bytes are random, and what its last are sealed with."""

    @staticmethod
    def encrypt(plain, *_, **__):
        front = os.urandom(_FRONT)
        return front + _xor(front[:PLAIN], plain)

    @staticmethod
    def decrypt(sealed, *_, **__):
        front, end = sealed[:_FRONT], sealed[_FRONT:]
        return _xor(front[:PLAIN], end)


def _xor(first, second):
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).to_bytes(PLAIN, "big")


# The same in JavaScript, in place of the function of its module.
_PAD = f"""
export async function seal(recipient, info, message) {{
  const [front, end] = [crypto.getRandomValues(new Uint8Array({_FRONT})), message.slice()];
  message.forEach((byte, i) => {{ end[i] = byte ^ front[i]; }});
  return joined(front, end);
}}
"""
_HPKE = CLIENT.joinpath("hpke.js").read_text(encoding="utf-8")
_PADDED = _HPKE[: _HPKE.index("/** Seal a message")] + _PAD


@contextmanager
def unsealed(*campaigns):
    """Pads stand for ciphers, and these campaigns, which no file need have, are parsed once."""
    known = {made.text: made for made in campaigns}
    with (
        mock.patch.object(analyst, "suite", _Pad),
        mock.patch.object(messages, "suite", _Pad),
        mock.patch.object(mixer, "parse_campaign", known.__getitem__),
    ):
        yield


# --- Clients -------------------------------------------------------------------------------


class Python:
    """Devices in Python; a context manager makes mutants."""

    def __init__(self, mutant=nullcontext):
        self._mutant = mutant

    def envelopes(self, made, tickets, cells):
        """An envelope of each cell."""
        with self._mutant():
            return [make_envelope(made, 1, t, cell) for t, cell in zip(tickets, cells, strict=True)]

    def drawn(self, made, cells):
        """Return the numbers in the messages before they are sealed, shape ``(cells, slots)``."""
        with self._mutant():
            said = b"".join(b"".join(device.draw_messages(made, cell)) for cell in cells)
        return np.frombuffer(said, ">u4").reshape(len(cells), -1)


PYTHON = Python()


class JavaScript:
    """Devices in JavaScript; `changes` of their source make mutants."""

    def __init__(self, folder, *changes):
        self._folder = changed(folder / "javascript", changes, hpke=_PADDED)

    def _asked(self, job, made, **given):
        given |= {"job": job, "campaign": b64encode(made.text).decode()}
        return found(client(given, folder=self._folder))[0]

    def envelopes(self, made, tickets, cells):
        reports = [[ticket.hex(), cell] for ticket, cell in zip(tickets, cells, strict=True)]
        return list(map(bytes.fromhex, self._asked("envelopes", made, round=1, reports=reports)))

    def drawn(self, made, cells):
        said = bytes.fromhex(self._asked("drawn", made, cells=cells))
        return np.frombuffer(said, ">u4").reshape(len(cells), -1)


# --- Features ------------------------------------------------------------------------------


def says(sealed):
    """Return the numbers in sealed messages."""
    held = np.frombuffer(b"".join(sealed), np.uint8).reshape(-1, SEALED)
    return (held[:, :PLAIN] ^ held[:, _FRONT:]).view(">u4").ravel()


def by_cell(made, said):
    """Plus and minus messages of each cell, of what messages say in the last axis."""
    plus, minus = ([(said == first + 2 * c).sum(-1) for c in range(made.cells)] for first in (1, 2))
    return np.stack(plus, -1), np.stack(minus, -1)


def _contrasts(*vectors):
    return np.concatenate(
        [np.concatenate([each, each[..., :1] - each[..., 1:2]], -1) for each in vectors], -1
    )


def outside(made, envelopes):
    """Return what a mixer sees: lengths, and what is not sealed in the victim's envelope."""
    lengths = [len(each) for each in envelopes]
    clear = [envelopes[0].count(plus(cell)) for cell in range(made.cells)]
    return [*lengths, lengths[0] - max(lengths[1:]), *clear]


def collect(made, tickets, envelopes, folder, exports=1):
    """Features of each view in a collection of these envelopes; the first is the victim's."""
    path = folder / "store"
    make_store(path, made, 1, [token_hash(token(made, 1, each)) for each in tickets])
    with closing(Store(path)) as store:
        answers = set(store.take(envelopes))
        assert answers == {Answer.COUNTED}, f"the mixer refuses envelopes: {answers}"
        copy = path.read_bytes()
        batch = close_round(store, folder / "batch")
    seen = [by_cell(made, says(messages_of(batch)))]
    sent = [by_cell(made, says(bodies([each])))[0] for each in envelopes]
    dummies = seen[0][0] - np.sum(sent, axis=0)
    for _ in range(exports - 1):
        path.write_bytes(copy)
        with closing(Store(path)) as store:
            store.draw()
            seen.append(by_cell(made, says(store.messages())))
    counts = open_batch(made, batch.path, key_file(folder / "key"), folder / "counts", 1).counts
    plus, minus = (np.mean(each, axis=0) for each in zip(*seen, strict=True))
    return {
        "analyst": _contrasts(plus, minus, plus - minus),
        "shuffler": [*_contrasts(counts - dummies), *outside(made, envelopes)],
        "public": _contrasts(counts),
        "both": _contrasts(sent[0]),
    }


def _cells(made, victim):
    """Return the records of a round with the fewest respondents."""
    return [victim, *(i % 2 for i in range(made.at_least - 1))]


def _reports(made, number, victim, clients):
    """Tickets and envelopes of so many collections."""
    cells = _cells(made, victim) * number
    tickets = [os.urandom(16) for _ in cells]
    envelopes = clients.envelopes(made, tickets, cells)
    for start in range(0, len(cells), made.at_least):
        each = slice(start, start + made.at_least)
        yield tickets[each], envelopes[each]


def samples(made, number, clients=PYTHON, exports=1):
    """Features of so many collections where the victim reports cell 0, and where it reports 1."""

    def one(reports):
        with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
            return collect(made, *reports, Path(folder), exports)

    with unsealed(made):
        both = [list(map(one, _reports(made, number, cell, clients))) for cell in (0, 1)]
    views = both[0][0]
    return {
        view: tuple(np.array([each[view] for each in some], float) for some in both)
        for view in views
    }


def of_devices(made, number, clients=PYTHON):
    """Features where servers add nothing, by devices alone: a thousand in a second."""

    def some(victim):
        said = clients.drawn(made, _cells(made, victim) * number)
        plus, minus = by_cell(made, said.reshape(number, -1))
        mine, _ = by_cell(made, said.reshape(number, made.at_least, -1)[:, 0])
        counts = _contrasts(plus - minus)
        return {
            "analyst": _contrasts(plus, minus, plus - minus),
            "shuffler": counts,
            "public": counts,
            "both": _contrasts(mine),
        }

    first, second = some(0), some(1)
    return {view: (first[view], second[view]) for view in first}


def of_envelopes(made, number, clients=PYTHON):
    """Features for a mixer that takes whatever comes."""
    with unsealed(made):
        both = (
            [outside(made, sent) for _, sent in _reports(made, number, cell, clients)]
            for cell in (0, 1)
        )
        return {"shuffler": tuple(map(np.array, both))}


# --- Events --------------------------------------------------------------------------------


def excess(first, second, eps, alarm=ALARM):
    """Return the largest lower bound on ``P - exp(eps) Q`` over both directions and all events.

    Features have the shape ``(collections, features)``; a bound is wrong with probability `alarm`.
    Events are chosen on one half of the collections and counted on the other.
    """
    half, found = len(first) // 2, []
    for these, those in ((first, second), (second, first)):
        for event in (_threshold, _table):
            holds = event(these[:half], those[:half], eps)
            a, b = (int(np.sum(holds(some[half:]))) for some in (these, those))
            trials = len(first) - half
            # Two directions, two events, two ends.
            low = beta.ppf(alarm / 8, a, trials - a + 1) if a else 0.0
            high = beta.ppf(1 - alarm / 8, b + 1, trials - b) if b < trials else 1.0
            found.append(low - np.exp(eps) * high)
    return max(found)


def _threshold(these, those, eps):
    """Return the event that one feature is at least, or at most, a value."""
    best = (-1.0, 0, 1, 0.0)
    for j, sign in product(range(these.shape[1]), (1, -1)):
        a, b = np.sort(sign * these[:, j]), np.sort(sign * those[:, j])
        ends = np.unique(a)
        above = [1.0 - np.searchsorted(some, ends) / len(these) for some in (a, b)]
        gains = above[0] - np.exp(eps) * above[1]
        best = max(best, (gains.max(), j, sign, ends[gains.argmax()]))
    _, j, sign, end = best
    return lambda some: sign * some[:, j] >= end


def _table(these, those, eps):
    """Return the event that all features have values that were more frequent here than there."""
    a, b = (Counter(map(tuple, some)) for some in (these, those))
    chosen = {each for each in a if a[each] > np.exp(eps) * b[each]}
    return lambda some: [tuple(each) in chosen for each in some]


def broken(made, promised, number, clients=PYTHON, exports=1, alarm=ALARM):
    """Views in which the promise of a campaign is broken by what another one draws."""
    return beaten(samples(made, number, clients, exports), promised, alarm)


def beaten(found, promised, alarm=ALARM):
    """Views in which a promise, where there is one, does not hold for features."""
    return {
        view
        for view, features in found.items()
        if (eps := promised.eps[view]) is not None
        and excess(*features, eps, alarm) > promised.delta
    }
