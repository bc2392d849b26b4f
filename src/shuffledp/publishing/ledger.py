"""Ledger of what was published about a population, and what is left to spend.

A ledger is a file of JSON lines that stays with the data holder. The first line sets a total, which
cannot be changed. Each publication appends a line with its cost before its noise is drawn, and a
second one with the checksum of its folder before the folder appears. A crash or a full disk may
leave a charge without a map, but never a map without a charge.

The next publication is chosen after seeing the last, so the ledger is a privacy filter. A ledger
counts either eps of pure guarantees or rho of zCDP, and a publication is refused if the sum would
exceed the total. Then all publications together satisfy the total: for eps by Rogers, Roth, Ullman
and Vadhan (2016), for rho by Feldman and Zrnic (2021). Pure eps-DP implies (eps^2 / 2)-zCDP (Bun
and Steinke 2016). A ledger of eps also adds up the deltas of thresholds.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Literal

from shuffledp.accounting.contributions import Unit
from shuffledp.errors import InputError
from shuffledp.pipeline.files import flush
from shuffledp.publishing.noise import MAX_DELTA, Guarantee, zcdp_rho

VERSION: Final = 1
Measure = Literal["eps", "rho"]
# Sums of costs are exact: an eps as typed, or a rho (a float), has fewer digits.
_EXACT: Final = Context(prec=200)
_ROUND_UP: Final = Context(prec=17, rounding=ROUND_CEILING)
_KEYS: Final = {
    "total": {"version", "unit", "measure", "total", "eps", "delta"},
    "charge": {"id", "time", "request", "output", "eps", "delta", "rho", "cost"},
    "complete": {"id", "sha256"},
}
# A crash may leave any part of a line, which begins like one of these.
_BEGINNINGS: Final = [f'{{"kind": "{kind}"'.encode() for kind in _KEYS]


@dataclass(frozen=True)
class Total:
    """Limit on the cost of all publications together.

    `unit` is what every publication of the ledger protects. `total` is the largest sum of costs in
    `measure`: ``eps`` of pure guarantees, or ``rho`` of zCDP. `eps` and `delta` are the guarantee
    of all publications together.
    """

    unit: Unit
    measure: Measure
    total: Decimal
    eps: Decimal
    delta: float

    @property
    def delta_of_thresholds(self) -> Decimal:
        """Largest sum of the deltas of thresholds; 0 in a ledger of rho."""
        return Decimal(self.delta) if self.measure == "eps" else Decimal(0)


@dataclass(frozen=True)
class Charge:
    """One publication: what was requested, what it costs, and where its folder is.

    `id` is a random identifier, which the line of completion repeats, and `time` is UTC in ISO
    8601. `request` has the parameters of the publication, apart from the folder `output`. `rho` is
    None for pure guarantees. `cost` is in the measure of the ledger. `sha256` is the checksum of
    the folder; None if the publication was not completed.
    """

    id: str
    time: str
    request: Mapping[str, Any]
    output: str
    eps: Decimal
    delta: float
    rho: Decimal | None
    cost: Decimal
    sha256: str | None = None


@dataclass(frozen=True)
class State:
    """Content of a ledger; `total` is None before the first publication."""

    total: Total | None
    charges: tuple[Charge, ...]

    @property
    def spent(self) -> Decimal:
        """Cost of all publications, in the measure of the ledger."""
        total = Decimal(0)
        for charge in self.charges:
            total = _EXACT.add(total, charge.cost)
        return total

    @property
    def delta_left(self) -> Decimal:
        """Delta of thresholds that may still be spent."""
        if self.total is None or self.total.measure == "rho":
            return Decimal(0)
        left = self.total.delta_of_thresholds
        for charge in self.charges:
            left = _EXACT.subtract(left, Decimal(charge.delta))
        return left

    @property
    def left(self) -> Decimal:
        """Amount that may still be spent; 0 before the first publication."""
        return Decimal(0) if self.total is None else _EXACT.subtract(self.total.total, self.spent)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per publication, with what was spent and left after it, in eps or rho."""
        if self.total is None or not self.charges:
            raise InputError("nothing was charged to this ledger yet")
        rows, spent = [], Decimal(0)
        for charge in self.charges:
            spent = _EXACT.add(spent, charge.cost)
            rows.append(
                {
                    "time": charge.time,
                    "output": charge.output,
                    "unit": self.total.unit,
                    "eps": float(charge.eps),
                    "delta": charge.delta,
                    "measure": self.total.measure,
                    "cost": float(charge.cost),
                    "spent": float(spent),
                    "left": float(_EXACT.subtract(self.total.total, spent)),
                    "total_eps": float(self.total.eps),
                    "total_delta": self.total.delta,
                    "state": "complete" if charge.sha256 else "interrupted",
                }
            )
        return rows

    def of_request(self, request: Mapping[str, Any]) -> list[Charge]:
        """Return the charges for a request, the latest last."""
        return [charge for charge in self.charges if charge.request == request]


