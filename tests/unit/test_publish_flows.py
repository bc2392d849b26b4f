"""Trips between cells: pairs, departures, arrivals and total under one promise."""

import json
from pathlib import Path

import geopandas as gpd
import h3
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import shapely
import yaml

import shuffledp
from shuffledp.accounting.contributions import Contributions
from shuffledp.accounting.thresholds import smallest_threshold
from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.publishing.ledger import read_ledger
from shuffledp.publishing.options import Levels, MapCells, Period, Protection, Source

STOPS = pd.DataFrame(
    {
        "id": ["A", "B", "C", "D"],
        "latitude": [48.80, 48.81, 48.82, 48.83],
        "longitude": [2.30, 2.33, 2.31, 2.35],
        "zone": ["inner", "inner", "outer", "outer"],
    }
)


def trips(n=6_000):
    """Return trips of 500 riders between four stops, some of them from or to others."""
    random = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "rider": random.integers(0, 500, n),
            "day": [f"2024-{m:02}-01" for m in random.integers(1, 4, n)],
            "begin": random.choice(["A", "B", "C", "D", "gone"], n, p=[0.4, 0.2, 0.2, 0.1, 0.1]),
            "end": random.choice(["A", "B", "C", "D", ""], n, p=[0.1, 0.2, 0.2, 0.4, 0.1]),
        }
    )


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """Work in a folder with stops and trips, and return the trips."""
    monkeypatch.chdir(tmp_path)
    STOPS.to_csv("stops.csv", index=False)
    found = trips()
    found.to_csv("trips.csv", index=False)
    return found


def words(*more):
    return ["publish", "trips.csv", "--place", "begin", "--to-place", "end", "--cells", "stops.csv",
            "--ledger", "l.jsonl", "--output", "map", *more]  # fmt: skip


def month(*more):
    return words("--time", "day", "--from", "2024-01-01", "--to", "2024-03-31", "--every", "month",
                 "--level", "zone:0.1", "--level", "total:0.2", "--level", "quarter:0.1",
                 *more)  # fmt: skip


def read(name):
    return pd.read_csv(Path("map") / name, keep_default_na=False)


def test_every_pair_has_the_number_of_its_trips(frame):
    assert main(words("--unit", "record", "--eps", "200")) == 0
    table = read("map.csv")
    known = frame[frame["begin"].isin(list("ABCD")) & frame["end"].isin(list("ABCD"))]
    expected = known.groupby(["begin", "end"]).size()
    assert table["origin"].tolist() == [a for a in "ABCD" for _ in "ABCD"]
    counts = table.set_index(["origin", "destination"])["estimate"]
    assert counts.to_dict() == expected.to_dict()
    levels = read("levels.csv")
    assert levels["level"].unique().tolist() == ["departures", "arrivals", "total"]
    assert levels["raw"].tolist() == [""] * 9
    departures = levels[levels["level"] == "departures"].set_index("origin")["estimate"]
    assert departures.to_dict() == known.groupby("begin").size().to_dict()
    places = gpd.read_parquet("map/places.parquet")
    lines = gpd.read_parquet("map/map.parquet")
    assert places["id"].tolist() == list("ABCD")
    assert lines.geometry[1] == shapely.LineString([(2.30, 48.80), (2.33, 48.81)])


def test_coordinates_and_places_count_the_same_trips(frame):
    at = STOPS.set_index("id")
    known = frame[frame["begin"].isin(at.index) & frame["end"].isin(at.index)]
    for prefix, column in (("", "begin"), ("to_", "end")):
        for name in ("latitude", "longitude"):
            known = known.assign(**{prefix + name: at.loc[known[column], name].to_numpy()})
    known.to_csv("trips.csv", index=False)
    box = ["--cells", "shape:2x2", "--box", "48.795", "48.835", "2.29", "2.36"]
    assert main(["publish", "trips.csv", "--latitude", "latitude", "--longitude", "longitude",
                 "--to-latitude", "to_latitude", "--to-longitude", "to_longitude", "--unit",
                 "record", "--eps", "200", *box, "--ledger", "l",
                 "--output", "map"]) == 0  # fmt: skip
    cell = {"A": "1-1", "B": "1-2", "C": "2-1", "D": "2-2"}
    expected = known.groupby([known["begin"].map(cell), known["end"].map(cell)]).size()
    table = read("map.csv").set_index(["origin", "destination"])["estimate"]
    assert table[table > 0].to_dict() == expected.to_dict()


