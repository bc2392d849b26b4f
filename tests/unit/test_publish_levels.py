"""One publication answers several questions: levels, areas, preview, places, profiles, tables."""

import json
from contextlib import chdir
from pathlib import Path

import geopandas as gpd
import jsonschema
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import shapely
import yaml

import shuffledp
from shuffledp.cli import main
from shuffledp.errors import InputError
from shuffledp.publishing.options import Levels, MapCells, Period, Protection, Source
from shuffledp.publishing.statement import COMMIT, registry_record

BOX = ("--box", "0", "1", "0", "1")
POSITION = ("--latitude", "lat", "--longitude", "lon")
YEAR = ("--time", "when", "--from", "2024-01-01", "--to", "2024-12-31")
STOPS = "stop_id,stop_name,stop_lat,stop_lon,zone\n" + "\n".join(
    f"{identifier},{name},{48.8 + i / 100},{2.3 + i / 50},{zone}"
    for i, (identifier, name, zone) in enumerate(
        [("A", "North", "inner"), ("007", "Bond Street", "inner"), ("C", "Terminus", "outer")]
    )
)


def write_records(folder):
    """Write 6,000 taps of 500 cards in a year, at places and positions, and a list of stops."""
    random = np.random.default_rng(7)
    n = 6_000
    frame = pd.DataFrame(
        {
            "card": random.integers(0, 500, n),
            "when": pd.to_datetime("2024-01-01") + pd.to_timedelta(random.integers(0, 366, n), "D"),
            "stop": random.choice(["A", "7", "C", "gone", ""], n, p=[0.5, 0.2, 0.1, 0.15, 0.05]),
            "lat": random.beta(3, 3, n).round(6),
            "lon": random.beta(3, 3, n).round(6),
        }
    )
    frame.to_csv(folder / "taps.csv", index=False)
    (folder / "stops.txt").write_text(STOPS + "\n")
    return frame