def first_total(
    unit: Unit,
    guarantee: Guarantee,
    eps: Decimal,
    total: Decimal | None,
    total_delta: Decimal | None = None,
) -> Total:
    """Return the total of a new ledger, from its first publication.

    `eps` is the eps of that publication, as requested. `total` is the eps of all publications
    together, `total_delta` the delta of all their thresholds; by default those of the first, so
    that nothing is left.
    """
    if total_delta is not None and not 0 <= total_delta <= Decimal(MAX_DELTA):
        raise InputError(f"total_delta must be from 0 to {MAX_DELTA}, got {total_delta}")
    limit = eps if total is None else total
    if not (limit.is_finite() and limit > 0):
        raise InputError(f"total must be a positive and finite eps, got {limit}")
    if guarantee.rho is None:
        delta = guarantee.delta if total_delta is None else float(total_delta)
        return Total(unit, "eps", limit, limit, delta)
    if total_delta is not None:
        raise InputError("total_delta is for --sparse: leave it out for Gaussian noise")
    # Without a total, the first publication must fit exactly: rho from eps may differ by rounding.
    rho = guarantee.rho if total is None else zcdp_rho(float(limit), guarantee.delta)
    return Total(unit, "rho", Decimal(rho), limit, guarantee.delta)


def cost_of(eps: Decimal, guarantee: Guarantee, measure: Measure) -> Decimal:
    """Return what a guarantee costs in the measure of a ledger, rounded up."""
    rho = guarantee.rho
    if measure == "rho":
        if rho is None and guarantee.delta:
            raise InputError(
                "this ledger counts rho of zCDP, to which the delta of a threshold (--sparse) "
                "cannot be added: give another ledger for other people, or leave out --sparse"
            )
        pure = _ROUND_UP.divide(_ROUND_UP.multiply(eps, eps), Decimal(2))
        return pure if rho is None else Decimal(rho)
    if rho is not None:
        raise InputError(
            "this ledger counts eps of pure guarantees, which Gaussian noise does not have: give "
            "--mechanism laplace"
        )
    return eps