def test_all_levels_add_up_and_areas_have_their_intervals(frame):
    assert main(month("--unit", "user", "--user", "rider", "--records-per-user", "4",
                      "--eps", "2", "--elsewhere")) == 0  # fmt: skip
    table, levels = read("map.csv"), read("levels.csv")
    zone = dict(zip(STOPS["id"], STOPS["zone"], strict=True)) | {"elsewhere": "elsewhere"}
    for column in ("count", "estimate"):
        for level, keys in (
            ("departures", [table["origin"]]),
            ("arrivals", [table["destination"]]),
            ("zone to zone", [table["origin"].map(zone), table["destination"].map(zone)]),
            ("departures by zone", [table["origin"].map(zone)]),
        ):
            sums = table.groupby([table["window"], *keys])[column].sum()
            own = levels[(levels["level"] == level) & (levels["every"] == "windows")]
            assert (
                sums.to_numpy().tolist()
                == own.sort_values(["window", "origin", "destination"], kind="stable")[
                    column
                ].tolist()
            )
        total = levels[(levels["level"] == "total") & (levels["every"] == "quarter")]
        assert table[column].sum() == total[column].iloc[0]
    assert (table["estimate"] >= 0).all()
    own = levels[(levels["level"] == "departures by zone") & (levels["origin"] == "outer")]
    own = own[own["every"] == "windows"][["count", "low", "high"]]
    area = shuffledp.area("map", cells=["C", "D"])
    assert area[["count", "low", "high"]].to_numpy().tolist() == own.to_numpy().tolist()
    assert (area["to_cells"] == 5).all()
    one = shuffledp.area("map", cells=["B"], to_cells=["D"], windows=["2024-02"]).iloc[0]
    pair = table[(table["window"] == "2024-02") & (table["origin"] == "B")]
    pair = pair[pair["destination"] == "D"].iloc[0]
    assert one[["count", "low", "high"]].tolist() == pair[["count", "low", "high"]].tolist()
    statement = json.loads(Path("map/statement.json").read_text())
    scales = {(row["areas"], row["times"]): row.get("scale") for row in statement["levels"]}
    assert scales["departures", "windows"] == pytest.approx(4 / (2 * 0.7 * 0.2 * 0.9))
    assert scales["total", "quarter"] == pytest.approx(4 / (2 * 0.2 * 0.2 * 0.1))


def test_intervals_of_trips_cover_as_often_as_they_say(tmp_path, monkeypatch):
    """Every pair has 40 trips, so that each publication tests all of them."""
    monkeypatch.chdir(tmp_path)
    ids = [f"{number:02}" for number in range(12)]
    pd.DataFrame({"id": ids, "latitude": np.arange(12) / 100, "longitude": 0.0}).to_csv(
        "stops.csv", index=False
    )
    pairs = pd.DataFrame([(a, b) for a in ids for b in ids] * 40, columns=["begin", "end"])
    missed: dict[str, list[bool]] = {}
    for number in range(10):
        result = shuffledp.publish(
            Source(pairs, "trips", place="begin", to_place="end"), f"map{number}",
            cells=MapCells("stops.csv"), protection=Protection("record", eps=0.5),
            levels=Levels({"total": "0.2"}), ledger=f"l{number}",
        )  # fmt: skip
        levels = pd.read_csv(result.folder / "levels.csv")
        for name, part, truth in (
            ("pairs", pd.read_csv(result.folder / "map.csv"), 40),
            ("departures", levels[levels["level"] == "departures"], 480),
            ("arrivals", levels[levels["level"] == "arrivals"], 480),
        ):
            missed.setdefault(name, []).extend((part["low"] > truth) | (part["high"] < truth))
    for outside in missed.values():
        assert np.mean(outside) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / len(outside))


def test_a_preview_of_trips_agrees_with_the_map(frame):
    record = ("--unit", "record", "--eps", "1")
    table = shuffledp.preview(
        cells=MapCells("stops.csv", flows=True), protection=Protection("record", eps=1),
        levels=Levels({"zone": "0.1", "total": "0.2", "quarter": "0.1"}),
        windows=Period("2024-01-01", "2024-03-31", "month"),
    )  # fmt: skip
    assert main(month(*record)) == 0
    statement = json.loads(Path("map/statement.json").read_text())
    for row, published in zip(table.to_dict("records"), statement["levels"], strict=True):
        for name in ("areas", "times", "number", "error", "half_width"):
            assert row[name] == published[name]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--to-latitude", "end"), "--to-latitude and --to-longitude, or --to-place"),
        (("--levels", "auto", "--level", "total:3", "--level", "cells:3"), "not for trips"),
        (("--to-place", "stop"), "has no column 'stop' (--to-place)"),
    ],
)
def test_trips_that_cannot_be_counted_are_refused(frame, capsys, changed, message):
    assert main(words("--unit", "record", "--eps", "1", *changed)) == 2
    assert message in capsys.readouterr().err
    assert not Path("map").exists()


