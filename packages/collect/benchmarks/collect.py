"""Run a whole collection on the loopback interface: campaign, mixer, thousands of devices, analyst.

``make collect`` runs it. The records are real check-ins of Paris, a random part of them per round;
each round gets a table, a page and a map beside the truth.
"""

import argparse
import os
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import requests
from shuffledp.geography.grid import read_cells
from shuffledp_collect.analyst import read_opened
from shuffledp_collect.campaign import Campaign, read_campaign
from shuffledp_collect.device import make_envelope, read_ticket
from shuffledp_collect.map_figure import draw_collected
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[3]
CITY = "paris"
BASEMAP = ROOT / f"resources/basemaps/{CITY}.geojson"
COMMAND = [sys.executable, "-m", "shuffledp_collect"]


def command(*words: object, **options: object) -> None:
    """Run the command of a role."""
    subprocess.run([*COMMAND, *map(str, words)], check=True, **options)


def take_part(job: tuple[Campaign, int, list[tuple[str, int]]]) -> int:
    """Let some devices report, each with an envelope and a connection of its own."""
    campaign, number, people = job
    address = f"{campaign.address}/v1/{campaign.name}/{number}"
    for ticket, cell in people:
        envelope = make_envelope(campaign, number, read_ticket(ticket, campaign), cell)
        requests.post(address, data=envelope, timeout=60).raise_for_status()
    return len(people)


def collect(campaign: Campaign, number: int, folder: Path, records: np.ndarray) -> None:
    """Run one round: devices report to the mixer, which closes; the analyst opens and estimates."""
    store, public = folder / f"store-{number}.sqlite", folder / "campaign/campaign.json"
    tokens = folder / f"campaign/mixer/tokens-{number}.txt"
    command("mixer", "new", store, "--campaign", public, "--round", number, "--tokens", tokens)
    port = campaign.address.rpartition(":")[2]
    words = [*COMMAND, "mixer", "serve", str(store), "--port", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        print(server.stdout.readline().strip())
        tickets = (folder / "campaign/issuer/tickets.txt").read_text().split()
        people = list(zip(tickets, map(int, records), strict=False))
        jobs = [(campaign, number, people[i : i + 100]) for i in range(0, len(people), 100)]
        with (
            ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool,
            tqdm(total=len(people), desc=f"round {number}", unit=" people") as bar,
        ):
            for done in pool.map(take_part, jobs):
                bar.update(done)
        server.terminate()
    batch, counts = folder / f"batch-{number}", folder / f"counts-{number}.json"
    command("mixer", "close", store, "--output", batch)
    key = folder / f"campaign/analyst/round-{number}.key"
    command("open", batch, "--campaign", public, "--key", key, "--output", counts)
    page = folder / f"page-{number}.html"
    with (folder / f"estimates-{number}.csv").open("w") as table:
        command("estimate", counts, "--campaign", public, "--page", page, stdout=table)
    truth = np.bincount(records, minlength=campaign.cells).astype(float)
    cells = folder / "campaign/cells.geojson"
    figure = draw_collected(campaign, read_opened(counts, campaign), cells, truth, BASEMAP)
    figure.savefig(folder / f"map-{number}.png")


def main() -> None:
    """Collect all rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("results/collect"))
    parser.add_argument("--grid", type=Path, default=Path(f"results/grids/{CITY}.shape.parquet"))
    parser.add_argument("--people", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=8765)
    options = parser.parse_args()
    folder = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    grid = read_cells(options.grid)
    (folder / "cells.geojson").write_text(grid[["cell", "geometry"]].to_json())
    command(
        *("campaign", "new", "--cells", folder / "cells.geojson", "--eps", 1, "--delta", "1e-6"),
        *("--at-least", options.people * 4 // 5, "--people", options.people),
        *("--rounds", options.rounds, "--title", "Paris", "--output", folder / "campaign"),
        *("--address", f"http://127.0.0.1:{options.port}", "--basemap", BASEMAP),
    )
    campaign = read_campaign(folder / "campaign/campaign.json")
    # The order has no seed: nobody can undo what is collected.
    records = np.repeat(np.arange(len(grid)), grid["count"].to_numpy())
    np.random.default_rng(secrets.randbits(128)).shuffle(records)
    for number in range(1, options.rounds + 1):
        collect(
            campaign, number, folder, records[(number - 1) * options.people :][: options.people]
        )


if __name__ == "__main__":
    main()