@pytest.fixture
def taps(tmp_path, monkeypatch):
    """Work in a folder with records, and return them."""
    monkeypatch.chdir(tmp_path)
    return write_records(tmp_path)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Return the folder of a map with levels of areas and times, and the records."""
    folder = tmp_path_factory.mktemp("example")
    frame = write_records(folder)
    with chdir(folder):
        assert main(squares("--every", "month", "--level", "total:0.1", "--level", "shape:2x2:0.3",
                            "--level", "quarter:0.2")) == 0  # fmt: skip
    return folder / "map", frame


def squares(*more, eps="2"):
    return ["publish", "taps.csv", *POSITION, *YEAR, "--unit", "record", "--cells", "shape:4x4",
            *BOX, "--eps", eps, "--ledger", "l.jsonl", "--output", "map", *more]  # fmt: skip


def stops(*more):
    return ["publish", "taps.csv", "--place", "stop", "--unit", "record", "--cells", "stops.txt",
            "--eps", "50", "--ledger", "l.jsonl", "--output", "map", *more]  # fmt: skip


def read(folder):
    folder = Path(folder)
    levels = pd.read_csv(folder / "levels.csv") if (folder / "levels.csv").exists() else None
    statement = json.loads((folder / "statement.json").read_text())
    return pd.read_csv(folder / "map.csv", dtype={"id": str}), levels, statement


def published(words):
    assert main(words) == 0
    return read("map")


# --- Levels ---------------------------------------------------------------------------------


def test_counts_and_estimates_of_all_levels_add_up_exactly(example):
    table, levels, _ = read(example[0])
    for column in ("count", "estimate"):
        for area, by_area in (("cells", "id"), ("shape:2x2", "shape:2x2"), ("total", "total")):
            sums = table.groupby(["window", by_area])[column].sum()
            own = levels[(levels["level"] == area) & (levels["every"] == "windows")]
            if area != "cells":
                expected = own.set_index(["window", "id"])[column]
                assert sums.to_dict() == expected.to_dict()
            quarters = sums.groupby(
                [lambda key: f"2024-Q{(int(key[0][5:]) + 2) // 3}", lambda key: key[1]]
            ).sum()
            own = levels[(levels["level"] == area) & (levels["every"] == "quarter")]
            assert quarters.to_dict() == own.set_index(["window", "id"])[column].to_dict()
    assert (table["estimate"] >= 0).all()
    assert table["estimate"].dtype == np.int64


def test_raw_counts_of_levels_have_noise_of_their_own(example):
    table, levels, statement = read(example[0])
    total = levels[(levels["level"] == "total") & (levels["every"] == "windows")]
    assert (table.groupby("window")["raw"].sum().to_numpy() != total["raw"].to_numpy()).any()
    scales = {(row["areas"], row["times"]): row["scale"] for row in statement["levels"]}
    shares = {"cells": 0.6, "shape:2x2": 0.3, "total": 0.1, "windows": 0.8, "quarter": 0.2}
    for (area, time), scale in scales.items():
        assert scale == pytest.approx(1 / (2 * shares[area] * shares[time]))


def test_intervals_of_every_level_cover_as_often_as_they_say(tmp_path, monkeypatch):
    """All counts are the same, so that many publications test each level at once."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{row}-{column},40" for row in range(1, 25) for column in range(1, 25)]
    Path("counts.csv").write_text("cell,count\n" + "\n".join(rows) + "\n")
    missed, errors = {}, {}
    for number in range(12):
        result = shuffledp.publish(
            "counts.csv",
            f"map{number}",
            cells=MapCells("shape:24x24", box=(0, 1, 0, 1)),
            protection=Protection("record", eps=1),
            levels=Levels({"shape:12x12": "0.2", "shape:4x4": "0.1"}),
            ledger=f"l{number}.jsonl",
        )
        table, levels, statement = read(result.folder)
        for name, part, truth in (
            ("cells", table, 40),
            ("shape:12x12", levels[levels["level"] == "shape:12x12"], 160),
            ("shape:4x4", levels[levels["level"] == "shape:4x4"], 1440),
        ):
            outside = (part["low"] > truth) | (part["high"] < truth)
            missed.setdefault(name, []).extend(outside)
            errors.setdefault(name, []).extend(part["count"] - truth)
    stated = {row["areas"]: row["error"] for row in statement["levels"]}
    for name, outside in missed.items():
        assert np.mean(outside) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / len(outside))
        spread = np.sqrt(np.mean(np.square(errors[name])))
        assert spread == pytest.approx(stated[name], rel=6 / np.sqrt(len(outside)))
        assert abs(np.mean(errors[name])) < 5 * stated[name] / np.sqrt(len(outside))


def test_an_estimate_may_lie_outside_its_interval_and_the_statement_says_why(taps):
    table, _, _ = published(squares("--level", "total:0.05", eps="0.02"))
    outside = (table["estimate"] < table["low"]) | (table["estimate"] > table["high"])
    assert (table["low"] <= table["high"]).all()
    assert outside.mean() < 0.5
    assert "may lie outside of the interval" in " ".join(
        Path("map/statement.md").read_text().split()
    )


def test_shares_are_chosen_for_the_errors_that_are_wanted(taps):
    errors = {"cells": 3, "shape:2x2": 2, "total": 2}
    words = [word for name, error in errors.items() for word in ("--level", f"{name}:{error}")]
    _, _, statement = published(squares("--levels", "auto", *words))
    ratios = [row["error"] / errors[row["areas"]] for row in statement["levels"]]
    # At the best shares, no level can gain without another one losing.
    assert max(ratios) < 1.03 * min(ratios)
    assert sum(float(row["share"]) for row in statement["levels"]) == pytest.approx(1)


def test_an_error_that_hardly_needs_a_share_gets_none(taps):
    _, _, statement = published(
        squares("--levels", "auto", "--level", "cells:3", "--level", "total:500")
    )
    assert [row["share"] for row in statement["levels"]] == ["1.000", "0"]


