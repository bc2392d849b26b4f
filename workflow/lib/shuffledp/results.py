"""Typed results of the public functions: each becomes rows, a data frame or a picture.

A column has the same name here, in a data frame and in what the command prints.
"""

from __future__ import annotations  # pandas and matplotlib are named in annotations only

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from importlib import import_module
from math import isfinite, log
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import numpy as np

from shuffledp.accounting.accountant import Collected, distinct, log_of
from shuffledp.accounting.curve import Curve, End, Interval, UpperCurve, exp_down, exp_up
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

    from shuffledp.mechanisms.target_calibration import TargetCalibration

Row = dict[str, Any]

# The data sets that every guarantee compares.
NEIGHBOURS: Final = "replacement, the same n"
PROVEN: Final = "proven"
# The columns of a verified certificate that say what it is about.
CLAIM_COLUMNS: Final = (
    *("n", "k", "eps0", "rounds", "dummies", "chances", "mechanism", "parameters", "view", "eps"),
)


def unit(rounds: int = 1) -> str:
    """Return what differs between neighbours: everything that one user reports."""
    return "one record of one user" if rounds == 1 else f"all {rounds} records of one user"


def log10(log_delta: float | None) -> float | None:
    """Return the decimal logarithm for a natural one; None stays None."""
    return None if log_delta is None else log_delta / log(10.0)


def finite_or_none(value: float) -> float | None:
    """Return None for an infinite number: there is no bound."""
    return value if isfinite(value) else None


def delta_cell(delta: float | Decimal) -> float | str:
    """Return a delta as a number, or as text if it lies below the smallest float."""
    return float(delta) or str(delta)


