"""The pictures of these pages, from a finished run: `make pictures` writes them to docs/figures."""

from pathlib import Path

import geopandas as gpd
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image, PngImagePlugin
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.context import MapContext
from shuffledp.figures.maps import estimate_maps, release_panels
from shuffledp.figures.style import save
from shuffledp.geography.grid import read_cells
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import read_tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PICTURES = ROOT / "docs" / "figures"

# A figure of a run by the name it has here; without one that another run made (`make reproduce`)
# the picture stays as it is.
TAKEN = {
    "comparison": "figures/comparison",
    "mechanisms": "figures/mechanisms.san_francisco.shape",
    "privacy": "figures/privacy.san_francisco.shape",
    "checkins": "figures/checkins.paris.shape",
    "estimates": "figures/estimates.paris.shape.eps0-4.matched",
    "distances": "figures/distances.san_francisco.shape.matched",
    "distances-over-eps": "figures/distances-over-eps.san_francisco.shape",
    "errors": "figures/errors.paris.shape.eps0-4",
    "trust": "figures/trust.paris.shape.eps0-4",
    "ranks": "figures/ranks.paris.shape.eps0-4",
    "sizes": "figures/sizes.paris.shape",
    "units": "figures/units.paris.shape",
    "all-bounds": "paper/figures/literature.all-bounds",
    "paper-a": "paper/figures/paper_a.figure-2",
    "paper-b": "paper/figures/paper_b.figure-3",
    "paper-c": "paper/figures/paper_c.figure-1",
    "paper-d": "paper/figures/paper_d.figure-4",
    "personalised": "paper/figures/personalised.figure-6",
}
COLOURS = 128  # enough for lines and for a scale of colours, in a third of the bytes
# Of most figures the nearest colours; where thin lines have many hues, none of which may change.
MOST, HUES = Image.Quantize.MEDIANCUT, Image.Quantize.FASTOCTREE
OF_MANY_HUES = {"all-bounds"}

# The map of the first screen: the mechanism that docs/choosing.md recommends without a curator.
REGION, MECHANISM, EPS, DELTA = "paris", "two-servers", 1.0, 1e-6


def private_map(cells: gpd.GeoDataFrame, original: Integers, rows: pd.DataFrame) -> Figure:
    """The true map of a region beside a private one.

    Parameters
    ----------
    cells
        The grid.
    original
        True counts, shape ``(k,)``.
    rows
        Columns of `shuffledp.pipeline.tables.RELEASES`: one release, at one target.
    """
    promise = rf"$\epsilon$ = {EPS:g}, $\delta$ = {DELTA:g}, for one check-in"
    title = f"Paris, {original.sum():,} check-ins: as they are, and as a private map\n{promise}"
    basemap = ROOT / "resources" / "basemaps" / f"{REGION}.geojson"
    place = MapContext(cells, title, backdrop(basemap))
    return estimate_maps(place, release_panels(original, rows), int(original.sum()))


def shrink(figure: Path, picture: Path, method: Image.Quantize = MOST) -> None:
    """Write a figure with few colours, and the title that it has."""
    with Image.open(figure) as full:
        words = PngImagePlugin.PngInfo()
        for key, value in full.text.items():
            words.add_text(key, value)
        few = full.convert("RGB").quantize(COLOURS, method, dither=Image.Dither.NONE)
        few.save(picture, optimize=True, pnginfo=words)


def main() -> None:
    """Draw the map, and take the other pictures from the run's figures."""
    releases = read_tables([RESULTS / f"releases/{REGION}.shape.target-{MECHANISM}.parquet"])
    n = releases["n"].max()
    samples = read_tables([RESULTS / f"samples/{REGION}.shape.parquet"], n=n)
    original = samples.sort_values("cell")["count"].to_numpy()
    one = (releases["n"] == n) & (releases["eps"] == EPS) & (releases["repetition"] == 0)
    cells = read_cells(RESULTS / f"grids/{REGION}.shape.parquet")
    figure = private_map(cells, original, releases[one])
    save(figure, RESULTS / "figures" / "map", "true data")
    for name, source in {"map": "figures/map", **TAKEN}.items():
        if (path := RESULTS / f"{source}.png").exists():
            method = HUES if name in OF_MANY_HUES else MOST
            shrink(path, PICTURES / f"{name}.png", method)


if __name__ == "__main__":
    main()
