"""A published map with another title and other names, from its folder alone."""

import json
import re
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

import shuffledp
from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.publishing.options import Levels, MapCells, Period, Protection, Source
from shuffledp.publishing.restyle import restyle, write_page

STOPS = pd.DataFrame(
    {
        "id": ["A", "B", "C", "07"],
        "latitude": [48.80, 48.81, 48.82, 48.83],
        "longitude": [2.30, 2.33, 2.31, 2.35],
        "zone": ["inner", "inner", "outer", "outer"],
    }
)
LEVELS = Levels({"total": "0.1", "zone": "0.2", "period": "0.1"})
MONTHS = Period("2024-01-01", "2024-03-31", every="month")
RECORD, SPARSE = Protection("record", 1), Protection("record", 1, 1e-6, sparse=True)
BOX = (48.79, 48.84, 2.29, 2.36)


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)
    STOPS.to_csv("stops.csv", index=False)
    n = 4000
    at = STOPS.iloc[random.choice(4, n, p=[0.6, 0.2, 0.15, 0.05])]
    return pd.DataFrame(
        {
            "place": at["id"].tolist(),
            "end": random.choice(["A", "B", "07"], n),
            "latitude": at["latitude"].tolist(),
            "longitude": at["longitude"].tolist(),
            "time": [f"2024-{month:02}-05" for month in random.integers(1, 4, n)],
            "user": random.integers(0, 900, n),
        }
    )


def point(**more):
    return {"latitude": "latitude", "longitude": "longitude", **more}


USERS = Protection("user", 2, records_per_user=2, distinct=True, per_window=True)
MAPS = {
    "plain": (point(), MapCells("shape:4x3", box=BOX), RECORD, None, None),
    "hexagons": (point(), MapCells("h3:8", box=BOX), RECORD, Levels({"h3:7": "0.3"}), None),
    "windows": (point(time="time", user="user"), MapCells("metres:900", box=BOX), USERS, None,
                MONTHS),
    "levels": ({"place": "place", "time": "time"}, MapCells("stops.csv", elsewhere=True), RECORD,
               LEVELS, MONTHS),
    "trips": ({"place": "place", "to_place": "end"}, MapCells("stops.csv"), RECORD,
              Levels({"zone": "0.1", "total": "0"}), None),
    "gaussian": (point(), MapCells("shape:4x3", box=BOX),
                 Protection("record", 1, 1e-6, mechanism="gaussian"), Levels({"total": 0}), None),
    "sparse": (point(), MapCells("h3:9"), SPARSE, None, None),
    "sparse trips": ({"place": "place", "to_place": "end"}, MapCells("stops.csv"), SPARSE,
                     Levels({"total": "0.2"}), None),
}  # fmt: skip


def published(records, kind):
    columns, cells, protection, levels, windows = MAPS[kind]
    return shuffledp.publish(
        Source(records, "r", **columns), "map", cells=cells, protection=protection, levels=levels,
        windows=windows, ledger="l", title="Où l’on va",
    ).folder  # fmt: skip


@pytest.mark.parametrize("kind", MAPS)
def test_the_same_title_and_names_give_the_same_files(records, kind):
    folder = published(records, kind)
    ledger = Path("l").read_bytes()
    again = restyle(folder, "again")
    assert sorted(path.name for path in again.iterdir()) == sorted(
        path.name for path in folder.iterdir()
    )
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    assert Path("l").read_bytes() == ledger


