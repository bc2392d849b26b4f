"""Registry of the mechanisms in the catalogue, each imported when it is first used."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from shuffledp.mechanisms.catalogue import CATALOGUE, get_entries
from shuffledp.mechanisms.protocol import Mechanism

M = TypeVar("M", bound=Mechanism[Any])


@cache
def _create(class_path: str) -> Any:
    module, _, name = class_path.rpartition(".")
    return getattr(import_module(module), name)()


class _Mechanisms(Mapping[str, Mechanism[Any]]):
    def __getitem__(self, name: str) -> Mechanism[Any]:
        mechanism: Mechanism[Any] = _create(CATALOGUE[name].class_path)
        return mechanism

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)


MECHANISMS: Final[Mapping[str, Mechanism[Any]]] = _Mechanisms()


def with_options(mechanism: M, hidden_slot: bool | None = None) -> M:
    """Return a copy of a shuffled randomiser that uses the hidden slot, or the mechanism itself."""
    if hidden_slot is None or not is_dataclass(mechanism):
        return mechanism
    return replace(mechanism, hidden_slot=hidden_slot)


def get_mechanisms(names: Iterable[str]) -> list[Mechanism[Any]]:
    """Return the mechanisms with these names; raise `InputError` like `get_entries`."""
    return [MECHANISMS[entry.name] for entry in get_entries(names)]
