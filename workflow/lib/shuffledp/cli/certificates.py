"""Certificates that the command writes and checks."""

import json
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.accounting.curve import exp_down, exp_up
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import Row, log10
from shuffledp.errors import InputError

if TYPE_CHECKING:
    from shuffledp.verification.certificate import Claim

PROVEN: Final = "proven"


def certify(arguments: Namespace) -> None:
    """Write a certificate to a file, or print it."""
    from shuffledp.pipeline.files import replacing

    made = _certificate(arguments)
    upper = made["upper"]
    text = json.dumps(made, indent=None if {"blocks", "masses"} & set(upper) else 2) + "\n"
    if arguments.output is None:
        print(text, end="")
        return
    with replacing(Path(arguments.output)) as path:
        path.write_text(text, encoding="utf-8")


def _certificate(arguments: Namespace) -> dict[str, Any]:
    from shuffledp.accounting.certificate import certificate, dummies_certificate

    eps, n, k, dummies = arguments.eps, arguments.n, arguments.k, arguments.dummies
    if [arguments.eps0, dummies, arguments.mechanism].count(None) != 2:
        raise InputError("give one of --eps0, --dummies and --mechanism")
    if arguments.mechanism is not None:
        return _of_view(arguments)
    if arguments.parameters is not None:
        raise InputError("--parameters are those of --mechanism")
    if dummies is None:
        if arguments.chances is not None:
            raise InputError("--chances are those of --dummies")
        return certificate(eps, Setting(n, k, arguments.eps0, arguments.rounds))
    if arguments.rounds > 1:
        raise InputError(f"dummies are certified for one round (got rounds={arguments.rounds})")
    if not 0.0 < dummies < np.inf:
        raise InputError(f"dummies must be positive and finite (got {dummies})")
    chances = int(np.ceil(dummies)) if arguments.chances is None else arguments.chances
    return dummies_certificate(eps, n, k, dummies, chances)


def _of_view(arguments: Namespace) -> dict[str, Any]:
    """What is promised, not what more users than it asks for got."""
    from dataclasses import asdict

    from shuffledp.accounting.certificate import view_certificate
    from shuffledp.mechanisms.registry import get_mechanisms
    from shuffledp.mechanisms.target_calibration import read_parameters

    if arguments.rounds > 1:
        raise InputError(f"views are certified for one round (got rounds={arguments.rounds})")
    if arguments.parameters is None:
        raise InputError("--mechanism needs its --parameters")
    (mechanism,) = get_mechanisms([arguments.mechanism])
    parameters = read_parameters(mechanism, arguments.parameters)
    setting = Setting(arguments.n, arguments.k)
    curve = mechanism.curve(parameters, setting)
    seen = mechanism.views(parameters, setting)
    found = seen.get(arguments.view, curve).log_delta(arguments.eps).promised
    if found >= 0.0:
        raise InputError(f"to {arguments.view} nothing is promised at eps={arguments.eps:g}")
    sizes, view = (arguments.n, arguments.k), (arguments.view, found)
    return view_certificate(arguments.eps, sizes, mechanism.name, asdict(parameters), view)


# What is proven, as `Claim` has it, and its ends.
_CLAIMED: Final = (
    "n",
    "k",
    "eps0",
    "rounds",
    "dummies",
    "chances",
    "mechanism",
    "parameters",
    "view",
    "eps",
)


def verify_rows(arguments: Namespace) -> Iterable[Row]:
    """A verdict for each certificate; raises `InputError` before any if a file cannot be read."""
    try:
        from shuffledp.verification.certificate import verify
        from shuffledp.verification.deltas import RefusedError, TooLongError
        from shuffledp.verification.reading import read
    except ModuleNotFoundError as missing:
        raise InputError(
            "certificates are checked with python-flint: pip install 'shuffledp[verify]'"
        ) from missing
    sources = [Path(name) for name in arguments.files]
    for source in sources:  # a typo is told before anything is proven
        try:
            source.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            raise InputError(f"{source} cannot be read: {reason}") from None
    for source in sources:
        row: Row = dict.fromkeys((*_CLAIMED, "delta_lower", "delta_upper", "log10_delta_upper"))
        try:
            row |= _claim_row(verify(read(source)))
            verdict, reason = PROVEN, None
        except OSError as error:
            verdict, reason = "not checked", f"it cannot be read: {error.strerror}"
        except RefusedError as refused:
            verdict, reason = "refused", str(refused)
        except TooLongError as too_long:
            verdict, reason = "not checked", str(too_long)
        yield {"file": str(source), "verdict": verdict, **row, "reason": reason}


def _claim_row(claim: "Claim") -> Row:
    """What was proven: who relies on a certificate must see of what it is one."""
    low = -np.inf if claim.low is None else claim.low
    high = -np.inf if claim.high is None else claim.high
    return {
        **{name: getattr(claim, name) for name in _CLAIMED},
        "delta_lower": exp_down(low),
        "delta_upper": exp_up(high),
        "log10_delta_upper": log10(high),
    }