def test_names_title_and_pictures_change_and_no_number_does(records, capsys):
    folder = published(records, "levels")
    Path("names.csv").write_text("id,name\nA,Gare de l’Est\n07,Place\n", encoding="utf-8")
    assert main(["restyle", "map", "--title", "Other", "--names", "names.csv", "--pictures", "svg",
                 "pdf", "--output", "new"]) == 0  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "This cost nothing. New names by id, A: A is now Gare" in said and "07: 07 is" in said
    before, after = (gpd.read_parquet(each / "map.parquet") for each in (folder, Path("new")))
    assert dict(zip(after["id"], after["name"], strict=True)) == {
        "A": "Gare de l’Est", "B": "B", "C": "C", "07": "Place", "elsewhere": "Elsewhere"
    }  # fmt: skip
    pd.testing.assert_frame_equal(before.drop(columns="name"), after.drop(columns="name"))
    statement = json.loads(Path("new/statement.json").read_text())
    assert statement["title"] == "Other"
    old = json.loads((folder / "statement.json").read_text())
    assert {**statement, "title": old["title"]} == old
    page = Path("new/map.html").read_text(encoding="utf-8")
    assert "Gare de l’Est" in page or "Gare de l\\u2019Est" in page
    assert Path("new/map.pdf").read_bytes()[:5] == b"%PDF-"
    assert "<svg" in Path("new/map.svg").read_text(encoding="utf-8")
    assert shuffledp.area("new", cells=["A"])["count"].equals(
        shuffledp.area(folder, cells=["A"])["count"]
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("id,name\nX,What\n", "no cell of map has the id 'X'"),
        ("id,label\nA,What\n", "needs the columns id and name"),
        ("id,name\n", "needs the columns id and name"),
        ("id,name\nA,One\nA,Two\n", "an id twice"),
    ],
)
def test_names_that_cannot_be_used_leave_no_folder(records, names, message):
    published(records, "levels")
    Path("names.csv").write_text(names)
    with pytest.raises(InputError, match=message):
        restyle("map", "new", names="names.csv")
    assert not Path("new").exists()


def test_what_is_no_map_and_what_exists_is_refused(records):
    published(records, "plain")
    with pytest.raises(InputError, match="is not the folder of a published map"):
        restyle(".", "new")
    with pytest.raises(InputError, match="exists and is never overwritten"):
        restyle("map", "map")
    with pytest.raises(InputError, match="must be Unicode text"):
        restyle("map", "new", title="\udcff")
    assert not Path("new").exists()
    with pytest.raises(InputError, match="pictures must be svg or pdf"):
        restyle("map", "new", pictures=["gif"])
    assert shapely.is_valid(gpd.read_parquet("map/map.parquet").geometry).all()


# --- Several maps on one page ---------------------------------------------------------------


def monthly(records, month, **more):
    """Publish the records of a month, in a folder of its name."""
    options = {"cells": MapCells("shape:4x3", box=BOX), "protection": RECORD} | more
    return shuffledp.publish(
        Source(records, "r", **point(time="time")), f"{month}", ledger=f"l{month}", title="Taps",
        windows=Period(f"2024-{month:02}-01", f"2024-{month:02}-28"), **options,
    ).folder  # fmt: skip


def page_data(path):
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_page_shows_several_maps_and_promises_the_sum(records, capsys):
    folders = [monthly(records, month) for month in (1, 2, 3)]
    assert main(["page", *map(str, folders), "--output", "q.html", "--title", "Quarter"]) == 0
    assert "3 maps" in capsys.readouterr().out
    data = page_data("q.html")
    assert data["windows"] == [f"2024-0{m}-01 to 2024-0{m}-28" for m in (1, 2, 3)]
    assert (
        "eps = 3 " in data["promise"][1]
        and "eps = 6" in dict(data["facts"])["If one record is replaced"]
    )
    (values,) = data["values"][0]
    tables = [pd.read_csv(folder / "map.csv") for folder in folders]
    for name, column in (("count", "noisy_count"), ("estimate", "estimate")):
        assert values[name] == [table[column].tolist() for table in tables]
    alone = json.loads((folders[0] / "statement.json").read_text())["intervals"]
    assert data["joint"] > alone["half_width_of_all_cells_together"]


def test_maps_that_do_not_belong_together_are_refused(records):
    monthly(records, 1)
    monthly(records, 2, protection=Protection("record", 2))
    monthly(records, 3, cells=MapCells("shape:3x4", box=BOX))
    published(records, "levels")
    for folders, words in (
        (["1"], "at least two"),
        (["1", "2"], "mechanism"),
        (["1", "3"], "cells"),
        (["1", "1"], "same period"),
        (["1", "map"], "levels"),
        (["1", "nowhere"], "statement.json"),
    ):
        with pytest.raises(InputError, match=words):
            write_page(folders, "page.html")
        assert not Path("page.html").exists()
    with pytest.raises(InputError, match="never overwritten"):
        write_page(["1", "1"], "stops.csv")
