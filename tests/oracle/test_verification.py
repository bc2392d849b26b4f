"""The checker of certificates against brute force in exact rationals, for few users."""

import copy
import json
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest
from flint import arb, arb_poly, ctx

from oracle import exact
from oracle.high_precision import ball, rational_exp
from shuffledp.verification import checker, deltas
from shuffledp.verification.deltas import RefusedError, TooLongError

EPS0 = 1.1
FEW = [(2, 1), (2, 2), (2, 5), (3, 1), (3, 2), (3, 4), (4, 3), (4, 4), (6, 3)]  # k, n
LEVELS = [0.0, 0.3, 0.9]


# ---------------------------------------------------------------- the truth, slowly


E = rational_exp(EPS0)


def log(x: Fraction) -> float:
    with ctx.workprec(200):
        return float(ball(x).log())


@cache
def delta(k: int, others: tuple[int, ...], eps: float, swap: bool = False) -> Fraction:
    direction = exact.delta_backward if swap else exact.delta_of_dataset
    return direction(others, k, E, rational_exp(eps))


def cells(x0: int, x1: int, x2: int) -> tuple[int, ...]:
    return (0,) * x0 + (1,) * x1 + (2,) * x2


def data_sets(k: int, n: int) -> list[tuple[int, int, int]]:
    triples = product(range(n), repeat=3)
    return [t for t in triples if sum(t) == n - 1 and (k > 2 or t[2] == 0)]


# ---------------------------------------------------------------- certificates


def certificate(k: int, n: int, eps: float, **changes: Any) -> dict[str, Any]:
    """Return a true but loose certificate, after a round trip through JSON."""
    made: dict[str, Any] = {
        "certificate": 1,
        "shuffledp": "0.2.0",
        "neighbours": "replacement of one record",
        "n": n,
        "k": k,
        "eps0": EPS0,
        "eps": eps,
        "lower": {
            "log_delta": -1e4,
            "others": {"x0": 0 if k > 2 else n - 1, "x1": 0, "x2": n - 1 if k > 2 else 0},
        },
        "upper": {"log_delta": 0.5, "argument": "blanket"},
    }
    return json.loads(json.dumps(made | changes))


def lower(truth: float, x0: int, x1: int, x2: int) -> dict[str, Any]:
    return {"log_delta": truth, "others": {"x0": x0, "x1": x1, "x2": x2}}


def upper(truth: float, argument: str, **more: Any) -> dict[str, Any]:
    return {"log_delta": truth, "argument": argument, **more}


def check_lower(k: int, n: int, eps: float, truth: float, counts: tuple[int, int, int]) -> None:
    checker.verify(certificate(k, n, eps, lower=lower(truth - 1e-9, *counts)))
    with pytest.raises(RefusedError, match="lower: the delta"):
        checker.verify(certificate(k, n, eps, lower=lower(truth + 1e-9, *counts)))


def check_upper(k: int, n: int, eps: float, truth: float, argument: str, **more: Any) -> None:
    checker.verify(certificate(k, n, eps, upper=upper(truth + 1e-9, argument, **more)))
    with pytest.raises(RefusedError, match="upper: delta"):
        checker.verify(certificate(k, n, eps, upper=upper(truth - 1e-9, argument, **more)))


@pytest.mark.parametrize("eps", LEVELS)
@pytest.mark.parametrize(("k", "n"), FEW)
def test_lower(k: int, n: int, eps: float) -> None:
    for counts in data_sets(k, n):
        check_lower(k, n, eps, log(delta(k, cells(*counts), eps)), counts)


@pytest.mark.parametrize("eps", LEVELS)
@pytest.mark.parametrize(("k", "n"), FEW)
def test_blanket(k: int, n: int, eps: float) -> None:
    truth = exact.upper_delta(n, k, E, rational_exp(eps))
    check_upper(k, n, eps, log(truth), "blanket")
    assert truth >= max(delta(k, cells(*counts), eps) for counts in data_sets(k, n))


