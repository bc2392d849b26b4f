"""Summarise a run as the text that is printed at its end."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from shuffledp.pipeline.selection import at_targets
from shuffledp.pipeline.units import has_bound
from shuffledp.studies.cell_sizes import cell_sizes_findings
from shuffledp.studies.comparison import findings
from shuffledp.studies.utility import target_findings


def run_summary(
    made: Collection[str],
    folder: str,
    places: Mapping[str, str],
    target_delta: float,
    protected: Mapping[str, str] | None = None,
) -> str:
    """Return the main tables of a run as text, and where its figures are.

    `made` are the paths, in the run's `folder`, of the files that the run was asked to make; other
    files are not mentioned. `places` has the title of each region by ``REGION.GRID``, as in file
    names, and `protected` the unit of the guarantee in words by place, by default one check-in
    everywhere. The target delta is that of the comparison at equal privacy.
    """

    def path_if_made(name: str) -> Path | None:
        path = Path(folder, name)
        return path if str(path) in made else None

    lines = []
    if any(path_if_made(f"utility/{place}.csv") for place in places):
        lines.append("\nA run protects one check-in, not a person, unless its unit is user.")
    for place, title in places.items():
        unit = (protected or {}).get(place, "")
        if has_bound(unit) and path_if_made(f"utility/{place}.csv"):
            lines.append(
                f"\n{title}: what follows protects {unit}, replaced by as many others.\n"
                "The number of their check-ins is not protected."
            )
    comparison = path_if_made("utility/comparison.csv")
    if comparison and (table := findings(pd.read_csv(comparison))):
        lines.append(
            "\nTotal variation distance to the true histogram at equal privacy (delta = "
            f"{target_delta:g}), as a multiple of\nthe reference mechanism's, at the largest n "
            f"(and at the smallest). From {comparison}.\n\n{table}\n"
        )
    summaries = [path for place in places if (path := path_if_made(f"utility/{place}.csv"))]
    targets = [at_targets(pd.read_csv(path)) for path in summaries]
    if any(len(table) for table in targets):
        lines.append("\nEvery mechanism calibrated to the same certified (eps, delta):\n")
        lines += [f"{target_findings(table, brief=True)}\n" for table in targets]
    for place, title in places.items():
        if path := path_if_made(f"utility/{place.partition('.')[0]}.cell-sizes.csv"):
            lines.append(f"\n{cell_sizes_findings(pd.read_csv(path), title)}\n")
    figures = Path(folder, "figures")
    drawn = [path for path in map(Path, made) if path.parent == figures and path.suffix == ".png"]
    if drawn:
        main = path_if_made("figures/comparison.png")
        first = f"; the main one is {main}" if main else ""
        lines.append(f"Figures: {len(drawn)} in {figures}/, as PNG, PDF and SVG{first}.")
    if path := path_if_made("reproduction/summary.md"):
        lines.append(f"The papers' numbers, recomputed: {path}")
    return "".join(f"{line}\n" for line in lines)
