"""A black-box audit of a collection: device, mixer's store, batch and analyst, in each view.

Two neighbouring data sets are collected many times. On half of the collections an event is chosen
that tells them apart best; on the other half its chances are bounded by Clopper and Pearson. If
``P(event) <= exp(eps) Q(event) + delta`` fails for the bounds, the promise is broken. Sealing alone
is left out: of a sealed message the plain one is the end, so that a collection takes milliseconds.
"""

import os
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
from collection_parts import messages_of, private
from scipy.stats import beta
from shuffledp.collection import analyst, device, messages, mixer
from shuffledp.collection.analyst import count_parts, open_part
from shuffledp.collection.batch import close_round
from shuffledp.collection.device import make_envelope
from shuffledp.collection.laws import Laws, Noise, make_laws
from shuffledp.collection.messages import SEALED, TOKEN, token, token_hash
from shuffledp.collection.mixer import Answer, Store, make_store
from shuffledp.collection.tables import Table

VIEWS = ("analyst", "mixer", "public")
# Of a false alarm, for one view of one mechanism.
ALARM = 1e-6
_MEMORY = Path("/dev/shm")  # a disk would be flushed some ten times a collection
_FRONT = SEALED - messages.PLAIN


class _Open:
    """A cipher suite that hides nothing."""

    @staticmethod
    def encrypt(plain, *_, **__):
        return os.urandom(_FRONT) + plain

    @staticmethod
    def decrypt(sealed, *_, **__):
        return sealed[_FRONT:]


_CAMPAIGNS = {}


def known(made):
    """Let `unsealed` read a campaign, which no file need have."""
    _CAMPAIGNS[made.text] = made


@contextmanager
def unsealed():
    """Nothing is sealed, and a campaign is parsed once."""
    with (
        mock.patch.object(analyst, "suite", _Open),
        mock.patch.object(messages, "suite", _Open),
        mock.patch.object(mixer, "parse_campaign", _CAMPAIGNS.__getitem__),
    ):
        yield


def words(sealed):
    """How many there are of each plain message, blanks among them."""
    return Counter(int.from_bytes(each[_FRONT:], "big") for each in sealed)


def by_cell(made, found):
    """Plus and minus of each cell, and what is published of them without the analyst."""
    plus = [found[1 + 2 * cell] for cell in range(made.cells)]
    minus = [found[2 + 2 * cell] for cell in range(made.cells)]
    return np.array(plus), np.array(minus)


def collect(made, records, folder, exports=1):
    """Features of each view in a collection of these records; the first is the victim's."""
    tickets = [os.urandom(16) for _ in records]
    path = folder / "store"
    make_store(path, made, 1, [token_hash(token(made, 1, each)) for each in tickets])
    envelopes = [
        make_envelope(made, 1, ticket, cell) for ticket, cell in zip(tickets, records, strict=True)
    ]
    with closing(Store(path)) as store:
        answers = set(store.take(envelopes))
        assert answers == {Answer.COUNTED}, f"the mixer refuses envelopes: {answers}"
        copy = path.read_bytes()
        batch = close_round(store, folder / "batch")
    sealed = messages_of(batch)
    own = words(sealed)
    for envelope in envelopes:
        own.subtract(words(_split(envelope)))
    seen = [by_cell(made, words(sealed))]
    for _ in range(exports - 1):
        path.write_bytes(copy)
        with closing(Store(path)) as store:
            store.draw()
            seen.append(by_cell(made, words(store.messages())))
    key = folder / "key"
    key.write_text(private(1).private_bytes_raw().hex())
    parts = {
        name: open_part(made, batch, private(1).private_bytes_raw(), name) for name in batch.parts
    }
    counts = count_parts(made, batch, parts, key, folder / "counts").counts
    plus, minus = (np.mean(each, axis=0) for each in zip(*seen, strict=True))
    dummies = by_cell(made, own)[0]
    lengths = [len(each) for each in envelopes]
    return {
        "analyst": _contrasts(plus, minus, plus - minus),
        "mixer": [*_contrasts(counts - dummies), *lengths, lengths[0] - max(lengths[1:])],
        "public": _contrasts(counts),
    }


