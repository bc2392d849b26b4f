"""Every mechanism of the catalogue, made when it is first asked for.

Their modules are imported by name: a job depends on those that it uses, not on all of them
(`shuffledp.pipeline.modules`).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from shuffledp.mechanisms.catalogue import CATALOGUE, get_entries
from shuffledp.mechanisms.protocol import Mechanism


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


def get_mechanisms(names: Iterable[str]) -> list[Mechanism[Any]]:
    """Look up mechanisms by their names.

    Raises
    ------
    InputError
        If one does not exist; the message lists those that do.
    """
    return [MECHANISMS[entry.name] for entry in get_entries(names)]
