"""The mechanisms of the catalogue; each is imported and created when it is first used.

A job thus depends on the mechanisms that it uses, not on all of them
(`shuffledp.pipeline.modules`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from shuffledp.mechanisms.catalogue import CATALOGUE, get_entries
from shuffledp.mechanisms.protocol import Mechanism

M = TypeVar("M", bound=Mechanism[Any])


@cache
def _made(module: str, name: str) -> Mechanism[Any]:
    made: Mechanism[Any] = getattr(import_module(module), name)()
    return made


class _Mechanisms(Mapping[str, Mechanism[Any]]):
    def __getitem__(self, name: str) -> Mechanism[Any]:
        entry = CATALOGUE[name]
        return _made(entry.module, entry.home.rpartition(".")[2])

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)


MECHANISMS: Final[Mapping[str, Mechanism[Any]]] = _Mechanisms()


def with_options(mechanism: M, **options: Any) -> M:
    """Return the mechanism with those of the options that it has as fields; None changes nothing.

    The options are ``hidden_slot`` of shuffled randomisers, ``slots`` and ``share`` of signed
    dummies.
    """
    if not is_dataclass(mechanism):
        return mechanism
    names = {field.name for field in fields(mechanism)}
    chosen = {name: value for name, value in options.items() if name in names and value is not None}
    return replace(mechanism, **chosen)


def get_mechanisms(names: Iterable[str]) -> list[Mechanism[Any]]:
    """Return the mechanisms of these names.

    Raises
    ------
    InputError
        If one does not exist; the message lists those that do.
    """
    return [MECHANISMS[entry.name] for entry in get_entries(names)]