def _split(envelope):
    return [envelope[i : i + SEALED] for i in range(TOKEN, len(envelope), SEALED)]


def _contrasts(*vectors):
    return [value for each in vectors for value in (*each, each[0] - each[1])]


def _collected(made, records, folder, exports):
    with TemporaryDirectory(dir=folder) as place:
        return collect(made, records, Path(place), exports)


def samples(made, number, folder, exports=1):
    """Features of so many collections where the victim reports cell 0, and where it reports 1."""
    known(made)
    others = [i % 2 for i in range(made.at_least - 1)]
    with unsealed():
        found = [
            [_collected(made, [cell, *others], folder, exports) for _ in range(number)]
            for cell in (0, 1)
        ]
    return _by_view(found)


def of_devices(made, number):
    """The same features where servers add nothing, by devices alone: a thousand in a second."""
    others = [i % 2 for i in range(made.at_least - 1)]

    def one(cell):
        drawn = Counter(
            int.from_bytes(each, "big")
            for record in (cell, *others)
            for each in device.draw_messages(made, record)
        )
        plus, minus = by_cell(made, drawn)
        return {
            "analyst": _contrasts(plus, minus, plus - minus),
            "mixer": _contrasts(plus - minus),
            "public": _contrasts(plus - minus),
        }

    found = [[one(cell) for _ in range(number)] for cell in (0, 1)]
    return _by_view(found)


def _by_view(found):
    return {
        view: tuple(np.array([each[view] for each in some], float) for some in found)
        for view in VIEWS
    }


def excess(first, second, eps, alarm=ALARM):
    """Largest of lower ends of ``P - exp(eps) Q`` over both directions, by events held out.

    Parameters
    ----------
    first, second
        Features, shape ``(collections, features)``.
    eps
        Of the promise.
    alarm
        Chance that a bound is wrong.
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
    """That one feature is at least, or at most, a value."""
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
    """That all features are as they were more often here than there."""
    a, b = (Counter(map(tuple, some)) for some in (these, those))
    chosen = {each for each in a if a[each] > np.exp(eps) * b[each]}
    return lambda some: [tuple(each) in chosen for each in some]


def broken(made, promised, number, exports=1, alarm=ALARM):
    """Views in which the promise of a campaign is broken by what another one draws."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        found = samples(made, number, Path(folder), exports)
    return beaten(found, promised, alarm)


def beaten(found, promised, alarm=ALARM):
    """Views in which a promise does not hold for features."""
    return {
        view for view in VIEWS if excess(*found[view], promised.eps[view], alarm) > promised.delta
    }


# --- Mutants -------------------------------------------------------------------------------

_NOTHING = Table(0, ())


def without_noise(made):
    """Nobody draws."""
    laws = made.laws
    return replace(
        made,
        laws=Laws(laws.slots, (), laws.mixer and _NOTHING, laws.analyst and _NOTHING),
    )


def doubled(made):
    """Devices believe that twice as many take part."""
    parameters = made.released.parameters
    if made.mechanism == "user-dummies":
        given = replace(parameters, dummies=parameters.dummies / 2)
    else:
        given = replace(parameters, smallest=2 * parameters.smallest)
    laws = make_laws(made.mechanism, given, made.cells)
    return replace(made, laws=replace(laws, slots=made.laws.slots))


def without_minus(made):
    """Only what is added is sent; pairs have lost their other half."""
    noises = [
        Noise("plus", noise.number, noise.size)
        for noise in made.laws.device
        if noise.sign == "plus"
    ]
    return replace(made, laws=replace(made.laws, device=tuple(noises)))


def drawn_twice():
    """Randomness of a draw is used again for the next one of the same table."""
    kept, original = {}, Table.draw

    def draw(self, random=os.urandom):
        taken = kept.pop(self.thresholds, None)
        if taken is None:
            kept[self.thresholds] = taken = random(16)
        return original(self, lambda _: taken)

    return mock.patch.object(Table, "draw", draw)


def unpadded():
    """Envelopes without blanks."""
    original = device.draw_messages
    return mock.patch.object(
        device,
        "draw_messages",
        lambda *given: [each for each in original(*given) if each != messages.BLANK],
    )
