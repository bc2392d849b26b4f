"""Result types of the public functions, which convert to rows, data frames and plots.

A column has the same name in rows, in data frames and in the output of the command. A quantity is
enclosed between a certified lower and upper end, and only the upper end may be promised to users.
"""

from __future__ import annotations  # pandas and matplotlib are named in annotations only

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from math import inf, isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import numpy as np

from shuffledp.accounting.accountant import SettingOrLedger, distinct_rounds
from shuffledp.accounting.conventions import NEIGHBOURS, log_of_delta
from shuffledp.accounting.curve import Curve, End, Interval, UpperCurve, exp_down, exp_up
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.errors import import_optional
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from shuffledp.mechanisms.target_calibration import TargetCalibration

Row = dict[str, Any]

PROVEN: Final = "proven"
# Name of the bound if a curve comes from another accountant, which does not bound its rounding.
PESSIMISTIC: Final = "pessimistic"
# Columns of a certificate's claim, apart from the ends of delta.
_CLAIM: Final = (
    *("n", "k", "eps0", "rounds", "dummies", "chances", "mechanism", "parameters", "view", "eps"),
)


def unit(rounds: int = 1) -> str:
    """Return the unit of privacy, by which neighbouring data sets differ, in words."""
    return "one record of one user" if rounds == 1 else f"all {rounds} records of one user"


def _log10(log_delta: float | None) -> float | None:
    """Convert a natural logarithm to a decimal one; None stays None."""
    return None if log_delta is None else log_delta / log(10.0)


def _finite_or_none(value: float) -> float | None:
    return value if isfinite(value) else None


def _delta_cell(delta: float | Decimal) -> float | str:
    """Return delta as a float, or as text if it is below the smallest positive float."""
    return float(delta) or str(delta)


