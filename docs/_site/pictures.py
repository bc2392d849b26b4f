"""Write the pictures of the pages to docs/figures, from finished runs: `make pictures`.

The tutorials keep the output that `make docs` produced, with smaller pictures.
"""

import json
import re
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import geopandas as gpd
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image, PngImagePlugin

from shuffledp.data.grid import read_cells
from shuffledp.figures.map_panels import MapContext, backdrop
from shuffledp.figures.maps import estimate_maps, release_panels
from shuffledp.figures.style import local_style, save
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import read_tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PICTURES = ROOT / "docs" / "figures"
TUTORIALS = ("tutorial.ipynb", "python.ipynb")

# Figures of runs by the names of their pictures. A picture stays as it is where the figure of
# another run (`make reproduce`) is missing.
TAKEN = {
    "comparison": "figures/comparison",
    "mechanisms": "figures/mechanisms.san_francisco.shape",
    "privacy": "figures/privacy.san_francisco.shape",
    "checkins": "figures/checkins.paris.shape",
    "estimates": "figures/estimates.paris.shape.eps0-4.matched",
    "distances": "figures/distances.san_francisco.shape.matched",
    "distances-over-eps": "figures/distances-over-eps.san_francisco.shape",
    "errors": "figures/errors.paris.shape.eps0-4",
    "distances-as-published": "figures/distances.san_francisco.shape.as-published",
    "estimates-as-published": "figures/estimates.paris.shape.eps0-4.as-published",
    "paper-a": "paper/figures/paper_a.figure-2",
    "paper-b": "paper/figures/paper_b.figure-3",
    "paper-c": "paper/figures/paper_c.figure-1",
    "paper-d": "paper/figures/paper_d.figure-4",
    "personalised": "paper/figures/personalised.figure-6",
    "cell-sizes": "cell_sizes/figures/cell-sizes.san_francisco",
}
# Snakemake prints the absolute path of the profile.
_PROFILE = r"^Using workflow specific profile .*\n"
COLOURS = 256  # enough for lines and colour scales, at half of the bytes

# The map of README: the mechanism that docs/choosing.md recommends without a curator.
REGION, MECHANISM, EPS, DELTA = "paris", "two-servers", 1.0, 1e-6


@local_style()
def private_map(cells: gpd.GeoDataFrame, original: Integers, rows: pd.DataFrame) -> Figure:
    """Draw the true map of a region beside a private one.

    Parameters
    ----------
    cells
        The grid.
    original
        True counts, shape ``(k,)``.
    rows
        Columns of `shuffledp.pipeline.tables.RELEASES`: one release, at one target.
    """
    title = f"Paris, {original.sum():,} check-ins: as they are, and as a private map"
    basemap = ROOT / "resources" / "basemaps" / f"{REGION}.geojson"
    place = MapContext(cells, title, backdrop(basemap))
    figure = estimate_maps(place, release_panels(original, rows), int(original.sum()))
    left, right, bar = figure.axes
    left.set_title("The truth", loc="left")
    right.set_title("The private map", loc="left")
    bar.set_xlabel("check-ins per cell (logarithmic scale)")
    return figure


def shrink(figure: Path | IO[bytes], picture: Path | IO[bytes]) -> None:
    """Write a figure with few colours, keeping its title."""
    with Image.open(figure) as full:
        words = PngImagePlugin.PngInfo()
        for key, value in full.text.items():
            words.add_text(key, value)
        # Keep rare colours, such as that of a thin line in a legend.
        few = full.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE
        )
        few.save(picture, format="png", optimize=True, pnginfo=words)


def kept(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with its output, without times and with pictures of few colours."""
    cells = [dict(cell) for cell in notebook["cells"]]
    for cell in cells:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "metadata": {}, "outputs": _outputs(cell["outputs"])}
    return notebook | {"cells": cells}


def _outputs(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join each stream: where it is split differs from run to run."""
    streams: dict[str, str] = {}
    others = []
    for output in outputs:
        if output["output_type"] == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + "".join(output["text"])
            continue
        data = dict(output["data"])
        if "image/png" in data:
            small = BytesIO()
            shrink(BytesIO(b64decode(data["image/png"])), small)
            data["image/png"] = b64encode(small.getvalue()).decode()
        count = {"execution_count": None} if output["output_type"] == "execute_result" else {}
        others.append(output | count | {"data": data})
    for name, text in streams.items():
        streams[name] = re.sub(_PROFILE, "", text, flags=re.MULTILINE)
    texts = [
        {"name": name, "output_type": "stream", "text": text.splitlines(keepends=True)}
        for name, text in sorted(streams.items())
    ]
    return [*texts, *others]


def main() -> None:
    """Draw the map, shrink the figures of runs, and store the tutorials with their output."""
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
            shrink(path, PICTURES / f"{name}.png")
    for name in TUTORIALS:
        ran = json.loads((ROOT / "build" / name).read_text(encoding="utf-8"))
        text = json.dumps(kept(ran), indent=1, ensure_ascii=False)
        (ROOT / "docs" / name).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
