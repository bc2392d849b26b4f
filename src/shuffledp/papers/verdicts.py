"""Read the papers' printed numbers, and compare recomputed values with them digit by digit."""

import decimal
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from pathlib import Path
from typing import Final

import pandas as pd

_PRECISION = Context(prec=50)
# Paper and table whose numbers are truncated to significant digits; all others are rounded.
_TRUNCATED_TABLES: Final = frozenset({("A", "II")})
_TRUNCATED_DIGITS: Final = 3  # one number has a fourth digit, a 0, which is ignored


@dataclass(frozen=True)
class Published:
    """One printed number and its parameters, as the paper writes them; empty if not stated.

    Attributes
    ----------
    paper, table
        Letter of the paper as in docs/papers.md; its table, figure or section.
    quantity, bound, mechanism, region
        What the number measures, the bound or mechanism that yields it, and the city.
    n, k, eps0, eps, x0, rounds, delta
        Parameters; ``x0`` is the label by which the paper numbers the cell that it reports on.
    published
        The number as printed, so that its digits can be compared.
    """

    paper: str
    table: str
    quantity: str
    bound: str
    mechanism: str
    region: str
    n: str
    k: str
    eps0: str
    eps: str
    x0: str
    rounds: str
    delta: str
    published: str

    def agrees(self, value: Decimal) -> bool:
        """Return whether a value agrees with the printed number.

        The value is rounded to the printed digits; for paper A's Table II it is truncated to at
        most three. If the quantity is marked "(at least)", a value agrees if it is not below the
        printed one. A printed 0 agrees only with exactly 0.
        """
        target = Decimal(self.published)
        if "(at least)" in self.quantity:
            return value >= target
        if not target or not value or abs(value.adjusted() - target.adjusted()) > 1:
            return target == value
        exponent, rounding = int(target.as_tuple().exponent), decimal.ROUND_HALF_UP
        if (self.paper, self.table) in _TRUNCATED_TABLES:
            exponent = max(exponent, target.adjusted() + 1 - _TRUNCATED_DIGITS)
            rounding = decimal.ROUND_DOWN
        place = Decimal((0, (1,), exponent))
        return (value / place).quantize(Decimal(1), rounding, _PRECISION) * place == target


COLUMNS = tuple(field.name for field in fields(Published))


def read_published(source: Path) -> list[Published]:
    """Read the printed numbers, in the order of the file, from a CSV with the columns `COLUMNS`."""
    table = pd.read_csv(source, dtype=str, keep_default_na=False)[list(COLUMNS)]
    return [Published(*row) for row in table.itertuples(index=False)]


def from_log(log_value: float) -> Decimal:
    """Return exp(log_value) as a decimal number, which does not underflow; 0 for -inf."""
    return Decimal(log_value).exp(_PRECISION) if log_value > float("-inf") else Decimal(0)


def relative_difference(value: Decimal | None, printed: str) -> Decimal | None:
    """Return ``|value / printed - 1|``, or None if 0 is printed and the value is not 0."""
    target = Decimal(printed)
    if value is None or not target:
        return None if value is None or value else Decimal(0)
    return abs(_PRECISION.divide(value, target) - 1)


REPRODUCED: Final = "reproduced"
PRINTED_ONLY: Final = "reproduced by the printed formula only"
COMPATIBLE: Final = "compatible with random repetitions"
NOT_REPRODUCED: Final = "not reproduced"
NOT_TRIED: Final = "not tried"
VERDICTS: Final = (REPRODUCED, PRINTED_ONLY, COMPATIBLE, NOT_REPRODUCED, NOT_TRIED)


@dataclass(frozen=True)
class Answer:
    """Recomputed values for one printed number; numbers that do not apply are None.

    Attributes
    ----------
    as_printed
        Value that the paper's formula yields, mistakes included, in the variant that yields the
        printed digits if the paper has several; for a random quantity, the median of the
        repetitions.
    single_bin, lower, upper
        For a delta of paper A only: the correct divergence of one cell's count, and certified lower
        and upper bounds for the whole histogram.
    correct
        Correct value for the stated parameters and those in ``recovered``.
    recovered
        Parameters that the paper omits, or whose stated value does not yield its digits.
        ``(recovered)`` follows a value that yields them, ``(assumed)`` a choice of this project,
        and ``unknown`` a parameter for which no value was found.
    percentile
        Percentile of the printed value among the repetitions of a random quantity; ties count half.
    plausible
        Whether the printed value of a random quantity lies in the central 99 % of the repetitions
        and, in tables, its column passes a test of uniformity (`shuffledp.papers.paper_a`).
    note
        Explanation: what was tried, and why a value is missing.
    """

    as_printed: Decimal | None = None
    single_bin: Decimal | None = None
    lower: Decimal | None = None
    upper: Decimal | None = None
    correct: Decimal | None = None
    recovered: str = ""
    percentile: float | None = None
    plausible: bool = False
    note: str = ""

    def verdict(self, printed: Published) -> str:
        """Return the verdict, one of `VERDICTS`."""
        if self.percentile is not None:
            return COMPATIBLE if self.plausible else NOT_REPRODUCED
        for value, verdict in ((self.correct, REPRODUCED), (self.as_printed, PRINTED_ONLY)):
            if value is not None and printed.agrees(value):
                return verdict
        return NOT_TRIED if self.as_printed is None else NOT_REPRODUCED

    def row(self, printed: Published) -> dict[str, str]:
        """Return the recomputed values as columns of text, to follow those of `Published`."""
        number, nearest = printed.published, decimal.ROUND_HALF_EVEN
        return {
            "recovered": self.recovered,
            "published": number,
            "as_printed": _text(self.as_printed),
            "single_bin": _text(self.single_bin),
            "lower": _text(self.lower, decimal.ROUND_FLOOR),
            "upper": _text(self.upper, decimal.ROUND_CEILING),
            "correct": _text(
                self.correct, nearest if self.upper is None else decimal.ROUND_CEILING
            ),
            "relative_difference_as_printed": _text(relative_difference(self.as_printed, number)),
            "relative_difference_correct": _text(relative_difference(self.correct, number)),
            "percentile": "" if self.percentile is None else f"{self.percentile:.1f}",
            "verdict": self.verdict(printed),
            "note": self.note,
        }


# Function that recomputes a printed number.
Recompute = Callable[[Published], Answer]


def not_tried(note: str) -> Recompute:
    """Return a function that answers without values, and explains why a number is not tried."""
    return lambda _: Answer(note=note)


def _text(value: Decimal | None, rounding: str = decimal.ROUND_HALF_EVEN) -> str:
    """Return a value with six significant digits, or an integer below 1e9 in full."""
    if value is None:
        return ""
    if value == value.to_integral_value() and abs(value) < 10**9:
        return str(int(value))
    short = Context(prec=6, rounding=rounding).create_decimal(value)
    return f"{short:.5E}" if abs(short.adjusted()) > 3 else f"{short.normalize():f}"