class Result(ABC):
    """A result of a public function, with a table and a plot."""

    # Columns on the horizontal and on the vertical axis of the plot.
    _x: ClassVar[str]
    _y: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _rows(self) -> list[Row]:
        """Return the rows without the columns ``neighbours`` and ``unit``."""

    def rows(self) -> list[Row]:
        """Return the table as dictionaries with the same keys; a missing value is None.

        The columns ``neighbours`` and ``unit`` state what the guarantee protects.
        """
        guarantee = {"neighbours": NEIGHBOURS}
        return [
            {**row, **(guarantee | {"unit": unit(row.get("rounds", 1))} | row)}
            for row in self._rows()
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas data frame."""
        frame: pd.DataFrame = import_optional("pandas", "to_frame").DataFrame(self.rows())
        return frame

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the result and return the axes, by default the current ones of pyplot."""
        drawn: Axes = import_optional("matplotlib.pyplot", "plot").gca() if axes is None else axes
        rows = self._drawn_rows()
        if self._x in ("bound", "mechanism", "file"):
            labels = [str(row[self._x]) for row in rows]
            for name in self._y:
                drawn.plot([_coordinate(row[name]) for row in rows], labels, "o", label=name)
            drawn.invert_yaxis()
        else:
            rows.sort(key=lambda row: float(row[self._x]))
            x = [float(row[self._x]) for row in rows]
            for name in self._y:
                drawn.plot(x, [_coordinate(row[name]) for row in rows], ".-", label=name)
            drawn.set_xlabel(self._x)
            if "delta" in self._x and max(x) > 0.0:
                drawn.set_xscale("log")
            if "delta" in self._y[0] and max(_coordinate(row[self._y[-1]]) for row in rows) > 0.0:
                drawn.set_yscale("log")
        drawn.legend()
        return drawn

    def _drawn_rows(self) -> list[Row]:
        return self._rows()


def _coordinate(value: float | None) -> float:
    return np.nan if value is None else value


def _setting_columns(setting: Setting) -> Row:
    sizes = {"n": setting.n, "k": setting.k}
    if setting.mechanism is None:
        return {**sizes, "eps0": setting.eps0}
    released: Any = setting.mechanism
    if not hasattr(released, "parameters"):
        return {**sizes, "mechanism": type(released).__name__}
    from shuffledp.mechanisms.target_calibration import format_parameters

    parameters = format_parameters(released.parameters)
    return {**sizes, "mechanism": released.mechanism.name, "parameters": parameters}


def _non_default(setting: Setting, **defaults: float) -> Row:
    """Return the fields in `defaults` whose value in a setting differs from the default."""
    fields = {name: getattr(setting, name) for name in defaults}
    return {name: value for name, value in fields.items() if value != defaults[name]}


def _is_certified(setting: Setting) -> bool:
    """Return whether the curve of the setting's mechanism has derived rounding errors."""
    return getattr(setting.mechanism, "certified", True)


def _participation_columns(setting: Setting) -> Row:
    return _non_default(setting, colluding=0, response_rate=1.0)


def _rounds_columns(setting: Setting) -> Row:
    sampled = _non_default(setting, sampling_rate=1.0)
    return {"rounds": setting.rounds, **sampled, **_participation_columns(setting)}


def _views(collected: SettingOrLedger, curve: Curve) -> Mapping[str, Curve]:
    """Return the curve against each view in `VIEWS`; empty if the mechanism distinguishes none."""
    if isinstance(collected, Setting):
        views = getattr(collected.mechanism, "views", None)
        return views(collected, curve) if views else {}
    if all(each.mechanism is None for each in collected):
        return {}
    from shuffledp.mechanisms.krr import KRRParameters
    from shuffledp.mechanisms.registry import MECHANISMS
    from shuffledp.mechanisms.target_calibration import Released, views_of_rounds

    rounds = []
    for once, count in distinct_rounds(collected).items():
        released = once.mechanism or Released(MECHANISMS["krr"], KRRParameters(once.eps0))
        if not isinstance(released, Released):
            return {}
        rounds.append((released, once, count))
    assert isinstance(curve, UpperCurve)
    return views_of_rounds(rounds, curve)


@dataclass(frozen=True, repr=False)
class _Enclosure(Interval[End], Result, Generic[End]):
    """Certified ends of a point on a privacy curve.

    Attributes
    ----------
    lower, upper
        Floats, or arrays shaped like ``asked``; None for an end that is not known.
    asked
        Argument of the curve: eps if the ends are those of delta, delta if they are those of eps.
    setting, bound, curve
        The collection, or the settings of several rounds; the name of the bound; and its curve.
    """

    asked: Any
    setting: SettingOrLedger
    bound: str
    curve: Curve = field(compare=False)

    def _end_columns(self, ends: Interval[float]) -> Row:
        return dict(zip(self._y, (ends.lower, ends.upper), strict=True))

    @abstractmethod
    def _promised(self, curve: Curve, argument: Any) -> float:
        """Return the upper end of another curve at an argument."""

    def _rows(self) -> list[Row]:
        before, after = self._context_columns()
        name = self._y[0].partition("_")[0]
        arguments = np.ravel(np.asarray(self.asked, object)).tolist()
        lower, upper = (
            [None] * len(arguments) if end is None else np.ravel(end).tolist()
            for end in (self.lower, self.upper)
        )
        views, rows = _views(self.setting, self.curve), []
        for value, ends in zip(arguments, map(Interval, lower, upper), strict=True):
            shown = _delta_cell(value) if self._x == "delta" else value
            row = {**before, self._x: shown, **after, **self._end_columns(ends)}
            for view, curve in views.items():
                same = curve is self.curve
                row[f"{name}_{view}"] = row[self._y[1]] if same else self._promised(curve, value)
            rows.append(row)
        return rows

    def _context_columns(self) -> tuple[Row, Row]:
        """Return the columns before and after that of the argument."""
        setting = self.setting
        if not isinstance(setting, Setting):
            columns: Row = {"rows": len(setting), "rounds": sum(each.rounds for each in setting)}
            if not all(map(_is_certified, setting)):
                columns["bound"] = PESSIMISTIC
            return columns, {}
        bound = self.bound if _is_certified(setting) else PESSIMISTIC
        columns = {**_rounds_columns(setting), **_non_default(setting, dummies=0.0), "bound": bound}
        return _setting_columns(setting), columns


class DeltaResult(_Enclosure[End]):
    """Certified ends of delta, ``lower`` and ``upper``, at the eps in ``asked``."""

    _x, _y = "eps", ("delta_lower", "delta_upper")

    def _promised(self, curve: Curve, argument: Any) -> float:
        return float(exp_up(curve.log_delta(argument).promised))


class LogDeltaResult(DeltaResult[End]):
    """Certified ends of ln(delta); its table has delta and log10(delta)."""

    def _end_columns(self, ends: Interval[float]) -> Row:
        logs = {"log10_delta_lower": _log10(ends.lower), "log10_delta_upper": _log10(ends.upper)}
        return super()._end_columns(ends.exp()) | logs


class EpsilonResult(_Enclosure[End]):
    """Certified ends of eps, ``lower`` and ``upper``, at the delta in ``asked``."""

    _x, _y = "delta", ("eps_lower", "eps_upper")

    def _promised(self, curve: Curve, argument: Any) -> float:
        return curve.epsilon(float(log_of_delta(argument))).promised


@dataclass(frozen=True)
class CalibrationResult(Result):
    """Parameters of a mechanism for which a collection meets a target (eps, delta).

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
        parameters = _setting_columns(self.setting)
        sizes = {name: parameters.pop(name) for name in ("n", "k")}
        target = {"eps": self.eps, "delta": _delta_cell(self.delta)}
        ends = {"delta_upper": exp_up(self.log_delta), "log10_delta_upper": _log10(self.log_delta)}
        return [{**sizes, **target, **_rounds_columns(self.setting), **parameters, **ends}]


class BoundsResult(dict[str, float], Result):
    """The eps of each bound by its name, smallest first; the table lists guarantees first."""

    _x, _y = "bound", ("eps",)

    def __init__(self, eps: Mapping[str, float], setting: Setting) -> None:
        super().__init__(eps)
        self.setting = setting

    def rows(self) -> list[Row]:
        """Return a row for each bound; guarantees come first."""
        return [row | {"unit": unit(self.setting.rounds)} for row in super().rows()]

    def _rows(self) -> list[Row]:
        # A smaller eps that is no guarantee must not head the list.
        bounds = sorted((BOUNDS[name] for name in self), key=lambda bound: not bound.guarantee)
        return [
            {"bound": bound.name, "eps": self[bound.name]}
            | {name: getattr(bound, name) for name in ("kind", "guarantee", "source")}
            for bound in bounds
        ]


@dataclass(frozen=True)
class PredictedError:
    """Predicted error of an unbiased estimate of the histogram.

    ``cell_sd_users`` is the largest standard deviation of a cell's estimated number of users, and
    ``tv_distance`` the expected total variation distance of estimated and true shares. ``noise`` is
    the shape of the noise, if calibration chose it.
    """

    cell_sd_users: float
    tv_distance: float
    noise: str | None = None


@dataclass(frozen=True)
class PlanResult(Result):
    """A complete plan of a collection by k-RR, and errors of mechanisms at the same privacy.

    Attributes
    ----------
    setting
        The collection; it has n, k and eps0.
    eps, log_delta
        Its certified guarantee: eps, and the natural log of delta.
    delta
        The requested delta; None if it was left out and computed.
    errors
        Predicted errors by the mechanism's name; None if it cannot meet the target.
    """

    setting: Setting
    eps: float
    log_delta: float
    delta: float | Decimal | None
    errors: Mapping[str, PredictedError | None]

    _x, _y = "mechanism", ("cell_sd_users",)

    def _rows(self) -> list[Row]:
        row = {"n": self.setting.n, "k": self.setting.k, **_rounds_columns(self.setting)}
        row |= {"eps0": self.setting.eps0, "eps": self.eps}
        if self.delta is None:
            row |= {"delta": exp_up(self.log_delta), "log10_delta": _log10(self.log_delta)}
        else:  # the requested delta, without rounding
            digits = Decimal(self.delta).log10()
            row |= {"delta": _delta_cell(self.delta), "log10_delta": float(digits)}
        for each in self._drawn_rows():
            name = each.pop("mechanism")
            row |= {f"{name}_{column}": value for column, value in each.items()}
        return [row]

    def _drawn_rows(self) -> list[Row]:
        return [{"mechanism": name, **_error(error)} for name, error in self.errors.items()]


def _error(error: PredictedError | None) -> Row:
    if error is None:
        return dict.fromkeys(("cell_sd_users", "tv_distance"))
    row = asdict(error)
    return row if error.noise else {name: row[name] for name in row if name != "noise"}


@dataclass(frozen=True)
class ComparedMechanism:
    """A mechanism of a comparison: its calibration, or the reason why there is none."""

    name: str
    calibration: TargetCalibration[Any] | None
    reason: str | None = None

    @property
    def _row(self) -> Row:
        entry, calibration = CATALOGUE[self.name], self.calibration
        row: Row = {
            "mechanism": entry.name,
            **dict.fromkeys(("parameters", "noise", "local_eps0")),
            **dict.fromkeys(f"eps_{view}" for view in VIEWS),
            **dict.fromkeys(("messages", "bytes_sent", "moved_by_one")),
            **dict.fromkeys(("cell_sd_users", "largest_cell_sd_users", "tv_distance")),
        }
        if calibration is not None:
            from shuffledp.mechanisms.target_calibration import format_parameters

            row |= {
                "parameters": format_parameters(calibration.parameters),
                "noise": calibration.shape,
                "local_eps0": _finite_or_none(calibration.per_user.local_eps0),
                **{f"eps_{view}": _finite_or_none(calibration.views[view]) for view in VIEWS},
                "messages": calibration.per_user.messages,
                "bytes_sent": calibration.per_user.bytes_sent,
                "moved_by_one": calibration.per_user.moved_by_one,
                "cell_sd_users": calibration.cell_sd,
                "largest_cell_sd_users": calibration.largest_cell_sd,
                "tv_distance": calibration.tv_distance,
            }
        return row | {"trust": entry.trust, "source": entry.source, "reason": self.reason}


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
        Whether local randomisers also use the hidden-slot bound (docs/hidden-slot.md).
    mechanisms
        The mechanisms, in the requested order.
    """

    eps: float
    delta: float | Decimal
    setting: Setting
    histogram: str
    hidden_slot: bool
    mechanisms: tuple[ComparedMechanism, ...]

    _x, _y = "mechanism", ("cell_sd_users",)

    def _rows(self) -> list[Row]:
        inputs = {
            "n": self.setting.n,
            "k": self.setting.k,
            "eps": self.eps,
            "delta": _delta_cell(self.delta),
            **_non_default(self.setting, rounds=1),
            **_participation_columns(self.setting),
            "histogram": self.histogram,
            **({"hidden_slot": True} if self.hidden_slot else {}),
        }
        return [inputs | mechanism._row for mechanism in self.mechanisms]


@dataclass(frozen=True)
class RenyiResult(Result):
    """Renyi DP of all rounds together; ``rdp`` has the shape of ``order``."""

    order: Any
    rdp: Any
    setting: Setting
    bound: str

    _x, _y = "order", ("rdp",)

    def _rows(self) -> list[Row]:
        about = {name: getattr(self.setting, name) for name in ("n", "eps0", "rounds")}
        about |= {"bound": self.bound, "guarantee": BOUNDS[self.bound].guarantee}
        orders, values = np.ravel(self.order).tolist(), np.ravel(self.rdp).tolist()
        pairs = zip(orders, values, strict=True)
        return [{**about, "order": order, "rdp": value} for order, value in pairs]


@dataclass(frozen=True)
class TradeoffResult(Result):
    """A trade-off function: lower bounds on the type II errors of tests for one user's report.

    ``type_2_error`` has the shape of the type I errors ``alpha``.
    """

    alpha: Any
    type_2_error: Any
    setting: Setting
    bound: str

    _x, _y = "alpha", ("type_2_error_at_least",)

    def _rows(self) -> list[Row]:
        about = _setting_columns(self.setting)
        about |= {"rounds": self.setting.rounds, "bound": self.bound}
        alphas, errors = np.ravel(self.alpha).tolist(), np.ravel(self.type_2_error).tolist()
        pairs = zip(alphas, errors, strict=True)
        return [{**about, "alpha": alpha, "type_2_error_at_least": error} for alpha, error in pairs]


@dataclass(frozen=True)
class MatrixResult(Result):
    """Certified ends for a randomiser given as a matrix.

    Attributes
    ----------
    ends
        Certified ends of eps, or of the natural log of delta.
    reports
        Number of distinct reports, which are the columns of the matrix.
    local_eps0
        Local budget of one report, over neighbouring records.
    error
        Predicted error of the least-squares estimate of a uniform histogram; None if the rows of
        the matrix are linearly dependent.
    neighbours
        The neighbouring data sets, in words.
    hidden_slot
        Whether the upper end also uses the hidden-slot bound.
    """

    ends: EpsilonResult[Any] | LogDeltaResult[Any]
    reports: int
    local_eps0: float
    error: PredictedError | None
    neighbours: str
    hidden_slot: bool

    def _rows(self) -> list[Row]:
        setting = self.ends.setting
        assert isinstance(setting, Setting)
        about = {
            **{"n": setting.n, "records": setting.k, "reports": self.reports},
            "local_eps0": self.local_eps0,
            **_non_default(setting, rounds=1),
            **_participation_columns(setting),
            **({"hidden_slot": True} if self.hidden_slot else {}),
        }
        after = _error(self.error) | {"neighbours": self.neighbours}
        kept = ("eps", "eps_lower", "eps_upper", "delta", "delta_lower", "delta_upper",
                "log10_delta_lower", "log10_delta_upper")  # fmt: skip
        ends = [{name: row[name] for name in row if name in kept} for row in self.ends._rows()]
        return [about | row | after for row in ends]

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the certified ends and return the axes; see `Result.plot`."""
        return self.ends.plot(axes)


@dataclass(frozen=True)
class PersonalEpsilon:
    """The certified eps of some users, or a published or hypothetical eps for comparison.

    Attributes
    ----------
    about
        The users whose eps it is, the hypothetical collection, or the source of a published bound.
    users
        Number of users.
    budget_low, budget_high
        Smallest and largest local budget of these users.
    eps
        Central budget; None if a published bound does not apply.
    guarantee
        Whether eps may be promised to these users.
    sigma
        Standard deviation of the Gaussian noise at ``budget_high``; None without such noise.
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
    """The central eps of users who choose their own local budgets.

    ``entries`` are for each group of users, for all users, and for comparison.
    """

    mechanism: str
    delta: float | Decimal
    rounds: int
    entries: tuple[PersonalEpsilon, ...]

    _x, _y = "budget_high", ("eps",)

    def _rows(self) -> list[Row]:
        gaussian = self.mechanism == "gaussian"
        return [
            {
                "mechanism": self.mechanism,
                "delta": _delta_cell(self.delta),
                **({"rounds": self.rounds} if self.rounds > 1 else {}),
                "what": entry.about,
                "users": entry.users,
                # With Gaussian noise only the largest budget is shown, to which sigma belongs.
                **({} if gaussian else {"budget_low": entry.budget_low}),
                "budget_high": entry.budget_high,
                **({"sigma": entry.sigma} if gaussian else {}),
                "eps": entry.eps,
                "guarantee": entry.guarantee,
            }
            for entry in self.entries
        ]

    def _drawn_rows(self) -> list[Row]:
        rows = self._rows()
        return [row for row in rows if row["what"] == "own eps"] or rows


class Certificate(dict[str, Any], Result):
    """A certificate as JSON data, from which an independent checker recomputes certified ends."""

    _x, _y = "eps", ("delta_lower", "delta_upper")

    @property
    def text(self) -> str:
        """The certificate as JSON text."""
        long = {"blocks", "masses"} & set(self["upper"])
        return json.dumps(self, indent=None if long else 2) + "\n"

    def write(self, path: str | Path) -> None:
        """Write the certificate to a file, which appears whole or not at all."""
        from shuffledp.pipeline.files import replacing

        with replacing(Path(path)) as file:
            file.write_text(self.text, encoding="utf-8")

    def _rows(self) -> list[Row]:
        claims = {name: self[name] for name in _CLAIM if name in self}
        return [claims | _proven_ends(*(self[end]["log_delta"] for end in ("lower", "upper")))]


def _proven_ends(low: float | None, high: float | None) -> Row:
    """Return the columns of ends of delta from their natural logs; None means that delta is 0."""
    low, high = (-inf if log_delta is None else log_delta for log_delta in (low, high))
    ends = {"delta_lower": exp_down(low), "delta_upper": exp_up(high)}
    return ends | {"log10_delta_upper": _log10(high)}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a certificate: ``proven``, ``refused`` or ``not checked``, and the reason.

    ``claim`` is the proven `shuffledp.verification.certificate.Claim`, else None.
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
        """Return the verdict on each file and the claim that is proven, if any."""
        rows = []
        for each in self.verdicts:
            claim = each.claim
            row = {name: claim and getattr(claim, name) for name in _CLAIM}
            ends = _proven_ends(claim and claim.low, claim and claim.high)
            row |= ends if claim else dict.fromkeys(ends)
            rows.append({"file": each.file, "verdict": each.verdict, **row, "reason": each.reason})
        return rows

    _rows = rows
