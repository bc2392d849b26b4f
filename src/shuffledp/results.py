"""Results of the public functions, as small frozen values.

A quantity is enclosed between a certified lower and upper end, and only the upper end may be
promised to users.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shuffledp.accounting.curve import Curve, Interval
from shuffledp.accounting.setting import Setting

if TYPE_CHECKING:
    from shuffledp.mechanisms.target_calibration import TargetCalibration

PROVEN: Final = "proven"


@dataclass(frozen=True, repr=False)
class _Ends(Interval[Any]):
    """Certified ends of points on a privacy curve.

    ``lower`` and ``upper`` are floats, or arrays shaped like the argument; None for an end that is
    not known. At ``curve`` other points may be evaluated, and it may be exported. ``certified``
    says whether rounding errors are bounded as well, which other accountants do not do.
    """

    curve: Curve = field(compare=False)
    certified: bool = True


class DeltaResult(_Ends):
    """Certified ends of delta, ``lower`` and ``upper``."""


class LogDeltaResult(_Ends):
    """Certified ends of the natural log of delta, ``lower`` and ``upper``."""


class EpsilonResult(_Ends):
    """Certified ends of eps, ``lower`` and ``upper``."""


@dataclass(frozen=True)
class CalibrationResult:
    """Parameters of a mechanism for which a collection meets a target (eps, delta).

    ``setting`` is the collection with its eps0, or with the mechanism and its ``parameters``, and
    ``log_delta`` the natural log of the certified upper end of delta at the target's eps.
    """

    setting: Setting
    parameters: Any
    log_delta: float

    @property
    def eps0(self) -> float:
        """The local budget of a report; inf for a mechanism other than k-RR."""
        return self.setting.eps0


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
class PlanResult:
    """A complete plan of a collection by k-RR, and errors of mechanisms at the same privacy.

    ``setting`` has n, k and eps0. ``eps`` and ``log_delta`` are the guarantee of all rounds
    together, delta as a natural log. ``errors`` has the predicted error of each mechanism; None for
    one that cannot meet the target.
    """

    setting: Setting
    eps: float
    log_delta: float
    errors: Mapping[str, PredictedError | None]


@dataclass(frozen=True)
class ComparedMechanism:
    """A mechanism of a comparison: its calibration, or the reason why there is none."""

    name: str
    calibration: "TargetCalibration[Any] | None"
    reason: str | None = None


@dataclass(frozen=True)
class ComparisonResult:
    """The ``mechanisms`` that were calibrated to the same target, in the requested order."""

    mechanisms: tuple[ComparedMechanism, ...]


@dataclass(frozen=True)
class MatrixResult:
    """Certified ends for a randomiser given as a matrix.

    ``ends`` are those of eps, or of the natural log of delta; ``local_eps0`` is the local budget of
    one report. ``error`` is that of the least-squares estimate of a uniform histogram; None if the
    rows of the matrix are linearly dependent.
    """

    ends: EpsilonResult | LogDeltaResult
    local_eps0: float
    error: PredictedError | None


@dataclass(frozen=True)
class PersonalEpsilon:
    """The certified eps of some users, or a published or hypothetical eps for comparison.

    ``about`` are the users whose eps it is, the hypothetical collection, or the source of a
    published bound; ``users`` is their number, and ``budget_low`` and ``budget_high`` are their
    smallest and largest local budget. ``eps`` is None if a published bound does not apply, and
    ``guarantee`` says whether it may be promised to these users. ``sigma`` is the standard
    deviation of the Gaussian noise at ``budget_high``; None without such noise.
    """

    about: str
    users: int
    budget_low: float
    budget_high: float
    eps: float | None
    guarantee: bool
    sigma: float | None = None


class Certificate(dict[str, Any]):
    """A certificate as JSON data, from which an independent checker recomputes certified ends."""

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


@dataclass(frozen=True)
class Verdict:
    """The verdict on a certificate: ``proven``, ``refused`` or ``not checked``, and the reason.

    ``claim`` is the proven `shuffledp.verification.checker.Claim`, else None.
    """

    file: str
    verdict: str
    claim: Any
    reason: str | None

    @property
    def proven(self) -> bool:
        """Whether the claim of the certificate is proven."""
        return self.verdict == PROVEN