def test_areas_of_trips_need_a_beginning_or_an_end(frame, capsys):
    assert main(words("--unit", "record", "--eps", "1")) == 0
    with pytest.raises(InputError, match="where trips begin or end"):
        shuffledp.area("map")
    assert main(["publish", "trips.csv", "--place", "begin", "--unit", "record", "--eps", "1",
                 "--cells", "stops.csv", "--ledger", "l2", "--output", "stops"]) == 0  # fmt: skip
    with pytest.raises(InputError, match="has no trips"):
        shuffledp.area("stops", cells=["A"], to_cells=["B"])


# --- Sparse maps ----------------------------------------------------------------------------


def sparse(*more, eps="2", delta="1e-6"):
    return words("--unit", "user", "--user", "rider", "--records-per-user", "4", "--sparse",
                 "--eps", eps, "--delta", delta, *more)  # fmt: skip


def test_a_sparse_map_shows_counts_that_reach_the_threshold(frame):
    assert main(sparse("--level", "total:0.1")) == 0
    table, levels = read("map.csv"), read("levels.csv")
    statement = json.loads(Path("map/statement.json").read_text())
    rule, scale = statement["sparse"], statement["mechanism"]["scale"]
    assert scale == pytest.approx(4 / (2 * 0.81))
    contributions = Contributions("user", 4)
    expected = smallest_threshold(1e-6, scale, contributions)
    assert (rule["threshold"], rule["delta"]) == (expected.least, expected.delta)
    assert statement["guarantee"]["delta"] == expected.delta <= 1e-6
    assert statement["guarantee"]["delta_for_replacement"] == expected.delta
    assert 0 < len(table) <= 16
    assert (table["raw"] >= expected.least).all()
    assert table["origin"].tolist() == sorted(table["origin"])
    assert len(levels) == 9  # departures, arrivals and total are of the list of stops
    registered = yaml.safe_load(Path("map/statement.yaml").read_text())
    assert registered["deployment"]["dp_variant"]["variant_name"] == "Approximate DP"
    said = " ".join(Path("map/statement.md").read_text().split())
    assert f"at least {expected.least} after noise" in said
    with pytest.raises(InputError, match="sums of them are not known"):
        shuffledp.area("map", cells=["A"])


