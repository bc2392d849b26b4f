"""Digests of this package's code, by which a workflow runs jobs again after the code has changed.

Comments, docstrings and the layout of lines do not count.
"""

import ast
import hashlib
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_NOT_USED_BY_JOBS: Final = frozenset({"cli", "interoperability", "publishing", "verification"})
_DRAWING: Final = frozenset({"figures"})
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def computing_fingerprint() -> str:
    """Return a digest of all code that can influence a table, without the packages that draw."""
    return _fingerprint(_NOT_USED_BY_JOBS | _DRAWING)


def drawing_fingerprint() -> str:
    """Return a digest of all code that can influence a figure.

    It includes the code of tables, from which figures take names and constants.
    """
    return _fingerprint(_NOT_USED_BY_JOBS)


def _fingerprint(left_out: Collection[str]) -> str:
    """Return a digest of `errors` and of all modules in packages, except those left out."""
    digest = hashlib.sha256()
    for path in sorted([*_PACKAGE.glob("*/**/*.py"), _PACKAGE / "errors.py"]):
        name = path.relative_to(_PACKAGE)
        if name.parts[0] not in left_out:
            digest.update(f"{name.as_posix()}\0{_code(path.read_bytes())}".encode())
    return digest.hexdigest()[:16]


@cache
def _code(source: bytes) -> str:
    """Return the syntax tree of a module as text, without docstrings and positions."""
    tree = ast.parse(source)
    statements: list[ast.AST] = [tree]
    while statements:
        node = statements.pop()
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        for inside in ("body", "orelse", "finalbody", "handlers", "cases"):
            blocks = getattr(node, inside, None)
            statements.extend(blocks if isinstance(blocks, list) else ())
    return ast.dump(tree)
