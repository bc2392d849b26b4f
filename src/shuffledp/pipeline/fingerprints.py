"""Digests of this package's code, by which a workflow runs jobs again after the code has changed.

They are computed from the compiled code without docstrings and line numbers: after a change of a
comment or docstring, no job runs again.
"""

import hashlib
import marshal
import py_compile
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from opcode import opmap
from pathlib import Path
from types import CodeType
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_NOT_USED_BY_JOBS: Final = frozenset({"cli", "interoperability", "publishing", "verification"})
_DRAWING: Final = frozenset({"figures", "page"})
_CHECKED_HASH: Final = (0b11).to_bytes(4, "little")  # flags of a cached file
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
            digest.update(name.as_posix().encode() + b"\0" + code_digest(path, path.read_bytes()))
    return digest.hexdigest()[:16]


@cache
def code_digest(path: Path, source: bytes) -> bytes:
    """Return the SHA-256 of a module's compiled source, without assertions and docstrings.

    It depends on the version of Python that compiles the source.
    """
    return hashlib.sha256(repr(list(_instructions(_compiled(path, source)))).encode()).digest()


def _compiled(path: Path, source: bytes) -> CodeType:
    """Return the code of a module from Python's cache beside it, to which it is added if missing.

    The cached file contains a hash of the source for which it is valid (PEP 552).
    """
    cached = Path(cache_from_source(path, optimization=2))
    head = MAGIC_NUMBER + _CHECKED_HASH + source_hash(source)
    try:
        content = cached.read_bytes() if cached.exists() else b""
        if not content.startswith(head) and not sys.dont_write_bytecode:
            mode = py_compile.PycInvalidationMode.CHECKED_HASH
            py_compile.compile(str(path), str(cached), optimize=2, invalidation_mode=mode)
            content = cached.read_bytes()
        if content.startswith(head):
            code: CodeType = marshal.loads(content[len(head) :])
            return code
    except (OSError, EOFError, ValueError, TypeError):
        pass  # it cannot be written, or is damaged
    return compile(source, "", "exec", dont_inherit=True, optimize=2)


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
