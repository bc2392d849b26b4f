"""Digests of this package's code, by which a workflow runs jobs again after the code has changed.

They are computed from the compiled code without docstrings and line numbers: after a change of a
comment or docstring, no job runs again.
"""

import hashlib
from collections.abc import Collection, Iterator
from functools import cache
from opcode import opmap
from pathlib import Path
from types import CodeType
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_NOT_USED_BY_JOBS: Final = frozenset({"cli", "interoperability", "verification"})
_DRAWING: Final = frozenset({"figures", "page"})
_NO_OPERATION: Final = bytes([opmap["NOP"], 0])  # what the compiler leaves of a docstring


def computing_fingerprint() -> str:
    """Return a digest of all code that can influence a table, without the packages that draw."""
    return _fingerprint(_NOT_USED_BY_JOBS | _DRAWING)


def drawing_fingerprint() -> str:
    """Return a digest of all code that can influence a figure or a page.

    It includes the code of tables, from which figures take names and constants.
    """
    return _fingerprint(_NOT_USED_BY_JOBS)


def _fingerprint(left_out: Collection[str]) -> str:
    """Return a digest of `errors` and of all modules in packages, except those left out.

    Of the other modules beside the packages, jobs use only `version`, for the page.
    """
    digest = hashlib.sha256()
    for path in sorted([*_PACKAGE.glob("*/**/*.py"), _PACKAGE / "errors.py"]):
        name = path.relative_to(_PACKAGE)
        if name.parts[0] not in left_out:
            digest.update(name.as_posix().encode() + b"\0" + code_digest(path.read_bytes()))
    return digest.hexdigest()[:16]


@cache
def code_digest(source: bytes) -> bytes:
    """Return the SHA-256 of a module's compiled source, without assertions and docstrings.

    It depends on the version of Python that compiles the source.
    """
    code = compile(source, "", "exec", dont_inherit=True, optimize=2)
    return hashlib.sha256(repr(list(_instructions(code))).encode()).digest()


def _instructions(code: CodeType) -> Iterator[object]:
    """Yield the contents of a code object and of those within it, except for line numbers."""
    yield (
        code.co_code.replace(_NO_OPERATION, b""),
        code.co_exceptiontable,
        code.co_flags,
        code.co_name,
    )
    yield code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    yield code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        elif isinstance(constant, frozenset):  # its order differs from process to process
            yield sorted(map(repr, constant))
        else:
            yield constant
