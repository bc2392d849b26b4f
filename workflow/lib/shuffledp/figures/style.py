"""What all figures share: one look per series, local rcParams, files of reproducible bytes.

A colour is fixed among things of one kind: mechanisms (their `Look`), bounds (`figures.bounds`),
and `shades` for what has an order. Things of two kinds are never in one panel.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Context
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shuffledp.mechanisms.catalogue import Look, get_estimator, own_calibrations
from shuffledp.pipeline.columns import CONTENTS
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.selection import DELTA_HAT

FULL_WIDTH: Final = 7.16  # inches: two columns of a journal page
DISTANCE_LABEL: Final = "total variation distance"
EXTENSIONS: Final = ("png", "pdf", "svg")

Series = tuple[str, str]  # names of a mechanism and of one of its estimators

_RC: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same
    "mathtext.fontset": "dejavusans",
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "figure.titlesize": 8.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "hatch.linewidth": 0.5,
    "lines.markeredgewidth": 0.9,
    "grid.linewidth": 0.4,
    "grid.color": "0.85",
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.06,
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,  # text stays text: journals refuse Type 3 fonts
    "svg.hashsalt": "shuffledp",
}
_UP: Final = Context(prec=3, rounding=ROUND_CEILING)


def series_look(mechanism: str, estimator: str) -> Look:
    """How a series is drawn everywhere."""
    return get_estimator(mechanism, estimator).look


def marks(look: Look) -> dict[str, Any]:
    """Marker and colours of a series, as arguments of a line."""
    inside = look.colour if look.filled else "white"
    return {"marker": look.marker, "color": look.colour, "markerfacecolor": inside}


def tint(look: Look) -> tuple[float, ...]:
    """Colour inside boxes, light enough for the marker at the median to stand out."""
    share = 0.45 if look.filled else 0.0
    return tuple(1.0 - share * (1.0 - part) for part in to_rgb(look.colour))


def series_of(table: pd.DataFrame) -> list[Series]:
    """Mechanism and estimator of every series of a table, those alike beside one another."""
    pairs = table[["mechanism", "estimator"]].drop_duplicates().itertuples(index=False, name=None)
    order = {"raw": 0, None: 2}
    return sorted(pairs, key=lambda pair: order.get(get_estimator(*pair).like, 1))


def of_series(table: pd.DataFrame, series: Series) -> pd.DataFrame:
    """Take the rows of one series."""
    mechanism, estimator = series
    return table[(table["mechanism"] == mechanism) & (table["estimator"] == estimator)]


def calibration_words(calibration: str, target_delta: float, mechanisms: Sequence[str]) -> str:
    """Say in a title what the mechanisms were calibrated to.

    Parameters
    ----------
    calibration
        Which rows: a name of a calibration, `matched` for those at the certified privacy.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    mechanisms
        Names of those that are shown.
    """
    if calibration == "matched":
        return (
            r"Equal privacy: all have the ($\epsilon$, $\delta$) certified for the shuffle "
            rf"model at $\delta={power(target_delta)}$"
        )
    if calibration == DELTA_HAT:
        return (
            r"NOT equal privacy, the comparison of Biswas et al.: the same $\epsilon$, but "
            r"$\hat\delta$ of one cell's count (their eq. 10)"
            "\nin place of the shuffle model's larger "
            rf"$\delta={power(target_delta)}$: $\hat\delta$ is no guarantee for the histogram"
        )
    return own_calibrations(mechanisms)[calibration]


def literal(text: str) -> str:
    """Write a text that is not of this project, such as a region's name: no sign of it is maths."""
    return text.replace("$", r"\$")


def plural(unit: str) -> str:
    """What n counts where delta protects a unit: ``check-ins`` for ``one check-in``."""
    return f"{unit.removeprefix('one ')}s"


def counted(n: int, unit: str) -> str:
    """Write n with what it counts."""
    return f"{n:,} {plural(unit)}"


def number_label(unit: str) -> str:
    """Label of an axis of n: with ``one user`` of each, one check-in is counted."""
    return (
        "number of users n (one check-in each)"
        if unit == "one user"
        else (f"number of {plural(unit)} n")
    )


