"""Certified privacy of shuffled k-randomised response.

The accountant: `Setting` describes a collection; `delta`, `log_delta` and `epsilon` enclose what it
promises; `calibrate` finds its local budget; `bounds` compares the literature; `read_rounds` reads
the settings of rounds that differ. `krr` is the mechanism: its channel, a simulation, and the
unbiased estimate.

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
    "delta",
    "epsilon",
    "krr",
    "log_delta",
    "read_rounds",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: jobs of the pipeline need none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'shuffledp' has no attribute {name!r}")
    if name == "__version__":
        value: Any = import_module("shuffledp.version").find_version()
    elif name == "krr":
        value = import_module("shuffledp.mechanisms.krr")
    elif name == "read_rounds":
        value = import_module("shuffledp.cli.ledger").read_rounds
    else:
        value = getattr(import_module("shuffledp.accounting.accountant"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
