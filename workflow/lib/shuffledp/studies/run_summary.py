"""The summary that a run prints at its end."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from shuffledp.pipeline.selection import at_targets
from shuffledp.pipeline.tables import read_tables
from shuffledp.studies.comparison import findings
from shuffledp.studies.units import units_findings
from shuffledp.studies.utility import target_findings


def run_summary(
    made: Collection[str], folder: str, places: Mapping[str, str], target_delta: float
) -> str:
    """Return the main tables among the files that a run has made, and where its figures are.

    Parameters
    ----------
    made
        Paths of the files that were asked for.
    folder
        Path of the run's folder.
    places
        Title of each region by the part ``REGION.GRID`` of its files' names.
    target_delta
        The delta of the comparison at equal privacy.
    """

    def asked(name: str) -> Path | None:
        path = Path(folder, name)
        return path if str(path) in made else None

    lines = []
    units = {place: path for place in places if (path := asked(f"privacy/{place}.units.parquet"))}
    if units:
        lines.append(
            "\nThe numbers of a run hide one check-in, not a person, unless unit is user:\n"
        )
    for place, path in units.items():
        users = pd.read_csv(Path(folder, "privacy", f"{place}.users.csv"))
        lines.append(units_findings(read_tables([path]), users, places[place]))
    comparison = asked("utility/comparison.csv")
    if comparison and (table := findings(pd.read_csv(comparison))):
        lines.append(
            "\nDistance to the true histogram at equal privacy (delta = "
            f"{target_delta:g}), as a multiple of the\nreference's: at the largest n (at the "
            f"smallest). From {comparison}.\n\n{table}\n"
        )
    summaries = [path for place in places if (path := asked(f"utility/{place}.csv"))]
    targets = [at_targets(pd.read_csv(path)) for path in summaries]
    if any(len(table) for table in targets):
        lines.append("\nEvery mechanism calibrated to the same certified (eps, delta):\n")
        lines += [f"{target_findings(table, brief=True)}\n" for table in targets]
    figures = Path(folder, "figures")
    drawn = [path for path in map(Path, made) if path.parent == figures and path.suffix == ".png"]
    if drawn:
        main = asked("figures/comparison.png")
        first = f"; the main one is {main}" if main else ""
        lines.append(f"Figures: {len(drawn)} in {figures}/, as PNG, PDF and SVG{first}.")
    if path := asked("reproduction/summary.md"):
        page = Path(folder, "reproduction", "report.html")
        lines.append(f"The papers' numbers: {path}, and to explore {page}")
    if path := asked("report.html"):
        lines.append(f"To explore in a browser: {path}")
    return "".join(f"{line}\n" for line in lines)