def read_ledger(path: Path) -> State:
    """Return the content of a ledger."""
    try:
        return _parsed(path, path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


class OpenLedger:
    """A locked ledger, to which lines are appended; made by `opened`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read()
        self.state = _parsed(path, content)
        self._complete = b"".join(line + b"\n" for line in _lines(path, content))
        if not content.startswith(self._complete):  # the last line lacks its line feed
            self._complete = self._complete[:-1]

    def charge(self, total: Total, charge: Charge) -> None:
        """Append a charge, and the total if it is the first, and wait until the disk has them.

        An `InputError` is raised if the unit is not that of the ledger or the cost exceeds what is
        left; an `OSError` if the lines cannot be written. In both cases nothing is charged.
        """
        limit = self.limit(total)
        self.check(limit, charge.cost, charge.delta)
        total_line = {"kind": "total", "version": VERSION, **asdict(total)}
        charge_line = {"kind": "charge", **asdict(charge)}
        del charge_line["sha256"]
        self._append(*([] if self.state.total else [total_line]), charge_line)
        self.state = State(limit, (*self.state.charges, charge))

    def limit(self, first: Total) -> Total:
        """Return the total of the ledger, or `first` if it has none; refuse another unit."""
        total = self.state.total or first
        if total.unit != first.unit:
            raise InputError(
                f"{self._path} counts publications that protect one {total.unit}, not one "
                f"{first.unit}: give --unit {total.unit}, or another ledger for other people"
            )
        return total

    def check(self, total: Total, cost: Decimal, delta: float = 0.0) -> None:
        """Refuse a cost, or in a ledger of eps a delta, that exceeds what is left of a total."""
        if total.measure == "eps":
            delta_left = State(total, self.state.charges).delta_left
            if Decimal(delta) > delta_left:
                needed = round_up(Decimal(delta))
                raise InputError(
                    f"{self._path}: the threshold costs delta={needed}, but "
                    f"{round_down(delta_left)} is left of {total.delta:g}, which the first "
                    "publication sets (--total-delta): leave out --sparse, or give another ledger "
                    "for other people"
                )
        left = _EXACT.subtract(total.total, self.state.spent)
        if cost <= left:
            return
        needed, limit = round_up(cost), round_down(total.total)
        price = f"{self._path}: this publication costs {total.measure}={needed}, but"
        if left > 0:
            raise InputError(
                f"{price} {round_down(left)} is left of {limit}: what is spent cannot be "
                "regained; publish with a smaller eps, or not at all"
            )
        spent = round_up(self.state.spent)
        raise InputError(
            f"{price} nothing is left: {spent} of {limit} is spent and cannot be regained. Decide "
            "before the first map how many there will be, and set --total then"
        )

    def complete(self, identifier: str, sha256: str) -> None:
        """Append the checksum of a finished folder, and wait until the disk has it."""
        self._append({"kind": "complete", "id": identifier, "sha256": sha256})

    def _append(self, *lines: Mapping[str, Any]) -> None:
        text = "".join(json.dumps(line, default=str) + "\n" for line in lines).encode()
        if self._complete and not self._complete.endswith(b"\n"):
            text = b"\n" + text
        start = len(self._complete)
        try:
            # Remove an incomplete last line, from a crash before its noise was drawn.
            os.ftruncate(self._descriptor, start)
            rest, position = text, start
            while rest:
                written = os.pwrite(self._descriptor, rest, position)
                position, rest = position + written, rest[written:]
            os.fsync(self._descriptor)
            flush(self._path.parent)
        except OSError:
            os.ftruncate(self._descriptor, start)
            raise
        self._complete += text


@contextmanager
def opened(path: Path) -> Iterator[OpenLedger]:
    """Open a ledger, or create an empty one, and lock it; others wait until it is released."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"the ledger {path} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield OpenLedger(path, descriptor)
    finally:
        os.close(descriptor)


def make_charge(
    request: Mapping[str, Any],
    output: Path,
    eps: Decimal,
    guarantee: Guarantee,
    measure: Measure,
    identifier: str,
) -> Charge:
    """Return the charge of a publication that is made now; see `Charge`."""
    return Charge(
        id=identifier,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        request=request,
        output=str(output),
        eps=eps,
        delta=guarantee.delta,
        rho=None if guarantee.rho is None else Decimal(guarantee.rho),
        cost=cost_of(eps, guarantee, measure),
    )


def round_up(amount: Decimal | float, digits: int = 6) -> str:
    """Return an amount rounded up to significant digits."""
    return _rounded(amount, digits, ROUND_CEILING)


def round_down(amount: Decimal) -> str:
    """Return an amount rounded down to six significant digits."""
    return _rounded(amount, 6, ROUND_FLOOR)


def _rounded(amount: Decimal | float, digits: int, rounding: str) -> str:
    rounded = Context(prec=digits, rounding=rounding).create_decimal(str(amount))
    return f"{float(rounded):.{digits}g}"


# --- Reading --------------------------------------------------------------------------------


def _lines(path: Path, content: bytes) -> list[bytes]:
    """Return the complete lines of a ledger, the last of which may lack its line feed.

    Raises `InputError` if the file ends with anything else than the beginning of a line.
    """
    *lines, last = content.split(b"\n")
    last = last.rstrip(b"\0")  # some file systems leave these where a crash lost data
    if not last and (lines or not content):
        return lines
    try:
        _, end = json.JSONDecoder().raw_decode(last.decode("ascii"))
    except (UnicodeDecodeError, RecursionError):
        end = -1
    except ValueError:
        begun = any(last.startswith(each[: len(last)]) for each in _BEGINNINGS)
        if last and begun and b"\r" not in last:
            return lines
        end = -1
    if end == len(last):
        return [*lines, last]
    raise InputError(
        f"{path} is not a ledger, or its line {len(lines) + 1} is damaged: give another file, "
        "which need not exist, or restore this one from a backup"
    )


def _parsed(path: Path, content: bytes) -> State:
    total: Total | None = None
    charges = dict[str, Charge]()
    for number, text in enumerate(_lines(path, content), 1):
        try:
            line = json.loads(text)
            if not isinstance(line, dict) or set(line) - {"kind"} != _KEYS[line["kind"]]:
                raise ValueError
            if line["kind"] == "total":
                if number != 1 or line["version"] != VERSION:
                    raise ValueError
                total = _total(line)
            elif line["kind"] == "charge":
                charge = _charge(line)
                if charge.id in charges or total is None:
                    raise ValueError
                charges[charge.id] = charge
            else:
                charge = charges[line["id"]]
                charges[charge.id] = Charge(**{**vars(charge), "sha256": str(line["sha256"])})
        except (ValueError, TypeError, KeyError, InvalidOperation, RecursionError):
            raise InputError(
                f"{path}: line {number} is not a line of a ledger: restore the file from a backup; "
                "without it, nobody knows what was spent"
            ) from None
    return State(total, tuple(charges.values()))


def _total(line: Mapping[str, Any]) -> Total:
    if line["unit"] not in ("record", "user") or line["measure"] not in ("eps", "rho"):
        raise ValueError
    return Total(
        line["unit"],
        line["measure"],
        _amount(line["total"]),
        _amount(line["eps"]),
        float(line["delta"]),
    )


def _charge(line: Mapping[str, Any]) -> Charge:
    values = {name: line[name] for name in _KEYS["charge"]}
    rho = line["rho"]
    values |= {"eps": _amount(line["eps"]), "cost": _amount(line["cost"])}
    return Charge(**values | {"rho": None if rho is None else _amount(rho)})


def _amount(text: str) -> Decimal:
    amount = Decimal(text)
    if not (amount.is_finite() and amount > 0):
        raise ValueError
    return amount
