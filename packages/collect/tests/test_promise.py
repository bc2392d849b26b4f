"""The promise of a collection and its intervals, through the roles themselves."""

import os
from contextlib import nullcontext

import collection_audit as audit
import collection_mutants as mutants
import collection_parts as parts
import numpy as np
import pytest
from collection_parts import campaign
from effort import long, nightly
from shuffledp_collect.analyst import Opened
from shuffledp_collect.device import make_envelope
from shuffledp_collect.estimate import estimate_cells, noise_law

FEW = {"two-servers": 3, "signed-dummies": 3}


def small(mechanism, delta=0.01):
    fewest = FEW[mechanism]
    return campaign(mechanism, cells=2, eps=1.0, delta=delta, at_least=fewest, people=20)


# --- The audit -----------------------------------------------------------------------------


@pytest.fixture(params=["python", "javascript"])
def devices(request, tmp_path):
    """Devices in a language, honest or of a mutant's name."""

    def made(mutant=None):
        if request.param == "python":
            return audit.Python(mutants.PYTHON[mutant] if mutant else nullcontext)
        return audit.JavaScript(tmp_path, *(mutants.JAVASCRIPT[mutant] if mutant else ()))

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "devices"),
    [(each, "python") for each in FEW] + [nightly(each, "javascript") for each in FEW],
    indirect=["devices"],
)
def test_no_view_beats_its_promise(mechanism, devices):
    made = small(mechanism)
    assert audit.broken(made, made, 200, devices()) == set()


def test_devices_do_not_beat_their_promise(devices):
    """The light twin."""
    made, honest = small("signed-dummies"), devices()
    assert audit.beaten(audit.of_devices(made, 100, honest), made) == set()
    assert audit.beaten(audit.of_envelopes(made, 20, honest), made) == set()


VIEWS = {"analyst", "shuffler", "public"}
# For each mutant, the views that catch it and a sufficient number of collections.
DRAWN_OTHERWISE = [
    ("no noise", VIEWS, 120),
    long("a seed", VIEWS, 400),
    long("biased cells", VIEWS, 400),
    long("minus messages dropped", VIEWS, 6000),
]


@pytest.mark.parametrize(("mutant", "views", "number"), DRAWN_OTHERWISE)
def test_the_audit_catches_devices_that_draw_otherwise(mutant, views, number, devices):
    """By devices alone: what servers add makes nothing worse."""
    made = small("signed-dummies", delta=0.03)
    assert audit.beaten(audit.of_devices(made, number, devices(mutant)), made) >= views


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["python"], indirect=True)
def test_the_audit_catches_signed_dummies_for_twice_as_many(devices):
    """Half of a wide noise changes a small delta too little to be seen; hence a larger one."""
    made = small("signed-dummies", delta=0.1)
    found = audit.of_devices(made, 12_000, devices("M doubled"))
    assert audit.beaten(found, made) & {"shuffler", "public"}


@pytest.mark.faults
def test_the_audit_catches_such_devices_in_whole_collections(devices):
    made = small("signed-dummies")
    assert audit.broken(made, made, 200, devices("no noise")) >= VIEWS


@pytest.mark.parametrize(
    ("mutant", "mechanism"),
    [
        ("not padded", "signed-dummies"),
        *(("a length that tells the cell", mechanism) for mechanism in FEW),
    ],
)
def test_the_mixer_refuses_envelopes_of_another_length(mutant, mechanism, devices):
    made = small(mechanism)
    with pytest.raises(AssertionError, match="WRONG"):
        audit.samples(made, 20, devices(mutant))


@pytest.mark.parametrize(
    ("mutant", "mechanism", "number"),
    [
        ("a length that tells the cell", "two-servers", 400),
        ("not sealed", "two-servers", 400),
        long("a length that tells the cell", "signed-dummies", 400),
    ],
)
def test_the_audit_catches_what_an_envelope_tells_the_mixer(mutant, mechanism, number, devices):
    made = small(mechanism, delta=0.03)
    assert audit.beaten(audit.of_envelopes(made, number, devices(mutant)), made) == {"shuffler"}


SERVERS = [
    (mutants.without_servers, VIEWS),
    (mutants.without_analyst, {"shuffler"}),
    (mutants.without_mixer, {"analyst"}),
]


@pytest.mark.faults
@pytest.mark.parametrize(("mutant", "views"), SERVERS)
def test_the_audit_catches_servers_that_add_nothing(mutant, views, devices):
    made = small("two-servers")
    assert audit.broken(mutant(made), made, 200, devices()) >= views


@pytest.mark.slow
def test_the_audit_catches_servers_that_use_randomness_twice():
    made = small("two-servers")
    with mutants.drawn_twice():
        assert audit.broken(made, made, 300) == VIEWS


