"""Sources of check-ins as the configuration describes them: their kinds and column layouts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from shuffledp.errors import InputError


@dataclass(frozen=True)
class Kind:
    """What a source of a kind says in the configuration, and what its check-ins are worth.

    Attributes
    ----------
    needed, allowed
        Keys beside ``kind`` that it must have, and that it may have.
    real_rows
        Whether each row is a check-in that somebody made, at its place; if not, no row is drawn.
    real_users
        Whether it says who checked in; if not, users can neither be counted nor protected.
    """

    needed: frozenset[str]
    allowed: frozenset[str]
    real_rows: bool
    real_users: bool


KINDS: Final = MappingProxyType(
    {
        # Counts of cells: rows are laid out and users are made up.
        "embedded": Kind(frozenset(), frozenset(), real_rows=False, real_users=False),
        "download": Kind(
            frozenset({"url", "layout"}), frozenset({"checksum"}), real_rows=True, real_users=True
        ),
        "file": Kind(
            frozenset({"path", "layout"}), frozenset({"checksum"}), real_rows=True, real_users=True
        ),
    }
)


COORDINATES = ("latitude", "longitude")
BUDGET = "budget"
COLUMNS = ("user", "time", *COORDINATES, "location", BUDGET)
FORMATS = ("csv", "parquet")


@dataclass(frozen=True)
class Layout:
    """Where the canonical columns stand in a check-in file.

    Parameters
    ----------
    format : str
        `csv` for any separated text, plain or compressed; `parquet` otherwise.
    separator : str
        One character. With a tab, quotation marks are ordinary characters; with any other separator
        a field may be quoted, but may not contain a line break. Unused for parquet.
    header : bool
        Whether the first line names the columns. Unused for parquet, which always names them.
    columns : Mapping[str, str | int]
        Canonical name (`user`, `time`, `latitude`, `longitude`, `location`, `budget`) to the name
        in the file or the position counted from 0. Only latitude and longitude are required.

    Raises
    ------
    InputError
        If a value is not one of those described, naming the key.
    """

    format: str
    separator: str
    header: bool
    columns: Mapping[str, str | int]

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"format must be csv or parquet (got {self.format!r})")
        if not isinstance(self.header, bool):
            raise InputError(f"header must be true or false (got {self.header!r})")
        self._check_separator()
        self._check_columns()

    @property
    def named(self) -> bool:
        """Whether the file itself names its columns."""
        return self.header or self.format == "parquet"

    def _check_separator(self) -> None:
        separator = self.separator
        usable = isinstance(separator, str) and len(separator) == 1 and separator.isascii()
        if not usable or separator.isalnum() or separator in "\"'.+-\r\n\0":
            raise InputError(
                "separator must be one character that no number contains, such as a comma, a "
                f'semicolon or a tab, which YAML writes "\\t" (got {separator!r})'
            )

    def _check_columns(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InputError(
                f"columns must map names to columns of the file (got {self.columns!r}), "
                "for example {latitude: lat, longitude: lon}"
            )
        known = ", ".join(COLUMNS)
        for key, value in self.columns.items():
            if key not in COLUMNS:
                raise InputError(f"columns.{key} is not a known column: the names are {known}")
            position = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not position and not (isinstance(value, str) and value):
                raise InputError(
                    f"{key_of(key)} must be the column's name or its position counted from 0 "
                    f"(got {value!r})"
                )
            if isinstance(value, str) and not self.named:
                raise InputError(
                    f"{key_of(key)} must be a position counted from 0 (got {value!r}): with "
                    "header: false no column has a name"
                )
        for key in COORDINATES:
            if key not in self.columns:
                raise InputError(f"columns.{key} is missing: latitude and longitude are required")
        if len(set(self.columns.values())) < len(self.columns):
            raise InputError(
                f"columns must all differ (got {dict(self.columns)}): two of them name the same one"
            )


def key_of(name: str) -> str:
    """Key of the configuration that says where the column of a canonical name stands."""
    return "budgets.column" if name == BUDGET else f"columns.{name}"


SNAP = Layout(
    format="csv",
    separator="\t",
    header=False,
    columns={"user": 0, "time": 1, "latitude": 2, "longitude": 3, "location": 4},
)
"""Layout of SNAP's loc-gowalla and loc-brightkite (whose `location` is not a number)."""


def layout_from_config(spec: Mapping[str, Any]) -> Layout:
    """Make a layout of its block in the configuration.

    Parameters
    ----------
    spec : Mapping
        `columns` (required), `format` (default csv), `separator` (default a comma) and `header`
        (default true): see `Layout`.

    Raises
    ------
    InputError
        If a key is unknown or missing, or a value is not one that `Layout` describes.
    """
    known = {"format", "separator", "header", "columns"}
    for key in spec:
        if key not in known:
            raise InputError(
                f"{key} is not a key of a layout: the keys are {', '.join(sorted(known))}"
            )
    if "columns" not in spec:
        raise InputError("columns is missing: for example {latitude: lat, longitude: lon}")
    return Layout(
        format=spec.get("format", "csv"),
        separator=spec.get("separator", ","),
        header=spec.get("header", True),
        columns=spec["columns"],
    )


def source_layout(spec: str | Mapping[str, Any], budget_column: str | int | None = None) -> Layout:
    """Layout of a source: ``snap``, or a block of the configuration.

    Parameters
    ----------
    spec
        The source's `layout`.
    budget_column
        Name or position of the column of the budgets that people chose, if it is to be read.

    Raises
    ------
    InputError
        If the block is not a layout, or the column is one that it maps already.
    """
    layout = SNAP if isinstance(spec, str) else layout_from_config(spec)
    if budget_column is None:
        return layout
    return replace(layout, columns={**layout.columns, BUDGET: budget_column})