def test_a_level_without_a_share_has_the_sums_and_costs_nothing(taps):
    """Its numbers are sums, cells keep the whole budget, and areas agree with it."""
    words = squares("--every", "month", "--level", "shape:2x2:0", "--level", "quarter:0.2",
                    "--level", "total:0")  # fmt: skip
    table, levels, statement = published(words)
    noises = {(row["areas"], row["times"]): row.get("scale") for row in statement["levels"]}
    assert {at: scale for at, scale in noises.items() if scale} == pytest.approx(
        {("cells", "windows"): 1 / (2 * 0.8), ("cells", "quarter"): 1 / (2 * 0.2)}
    )
    for column in ("count", "estimate"):
        sums = table.groupby(["window", "shape:2x2"])[column].sum()
        own = levels[(levels["level"] == "shape:2x2") & (levels["every"] == "windows")]
        assert sums.to_dict() == own.set_index(["window", "id"])[column].to_dict()
    drawn = (levels["level"] == "cells") & (levels["every"] == "quarter")
    assert (levels["raw"].notna() == drawn).all()
    own = levels[(levels["level"] == "total") & (levels["window"] == "2024-Q3")]
    area = shuffledp.area("map", cells=table["id"].unique().tolist(), windows=["2024-Q3"])
    columns = ["count", "low", "high"]
    assert area[columns].to_numpy().tolist() == own[columns].to_numpy().tolist()
    assert "sums of counts, no noise of its own" in Path("map/statement.md").read_text()


def test_a_preview_says_what_a_level_would_gain(taps):
    table = shuffledp.preview(
        cells=MapCells("shape:64x64", box=(0, 1, 0, 1)),
        protection=Protection("record", eps=1),
        levels=Levels({"shape:8x8": "0.2", "total": 0}),
    )
    assert table["without_levels"].round(2).tolist() == [1.36, 10.86, 86.85]
    assert table["error"].round(2).tolist() == [1.71, 6.28, 50.26]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--level", "total"), "--level must be NAME:SHARE"),
        (("--level", "total:0.1", "--level", "total:0.2"), "each name once"),
        (("--level", "metres:9:0.1", "--level", "meters:9:0.2"), "each name once"),
        (("--level", "total:1"), "add up to less than 1"),
        (("--level", "total:-0.1"), "must be 0"),
        (("--level", "total:some"), "the share of total must be a number"),
        (("--level", "borough:0.1"), "there is no level 'borough'"),
        (("--level", "name:0.1"), "which is a column of the map"),
        (("--level", "h3:6:0.1"), "needs cells of the same kind"),
        (("--level", "shape:3x3:0.1"), "consist of whole cells"),
        (("--level", "shape:-2x2:0.1"), "consist of whole cells"),
        (("--level", "shape:0x0:0.1"), "consist of whole cells"),
        (("--level", "total:1e-400"), "must be 0"),
        (("--levels", "auto", "--level", "cells:3"), "name a level above them"),
        (("--levels", "auto", "--level", "total:9"), "needs the wanted error of cells, too"),
        (("--level", "shape:2x1:0.1", "--level", "shape:1x2:0.1"), "levels must be nested"),
        (("--every", "week", "--to", "2024-12-29", "--level", "month:0.1"), "more than one month"),
        (("--profile", "hour", "--level", "month:0.1"), "a profile has no level month"),
        (("--every", "month", "--profile", "hour"), "would count a record twice"),
        (("--levels", "auto"), "needs the wanted error"),
        (("--every", "quarter", "--level", "quarter:0.1"), "count the same as windows once more"),
        (("--every", "day", "--every", "month"), "--every may be given only once"),
        (("--at-least", "3", "--cells", "h3:3"), "--cells may be given only once"),
    ],
)
def test_levels_that_cannot_be_counted_are_refused_and_cost_nothing(
    taps, capsys, arguments, message
):
    assert main(squares(*arguments)) == 2
    assert message in capsys.readouterr().err
    assert not Path("map").exists()
    assert not Path("l.jsonl").exists() or not Path("l.jsonl").read_text()


def test_levels_of_time_are_refused_with_a_bound_in_each_window(taps, capsys):
    words = squares("--every", "month", "--level", "quarter:0.1", "--user", "card", "--per-window")
    assert main([*words, "--unit", "user"]) == 2
    assert "leave out --per-window or the levels of time" in capsys.readouterr().err