@pytest.mark.parametrize("eps", LEVELS)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_hidden(n: int, eps: float) -> None:
    hidden = [exact.one_hidden_delta(cell, n, E, rational_exp(eps)) for cell in (0, 1)]
    parts = [delta(3, (2,) * (n - 1), eps), *hidden]
    check_upper(3, n, eps, log(max(parts)), "hidden")
    assert max(parts) >= max(delta(3, cells(*counts), eps) for counts in data_sets(3, n))
    with ctx.workprec(128):  # each part by itself, not only the greatest
        mech = deltas.RandomisedResponse(3, EPS0, eps)
        jobs = checker.upper_jobs(n, mech, upper(0.0, "hidden"))
        for name, truth in zip(jobs, [parts[1], parts[2], parts[0]], strict=True):
            assert abs(float(jobs[name].run().log()) - log(truth)) < 1e-12


@pytest.mark.parametrize("eps", LEVELS)
@pytest.mark.parametrize("blocks", [[(m, m) for m in range(6)], [(0, 1), (2, 5)], [(0, 5)]])
def test_counts(eps: float, blocks: list[tuple[int, int]]) -> None:
    n, parts = 6, []
    for low, high in blocks:
        others = cells(low, n - 1 - high, 0)
        parts += [delta(2, others, eps)]
        assert all(parts[-1] >= delta(2, cells(m, n - 1 - m, 0), eps) for m in range(low, high + 1))
    for m, swap in product(range(n), (False, True)):
        assert max(parts) >= delta(2, cells(m, n - 1 - m, 0), eps, swap)
    check_upper(2, n, eps, log(max(parts)), "counts", blocks=[list(b) for b in blocks])


@pytest.mark.parametrize("m", [0, 1, 700, 1500, 2999])
def test_one_count_among_many_users(m: int) -> None:
    n, eps = 3000, 0.1
    with ctx.workprec(400):
        big, e, zero = arb(EPS0).exp(), arb(eps).exp(), arb(0)
        one, two = (arb_poly(pair) * (1 / (big + 1)) for pair in ([1, big], [big, 1]))
        f = one**m * two ** (n - 1 - m)
        gain, loss = one[1] - e * one[0], e * one[1] - one[0]
        terms = [
            gain * (f[s - 1] if s else zero) - loss * (f[s] if s < n else zero)
            for s in range(n + 1)
        ]
        truth = float(sum((t.max(zero) for t in terms), zero).log())
    check_lower(2, n, eps, truth, (m, n - 1 - m, 0))


@pytest.mark.parametrize(
    ("level", "factor", "sharp"),
    [(2.0, 1.0, False), (36.0, 3.0, False), (100.0, 0.2, False), (40.0, 1.02, True)],
)
def test_bad_guesses_prove_nothing_false(
    monkeypatch: pytest.MonkeyPatch, level: float, factor: float, sharp: bool
) -> None:
    guess = deltas.tilt
    eps, n, k = 0.2, 250, 3
    with ctx.workprec(128):
        mech = deltas.RandomisedResponse(k, EPS0, eps)
        makers = [
            lambda: deltas.blanket(n, mech),
            *[lambda c=c: deltas.one_cell(n, mech, c) for c in ("x0", "x1", "x2")],
            *[lambda c=c: deltas.hidden(n, mech, c) for c in ("x0", "x1")],
            lambda: deltas.two_cells(n, 100, deltas.RandomisedResponse(2, EPS0, eps)),
        ]
        good = [make().run() for make in makers]
        assert all(ball.rad() < ball.mid() * 1e-11 for ball in good)
        mech.level = level
        monkeypatch.setattr(deltas, "FINE_LEVEL", 1.5 * level)
        monkeypatch.setattr(deltas, "tilt", lambda *a: factor * guess(*a))
        for ball, make in zip(good, makers, strict=True):
            try:
                bad = make().run()
            except RefusedError:
                continue
            assert bad.overlaps(ball)
            assert bad.lower() <= ball.upper() and ball.lower() <= bad.upper()
            assert not sharp or bad.rad() < bad.mid() * 1e-10


# ---------------------------------------------------------------- malformed, and too long


