"""What all figures share: one look per mechanism, local rcParams, files of reproducible bytes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shuffledp.files import replacing

FULL_WIDTH: Final = 7.16  # inches: two columns of a journal page
DISTANCE_LABEL: Final = "total variation distance"
EXTENSIONS: Final = ("png", "pdf", "svg")

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


@dataclass(frozen=True)
class Look:
    """How a mechanism is drawn everywhere.

    The colour (Okabe and Ito) and the shape of the marker tell the mechanism, white filling that
    the estimate was projected onto the simplex: no two look alike in grey.
    """

    label: str
    colour: str
    marker: str
    filled: bool = True

    @property
    def face(self) -> str:
        """Colour inside markers."""
        return self.colour if self.filled else "white"

    @property
    def tint(self) -> tuple[float, ...]:
        """Colour inside boxes, light enough for the marker at the median to stand out."""
        share = 0.45 if self.filled else 0.0
        return tuple(1.0 - share * (1.0 - part) for part in to_rgb(self.colour))


_GAUSSIAN, _SHUFFLE, _INVERTED = "#0072B2", "#777777", "#D55E00"
MECHANISMS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "gaussian": Look("Gaussian, raw", _GAUSSIAN, "o"),
        "gaussian projected": Look("Gaussian, projected", _GAUSSIAN, "o", filled=False),
        "shuffle": Look("shuffle, not inverted", _SHUFFLE, "^"),
        "shuffle+INV raw": Look("shuffle+INV, raw", _INVERTED, "s"),
        "shuffle+INV": Look("shuffle+INV, projected", _INVERTED, "s", filled=False),
    }
)


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


def legend_marks(mechanisms: Sequence[str]) -> list[Line2D]:
    """Legend entries of mechanisms: the marker alone."""
    return [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=look.marker,
            color=look.colour,
            markerfacecolor=look.face,
            markersize=5,
            label=look.label,
        )
        for look in (MECHANISMS[mechanism] for mechanism in mechanisms)
    ]


def plain_log_axis(axis: Axis) -> None:
    """Label a logarithmic axis 0.1, 0.2, 0.5, 1, ... instead of with powers of ten.

    Call it when the axis has its data: over more than three decades only 0.1, 1, 10, ... are named.
    """
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_locator(LogLocator(subs=tuple(range(1, 10))))
    axis.set_minor_formatter(NullFormatter())


@local_style()
def save(figure: Figure, stem: Path, title: str) -> tuple[Path, ...]:
    """Write a figure as PNG (200 dpi), PDF and SVG; equal figures give equal bytes.

    Parameters
    ----------
    figure
        What to write.
    stem
        Path without extension; a dot in its name is kept.
    title
        Goes into the metadata of each file, with no date and no software version.

    Returns
    -------
    The three paths. Each file appears whole or not at all.
    """
    unnamed: dict[str, dict[str, str | None]] = {
        "png": {"Software": None},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
        "svg": {"Creator": None, "Date": None},
    }
    written = tuple(stem.with_name(f"{stem.name}.{extension}") for extension in EXTENSIONS)
    for extension, destination in zip(EXTENSIONS, written, strict=True):
        with replacing(destination) as temporary:
            metadata: dict[str, Any] = {"Title": title, **unnamed[extension]}
            figure.savefig(temporary, format=extension, dpi=200, metadata=metadata)
    return written