def test_hexagons_and_squares_of_a_size_have_coarser_ones(taps):
    for kind, level, box in (
        ("h3:6", "h3:4", ("0", "1", "0", "1")),
        ("metres:500", "metres:2000", ("0.5", "0.55", "0.5", "0.55")),
        ("step:0.1x0.05", "step:0.2x0.1", ("0", "1", "0", "1")),
    ):
        words = ["publish", "taps.csv", *POSITION, "--unit", "record", "--cells", kind, "--box",
                 *box, "--level", f"{level}:0.5", "--eps", "100", "--ledger", f"{level}.jsonl",
                 "--output", "map"]  # fmt: skip
        table, levels, _ = published(words)
        sums = table.groupby(level)["count"].sum()
        assert sums.to_dict() == levels.set_index("id")["count"].to_dict()
        assert len(levels) < len(table)
        Path("map").rename(level)


@pytest.mark.parametrize(("mechanism", "bound"), [("laplace", 0), ("gaussian", 1e-6)])
@pytest.mark.parametrize("eps", [0.01, 100, 1000])
def test_levels_have_intervals_at_every_eps(tmp_path, monkeypatch, mechanism, bound, eps):
    monkeypatch.chdir(tmp_path)
    Path("counts.csv").write_text("cell,count\n1-1,5000000000\n4-4,7\n")
    result = shuffledp.publish(
        "counts.csv", "map", ledger="l.jsonl", cells=MapCells("shape:4x4", box=(0, 1, 0, 1)),
        protection=Protection("record", eps, delta=bound, mechanism=mechanism),
        levels=Levels({"shape:2x2": "0.20", "total": "0.1"}),
    )  # fmt: skip
    table, levels, _ = read(result.folder)
    assert table["count"].sum() == levels["count"].iloc[-1]
    assert table["estimate"].sum() == levels["estimate"].iloc[-1]
    if eps == 1000:
        assert table["count"].tolist() == [5e9, *[0] * 14, 7]
    again = shuffledp.publish(
        "counts.csv", "map", ledger="l.jsonl", cells=MapCells("shape:4x4", box=(0, 1, 0, 1)),
        protection=Protection("record", f"{eps:.3f}", delta=bound, mechanism=mechanism),
        levels=Levels({"shape:2x2": "0.2", "total": "0.10"}),
    )  # fmt: skip
    assert not again.new


