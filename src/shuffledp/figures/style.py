"""Style of all figures: colours and markers, labels, rcParams and reproducible files.

A series is an estimator of a mechanism and has the colour and marker of its `Look`. Bounds have the
colours of `figures.bounds`, and local budgets those of `ordered_colours`. No panel mixes two of
these palettes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Context
from functools import cache
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shuffledp.mechanisms.catalogue import DELTA_HAT, Look, get_estimator, own_calibrations
from shuffledp.pipeline.columns import CONTENTS
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.units import counted

FULL_WIDTH: Final = 7.16  # inches: two columns of a journal page
DISTANCE_LABEL: Final = "total variation distance"
EXTENSIONS: Final = ("png", "pdf", "svg")
# Metadata of files that do not say when or by which software they were drawn.
WITHOUT_ORIGIN: Final[Mapping[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}

Series = tuple[str, str]  # names of a mechanism and of one of its estimators

_RC: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same
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
    "pdf.fonttype": 42,  # TrueType, because journals refuse Type 3 fonts
    "svg.hashsalt": "shuffledp",
}
_ROUND_UP: Final = Context(prec=3, rounding=ROUND_CEILING)


def series_look(mechanism: str, estimator: str) -> Look:
    """Return the colour and marker of a series, the same in every figure."""
    return get_estimator(mechanism, estimator).look


def marker_style(look: Look) -> dict[str, Any]:
    """Return marker and colours of a series as keyword arguments of a line."""
    style: dict[str, Any] = {"marker": look.marker, "color": look.colour}
    if look.half_filled:
        return style | {"fillstyle": "bottom", "markerfacecoloralt": "white"}
    return style | {"markerfacecolor": look.colour if look.filled else "white"}


def list_series(table: pd.DataFrame) -> list[Series]:
    """Return the (mechanism, estimator) pairs of a table, comparable estimators side by side."""
    pairs = table[["mechanism", "estimator"]].drop_duplicates().itertuples(index=False, name=None)
    order = {"raw": 0, None: 2}
    return sorted(pairs, key=lambda pair: order.get(get_estimator(*pair).counterpart, 1))


def series_rows(table: pd.DataFrame, series: Series) -> pd.DataFrame:
    """Return the rows of one series."""
    mechanism, estimator = series
    return table[(table["mechanism"] == mechanism) & (table["estimator"] == estimator)]


def series_shifts(table: pd.DataFrame, offset: float) -> list[tuple[Series, float]]:
    """Return each series of a table with a factor for its x; neighbours differ by `offset`."""
    series = list_series(table)
    middle = (len(series) - 1) / 2.0
    return [(each, 1.0 + offset * (index - middle)) for index, each in enumerate(series)]


def calibration_title(calibration: str, target_delta: float, mechanisms: Iterable[str]) -> str:
    """Return the line of a title that states the privacy to which mechanisms are calibrated.

    For ``matched`` this is the eps certified for the shuffle model at the target delta.
    """
    if calibration == "matched":
        return (
            r"Equal privacy: all mechanisms have the ($\epsilon$, $\delta$) that is certified for "
            rf"the shuffle model at $\delta={power(target_delta)}$"
        )
    if calibration == DELTA_HAT:
        return (
            r"NOT equal privacy, as in Biswas et al.: the same $\epsilon$, but central noise has "
            r"$\hat\delta$ of one cell's count (their eq. 10)"
        )
    return own_calibrations(dict.fromkeys(mechanisms))[calibration]


def escape_math(text: str) -> str:
    """Escape a text from the configuration, so that no part of it is read as mathtext."""
    return text.replace("$", r"\$")


def plural(unit: str) -> str:
    """Return the plural of a unit of privacy: ``check-ins`` for ``one check-in``."""
    return f"{counted(unit)}s"


def count_units(n: int, unit: str) -> str:
    """Return n followed by its unit: ``1,000 check-ins``."""
    return f"{n:,} {plural(unit)}"


def number_label(unit: str) -> str:
    """Return the label of an axis of n for a unit of privacy."""
    if unit == "one user":
        return "number of users n (one check-in each)"
    return f"number of {plural(unit)} n"


def distance_label(largest: float) -> str:
    """Return the label of an axis of total variation distances up to `largest`.

    Only estimates that are not distributions can have distances above 1.
    """
    return DISTANCE_LABEL if largest <= 1.0 else f"{DISTANCE_LABEL}\n(above 1: only noise)"


def ordered_colours(number: int) -> list[str]:
    """Return colours from dark to less dark, whose order remains visible in greyscale."""
    positions = np.linspace(0.0, 0.6, max(number, 2))
    return [to_hex(colour) for colour in mpl.colormaps["cividis"](positions)]


@contextmanager
def local_style() -> Iterator[None]:
    """Apply the common rcParams in a with block or, as a decorator, during a call."""
    with mpl.rc_context(_RC):
        yield


def new_figure(height: float, width: float = FULL_WIDTH) -> Figure:
    """Return an empty figure without pyplot; sizes are in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def power(value: float, digits: int = 1) -> str:
    r"""Return a positive number as mathtext: ``10^{-6}``, ``2.5\times10^{-7}``."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    ten = f"10^{{{int(exponent)}}}"
    return ten if mantissa == "1" else rf"{mantissa}\times{ten}"


def format_eps(eps: float) -> str:
    """Return eps with three digits, rounded up so that it never overstates privacy."""
    return f"{float(_ROUND_UP.create_decimal(repr(float(eps)))):g}"


def legend_mark(label: str, **marker: Any) -> Line2D:
    """Return a legend entry without a line, and without a marker unless its style is given."""
    return Line2D([], [], linestyle="none", label=label, **marker)


def legend_marks(series: Sequence[Series]) -> list[Line2D]:
    """Return legend entries that show the markers of series without lines."""
    estimators = [get_estimator(*pair) for pair in series]
    return [legend_mark(e.label, **marker_style(e.look), markersize=5) for e in estimators]


def plain_log_axis(axis: Axis) -> None:
    """Label a logarithmic axis 0.1, 0.2, 0.5, 1, ... instead of with powers of ten.

    On an axis of more than three decades only 0.1, 1, 10, ... are labelled. Call it after the data
    are drawn.
    """
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1.0 else f"{value:g}")
    )
    axis.set_minor_locator(LogLocator(subs=tuple(range(1, 10))))
    axis.set_minor_formatter(NullFormatter())


def spaced_labels(
    labels: Mapping[float, str], limits: tuple[float, float], glyph_width: float
) -> dict[float, str]:
    """Return the labels of a logarithmic axis without those that would touch the next one.

    `labels` maps positions to labels, `limits` are those of the axis, and `glyph_width` is the
    width of a character as a share of the axis.
    """
    width = glyph_width * float(np.log(limits[1] / limits[0]))
    kept: dict[float, str] = {}
    next_one = np.inf
    for position, label in sorted(labels.items(), reverse=True):
        if np.log(next_one / position) > width * len(label):
            kept[position] = label
            next_one = position
    return kept


@local_style()
def save(figure: Figure, stem: Path, contents: str) -> tuple[Path, ...]:
    """Write a figure as PNG (200 dpi), PDF and SVG; equal figures give equal bytes.

    `stem` is the path without extension; dots in the name are kept. The metadata of each file have
    the title and `contents` (`pipeline.columns.CONTENTS`: whether true data are shown), but no
    dates or versions. Each file appears whole or not at all. The result has the three paths.
    """
    paths = tuple(stem.with_name(f"{stem.name}.{extension}") for extension in EXTENSIONS)
    for extension, path in zip(EXTENSIONS, paths, strict=True):
        with replacing(path) as temporary:
            # PDF has no key for a description.
            key = "Subject" if extension == "pdf" else "Description"
            about = {"Title": figure.get_suptitle(), key: f"{CONTENTS}: {contents}"}
            metadata: dict[Any, Any] = about | WITHOUT_ORIGIN[extension]
            figure.savefig(temporary, format=extension, dpi=200, metadata=metadata)
        # The layout is computed once, so that it is the same in every format. With "none" instead
        # of None an engine would remain and draw the figure twice.
        figure.set_layout_engine(None)
    return paths


def missing_glyphs(text: str) -> str:
    """Return the characters of a text that the figures' font lacks, each once."""
    return "".join(dict.fromkeys(each for each in text if ord(each) not in _glyphs()))


@cache
def _glyphs() -> frozenset[int]:
    font = Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return frozenset(FT2Font(str(font)).get_charmap())