def _optional_module(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        raise ModuleNotFoundError(
            f"{method}() needs {package}, which is not installed: pip install {package}"
        ) from error


class Result:
    """A result of a public function, which can be tabulated and drawn."""

    # The columns on the horizontal and on the vertical axis of the picture.
    _x: ClassVar[str]
    _y: ClassVar[tuple[str, ...]]

    def _rows(self) -> list[Row]:
        raise NotImplementedError

    @property
    def _rounds(self) -> int | None:
        """Number of rounds of all rows, or None if rows have a column for it."""
        return None

    def rows(self) -> list[Row]:
        """Return the rows of a table as dictionaries of the same keys; None for a missing value.

        The columns ``neighbours`` and ``unit`` say what a guarantee protects.
        """
        stated = []
        for row in self._rows():
            rounds = row.get("rounds", 1) if self._rounds is None else self._rounds
            stated.append({**row, **({"neighbours": NEIGHBOURS, "unit": unit(rounds)} | row)})
        return stated

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a data frame.

        Raises
        ------
        ModuleNotFoundError
            If pandas is not installed.
        """
        frame: pd.DataFrame = _optional_module("pandas", "to_frame").DataFrame(self.rows())
        return frame

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the result and return the axes.

        Parameters
        ----------
        axes
            Axes to draw on; by default the current ones.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        pyplot = _optional_module("matplotlib.pyplot", "plot")
        drawn: Axes = pyplot.gca() if axes is None else axes
        rows = self._rows()
        if isinstance(rows[0][self._x], str) and self._x != "delta":
            for name in self._y:
                drawn.plot([_coordinate(row[name]) for row in rows], [row[self._x] for row in rows],
                           "o", label=name)  # fmt: skip
            drawn.invert_yaxis()
            drawn.set_xlabel(", ".join(self._y))
            return drawn
        order = sorted(rows, key=lambda row: float(row[self._x]))
        for name in self._y:
            drawn.plot([float(row[self._x]) for row in order],
                       [_coordinate(row[name]) for row in order], ".-", label=name)  # fmt: skip
        drawn.set_xlabel(self._x)
        if "delta" in self._x:
            drawn.set_xscale("log")
        if "delta" in self._y[0]:
            drawn.set_yscale("log")
        drawn.legend()
        return drawn


def _coordinate(value: float | None) -> float:
    return np.nan if value is None else value


def _setting_columns(setting: Setting) -> Row:
    if setting.mechanism is None:
        how: Row = {"eps0": setting.eps0}
    else:
        mechanism = getattr(setting.mechanism, "mechanism", setting.mechanism)
        how = {"mechanism": getattr(mechanism, "name", type(mechanism).__name__)}
        if hasattr(setting.mechanism, "parameters"):
            from shuffledp.mechanisms.target_calibration import format_parameters

            how["parameters"] = format_parameters(setting.mechanism.parameters)
    return {"n": setting.n, "k": setting.k, **how}


def _unusual(setting: Setting, **usual: float) -> Row:
    """Return those fields of a setting that do not have their usual value."""
    return {
        name: getattr(setting, name)
        for name, value in usual.items()
        if getattr(setting, name) != value
    }


def participation_columns(setting: Setting) -> Row:
    """Return the columns of a setting in which some users collude or do not respond."""
    return _unusual(setting, colluding=0, response_rate=1.0)


def _rounds_columns(setting: Setting) -> Row:
    sampled = _unusual(setting, sampling_rate=1.0)
    return {"rounds": setting.rounds, **sampled, **participation_columns(setting)}


def delta_columns(logs: Interval[float]) -> Row:
    """Return the columns of certified ends of delta, given their natural logs."""
    deltas = logs.exp()
    return {
        "delta_lower": deltas.lower,
        "delta_upper": deltas.upper,
        "log10_delta_lower": log10(logs.lower),
        "log10_delta_upper": log10(logs.upper),
    }


def eps_columns(ends: Interval[float]) -> Row:
    """Return the columns of certified ends of eps."""
    return {"eps_lower": ends.lower, "eps_upper": ends.upper}


def _views(collected: Collected, curve: Curve) -> Mapping[str, Curve]:
    """Return the curve of each view, or nothing where mechanisms do not distinguish views."""
    if isinstance(collected, Setting):
        views = getattr(collected.mechanism, "views", None)
        return views(collected, curve) if views else {}
    if all(each.mechanism is None for each in collected):
        return {}
    from shuffledp.mechanisms.krr import KRRParameters
    from shuffledp.mechanisms.registry import MECHANISMS
    from shuffledp.mechanisms.target_calibration import Released, views_of_rounds

    rounds = []
    for once, count in distinct(collected).items():
        released = once.mechanism or Released(MECHANISMS["krr"], KRRParameters(once.eps0))
        if not isinstance(released, Released):
            return {}
        rounds.append((released, once, count))
    assert isinstance(curve, UpperCurve)
    return views_of_rounds(rounds, curve)


@dataclass(frozen=True, repr=False)
class _Enclosure(Interval[End], Result, Generic[End]):
    """Certified ends, and the question that they answer."""

    asked: Any
    setting: Collected
    bound: str
    curve: Curve = field(compare=False)

    def _around(self) -> tuple[Row, Row]:
        """Return the columns before and after the column of the question."""
        setting = self.setting
        if not isinstance(setting, Setting):
            return {"rows": len(setting), "rounds": sum(each.rounds for each in setting)}, {}
        dummies = _unusual(setting, dummies=0.0)
        return _setting_columns(setting), {
            **_rounds_columns(setting),
            **dummies,
            "bound": self.bound,
        }

    def _values(self, end: Any) -> list[float | None]:
        size = np.size(np.asarray(self.asked, object))
        return [None] * size if end is None else np.ravel(end).tolist()

    def _ends(self) -> list[Interval[float]]:
        pairs = zip(self._values(self.lower), self._values(self.upper), strict=True)
        return [Interval(*pair) for pair in pairs]


class _Delta(_Enclosure[End]):
    _x, _y = "eps", ("delta_lower", "delta_upper")

    @property
    def eps(self) -> Any:
        """The eps asked for, any shape."""
        return self.asked

    def _columns(self, ends: Interval[float]) -> Row:
        return {"delta_lower": ends.lower, "delta_upper": ends.upper}

    def _rows(self) -> list[Row]:
        before, after = self._around()
        views, rows = _views(self.setting, self.curve), []
        for eps, ends in zip(np.ravel(self.asked).tolist(), self._ends(), strict=True):
            columns = self._columns(ends)
            seen = {
                f"delta_{view}": columns["delta_upper"]
                if curve is self.curve
                else exp_up(curve.log_delta(eps).promised)
                for view, curve in views.items()
            }
            rows.append({**before, "eps": eps, **after, **columns, **seen})
        return rows


class DeltaResult(_Delta[End]):
    """Certified ends of delta: ``lower``, ``upper``, shaped like ``eps``.

    ``setting``, ``bound`` and ``curve`` say what they are about.
    """


class LogDeltaResult(_Delta[End]):
    """Certified ends of the natural log of delta; its table has delta and decimal logs."""

    def _columns(self, ends: Interval[float]) -> Row:
        return delta_columns(ends)


class EpsilonResult(_Enclosure[End]):
    """Certified ends of eps: ``lower``, ``upper``, shaped like ``delta``.

    ``setting``, ``bound`` and ``curve`` say what they are about.
    """

    _x, _y = "delta", ("eps_lower", "eps_upper")

    @property
    def delta(self) -> Any:
        """The delta asked for, any shape."""
        return self.asked

    def _rows(self) -> list[Row]:
        before, after = self._around()
        views, rows = _views(self.setting, self.curve), []
        for delta, ends in zip(np.ravel(np.asarray(self.asked, object)), self._ends(), strict=True):
            seen = {
                f"eps_{view}": ends.upper
                if curve is self.curve
                else curve.epsilon(log_of(delta)).promised
                for view, curve in views.items()
            }
            row = {**before, "delta": delta_cell(delta), **after, **eps_columns(ends), **seen}
            rows.append(row)
        return rows


@dataclass(frozen=True)
class CalibrationResult(Result):
    """Parameters of a mechanism with which a collection keeps a target.

    Attributes
    ----------
    eps, delta
        The target.
    setting
        The collection with its local budget, or with the mechanism and its parameters.
    parameters
        Parameters of the mechanism.
    log_delta
        Natural log of the certified upper end of delta at ``eps``.
    """

    eps: float
    delta: float | Decimal
    setting: Setting
    parameters: Any
    log_delta: float

    _x, _y = "eps", ("delta_upper",)

    @property
    def eps0(self) -> float:
        """The local budget of a report; inf for a mechanism other than k-RR."""
        return self.setting.eps0

    def _rows(self) -> list[Row]:
        columns = _setting_columns(self.setting)
        sizes = {name: columns.pop(name) for name in ("n", "k")}
        return [
            {
                **sizes,
                "eps": self.eps,
                "delta": delta_cell(self.delta),
                **_rounds_columns(self.setting),
                **columns,
                "delta_upper": exp_up(self.log_delta),
                "log10_delta_upper": log10(self.log_delta),
            }
        ]


class BoundsResult(dict[str, float], Result):
    """The eps of each bound by its name, smallest first; the table begins with guarantees."""

    _x, _y = "bound", ("eps",)

    def __init__(self, eps: Mapping[str, float], setting: Setting) -> None:
        super().__init__(eps)
        self.setting = setting

    @property
    def _rounds(self) -> int:
        return self.setting.rounds

    def _rows(self) -> list[Row]:
        # A smaller eps that is no guarantee must not head the list.
        names = sorted(self, key=lambda name: not BOUNDS[name].guarantee)
        return [
            {
                "bound": name,
                "eps": self[name],
                "kind": BOUNDS[name].kind,
                "guarantee": BOUNDS[name].guarantee,
                "source": BOUNDS[name].source,
            }
            for name in names
        ]


@dataclass(frozen=True)
class PredictedError:
    """Predicted error of an unbiased estimate: people in a cell, and total variation distance."""

    cell_sd_users: float
    tv_distance: float


@dataclass(frozen=True)
class PlanResult(Result):
    """A collection by k-RR whose missing value was found, and the errors of mechanisms.

    Attributes
    ----------
    setting
        The collection; it has n, k and eps0.
    eps, log_delta
        Its certified guarantee; the natural log of delta.
    delta
        The delta asked for; None if it was the missing value.
    errors
        Errors at the same privacy by the mechanism's name; None if it cannot keep the target.
    """

    setting: Setting
    eps: float
    log_delta: float
    delta: float | Decimal | None
    errors: Mapping[str, PredictedError | None]

    def _rows(self) -> list[Row]:
        row = {
            "n": self.setting.n,
            "k": self.setting.k,
            **_rounds_columns(self.setting),
            "eps0": self.setting.eps0,
            "eps": self.eps,
        }
        if self.delta is None:
            row |= {"delta": exp_up(self.log_delta), "log10_delta": log10(self.log_delta)}
        else:  # as it was given, without rounding
            digits = Decimal(self.delta).log10()
            row |= {"delta": delta_cell(self.delta), "log10_delta": float(digits)}
        for name, error in self.errors.items():
            row[f"{name}_cell_sd_users"] = None if error is None else error.cell_sd_users
            row[f"{name}_tv_distance"] = None if error is None else error.tv_distance
        return [row]

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the error of a cell for each mechanism and return the axes.

        Parameters
        ----------
        axes
            Axes to draw on; by default the current ones.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        drawn: Axes = _optional_module("matplotlib.pyplot", "plot").gca() if axes is None else axes
        errors = {name: error for name, error in self.errors.items() if error is not None}
        drawn.plot([error.cell_sd_users for error in errors.values()], [*errors], "o")
        drawn.set_xlabel("cell_sd_users")
        return drawn


@dataclass(frozen=True)
class ComparedMechanism:
    """A mechanism in a comparison.

    Attributes
    ----------
    name
        Name in the catalogue.
    calibration
        Parameters that keep the target, views and errors; None if there are none.
    reason
        The reason why there is no calibration; None if there is one.
    """

    name: str
    calibration: TargetCalibration[Any] | None
    reason: str | None = None


@dataclass(frozen=True)
class ComparisonResult(Result):
    """Mechanisms calibrated to the same target.

    Attributes
    ----------
    eps, delta
        The target of all rounds together.
    setting
        Users, cells, rounds and participation.
    histogram
        Name of the histogram for which errors are predicted.
    hidden_slot
        Whether local randomisers are also bounded by the hidden slot.
    mechanisms
        The mechanisms, in the order in which they were asked for.
    """

    eps: float
    delta: float | Decimal
    setting: Setting
    histogram: str
    hidden_slot: bool
    mechanisms: tuple[ComparedMechanism, ...]

    _x, _y = "mechanism", ("cell_sd_users",)

    def _rows(self) -> list[Row]:
        asked = {
            "n": self.setting.n,
            "k": self.setting.k,
            "eps": self.eps,
            "delta": delta_cell(self.delta),
            **_unusual(self.setting, rounds=1),
            **participation_columns(self.setting),
            "histogram": self.histogram,
            **({"hidden_slot": True} if self.hidden_slot else {}),
        }
        return [asked | _compared_columns(mechanism) for mechanism in self.mechanisms]


def _compared_columns(compared: ComparedMechanism) -> Row:
    entry, found = CATALOGUE[compared.name], compared.calibration
    row: Row = {
        "mechanism": entry.name,
        **dict.fromkeys(("parameters", "local_eps0", *(f"eps_{view}" for view in VIEWS))),
        **dict.fromkeys(("messages", "moved_by_one")),
        **dict.fromkeys(("cell_sd_users", "largest_cell_sd_users", "tv_distance")),
    }
    if found is not None:
        from shuffledp.mechanisms.target_calibration import format_parameters

        row |= {
            "parameters": format_parameters(found.parameters),
            "local_eps0": finite_or_none(found.per_user.local_eps0),
            **{f"eps_{view}": finite_or_none(found.views[view]) for view in VIEWS},
            "messages": found.per_user.messages,
            "moved_by_one": found.per_user.moved_by_one,
            "cell_sd_users": found.cell_sd,
            "largest_cell_sd_users": found.largest_cell_sd,
            "tv_distance": found.tv_distance,
        }
    return row | {"trust": entry.trust, "source": entry.source, "reason": compared.reason}


@dataclass(frozen=True)
class RenyiResult(Result):
    """Renyi DP over all rounds.

    Attributes
    ----------
    order, rdp
        Orders, and the Renyi DP of each in the same shape.
    setting, bound
        The collection, and the name of the bound.
    """

    order: Any
    rdp: Any
    setting: Setting
    bound: str

    _x, _y = "order", ("rdp",)

    def _rows(self) -> list[Row]:
        setting = self.setting
        about = {
            "n": setting.n,
            "eps0": setting.eps0,
            "rounds": setting.rounds,
            "bound": self.bound,
            "guarantee": BOUNDS[self.bound].guarantee,
        }
        pairs = zip(np.ravel(self.order).tolist(), np.ravel(self.rdp).tolist(), strict=True)
        return [{**about, "order": order, "rdp": value} for order, value in pairs]


@dataclass(frozen=True)
class TradeoffResult(Result):
    """A trade-off function: the errors of tests for one user's report.

    Attributes
    ----------
    alpha, type_2_error
        Type I errors, and a lower bound on the type II error of each in the same shape.
    setting, bound
        The collection, and the name of the bound.
    """

    alpha: Any
    type_2_error: Any
    setting: Setting
    bound: str

    _x, _y = "alpha", ("type_2_error_at_least",)

    def _rows(self) -> list[Row]:
        about = {
            **_setting_columns(self.setting),
            "rounds": self.setting.rounds,
            "bound": self.bound,
        }
        errors = np.ravel(self.type_2_error).tolist()
        pairs = zip(np.ravel(self.alpha).tolist(), errors, strict=True)
        return [{**about, "alpha": alpha, "type_2_error_at_least": error} for alpha, error in pairs]


@dataclass(frozen=True)
class MatrixResult(Result):
    """Certified ends for a randomiser given as a matrix.

    Attributes
    ----------
    ends
        An `EpsilonResult` or a `LogDeltaResult`.
    reports
        Number of different reports.
    local_eps0
        Local budget of one report for neighbours.
    error
        Error of the least-squares estimate of a uniform histogram; None if records cannot be told
        apart.
    neighbours
        The data sets that are compared.
    hidden_slot
        Whether the upper end is also bounded by the hidden slot.
    """

    ends: EpsilonResult[Any] | LogDeltaResult[Any]
    reports: int
    local_eps0: float
    error: PredictedError | None
    neighbours: str
    hidden_slot: bool

    @property
    def _x(self) -> str:  # type: ignore[override]
        return self.ends._x

    @property
    def _y(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.ends._y

    def _rows(self) -> list[Row]:
        setting = self.ends.setting
        assert isinstance(setting, Setting)
        about = {
            "n": setting.n,
            "records": setting.k,
            "reports": self.reports,
            "local_eps0": self.local_eps0,
            **_unusual(setting, rounds=1),
            **participation_columns(setting),
            **({"hidden_slot": True} if self.hidden_slot else {}),
        }
        names = ("cell_sd_users", "tv_distance")
        error = dict.fromkeys(names) if self.error is None else asdict(self.error)
        answers = [
            {name: row[name] for name in row if name.startswith(("eps", "delta", "log10"))}
            for row in self.ends._rows()
        ]
        for answer in answers:
            answer.pop("eps0", None)
        return [about | row | error | {"neighbours": self.neighbours} for row in answers]


@dataclass(frozen=True)
class PersonalEpsilon:
    """The eps of users, or a number of the literature about all of them.

    Attributes
    ----------
    about
        Whose eps it is, or where a number comes from.
    users
        Number of users.
    budget_low, budget_high
        Smallest and largest local budget of these users.
    eps
        None if the formula gives nothing.
    guarantee
        Whether it may be promised to these users.
    sigma
        Standard deviation of Gaussian noise; None for other reports, or without noise.
    """

    about: str
    users: int
    budget_low: float
    budget_high: float
    eps: float | None
    guarantee: bool
    sigma: float | None = None


@dataclass(frozen=True)
class PersonalBudgetsResult(Result):
    """The eps of users who choose their own budgets.

    Attributes
    ----------
    mechanism
        How users report.
    delta, rounds
        The delta of all rounds, and their number.
    entries
        Each group of users, everybody, and numbers of the literature.
    """

    mechanism: str
    delta: float | Decimal
    rounds: int
    entries: tuple[PersonalEpsilon, ...]

    _x, _y = "budget_high", ("eps",)

    def _rows(self) -> list[Row]:
        normal = self.mechanism == "gaussian"
        return [
            {
                "mechanism": self.mechanism,
                "delta": delta_cell(self.delta),
                **({"rounds": self.rounds} if self.rounds > 1 else {}),
                "what": entry.about,
                "users": entry.users,
                # With Gaussian noise a row is about one budget, or about all up to one.
                **({} if normal else {"budget_low": entry.budget_low}),
                "budget_high": entry.budget_high,
                **({"sigma": entry.sigma} if normal else {}),
                "eps": entry.eps,
                "guarantee": entry.guarantee,
            }
            for entry in self.entries
        ]


class Certificate(dict[str, Any], Result):
    """A certificate as JSON data, from which an independent checker recomputes certified ends."""

    _x, _y = "eps", ("delta_lower", "delta_upper")

    @property
    def text(self) -> str:
        """The text of its file."""
        long = {"blocks", "masses"} & set(self["upper"])
        return json.dumps(self, indent=None if long else 2) + "\n"

    def write(self, path: str | Path) -> None:
        """Write the certificate to a file, which appears whole or not at all."""
        from pathlib import Path

        from shuffledp.pipeline.files import replacing

        with replacing(Path(path)) as file:
            file.write_text(self.text, encoding="utf-8")

    def _rows(self) -> list[Row]:
        claims = {name: self[name] for name in CLAIM_COLUMNS if name in self}
        low, high = (self[end]["log_delta"] for end in ("lower", "upper"))
        return [{**claims, **_proven_columns(low, high)}]


def _proven_columns(low: float | None, high: float | None) -> Row:
    low, high = (-np.inf if log_delta is None else log_delta for log_delta in (low, high))
    return {
        "delta_lower": exp_down(low),
        "delta_upper": exp_up(high),
        "log10_delta_upper": log10(high),
    }


@dataclass(frozen=True)
class Verdict:
    """The verdict on a certificate.

    Attributes
    ----------
    file
        The file of the certificate.
    verdict
        ``proven``, ``refused`` or ``not checked``.
    claim
        A `shuffledp.verification.certificate.Claim`, if it is proven.
    reason
        The reason why it is not proven; None if it is.
    """

    file: str
    verdict: str
    claim: Any
    reason: str | None


@dataclass(frozen=True)
class VerificationResult(Result):
    """Verdicts on certificates."""

    verdicts: Sequence[Verdict]

    _x, _y = "file", ("delta_upper",)

    @property
    def proven(self) -> bool:
        """Whether all certificates are proven."""
        return all(each.verdict == PROVEN for each in self.verdicts)

    def rows(self) -> list[Row]:
        """Return the verdict on each file, and what was proven."""
        return self._rows()

    def _rows(self) -> list[Row]:
        rows = []
        for each in self.verdicts:
            row = dict.fromkeys((*CLAIM_COLUMNS, *_proven_columns(None, None)))
            if each.claim is not None:
                row |= {name: getattr(each.claim, name) for name in CLAIM_COLUMNS}
                row |= _proven_columns(each.claim.low, each.claim.high)
            about = {"file": each.file, "verdict": each.verdict}
            rows.append({**about, **row, "reason": each.reason})
        return rows