def distance_label(most: float) -> str:
    """Label of an axis of distances, which may be above 1 where estimates are no distributions.

    Parameters
    ----------
    most
        The largest distance shown.
    """
    return DISTANCE_LABEL if most <= 1.0 else f"{DISTANCE_LABEL}\n(above 1: mere noise)"


def shades(number: int) -> list[str]:
    """So many colours from dark to light: of what has an order, which grey keeps."""
    return [to_hex(one) for one in mpl.colormaps["cividis"](np.linspace(0.0, 0.75, max(number, 2)))]


def budget_looks(budgets: Iterable[float]) -> dict[float, dict[str, Any]]:
    """Colour and marker of each local budget, where curves of several share a panel."""
    ordered = sorted(set(budgets))
    marked = zip(ordered, shades(len(ordered)), cycle("osD^vP"), strict=False)
    return {eps0: {"color": colour, "marker": marker} for eps0, colour, marker in marked}


@contextmanager
def local_style() -> Iterator[None]:
    """Apply the shared rcParams for a block or, as a decorator, for a call."""
    with mpl.rc_context(_RC):
        yield


def new_figure(height: float, width: float = FULL_WIDTH) -> Figure:
    """Return an empty figure of that size in inches, without touching pyplot."""
    return Figure(figsize=(width, height), layout="constrained")


def power(value: float, digits: int = 1) -> str:
    r"""Write a positive number as mathtext: ``10^{-6}``, ``2.5\times10^{-7}``."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    ten = f"10^{{{int(exponent)}}}"
    return ten if mantissa == "1" else rf"{mantissa}\times{ten}"


def eps_words(eps: float) -> str:
    """Write an eps in three digits, rounded up: never less private than they say."""
    return f"{float(_UP.create_decimal(repr(float(eps)))):g}"


def legend_marks(series: Sequence[Series]) -> list[Line2D]:
    """Legend entries of series: the marker alone."""
    return [
        Line2D(
            [],
            [],
            linestyle="none",
            **marks(one.look),
            markersize=5,
            label=one.label,
        )
        for one in (get_estimator(*each) for each in series)
    ]


def plain_log_axis(axis: Axis) -> None:
    """Label a logarithmic axis 0.1, 0.2, 0.5, 1, ... instead of with powers of ten.

    Call it when the axis has its data: over more than three decades only 0.1, 1, 10, ... are named.
    """
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1.0 else f"{value:g}")
    )
    axis.set_minor_locator(LogLocator(subs=tuple(range(1, 10))))
    axis.set_minor_formatter(NullFormatter())


@local_style()
def save(figure: Figure, stem: Path, contents: str) -> tuple[Path, ...]:
    """Write a figure as PNG (200 dpi), PDF and SVG; equal figures give equal bytes.

    Parameters
    ----------
    figure
        What to write. Its title goes into the metadata of each file, with no date and no software
        version.
    stem
        Path without extension; a dot in its name is kept.
    contents
        What is drawn, in the words of `pipeline.columns.CONTENTS`: it goes into the metadata, too.

    Returns
    -------
    The three paths. Each file appears whole or not at all.
    """
    words = f"{CONTENTS}: {contents}"
    # PDF has no key for a description.
    unnamed: dict[str, dict[str, str | None]] = {
        "png": {"Software": None, "Description": words},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None, "Subject": words},
        "svg": {"Creator": None, "Date": None, "Description": words},
    }
    written = tuple(stem.with_name(f"{stem.name}.{extension}") for extension in EXTENSIONS)
    for extension, destination in zip(EXTENSIONS, written, strict=True):
        with replacing(destination) as temporary:
            metadata: dict[str, Any] = {"Title": figure.get_suptitle(), **unnamed[extension]}
            figure.savefig(temporary, format=extension, dpi=200, metadata=metadata)
        # Laid out once: in every format each part is at the same place. (With "none" there is still
        # an engine, for which a figure is drawn twice.)
        figure.set_layout_engine(None)
    return written