def test_nothing_is_charged_if_intervals_cannot_be_computed(taps, monkeypatch):
    monkeypatch.setattr(shuffledp.publishing.levels, "half_width", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(squares("--level", "total:0.1"))
    assert not Path("l.jsonl").read_text()


# --- Areas ----------------------------------------------------------------------------------


def test_an_area_that_is_a_level_has_its_published_count_and_interval(example):
    folder, _ = example
    table, levels, _ = read(folder)
    cells = table.loc[table["shape:2x2"] == "1-2", "id"].unique().tolist()
    found = shuffledp.area(folder, cells=cells).set_index("window")
    own = levels[(levels["level"] == "shape:2x2") & (levels["id"] == "1-2")]
    own = own[own["every"] == "windows"].set_index("window")
    for column in ("count", "low", "high"):
        assert found[column].to_dict() == own[column].to_dict()
    quarter = shuffledp.area(folder, cells=cells, windows=["2024-04", "2024-05", "2024-06"])
    named = shuffledp.area(folder, cells=cells, windows=["2024-Q2"])
    pd.testing.assert_frame_equal(named.drop(columns="window"), quarter.drop(columns="window"))
    own = levels[(levels["level"] == "shape:2x2") & (levels["id"] == "1-2")]
    own = own[own["window"] == "2024-Q2"]
    assert quarter[["count", "low", "high"]].to_numpy().tolist() == (
        own[["count", "low", "high"]].to_numpy().tolist()
    )


def test_an_area_is_a_polygon_a_geometry_or_cells(example, tmp_path, capsys):
    folder, _ = example
    park = shapely.box(0.2, 0.2, 0.8, 0.8)  # the middles of four cells, and parts of twelve
    path = tmp_path / "park.geojson"
    gpd.GeoSeries([park], crs=4326).to_file(path)
    whole = shuffledp.area(folder, polygon=park)
    assert whole["cells"].tolist() == [4] * 12
    assert len(whole["cut"][0].split()) == 12
    pd.testing.assert_frame_equal(whole, shuffledp.area(folder, polygon=path))
    assert (shuffledp.area(folder, polygon=park, touching=True)["cells"] == 16).all()
    assert main(["area", str(folder), "--polygon", str(path), "--window", "2024-02", "--minus",
                 "2024-01", "--format", "json"]) == 0  # fmt: skip
    (row,) = json.loads(capsys.readouterr().out)
    difference = whole["count"][1] - whole["count"][0]
    assert row["count"] == difference
    assert row["low"] < difference < row["high"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either a polygon or the ids"),
        ({"cells": []}, "at least one cell"),
        ({"polygon": shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])}, "a valid geometry"),
        ({"cells": ["9-9"]}, "no cell has the id '9-9'"),
        ({"cells": ["1-1"], "windows": ["2023-01"]}, "there is no window '2023-01'"),
        ({"cells": ["1-1"], "minus": ["2024-01"]}, "--minus needs --window"),
        ({"polygon": shapely.box(5, 5, 6, 6)}, "no cell of the map has its middle in the area$"),
        ({"polygon": shapely.box(0.1, 0.1, 0.11, 0.11)}, "give --touching"),
        ({"cells": ["1-1"], "windows": ["2024-Q1", "2024-02"]}, "count twice"),
        ({"cells": ["1-1"], "windows": ["2024-Q1"], "minus": ["2024-Q1"]}, "difference is 0"),
    ],
)
def test_areas_that_cannot_be_added_up(example, arguments, message):
    with pytest.raises(InputError, match=message):
        shuffledp.area(example[0], **arguments)


# --- Preview --------------------------------------------------------------------------------


def test_a_preview_reads_no_record_and_agrees_with_the_map(example, tmp_path, monkeypatch, capsys):
    _, _, statement = read(example[0])
    monkeypatch.chdir(tmp_path)
    Path("taps.csv").mkdir()  # a file that cannot be read
    words = squares("--every", "month", "--level", "total:0.1", "--level", "shape:2x2:0.3",
                    "--level", "quarter:0.2", "--preview", "--output", "preview.csv")  # fmt: skip
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "No record was read and nothing was charged" in said
    table = pd.read_csv("preview.csv")
    for row, published in zip(table.to_dict("records"), statement["levels"], strict=True):
        for name in ("areas", "times", "number", "error", "half_width"):
            assert row[name] == published[name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["preview.csv", "taps.csv"]


def test_a_preview_compares_sizes_and_says_what_a_known_count_is_enough_for(tmp_path, capsys):
    picture = tmp_path / "preview.png"
    words = ["publish", "--preview", "--unit", "record", "--cells", "h3:5", "--cells", "h3:6",
             *BOX, "--eps", "0.1", "--eps", "1", "--at-least", "50",
             "--output", str(picture)]  # fmt: skip
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "A count of 50 is enough for: h3:5 at eps=1; h3:6 at eps=1." in said
    assert "A count of 50 is not enough for: h3:5 at eps=0.1; h3:6 at eps=0.1." in said
    assert picture.read_bytes().startswith(b"\x89PNG")


# --- Places, windows and tables -------------------------------------------------------------


def test_records_that_name_their_stop_need_no_coordinates(taps):
    table, levels, statement = published(stops("--elsewhere", "--level", "zone:0.5"))
    assert table["id"].tolist() == ["A", "007", "C", "elsewhere"]
    assert table["name"].tolist() == ["North", "Bond Street", "Terminus", "Elsewhere"]
    truth = [taps["stop"].isin(names).sum() for names in (["A"], ["7"], ["C"], ["gone", ""])]
    assert (abs(table["count"] - truth) < 5).all()
    assert levels["id"].tolist() == ["inner", "outer", "elsewhere"]
    assert statement["cells"]["kind"] == "points of stops.txt"
    shapes = gpd.read_parquet("map/map.parquet").geometry
    assert shapes.geom_type.dropna().tolist() == ["Point"] * 3


def test_places_that_the_list_lacks_do_not_count(taps):
    table, _, _ = published(stops())
    assert len(table) == 3
    assert abs(table["count"].sum() - taps["stop"].isin(["A", "7", "C"]).sum()) < 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (STOPS.replace("C,", "A,"), "must be unique"),
        (STOPS.replace("48.8,", "north,"), "cannot be read as points"),
        (STOPS.replace("outer", ""), "feature 3 has no 'zone'"),
        (STOPS.replace("48.8,", "98.8,"), "latitude"),
    ],
)
def test_lists_of_stops_with_faults_are_refused(taps, capsys, content, message):
    Path("stops.txt").write_text(content)
    assert main(stops("--level", "zone:0.5")) == 2
    assert message in capsys.readouterr().err


