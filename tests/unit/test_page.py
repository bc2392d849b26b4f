"""The page of a run has true sentences and the run's data, and no data can break it."""

import json
import os
import re
from base64 import b64encode
from fractions import Fraction
from hashlib import sha256
from itertools import product
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from git import Repo
from shapely import LineString, box
from shuffledp.figures.basemap import backdrop
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.mechanisms.recommendation import recommended, trust_kind
from shuffledp.page import maps, sentences
from shuffledp.page.data import columns, configuration_text, provenance, records_of, revision
from shuffledp.page.maps import map_data
from shuffledp.page.render import embedded_json, render
from shuffledp.papers import page_section
from shuffledp.papers.page_section import reproduction_data
from waiting import run_python

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ratio", [2, 3, 7])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10)])
def test_the_probability_of_a_right_guess_is_attained(ratio, delta):
    """The worst (eps, delta)-DP release with four values attains the stated probability."""
    # A share delta of the mass reveals the record; the rest is binary randomised response.
    rest = 1 - delta
    truth = Fraction(ratio, ratio + 1)
    first = [delta, 0, rest * truth, rest * (1 - truth)]
    second = [0, delta, rest * (1 - truth), rest * truth]
    for p, q in product([first, second], repeat=2):
        assert sum(max(a - ratio * b, 0) for a, b in zip(p, q, strict=True)) <= delta
    best = sum(max(pair) for pair in zip(first, second, strict=True)) / 2
    stated = sentences.best_guess(float(np.log(ratio)), float(delta))
    assert stated == pytest.approx(float(best), rel=1e-12)


def test_chances_are_rounded_up():
    # (1 + 1e-6 / e) / (1 + 1 / e) = 0.731058...
    assert "at most 73.2 %;" in sentences.strength(1.0, 1e-6)
    assert "eps = 1 and delta = 1e-6" in sentences.strength(1.0, 1e-6)
    assert "at most a factor of 2.72, plus delta" in sentences.strength(1.0, 1e-6)
    assert "at most 50 %;" in sentences.strength(0.0, 0.0)


def test_a_single_report_of_randomised_response_may_be_false():
    # 1 / (1 + 11 / e^5) = 0.93096...
    assert "93.1 % of the reports are the truth" in sentences.single_report("krr", 5.0, 12)


def test_no_line_breaks_between_a_number_and_its_unit():
    plan = {"accuracy": "The error is 4 check-ins or 3.1 % of 12 cells.", "n": 12, "curve": [[1.0]]}
    expected = "The error is 4\xa0check-ins or 3.1\xa0% of 12\xa0cells."
    assert sentences.unbroken(plan) == plan | {"accuracy": expected}


def test_a_share_is_rounded_up():
    assert sentences.percent(0.8912) == "89.2 %" and sentences.percent(0.99) == "99 %"
    assert sentences.percent(1.0 - 2.0**-20) == "all but one in 1,048,576"
    assert sentences.percent(1.0) == "all"


def test_unknown_people_and_times_are_left_out(tmp_path):
    """A file may have only latitudes and longitudes, as in the example of docs/data.md."""
    bare = pd.DataFrame({"user": pd.array([None] * 2, "Int64"), "time": pd.to_datetime([None] * 2)})
    bare.to_parquet(tmp_path / "bare.parquet")
    assert records_of(tmp_path / "bare.parquet") == (None, "recorded")
    day = pd.Timestamp("2010-10-01T12:00:00Z")
    pd.DataFrame({"user": [1, 1, 2], "time": day}).to_parquet(tmp_path / "known.parquet")
    people, clause = records_of(tmp_path / "known.parquet")
    assert (people, clause) == (2, "recorded, between 2010-10-01 and 2010-10-01")


SUMMARY = pd.DataFrame(
    {
        "n": 100,
        "eps": 1.0,
        "unit": "one check-in",
        "region": "Town",
        "estimator": "raw",
        "mechanism": ["gaussian", "krr", "user-dummies", "two-servers", "discrete-laplace"],
        "local_eps0": [np.inf, 5.0, np.inf, np.inf, np.inf],
        "expected_cell_error": [4.0, 9.0, 6.0, 7.0, np.nan],
        "tv_distance": [0.1, 0.2, 0.3, 0.4, 2.0],
        "reason": [None, None, None, None, "too few"],
    }
)


def test_the_least_trusting_mechanism_is_recommended():
    """Required trust and the users' work count before the error."""
    assert recommended(SUMMARY) == "two-servers"
    left = SUMMARY[SUMMARY["mechanism"] != "two-servers"]
    assert recommended(left) == "user-dummies"
    assert recommended(left[left["mechanism"] != "user-dummies"]) == "krr"
    assert recommended(SUMMARY.iloc[-1:]) is None


