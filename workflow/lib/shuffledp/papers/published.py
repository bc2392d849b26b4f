"""The numbers that the papers print, and when a computed value is the same as a printed one."""

import csv
from dataclasses import dataclass, fields
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Final

from shuffledp.errors import InputError

_DIGITS = Context(prec=50)
# Tables whose digits are cut; those of all others are rounded.
_CUT: Final = frozenset({("A", "II")})
_CUT_DIGITS: Final = 3  # a fourth that is printed once is a 0 behind them


@dataclass(frozen=True)
class Published:
    """One printed number and its parameters, each as the paper writes it, empty if it does not.

    Attributes
    ----------
    paper, table
        Letter as in docs/accounting.md; table, figure or section.
    quantity, bound, mechanism, region
        What was computed, by which bound or mechanism, for which city.
    n, k, eps0, eps, x0, rounds, delta
        Parameters; ``x0`` is the paper's number of a cell.
    published
        The number as printed, so that its digits can be counted.
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

    @property
    def value(self) -> Decimal:
        """The printed number."""
        return Decimal(self.published)

    def agrees(self, value: Decimal) -> bool:
        """Whether a value gives the printed number, by the one rule of its table.

        Rounded to as many digits as are printed; in paper A's Table II cut, to three at most. A
        quantity "(at least)" is met by any larger value. A printed 0 stands for exactly 0 alone.
        """
        target = self.value
        if "(at least)" in self.quantity:
            return value >= target
        if not target or not value or abs(value.adjusted() - target.adjusted()) > 1:
            return target == value
        exponent, rounding = int(target.as_tuple().exponent), ROUND_HALF_UP
        if (self.paper, self.table) in _CUT:
            exponent, rounding = max(exponent, target.adjusted() + 1 - _CUT_DIGITS), ROUND_DOWN
        place = Decimal((0, (1,), exponent))
        return (value / place).quantize(Decimal(1), rounding, _DIGITS) * place == target


COLUMNS = tuple(field.name for field in fields(Published))


def read_published(source: Path) -> list[Published]:
    """Read the printed numbers, in the file's order.

    Parameters
    ----------
    source
        CSV with the columns `COLUMNS`.

    Raises
    ------
    InputError
        If the columns differ, or a row lacks its paper, table, quantity or number; names the line.
    """
    with source.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        if tuple(next(reader, ())) != COLUMNS:
            raise InputError(f"{source}, line 1 must be {','.join(COLUMNS)}")
        rows = [_row(source, line, row) for line, row in enumerate(reader, start=2)]
    if not rows:
        raise InputError(f"{source} holds no numbers")
    return rows


def _row(source: Path, line: int, cells: list[str]) -> Published:
    if len(cells) != len(COLUMNS):
        raise InputError(f"{source}, line {line} must have {len(COLUMNS)} cells")
    row = Published(*cells)
    if not (row.paper and row.table and row.quantity):
        raise InputError(f"{source}, line {line} must name paper, table and quantity")
    try:
        numbers = [row.published, *filter(None, (row.n, row.k, row.eps0, row.eps, row.x0))]
        numbers += filter(None, (row.rounds, row.delta))
        finite = all(Decimal(number).is_finite() for number in numbers)
    except InvalidOperation:
        finite = False
    if not finite:
        raise InputError(f"{source}, line {line}: published and the parameters must be numbers")
    return row


def from_log(log_value: float) -> Decimal:
    """The exponential of a natural logarithm, however small; 0 of -inf."""
    return Decimal(log_value).exp(_DIGITS) if log_value > float("-inf") else Decimal(0)


def relative_difference(value: Decimal, printed: str) -> Decimal | None:
    """``|value / printed - 1|``; None where 0 is printed and the value is not 0."""
    target = Decimal(printed)
    if not target:
        return None if value else Decimal(0)
    return abs(_DIGITS.divide(value, target) - 1)