def test_points_need_the_name_of_each_record(taps, capsys):
    words = ["publish", "taps.csv", *POSITION, "--unit", "record", "--cells", "stops.txt", "--eps",
             "1", "--ledger", "l.jsonl", "--output", "map"]  # fmt: skip
    assert main(words) == 2
    assert "so no coordinates lie in them: give --place" in capsys.readouterr().err


def test_a_profile_counts_the_days_of_the_week(taps):
    table, _, _ = published([*stops(*YEAR, "--profile", "weekday")])
    days = taps[taps["stop"] == "A"]["when"].dt.day_name()
    for day, count in table[table["id"] == "A"].set_index("window")["count"].items():
        assert abs(count - (days == day).sum()) < 5
    assert table["window"].nunique() == 7


def test_tables_in_memory_are_counted_as_files_are(taps):
    common = {"cells": MapCells("shape:4x4", box=(0, 1, 0, 1)),
              "protection": Protection("record", eps=100),
              "windows": Period("2024-01-01", "2024-12-31", "quarter")}  # fmt: skip
    columns = {"latitude": "lat", "longitude": "lon", "time": "when"}
    points = gpd.GeoDataFrame(
        taps[["when"]], geometry=gpd.points_from_xy(taps["lon"], taps["lat"]), crs=4326
    )
    for name, source in (
        ("file", Source("taps.csv", **columns)),
        ("pandas", Source(taps, "taps", **columns)),
        ("arrow", Source(pa.Table.from_pandas(taps), "taps", **columns)),
        ("polars", Source(polars.from_pandas(taps), "taps", **columns)),
        ("geopandas", Source(points.to_crs(3857), "taps", time="when")),
    ):
        result = shuffledp.publish(source, name, ledger=f"{name}.jsonl", **common)
        table = result.to_frame()
        assert table["count"].sum() == pytest.approx(6_000, abs=3)
        if name == "file":
            first = table["count"]
        assert (abs(table["count"] - first) <= 2).all()
    assert '"source": "the table taps"' in Path("pandas.jsonl").read_text()


def test_a_table_in_memory_needs_a_name(taps):
    with pytest.raises(InputError, match="a table in memory needs a name"):
        shuffledp.publish(
            taps, "map", ledger="l.jsonl", cells=MapCells("shape:4x4", box=(0, 1, 0, 1)),
            protection=Protection("record", eps=1),
        )  # fmt: skip


def test_the_record_for_the_registry_is_valid_and_repeats_the_statement(example, real_schema):
    statement = json.loads((example[0] / "statement.json").read_text())
    record = yaml.safe_load((example[0] / "statement.yaml").read_text())
    assert record == yaml.safe_load(registry_record(statement))
    gaussian = statement | {"guarantee": statement["guarantee"] | {"delta": 1e-6, "rho": 0.02}}
    for each in (record, yaml.safe_load(registry_record(gaussian))):
        validator = jsonschema.Draft7Validator(
            real_schema, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
        )
        assert not list(validator.iter_errors(each))
    privacy = record["deployment"]["privacy_loss"]["privacy_parameters"]
    assert privacy == {"epsilon": 2.0}