@pytest.mark.faults
def test_the_audit_catches_dummies_that_are_drawn_afresh():
    """A store that was put back from a copy and closed again: docs/security.md warns of it."""
    made = small("two-servers")
    assert "analyst" in audit.broken(made, made, 200, exports=24, alarm=1e-3)


def test_the_audit_catches_no_noise(devices):
    """The light twin of all that goes through servers."""
    made = small("two-servers")
    bare = mutants.without_servers(made)
    assert audit.broken(bare, made, 44, devices(), alarm=0.05) == VIEWS


# --- Intervals -----------------------------------------------------------------------------

CELLS, PEOPLE = 20, 200
# Empty cells, small ones, big ones.
TRUTH = np.array([0] * 8 + [1, 1, 2, 3, 5, 8] + [10, 15, 20, 30, 45, 60])


def draws(table, rng, size):
    masses = table.masses
    return table.first + rng.choice(masses.size, size, p=masses / masses.sum())


def totals(made, rng, collections):
    """Counts of so many collections by sums of what all draw, shape ``(collections, CELLS)``."""
    counts = np.tile(TRUTH, (collections, 1))
    for table in (made.laws.mixer, made.laws.analyst):
        if table is not None:
            counts += draws(table, rng, counts.shape)
    for noise in made.laws.device:
        if noise.sign == "pair":
            continue
        numbers = draws(noise.number, rng, (collections, PEOPLE)).sum(axis=1)
        rows = np.repeat(np.arange(collections), numbers)
        cells = rng.integers(CELLS, size=rows.size)
        sizes = draws(noise.size, rng, rows.size)
        np.add.at(counts, (rows, cells), sizes if noise.sign == "plus" else -sizes)
    return counts


def opened(made, counts):
    return Opened(made.name, 1, PEOPLE, counts, 0, 0, 0)


def crowd(mechanism):
    made = campaign(mechanism, cells=CELLS, eps=1.0, delta=1e-3, at_least=PEOPLE, people=PEOPLE)
    assert TRUTH.sum() == PEOPLE
    return made


def covered(made, counts):
    """Which intervals hold, alone and together, shapes ``(collections, CELLS)``."""
    found = [estimate_cells(made, opened(made, some)) for some in counts]
    alone = np.array([(each.low <= TRUTH) & (each.high >= TRUTH) for each in found])
    together = np.array([(each.low_all <= TRUTH) & (each.high_all >= TRUTH) for each in found])
    return alone, together, np.array([each.estimate for each in found])


@pytest.mark.parametrize("mechanism", FEW)
@pytest.mark.parametrize("collections", [60, nightly(2000)])
def test_coverage_by_totals(mechanism, collections):
    made, rng = crowd(mechanism), np.random.default_rng(8)
    alone, together, estimates = covered(made, totals(made, rng, collections))
    law = noise_law(made, PEOPLE)
    low, high = law.between(0.05)
    exact = law.masses[low - law.first : high - law.first + 1].sum()
    assert 0.95 <= exact < 0.99
    # Four and a half deviations; where nobody is, an interval that ends below zero holds as well.
    error = 4.5 * np.sqrt(exact * (1.0 - exact) / collections)
    share = alone.mean(axis=0)
    assert np.all(share > exact - error)
    assert np.all((share < exact + error)[TRUTH > 0])
    missed = 4.5 * np.sqrt(0.05 * 0.95 / collections)
    assert together.all(axis=1).mean() > 0.95 - missed
    off = 4.5 * law.deviation / np.sqrt(collections)
    assert np.all(np.abs(estimates.mean(axis=0) - TRUTH) < off)


def collected(made, folder):
    """Counts of a collection by the roles themselves."""
    tickets = [os.urandom(16) for _ in range(PEOPLE)]
    records = np.repeat(np.arange(CELLS), TRUTH).tolist()
    envelopes = [
        make_envelope(made, 1, ticket, cell) for ticket, cell in zip(tickets, records, strict=True)
    ]
    return parts.opened(folder, made, parts.closed(folder, made, envelopes)).counts


@pytest.mark.parametrize("mechanism", FEW)
@pytest.mark.parametrize("collections", [1, nightly(50)])
def test_coverage_through_clients(tmp_path, mechanism, collections):
    made = crowd(mechanism)
    # An envelope of signed dummies has many messages: sealing them is all that is left out.
    with audit.unsealed(made) if mechanism == "signed-dummies" else nullcontext():
        counts = []
        for number in range(collections):
            (tmp_path / str(number)).mkdir()
            counts.append(collected(made, tmp_path / str(number)))
    alone, together, _ = covered(made, np.array(counts))
    if collections == 1:
        assert together.mean() > 0.7
        return
    assert alone.mean() > 0.95 - 4.5 * np.sqrt(0.05 * 0.95 / alone.size)
    assert together.all(axis=1).mean() > 0.95 - 4.5 * np.sqrt(0.05 * 0.95 / collections)