def test_trust_and_the_content_of_a_report_agree_with_the_catalogue():
    for name, entry in CATALOGUE.items():
        local = trust_kind(entry) == "local"
        sentence = sentences.single_report(name, 8.0 if local else np.inf, 408)
        assert ("single re" in sentence and "is the truth" in sentence) != local
        assert ("curator" in sentences.trust(entry)) == entry.central
        assert entry.central or "must not collude" in sentences.trust(entry)
    assert "wrong once in 2,982" in sentences.single_report("oue", 8.0, 408)
    assert "learns the exact map" in sentences.trust(CATALOGUE["shuffler-dummies"])


def test_a_map_of_noise_is_not_recommended():
    good, poor = SUMMARY.iloc[0], SUMMARY.iloc[1]
    assert not sentences.is_noise(good, 12) and sentences.verdict(good, 12).startswith(
        "Yes. The map divides Town into 12 cells."
    )
    assert sentences.is_noise(poor, 12)
    assert sentences.verdict(poor, 12).startswith("No: this map would be mostly noise.")
    assert "48 % of the average cell, which has 8.3" in sentences.accuracy(good, 12)


def test_empty_cells_that_a_map_shows_are_counted():
    sentence = sentences.occupied_cells(
        [5.0, 1.0, 7.0, 0.1], [1.0, 1.0, 1.0, 1.0], [4, 3, 0, 0], 2.0
    )
    assert "Of 4 cells, 2 are occupied. This map shows 1 of them" in sentence
    assert "It also shows 1 empty cell as occupied." in sentence
    assert "It also shows 2 empty cells as occupied." in sentences.occupied_cells(
        [5.0, 5.0], [1.0, 1.0], [0, 0], 2.0
    )
    assert "It also" not in sentences.occupied_cells([5.0, 0.0], [1.0, 1.0], [4, 0], 2.0)


def test_no_data_can_end_its_html_element():
    nasty = {"title": "</script><script>alert(1)</script>", "line": "\u2028", "city": "Zürich"}
    text = embedded_json(nasty)
    assert "<" not in text and "\u2028" not in text and "Zürich" in text
    assert json.loads(text) == nasty
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json({"eps": float("nan")})


def test_a_page_escapes_text_and_fetches_nothing():
    page = render({"title": "<b>Lyon & co</b>", "regions": [], "reproduction": None,
                   "provenance": {"Run": "<i>"}, "configuration": ""})  # fmt: skip
    assert "<b>Lyon" not in page and "&lt;b&gt;Lyon &amp; co" in page
    assert "<i>" not in page
    head = page.partition("</style>")[0]
    assert "default-src 'none'" in head
    # Only scripts whose hash is listed may run.
    sources = re.search("script-src (.*?);", head)[1].split()
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [b64encode(sha256(one.encode()).digest()).decode() for one in scripts]
    assert sources == [f"'sha256-{one}'" for one in hashes]
    assert not re.search(r"<(link|img|iframe)|<script[^>]+src=|@import|url\(http", page)


CELLS = gpd.GeoDataFrame(
    {"id": ["a", "b"], "name": ["West", "East"]},
    geometry=[box(0, 0, 1, 1), box(1, 0, 2, 1)],
    crs=4326,
)
LAYERS = gpd.GeoDataFrame(
    {"kind": ["district", "river"], "name": ["West", ""], "attribution": ["A survey", ""]},
    geometry=[box(-5, -5, 1, 5), LineString([(0.0, 0.5), (9.0, 0.5)])],
    crs=4326,
)


def estimates(n):
    return pd.DataFrame(
        {
            "n": n,
            "mechanism": "krr",
            "promise": "eps = 1",
            "eps": 1.0,
            "cell": [0, 1],
            "estimate": [0.7514, 0.2486],
            "standard_error": [0.01, 0.02],
        }
    )


def test_maps_contain_the_true_and_the_released_counts():
    samples = {100: np.array([80, 20]), 1000: np.array([790, 210])}
    both = pd.concat([estimates(100), estimates(1000)])
    data = map_data(lambda: CELLS, LAYERS, samples, both)
    assert data["truth"] == {1000: [790, 210], 100: [80, 20]}
    assert data["district"] == ["West", ""]
    assert data["attribution"] == "A survey"
    large, small = data["releases"]
    assert (large["n"], small["n"]) == (1000, 100)
    assert small["estimate"] == [75.14, 24.86] and small["error"] == [1.0, 2.0]
    assert large["label"] == "shuffle+INV"
    assert [layer["kind"] for layer in data["layers"]] == ["district", "river"]
    # A name may extend from one side of the district to the other, within the cells.
    assert data["names"] == [{"kind": "district", "name": "West", "at": [[0.0, 0.5], [1.0, 0.5]]}]
    points = [p for layer in data["layers"] for path in layer["paths"] for p in path]
    assert np.min(points) >= -0.1 and np.max(points) <= 2.1  # clipped, with a margin
    json.dumps(data)


