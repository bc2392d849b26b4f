"""Registry of the mechanisms in the catalogue, each imported when it is first used."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from shuffledp.mechanisms.catalogue import CATALOGUE, get_entries
from shuffledp.mechanisms.protocol import Mechanism

M = TypeVar("M", bound=Mechanism[Any])


@cache
def _create(module: str, class_name: str) -> Mechanism[Any]:
    mechanism: Mechanism[Any] = getattr(import_module(module), class_name)()
    return mechanism


class _Mechanisms(Mapping[str, Mechanism[Any]]):
    def __getitem__(self, name: str) -> Mechanism[Any]:
        entry = CATALOGUE[name]
        return _create(entry.module, entry.class_path.rpartition(".")[2])

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)


MECHANISMS: Final[Mapping[str, Mechanism[Any]]] = _Mechanisms()


def with_options(mechanism: M, **options: Any) -> M:
    """Return a copy of the mechanism with new values of options; None keeps the present value.

    The option is ``hidden_slot`` of shuffled randomisers; mechanisms without it ignore it.
    """
    if not is_dataclass(mechanism):
        return mechanism
    names = {field.name for field in fields(mechanism)}
    chosen = {name: value for name, value in options.items() if name in names and value is not None}
    return replace(mechanism, **chosen)


def get_mechanisms(names: Iterable[str]) -> list[Mechanism[Any]]:
    """Return the mechanisms with these names; raise `InputError` like `get_entries`."""
    return [MECHANISMS[entry.name] for entry in get_entries(names)]
