"""Certified privacy of location histograms in the shuffle model.

`Setting` describes a collection. `epsilon`, `delta` and `log_delta` enclose its privacy, `rdp` and
`fdp` bound its Renyi DP and its trade-off function, `bounds` compares the literature. `calibrate`,
`plan`, `compare` and `compare_sparse` choose a mechanism and its parameters; results are frozen
dataclasses. `to_dp_accounting`, `to_opendp_profile` and `write_curve` export a privacy curve.

>>> from shuffledp import Setting, epsilon
>>> epsilon(1e-6, Setting(n=100_000, k=408, eps0=4.0)).upper
0.0378805...
"""

from importlib import import_module
from typing import Any

__all__ = [
    "Interval",
    "Setting",
    "__version__",
    "bounds",
    "calibrate",
    "certify",
    "compare",
    "compare_sparse",
    "delta",
    "epsilon",
    "fdp",
    "from_dp_accounting",
    "krr",
    "log_delta",
    "matrix",
    "mechanism",
    "personal_budgets",
    "plan",
    "rdp",
    "read_budgets",
    "read_rounds",
    "to_dp_accounting",
    "to_opendp_profile",
    "verify",
    "write_curve",
]
_HOMES = {
    "Interval": "accounting.curve",
    "Setting": "accounting.setting",
    "area": "publishing.area",
    "preview": "publishing.preview",
    "publish": "publishing.publication",
    "from_dp_accounting": "interoperability.exchange",
    "read_budgets": "input_files",
    "read_rounds": "input_files",
    "to_dp_accounting": "interoperability.exchange",
    "to_opendp_profile": "interoperability.exchange",
    "write_curve": "interoperability.exchange",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: jobs of the pipeline need none of them."""
    # `publish`, `preview` and `area` are not in __all__, because they need the extra `maps`.
    if name not in __all__ and name not in _HOMES:
        raise AttributeError(f"module 'shuffledp' has no attribute {name!r}")
    if name == "__version__":
        value: Any = import_module("shuffledp.version").find_version()
    elif name == "krr":
        value = import_module("shuffledp.mechanisms.randomised_response")
    else:
        value = getattr(import_module(f"shuffledp.{_HOMES.get(name, 'queries')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