def test_windows_of_time_share_the_cells_of_a_map():
    samples = {100: np.array([40, 10, 30, 20])}
    rows = pd.concat([estimates(100), estimates(100).assign(cell=[2, 3])])
    cells = pd.concat([CELLS.assign(window=name) for name in ("2010-01", "2010-02")])
    data = map_data(lambda: cells, LAYERS, samples, rows)
    assert data["windows"] == ["2010-01", "2010-02"]
    assert len(data["cells"]) == len(data["name"]) == 2
    assert data["truth"] == {100: [40, 10, 30, 20]}
    assert len(data["releases"][0]["estimate"]) == 4


def test_small_samples_are_dropped_where_a_map_is_too_large(monkeypatch):
    samples = {100: np.array([80, 20]), 1000: np.array([790, 210])}
    both = pd.concat([estimates(100), estimates(1000)])
    monkeypatch.setattr(maps, "_MAX_ESTIMATES", 3)
    assert [r["n"] for r in map_data(lambda: CELLS, backdrop(), samples, both)["releases"]] == [
        1000
    ]
    monkeypatch.setattr(maps, "_MAX_ESTIMATES", 1)
    assert map_data(lambda: CELLS, backdrop(), samples, both) is None


def test_missing_numbers_are_null():
    table = pd.DataFrame({"a": [1.23456789, np.nan, -np.inf], "n": [1, 2, 3], "s": ["x", "y", "z"]})
    assert columns(table) == {"a": [1.23457, None, None], "n": [1, 2, 3], "s": ["x", "y", "z"]}


def test_every_named_erratum_exists(tmp_path):
    values = pd.DataFrame(
        [
            {"paper": "A", "table": "II", "bound": "proposed", "verdict": "not reproduced"},
            {"paper": "A", "table": "VI", "bound": None, "verdict": "reproduced"},
            {"paper": "Z", "table": None, "bound": None, "verdict": "not tried"},
        ]
    )
    others = ["quantity", "mechanism", "region", "n", "k", "eps0", "eps", "delta", "published",
              "as_printed", "lower", "upper", "correct", "note"]  # fmt: skip
    source = tmp_path / "values.csv"
    values.reindex(columns=[*values.columns, *others]).to_csv(source, index=False)
    data = reproduction_data(source, ROOT / "docs" / "errata.md")
    assert [row["errata"] for row in data["rows"]] == [["A1", "A2", "A3"], ["A6", "A9"], []]
    assert data["rows"][2]["note"] is None
    by_name = {entry["name"]: entry for entry in data["errata"]}
    assert {"A1", "B1", "C1", "D1", "L1"} <= set(by_name)
    assert by_name["A1"]["html"].startswith("<p>Printed:")
    written = "".join(entry["html"] for entry in data["errata"])
    prose = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", written, flags=re.DOTALL)
    assert not re.search(r"`|\*\*|\]\(|^#", prose, flags=re.MULTILINE), "Markdown is read"
    assert "<pre>$ python" in written and "<script" not in written
    assert "print 3 numbers" in data["summary"] and "1 not reproduced" in data["summary"]
    json.dumps(data)
    named = {name for names in page_section._EXPLANATIONS.values() for name in names}
    assert named <= set(by_name)


def test_provenance_names_what_made_a_run(tmp_path):
    data = provenance(ROOT, {"run": "", "seed": 7}, {"Lyon": "ab" * 32})
    assert data["Run"] == "default" and data["Seed of the simulated noise"] == "7"
    assert data["SHA-256 of the source of Lyon"] == "ab" * 32
    assert "snakemake" in data["Libraries"]
    assert configuration_text({"seed": 1, "eps0": [4]}) == "seed: 1\neps0:\n- 4\n"
    assert revision(tmp_path) == "not under git"
    commit = tmp_path / ("0" * 40)
    commit.mkdir()
    assert revision(commit) == "0" * 40


@pytest.mark.parametrize(
    "environment",
    [
        {"PATH": ""},
        # With this variable, which git's own tests use, every clone seems another user's.
        {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_GLOBAL": os.devnull},
    ],
    ids=["no git", "another owner"],
)
def test_the_page_needs_no_git(tmp_path, environment):
    clone = Repo.init(tmp_path / "clone")
    (tmp_path / "clone" / "a").write_text("1")
    clone.index.add(["a"])
    commit = clone.index.commit("One").hexsha
    assert revision(tmp_path / "clone") == commit
    code = (
        "from pathlib import Path; from shuffledp.page.data import revision\n"
        "print(revision(Path('.')))"
    )
    done = run_python("-c", code, cwd=clone.working_dir, env=environment)
    assert done.returncode == 0, done.stderr
    unknown = "perhaps with changes: git is missing or refuses to compare files"
    assert done.stdout == f"{commit}, {unknown}\n"
    (tmp_path / "clone" / "a").write_text("2")
    assert revision(tmp_path / "clone") == f"{commit} with uncommitted changes"
