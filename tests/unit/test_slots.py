"""The length of envelopes: the table and its figure."""

import numpy as np
import pandas as pd
import pytest
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.figures.mechanisms import slots_errors
from shuffledp.mechanisms.signed_dummies import SignedDummies
from shuffledp.mechanisms.target_calibration import calibrate_to_target
from shuffledp.studies.slots import slots_table

TARGETS = {"eps": [0.5, 1.0], "delta": 1e-6, "mechanisms": ["krr"], "slots": [20, 60, 300]}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return slots_table(10_000, 192, TARGETS, TARGETS["slots"])


def test_longer_envelopes_leave_less_error_for_more_messages(table: pd.DataFrame) -> None:
    """No envelope of 20 messages meets a target, and none of 60 keeps the smaller eps."""
    assert table[["eps", "slots"]].to_numpy().tolist() == [[0.5, 300], [1.0, 60], [1.0, 300]]
    short, long = table[table["eps"] == 1.0].to_dict("records")
    assert long["cell_error"] < short["cell_error"]
    assert long["messages"] > short["messages"]
    setting, shares = Setting(10_000, 192), np.full(192, 1 / 192)
    calibrated = calibrate_to_target(SignedDummies(60), 1.0, log_of_delta(1e-6), setting, shares)
    assert short["cell_error"] == calibrated.cell_sd
    assert short["messages"] == calibrated.per_user.messages


def test_without_a_length_that_keeps_a_target_there_is_no_figure(table: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="no length of envelopes meets the targets"):
        slots_errors(table.iloc[:0], pd.DataFrame())


def test_the_figure_has_a_line_for_the_best_of_each_kind_of_trust(table: pd.DataFrame) -> None:
    names = ["krr", "gaussian", "signed-dummies", "oue"]
    summary = pd.DataFrame(
        [
            (name, "raw", n, eps, error + n, "too small" if name == "oue" else None)
            for error, name in enumerate(names)
            for n in (1000, 10_000)
            for eps in (0.5, 1.0)
        ],
        columns=["mechanism", "estimator", "n", "eps", "expected_cell_error", "reason"],
    ).assign(unit="one check-in", region="Paris")
    figure = slots_errors(table, summary)
    panels = figure.axes
    assert len(panels) == 4
    for axes in panels:
        signed, *others = axes.get_lines()
        levels = {float(line.get_ydata()[0]) for line in others}
        assert levels == {10_000.0, 10_001.0}
        rows = table[table["eps"] == (1.0 if axes in panels[:2] else 0.5)]
        assert list(signed.get_ydata()) == rows["cell_error"].tolist()
    assert "10,000 check-ins" in figure.get_suptitle()
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == [
        "signed dummies by users",
        "Gaussian, best with a curator",
        "shuffle+INV, best of noisy reports",
    ]
