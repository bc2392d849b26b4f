"""A whole collection on loopback, with real parts: campaign, mixer, thousands of devices, batches.

`make collect` runs it, and has the pipeline open the batches and draw the maps beside the truth.
The records are the real check-ins of Paris, a random part of them in each round.
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
import yaml
from shuffledp.collection.campaign import Campaign, read_campaign
from shuffledp.collection.device import make_envelope, read_ticket
from shuffledp.geography.grid import read_cells
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
CITY = "paris"
BASEMAP = ROOT / f"resources/basemaps/{CITY}.geojson"


def command(*words: object) -> None:
    """Run the command, as a role does."""
    subprocess.run([sys.executable, "-m", "shuffledp", *map(str, words)], check=True)


def take_part(job: tuple[Campaign, int, list[tuple[str, int]]]) -> int:
    """Some devices: each makes its envelope and sends it over a connection of its own."""
    campaign, number, people = job
    address = f"{campaign.address}/v1/{campaign.name}/{number}"
    for ticket, cell in people:
        envelope = make_envelope(campaign, number, read_ticket(ticket, campaign), cell)
        answer = requests.post(address, data=envelope, timeout=60)
        answer.raise_for_status()
    return len(people)


def collect(campaign: Campaign, number: int, folder: Path, records: np.ndarray) -> None:
    """One round: the mixer serves while devices report, then closes."""
    store, tickets = folder / f"store-{number}.sqlite", (folder / "campaign/issuer/tickets.txt")
    tokens = folder / f"campaign/mixer/tokens-{number}.txt"
    public = folder / "campaign/campaign.json"
    command("mixer", "new", store, "--campaign", public, "--round", number, "--tokens", tokens)
    port = campaign.address.rpartition(":")[2]
    words = [sys.executable, "-m", "shuffledp", "mixer", "serve", str(store), "--port", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        print(server.stdout.readline().strip())
        people = list(zip(tickets.read_text().split(), map(int, records), strict=False))
        some = [(campaign, number, people[i : i + 100]) for i in range(0, len(people), 100)]
        with (
            ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool,
            tqdm(total=len(people), desc=f"round {number}", unit=" people") as bar,
        ):
            for done in pool.map(take_part, some):
                bar.update(done)
        server.terminate()
    command("mixer", "close", store, "--output", folder / f"batch-{number}")


def main() -> None:
    """Collect, and write the configuration with which the pipeline opens the batches."""
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
    counts = grid["count"].to_numpy()
    (folder / "cells.geojson").write_text(grid[["cell", "geometry"]].to_json())
    command(
        *("campaign", "new", "--cells", folder / "cells.geojson", "--eps", 1, "--delta", "1e-6"),
        *("--at-least", options.people * 4 // 5, "--people", options.people),
        *("--rounds", options.rounds, "--title", "Paris", "--output", folder / "campaign"),
        *("--address", f"http://127.0.0.1:{options.port}", "--basemap", BASEMAP),
    )
    campaign = read_campaign(folder / "campaign/campaign.json")
    # Real check-ins, in an order of no seed: nobody can undo what is collected.
    records = np.repeat(np.arange(counts.size), counts)
    np.random.default_rng(secrets.randbits(128)).shuffle(records)
    entries = {}
    for number in range(1, options.rounds + 1):
        mine = records[(number - 1) * options.people :][: options.people]
        truth = np.bincount(mine, minlength=counts.size)
        lines = ["cell,count", *(f"{cell},{count}" for cell, count in enumerate(truth))]
        (folder / f"truth-{number}.csv").write_text("\n".join(lines) + "\n")
        collect(campaign, number, folder, mine)
        entries[f"{CITY}_{number}"] = {
            "campaign": str(folder / "campaign/campaign.json"),
            "batch": str(folder / f"batch-{number}"),
            "key": str(folder / f"campaign/analyst/round-{number}.key"),
            "counts": str(folder / f"counts-{number}.json"),
            "truth": str(folder / f"truth-{number}.csv"),
            "basemap": os.path.relpath(BASEMAP),
        }
    (folder / "config.yaml").write_text(yaml.safe_dump({"collections": entries}))


if __name__ == "__main__":
    main()