@pytest.fixture(scope="module")
def real_schema():
    """Return the registry's schema without its descriptions (its facts), at the named commit."""
    path = Path(__file__).with_name("deployments-registry-schema.yaml")
    schema = yaml.safe_load(path.read_text())
    assert schema.pop("x-commit") == COMMIT
    return schema


@pytest.mark.parametrize("written", ["2024-01-31 23:30", "31/01/2024 23:30", "mixed", "parquet"])
def test_times_without_an_offset_are_local_or_utc_as_declared(
    tmp_path, monkeypatch, capsys, written
):
    monkeypatch.chdir(tmp_path)
    texts = ["2024-01-31 23:30" if written in ("mixed", "parquet") else written] * 50
    frame = pd.DataFrame({"when": texts, "lat": 0.5, "lon": 0.5})
    if written == "mixed":
        frame.loc[0, "when"] = "20240131T233000,5"
    if written == "parquet":
        frame.assign(when=pd.to_datetime(frame["when"])).to_parquet("taps.csv")
    else:
        frame.to_csv("taps.csv", index=False)
    more = ["--to", "2024-02-29", "--every", "month", "--time-zone", "Europe/Paris"]
    more += ["--time-format", "%d/%m/%Y %H:%M"] if "/" in written else []
    assert main(squares(*more, eps="50")) == 2
    assert "may be local times or UTC" in capsys.readouterr().err
    for clock, month, zone in (
        ("local", "2024-01", "local time of Europe/Paris"),
        ("utc", "2024-02", "Europe/Paris"),
    ):
        table, _, _ = published([*squares(*more, "--times", clock, "--total", "100", eps="50")])
        assert table.loc[table["count"] > 25, "window"].tolist() == [month]
        assert f"every month ({zone})" in Path("map/statement.md").read_text()
        Path("map").rename(clock)


def test_times_with_an_offset_are_no_local_times(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "2024-01-31T23:30:00+01:00,0.5,0.5\n" * 50
    Path("taps.csv").write_text("when,lat,lon\n" + rows)
    assert main(squares("--times", "local")) == 2
    assert "not local times as written" in capsys.readouterr().err
    table, _, _ = published(squares("--time-zone", "Asia/Tokyo", "--every", "month", eps="50"))
    assert table.loc[table["count"] > 25, "window"].tolist() == ["2024-02"]


def test_hours_of_local_times_have_no_offset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("taps.csv").write_text("when,lat,lon\n" + "2024-03-31 02:30,0.5,0.5\n" * 50)
    words = squares("--times", "local", "--from", "2024-03-31", "--to", "2024-03-31",
                    "--every", "hour", eps="50")  # fmt: skip
    table, _, _ = published(words)
    assert table.loc[table["count"] > 25, "window"].tolist() == ["2024-03-31T02:00"]


def test_records_without_a_place_count_elsewhere(taps):
    for name in ("csv", "parquet"):
        if name == "parquet":
            table = pd.read_csv("taps.csv", dtype=str)
            Path("taps.csv").unlink()
            table.to_parquet("taps.csv")
        table, _, _ = published([*stops("--elsewhere"), "--ledger", f"{name}.l"])
        counts = table.set_index("id")["estimate"]
        assert counts["elsewhere"] == (~taps["stop"].isin(["A", "7", "C"])).sum()
        Path("map").rename(name)


def test_a_level_that_is_no_property_may_be_meant_as_a_time(taps, capsys):
    assert main(stops("--level", "quartr:0")) == 2
    assert "did you mean quarter?" in capsys.readouterr().err


def test_half_widths_are_those_of_the_widest_area_and_errors_of_the_listed_ones(taps):
    _, levels, statement = published(stops("--elsewhere", "--level", "zone:0"))
    row = next(row for row in statement["levels"] if row["areas"] == "zone")
    cell = statement["mechanism"]["standard_deviation"]
    assert row["error"] == pytest.approx(cell * np.sqrt((2 + 1) / 2))  # two stops, and one
    widths = (levels["high"] - levels["low"]) / 2
    assert levels["id"].tolist() == ["inner", "outer", "elsewhere"]
    assert widths.max() <= row["half_width"] < widths.max() + 1
