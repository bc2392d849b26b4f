"""Which files a module of this package depends on, so that a workflow can re-run what used them."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

# It imports a mechanism's module by name, when the mechanism is asked for.
_REGISTRY: Final = "shuffledp.mechanisms.registry"
_PACKAGE = Path(__file__).parents[1]
# Modules that a module imports by name, when they are needed.
_BY_NAME: Final = {"shuffledp.accounting.registry": "shuffledp.papers.literature.bounds"}


@cache  # every rule asks for hundreds, in every job's process
def _file(module: str) -> Path | None:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    if path.is_dir():
        return path / "__init__.py"
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else None


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement of a module: a tenth of its nodes."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(tree, name, ()):
            yield child
            yield from _statements(child)


@cache
def _imports(path: Path) -> frozenset[str]:
    found = {name for module, name in _BY_NAME.items() if _file(module) == path}
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in found if name.split(".")[0] == "shuffledp")


@cache
def _used(path: Path) -> frozenset[Path]:
    return frozenset(filter(None, map(_file, _imports(path))))


def script_modules(script: Path) -> list[str]:
    """Modules of this package that a script imports, as dotted names, sorted.

    Parameters
    ----------
    script
        A Python file outside the package.
    """
    return sorted(name for name in _imports(script) if _file(name) is not None)


def module_files(names: Iterable[str]) -> list[Path]:
    """Source files of the named modules and of every module of this package they import.

    Parameters
    ----------
    names
        Dotted names, such as ``shuffledp.studies.privacy``.

    Returns
    -------
    Absolute paths, sorted.

    Raises
    ------
    ValueError
        If a name is no module of the package.
    """
    waiting, found = set[Path](), set[Path]()
    for name in set(names):
        path = _file(name)
        if path is None:
            raise ValueError(f"{name} is not a module of shuffledp")
        waiting.add(path)
    while waiting:
        found |= waiting
        waiting = set[Path]().union(*map(_used, waiting)) - found
    return sorted(found)


def with_mechanisms(names: Iterable[str], mechanisms: Iterable[str]) -> list[str]:
    """Named modules, and those of the mechanisms that they look up, if they look up any.

    Parameters
    ----------
    names
        As for `module_files`.
    mechanisms
        Modules of those that a job may ask the registry for.

    Raises
    ------
    ValueError
        As `module_files`.
    """
    names = list(names)
    looks_up = _file(_REGISTRY) in module_files(names)
    return sorted({*names, *mechanisms}) if looks_up else names


@cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def fingerprint(names: Iterable[str]) -> str:
    """Short digest of the sources of the named modules and of all that they import of this package.

    It depends on what the files hold and on what they are called within the package, not on where
    the package is or when it was written. Arguments and errors as for `module_files`.
    """
    digest = hashlib.sha256()
    for path in module_files(names):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + _digest(path))
    return digest.hexdigest()[:16]