def test_nothing_to_hide() -> None:
    null = {"lower": {"log_delta": None}, "upper": {"log_delta": None}}
    for eps in (EPS0, 2 * EPS0):
        checker.verify(certificate(3, 4, eps, **null))
        checker.verify(certificate(3, 4, eps, lower=null["lower"]))
        with pytest.raises(RefusedError, match="lower: delta is 0"):
            checker.verify(certificate(3, 4, eps))
    for ends in (null, {"upper": null["upper"]}):
        with pytest.raises(RefusedError):
            checker.verify(certificate(3, 4, 0.3, **ends))
    checker.verify(certificate(3, 4, 0.3, lower=null["lower"]))


NAN = float("nan")
OTHERS = {"x0": 0, "x1": 0, "x2": 3}
MALFORMED: list[tuple[str, Any]] = [
    ("certificate", True),
    ("neighbours", "removal of one report"),
    ("n", 4.0),
    ("n", 0),
    ("k", 1),
    ("eps0", NAN),
    ("eps0", 10**400),
    ("eps", -0.1),
    ("lower", None),
    ("lower", {"log_delta": -9.0, "others": [0, 0, 3]}),
    ("lower", {"log_delta": -9.0, "others": OTHERS | {"x2": 4}}),
    ("lower", {"log_delta": -9.0, "others": OTHERS | {"x0": -1, "x1": 1}}),
    ("lower", {"log_delta": 0.6, "others": OTHERS}),
    ("upper", {"log_delta": 0.5}),
    ("upper", {"log_delta": NAN, "argument": "blanket"}),
    ("upper", {"log_delta": 0.5, "argument": "trust me"}),
    ("upper", {"log_delta": 0.5, "argument": "counts", "blocks": [[0, 3]]}),  # k = 3
]


@pytest.mark.parametrize(("field", "value"), MALFORMED)
def test_malformed(field: str, value: Any) -> None:
    checker.verify(certificate(3, 4, 0.3))
    with pytest.raises(RefusedError, match=r"malformed certificate: ."):
        checker.verify(certificate(3, 4, 0.3) | {field: value})


@pytest.mark.parametrize("field", list(certificate(3, 4, 0.3)))
def test_missing(field: str) -> None:
    made = certificate(3, 4, 0.3)
    del made[field]
    with pytest.raises(RefusedError, match=field):
        checker.verify(made)


@pytest.mark.parametrize("blocks", [None, [[0, 2]], [[0, 1], [1, 3]], [[0, -1], [0, 3]]])
def test_malformed_blocks(blocks: Any) -> None:
    made = certificate(2, 4, 0.3, upper=upper(0.5, "counts", blocks=[[0, 1], [2, 3]]))
    checker.verify(made)
    bad = copy.deepcopy(made)
    bad["upper"]["blocks"] = blocks
    with pytest.raises(RefusedError, match=r"malformed certificate: ."):
        checker.verify(bad)
    del bad["upper"]["blocks"]
    with pytest.raises(RefusedError, match="blocks is missing"):
        checker.verify(bad)


def test_not_for_this_k() -> None:
    with pytest.raises(RefusedError, match="k = 3"):
        checker.verify(certificate(4, 4, 0.3, upper=upper(0.5, "hidden")))
    with pytest.raises(RefusedError, match="no third cell"):
        checker.verify(certificate(2, 4, 0.3, lower=lower(-9.0, 2, 0, 1)))
    for junk in (None, [], "certificate", {}):
        with pytest.raises(RefusedError):
            checker.verify(junk)  # type: ignore[arg-type]


def test_too_long() -> None:
    for n, k, end in [
        (10**8, 3, lower(-1e9, 0, 0, 10**8 - 1)),
        (200, 4, lower(-1e9, 5, 0, 194)),
        (10**14, 9, lower(-1e9, 0, 0, 10**14 - 1)),
        (10**30, 9, lower(-1e9, 0, 0, 10**30 - 1)),
    ]:
        with pytest.raises(TooLongError, match=r"[0-9]"):
            checker.verify(certificate(k, n, 0.01, lower=end))
