"""Make the counts in resources/cell_counts of files of real check-ins.

The repository ships no check-in, only counts in rectangles, such that the histograms of the real
check-ins come out exactly on the two grids of each city. The rectangles are the pieces that the
edges of both grids cut the box into. Where two edges nearly coincide a piece is a metre wide, and
its true count would tell where somebody stood. So the counts of the pieces are not the true ones:
they are made from the two histograms alone, by the transport problem that puts as few check-ins as
possible into small pieces.

    python resources/regenerate.py --paris FILE --san-francisco FILE

Each file is in SNAP's format, or, if its name has .csv, has columns user, latitude and longitude.
"""

import argparse
import csv
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from shuffledp.data.cells import Lattice, make_lattice
from shuffledp.data.checkins import crop_checkins
from shuffledp.data.embedded import COUNT_COLUMNS
from shuffledp.data.grid import count_checkins
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import SNAP, Layout
from shuffledp.pipeline.files import replacing

HERE = Path(__file__).resolve().parent
POINTS = Layout("csv", {name: name for name in ("user", "latitude", "longitude")})
REGIONS = {
    "paris": (
        Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909),
        ({"shape": [12, 16]}, {"step": [0.00427, 0.0066]}),
    ),
    "san_francisco": (
        Box(south=37.7228, north=37.7946, west=-122.5153, east=-122.3789),
        ({"shape": [17, 24]}, {"step": [0.0044875, 0.005683]}),
    ),
}
SAME_EDGE = 1e-9  # degrees, a tenth of a millimetre


def main() -> None:
    """Write the counts of each region whose file is given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in REGIONS:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=Path, metavar="FILE", help=f"check-ins of {name}")
    parser.add_argument(
        "--output", type=Path, default=HERE / "cell_counts", help="directory to write to"
    )
    arguments = parser.parse_args()
    given = {name: path for name in REGIONS if (path := getattr(arguments, name))}
    if not given:
        parser.error("name at least one file")
    for name, path in given.items():
        rectangles, counts = region_counts(name, path)
        write_counts(arguments.output / f"{name}.csv", rectangles, counts)
        print(f"{name}: {counts.sum()} check-ins in {len(counts)} rectangles")


def region_counts(name: str, source: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rectangles (m, 4) as south, west, north, east, and a positive count for each."""
    box, specs = REGIONS[name]
    region = Region(name, box)
    layout = POINTS if ".csv" in source.suffixes else SNAP
    with tempfile.TemporaryDirectory() as directory:
        checkins = Path(directory) / "checkins.parquet"
        crop_checkins(source, layout, region, checkins, max_malformed_share=0, metadata={})
        histograms = [histogram(region, spec, checkins) for spec in specs]
    rectangles = overlay([make_lattice(region, spec) for spec in specs])
    counts = transport(rectangles, histograms)
    return rectangles[counts > 0], counts[counts > 0]


def histogram(
    region: Region, spec: Mapping[str, Any], checkins: Path
) -> tuple[Lattice, NDArray[np.int64]]:
    """Return a grid's lattice and its counts, row-major."""
    cells, _ = count_checkins(region, spec, checkins)
    return make_lattice(region, spec), cells["count"].to_numpy()


def overlay(lattices: list[Lattice]) -> NDArray[np.float64]:
    """Return the pieces that all edges cut the box into, (m, 4): south, west, north, east."""
    y = merged([lattice.y_edges for lattice in lattices])
    x = merged([lattice.x_edges for lattice in lattices])
    south, west = np.meshgrid(y[:-1], x[:-1], indexing="ij")
    north, east = np.meshgrid(y[1:], x[1:], indexing="ij")
    return np.stack([side.ravel() for side in (south, west, north, east)], axis=-1)


def merged(edges: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return all edges in order, those that differ by rounding only once."""
    every = np.unique(np.concatenate(edges))
    return every[np.diff(every, prepend=-np.inf) > SAME_EDGE]


def transport(
    rectangles: NDArray[np.float64], histograms: list[tuple[Lattice, NDArray[np.int64]]]
) -> NDArray[np.int64]:
    """Spread counts over the pieces so that every histogram is met, as few as can be in small ones.

    A piece lies in one cell of either grid, so this is a transport problem between the cells of one
    and of the other, whose basic solutions are whole numbers.
    """
    south, west, north, east = rectangles.T
    pieces = np.arange(len(rectangles))
    blocks, totals = [], []
    for lattice, counts in histograms:
        cell = lattice.locate((south + north) / 2, (west + east) / 2)
        inside = cell >= 0
        incidence = (np.ones(inside.sum()), (cell[inside], pieces[inside]))
        blocks.append(csr_array(incidence, shape=(len(counts), len(rectangles))))
        totals.append(counts)
    area = (north - south) * (east - west)
    # Pieces of the same area would leave the choice to the solver: prefer them in a fixed order.
    preference = 1 + 1e-3 * (pieces * (np.sqrt(5) - 1) / 2 % 1)
    constraints, demand = vstack(blocks), np.concatenate(totals)
    solution = linprog(
        area.max() / area * preference, A_eq=constraints, b_eq=demand, method="highs-ds"
    )
    if not solution.success:
        raise RuntimeError(f"no counts meet the histograms: {solution.message}")
    counts = np.rint(solution.x).astype(np.int64)
    if (constraints @ counts != demand).any() or (counts < 0).any():
        raise RuntimeError("the solution is not in whole numbers")
    return counts


def write_counts(path: Path, rectangles: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    """Write the rectangles and counts as CSV."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COUNT_COLUMNS)
        for rectangle, count in zip(rectangles.tolist(), counts.tolist(), strict=True):
            writer.writerow([*(round(edge, 12) for edge in rectangle), count])


if __name__ == "__main__":
    main()