def test_intervals_of_sparse_maps_cover_shown_and_hidden_counts(tmp_path, monkeypatch):
    """Over all cells, whether they are shown or not; true counts are on both sides of the limit."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(9)
    truth = random.integers(0, 60, 40 * 40)
    rows = [f"{i // 40 + 1}-{i % 40 + 1},{count}" for i, count in enumerate(truth)]
    Path("counts.csv").write_text("cell,count\n" + "\n".join(rows) + "\n")
    missed, shown = [], 0
    for number in range(5):
        result = shuffledp.publish(
            "counts.csv", f"map{number}", ledger=f"l{number}",
            cells=MapCells("shape:40x40", box=(0, 1, 0, 1)),
            protection=Protection("record", eps=0.5, delta=1e-4, sparse=True),
        )  # fmt: skip
        table = pd.read_csv(result.folder / "map.csv")
        rule = result.statement["sparse"]
        low, high = np.zeros(1600), np.full(1600, rule["hidden_at_most"])
        low[table["cell"]], high[table["cell"]] = table["low"], table["high"]
        missed.extend((truth < low) | (truth > high))
        shown += len(table)
        assert (truth[table["cell"]] > 0).all()
        assert list(result.folder.glob("*.html")) == []
    assert 1000 < shown < 7000
    assert np.mean(missed) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / len(missed))


def test_the_ledger_adds_up_the_deltas_of_thresholds(frame, capsys):
    assert main(sparse("--total", "9", "--total-delta", "2.2e-6")) == 0
    said = " ".join(capsys.readouterr().out.split())
    first = json.loads(Path("map/statement.json").read_text())["sparse"]["delta"]
    assert f"delta={2.2e-6 - first:.5e}"[:9] in said
    for number in range(4):
        again = main(sparse("--again", "--output", f"again{number}"))
        if again:
            break
    state = read_ledger(Path("l.jsonl"))
    spent = sum(charge.delta for charge in state.charges)
    assert again == 2
    assert spent <= 2.2e-6 < spent + first
    assert "the threshold costs delta=" in capsys.readouterr().err
    assert main(words("--unit", "user", "--user", "rider", "--eps", "1", "--output", "dense")) == 0


EVERYWHERE = pd.DataFrame(
    {
        "latitude": [48.86, -17.8, 52.4, 48.86],
        "longitude": [2.35, 179.99, -179.99, 2.36],
        "to_latitude": [48.87, -17.8, 52.4, 48.86],
        "to_longitude": [2.30, -179.99, 179.99, 2.36],
        "records": [900, 700, 800, 3],
    }
)


@pytest.mark.parametrize("flows", [False, True])
def test_hexagons_of_the_whole_earth_need_no_list(tmp_path, flows):
    """The published files say nothing of hexagons whose counts are hidden."""
    records = EVERYWHERE.loc[EVERYWHERE.index.repeat(EVERYWHERE["records"])]
    records = records.sample(frac=1, random_state=4)
    ends = {"to_latitude": "to_latitude", "to_longitude": "to_longitude"} if flows else {}
    published = shuffledp.publish(
        Source(records, "r", latitude="latitude", longitude="longitude", **ends),
        tmp_path / "map",
        cells=MapCells("h3:8"),
        protection=Protection("record", 1, 1e-8, sparse=True),
        ledger=tmp_path / "l",
    )
    table = published.to_frame()
    of_cell = EVERYWHERE["records"].tolist()[:3]
    index = [
        h3.latlng_to_cell(*place, 8) for place in EVERYWHERE[["latitude", "longitude"]].to_numpy()
    ]
    truth = dict(zip(index[:3], of_cell, strict=True))
    names = table["origin" if flows else "id"].tolist()
    assert sorted(names) == sorted(truth)
    assert np.abs(table["raw"] - [truth[name] for name in names]).max() < 60
    assert table.geometry.is_valid.all()
    order = table["cell"] if not flows else pd.read_parquet(tmp_path / "map/map.parquet")["origin"]
    assert order.is_monotonic_increasing
    assert published.statement["cells"]["number"] == h3.get_num_cells(8)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "map").iterdir())
    assert all(name.encode() in everything for name in truth)
    assert index[3].encode() not in everything
    if flows:
        places = gpd.read_parquet(tmp_path / "map/places.parquet")
        assert len(places) == len({*table["origin"], *table["destination"]})


HEXAGONS, SPARSE = MapCells("h3:8"), Protection("record", 1, 1e-8, sparse=True)
MANY = Protection("user", 1, 1e-8, records_per_user=10**7, sparse=True)
MONTHS = Period("2024-01-01", "2024-03-31", every="month")
QUARTERS = {"windows": MONTHS, "levels": Levels({"quarter": "0.1"})}


@pytest.mark.parametrize(
    ("cells", "protection", "options", "message"),
    [
        (HEXAGONS, SPARSE, {"levels": Levels({"total": "0.1"})}, "levels need a list of the cells"),
        (HEXAGONS, SPARSE, QUARTERS, "levels need a list of the cells"),
        (MapCells("h3:16"), SPARSE, {}, "resolution from 0 to 15"),
        (MapCells("metres:100"), SPARSE, {}, "need a region"),
        (HEXAGONS, Protection("record", 1, 1e-8), {}, "need a region"),
        (HEXAGONS, MANY, {}, "at most 1,000,000"),
        (MapCells("h3:12", flows=True), SPARSE, {}, "cannot be numbered"),
        (MapCells("h3:8", elsewhere=True), SPARSE, {}, "leave out --elsewhere"),
    ],
)
def test_what_needs_a_list_of_cells_is_refused_without(cells, protection, options, message):
    with pytest.raises(InputError, match=message):
        shuffledp.preview(cells=cells, protection=protection, **options)


def test_a_ledger_without_delta_refuses_sparse_maps(frame, capsys):
    assert main(words("--unit", "user", "--user", "rider", "--eps", "1", "--total", "9")) == 0
    assert main(sparse("--output", "sparse")) == 2
    assert "which the first publication sets (--total-delta)" in capsys.readouterr().err
    gaussian = ("--mechanism", "gaussian", "--delta", "1e-6", "--ledger", "g", "--output", "g.map")
    assert main(words("--unit", "record", "--eps", "1", "--total", "9", *gaussian)) == 0
    record = ("--unit", "record", "--eps", "1", "--delta", "1e-6", "--sparse")
    assert main(words(*record, "--ledger", "g", "--output", "sparse")) == 2
    assert "counts rho of zCDP" in capsys.readouterr().err
    assert not Path("sparse").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--delta", "0"), "--sparse needs a --delta"),
        (("--mechanism", "gaussian"), "leave out --mechanism"),
        (("--level", "total:0"), "need shares above 0"),
        (("--levels", "auto", "--level", "total:9"), "--levels auto is not for sparse maps"),
        (("--total-delta", "2"), "total_delta must be from 0"),
    ],
)
def test_sparse_maps_that_cannot_be_made_are_refused(frame, capsys, more, message):
    assert main(sparse(*more)) == 2
    assert message in capsys.readouterr().err
    assert not Path("map").exists()


def test_a_preview_of_a_sparse_map_says_what_it_hides(frame):
    table = shuffledp.preview(
        cells=MapCells("stops.csv", flows=True),
        protection=Protection("user", 2, 1e-6, records_per_user=4, sparse=True),
        levels=Levels({"total": "0.1"}),
    )
    assert main(sparse("--level", "total:0.1")) == 0
    statement = json.loads(Path("map/statement.json").read_text())
    for row, published in zip(table.to_dict("records"), statement["levels"], strict=True):
        assert (row["error"], row["half_width"]) == (published["error"], published["half_width"])
    assert table["threshold"][0] == statement["sparse"]["threshold"]
    assert table["hidden_at_most"][0] == statement["sparse"]["hidden_at_most"]


@pytest.mark.parametrize(
    ("m", "eps", "error", "threshold", "hidden"),
    [(1, 1, 1.357, 20, 22), (4, 1, 5.642, 78, 89), (4, 4, 1.357, 23, 25), (10, 1, 14.14, 202, 231)],
)
def test_the_table_of_the_how_to_is_what_a_preview_says(m, eps, error, threshold, hidden):
    """Which form to take; docs/publish.md has these numbers."""
    (row,) = shuffledp.preview(
        cells=MapCells("shape:10x10", box=(0, 1, 0, 1)),
        protection=Protection("user", eps, 1e-8, records_per_user=m, sparse=True),
    ).to_dict("records")
    assert row["error"] == pytest.approx(error, abs=5e-4 if m < 10 else 5e-3)
    assert (row["threshold"], row["hidden_at_most"]) == (threshold, hidden)
    page = (Path(__file__).parents[2] / "docs" / "publish.md").read_text()
    assert f"| {m} | {eps} | 1e-8 | {error:.3g} | {threshold} | {hidden} |" in page


def test_a_sparse_map_promises_a_delta_even_where_it_is_tiny(frame):
    assert main(sparse("--records-per-user", "1", eps="900")) == 0
    statement = json.loads(Path("map/statement.json").read_text())
    assert statement["guarantee"]["flavour"] == "approximate"
    assert statement["guarantee"]["delta"] > 0
    assert "except with a probability of at most" in Path("map/statement.md").read_text()


def test_a_map_that_shows_nothing_has_columns_of_the_same_types(frame):
    assert main(sparse("--distinct", eps="1", delta="1e-90")) == 0
    assert read("map.csv").empty
    assert main(sparse("--output", "shown", "--ledger", "l2", "--level", "total:0.1")) == 0
    empty, some = (pq.read_schema(f"{name}/map.parquet") for name in ("map", "shown"))
    assert empty.types == some.types
    assert "what only one user has is shown" in Path("map/statement.md").read_text()


def test_counts_that_a_sparse_map_may_hide_are_not_enough(frame):
    (row,) = shuffledp.preview(
        cells=MapCells("stops.csv"), at_least=80,
        protection=Protection("user", 1, 1e-8, records_per_user=4, sparse=True),
    ).to_dict("records")  # fmt: skip
    assert row["nonzero_from"] == row["hidden_at_most"] + 1 == 90
    assert not row["enough"]


def test_a_share_of_minus_zero_is_the_same_request(frame, capsys):
    assert main(words("--unit", "record", "--eps", "1", "--level", "total:0")) == 0
    assert main(words("--unit", "record", "--eps", "1", "--level", "total:-0")) == 0
    assert "was published before" in " ".join(capsys.readouterr().out.split())
