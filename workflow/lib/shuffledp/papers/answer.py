"""What recomputing a printed number gave, and the verdict on it."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from shuffledp.papers.published import Published, relative_difference

REPRODUCED: Final = "reproduced"
PRINTED_ONLY: Final = "reproduced by the printed formula only"
COMPATIBLE: Final = "compatible with random repetitions"
NOT: Final = "not reproduced"
NOT_TRIED: Final = "not tried"
VERDICTS: Final = (REPRODUCED, PRINTED_ONLY, COMPATIBLE, NOT, NOT_TRIED)


@dataclass(frozen=True)
class Answer:
    """The recomputed values of one printed number; None where there is none.

    Attributes
    ----------
    as_printed
        By the paper's own formula; of a random quantity, the median of its repetitions.
    single_bin, lower, upper
        Of a delta of paper A: the divergence that it means, computed correctly, and the certified
        pair of the whole histogram.
    correct
        What is right for the parameters given.
    recovered
        Parameters that the paper leaves out, ``(recovered)``, ``(assumed)`` or ``unknown``.
    percentile
        Of the published value among the repetitions; ties count half.
    plausible
        Whether a random quantity meets its criterion.
    note
        What was tried, and why something is missing.
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
        """The verdict, one of `VERDICTS`."""
        if self.percentile is not None:
            return COMPATIBLE if self.plausible else NOT
        for value, verdict in ((self.correct, REPRODUCED), (self.as_printed, PRINTED_ONLY)):
            if value is not None and printed.agrees(value):
                return verdict
        return NOT_TRIED if self.as_printed is None else NOT

    def row(self, printed: Published) -> dict[str, str]:
        """The columns that come after those of the printed number, as text."""
        differences = {
            f"relative_difference_{name}": ""
            if value is None
            else _text(relative_difference(value, printed.published))
            for name, value in (("as_printed", self.as_printed), ("correct", self.correct))
        }
        return {
            "recovered": self.recovered,
            "as_printed": _text(self.as_printed),
            "single_bin": _text(self.single_bin),
            "lower": _text(self.lower, ROUND_FLOOR),
            "upper": _text(self.upper, ROUND_CEILING),
            "correct": _text(
                self.correct, ROUND_HALF_EVEN if self.upper is None else ROUND_CEILING
            ),
            **differences,
            "percentile": "" if self.percentile is None else f"{self.percentile:.1f}",
            "verdict": self.verdict(printed),
            "note": self.note,
        }


def _text(value: Decimal | None, rounding: str = ROUND_HALF_EVEN) -> str:
    """Six significant digits; integers as they are."""
    if value is None:
        return ""
    if value == value.to_integral_value() and abs(value) < 10**9:
        return str(int(value))
    short = Context(prec=6, rounding=rounding).create_decimal(value)
    return f"{short:.5E}" if abs(short.adjusted()) > 3 else f"{short.normalize():f}"
