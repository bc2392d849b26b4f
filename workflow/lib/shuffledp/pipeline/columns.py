"""Name, type, unit and description of every column, defined once for all tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from shuffledp.errors import InputError

# Marks of files under the key CONTENTS (docs/data.md): true data identifies people, and simulated
# releases can be turned into it by anybody who knows their seed.
CONTENTS: Final = "contents"
TRUE: Final = "true data"
SIMULATED: Final = "simulated release"
PUBLIC: Final = "public"

_FLOAT, _COUNT, _NAME, _FLAG = pa.float64(), pa.int64(), pa.string(), pa.bool_()


@dataclass(frozen=True)
class Column:
    """A column with one meaning in all tables.

    Attributes
    ----------
    type
        Arrow type.
    unit
        Unit of the values; ``1`` for a pure number, ``text`` for words.
    description
        Meaning of a value, without a full stop.
    nullable
        Whether a value may be missing.
    """

    type: Any
    unit: str
    description: str
    nullable: bool = True

    def field(self, name: str) -> pa.Field:
        """Return the field of a schema with this name."""
        words = {"unit": self.unit, "description": self.description}
        return pa.field(name, self.type, self.nullable, metadata=words)


IN_RECORDS: Final[Mapping[str, Column]] = {
    "estimate": Column(_FLOAT, "records", "Estimated number of records in the cell"),
    "standard_error": Column(
        _FLOAT, "records", "Standard error of an unbiased estimate, as its holder can tell it"
    ),
}

COLUMNS: Final[Mapping[str, Column]] = {
    # What is collected.
    "n": Column(_COUNT, "records", "Number of records that take part, each counted as one user's"),
    "k": Column(_COUNT, "cells", "Number of cells of the grid"),
    "checkins": Column(_COUNT, "check-ins", "Number of check-ins of one user"),
    "unit": Column(_NAME, "text", "What delta protects"),
    "region": Column(_NAME, "text", "Name of the region in the configuration"),
    "grid": Column(_NAME, "text", "Name of the grid in the configuration"),
    "cell": Column(_COUNT, "1", "Number of the cell, from 0"),
    "count": Column(_COUNT, "records", "True number of records in the cell"),
    "budget": Column(_FLOAT, "1", "Privacy budget that a user chose"),
    # Privacy.
    "eps0": Column(_FLOAT, "1", "Local privacy budget of one report"),
    "eps": Column(_FLOAT, "1", "Central privacy budget"),
    "delta": Column(_FLOAT, "1", "Delta at eps"),
    "log10_delta": Column(_FLOAT, "1", "Decimal logarithm of delta at eps"),
    "bound": Column(_NAME, "text", "Name of the bound on delta"),
    "colluding": Column(_COUNT, "users", "Users who collude with whoever sees the release"),
    "response_rate": Column(_FLOAT, "1", "Probability with which a user responds"),
    # Releases.
    "calibration": Column(_NAME, "text", "What the noise was chosen for (docs/data.md)"),
    "mechanism": Column(_NAME, "text", "Name of the mechanism"),
    "estimator": Column(_NAME, "text", "Name of the mechanism's estimator"),
    "repetition": Column(_COUNT, "1", "Index of the independent release, from 0"),
    "estimate": Column(_FLOAT, "share of n", "Estimated share of the records that are in the cell"),
    "standard_error": Column(
        _FLOAT, "share of n", "Standard error of an unbiased estimate, as its holder can tell it"
    ),
    "parameters": Column(_NAME, "text", "Parameters of the mechanism, with all digits"),
    "local_eps0": Column(_FLOAT, "1", "What a user's messages reveal before they are mixed"),
    "messages": Column(_FLOAT, "messages", "Mean number of messages of a user who responds"),
    "reason": Column(_NAME, "text", "Why the mechanism cannot be calibrated to this"),
    # Errors.
    "tv_distance": Column(_FLOAT, "1", "Total variation distance of estimate and truth"),
    "expected_tv_distance": Column(
        _FLOAT, "1", "Expected total variation distance of an unbiased estimate and the truth"
    ),
    "cell_error": Column(
        _FLOAT, "records", "Error of a cell's number, root mean square over the cells"
    ),
    "expected_cell_error": Column(
        _FLOAT, "records", "Standard deviation of a cell's unbiased number, root mean square"
    ),
    "error": Column(_FLOAT, "records", "Estimated minus true number of records in the cell"),
    "known": Column(
        _FLAG, "1", "Whether the estimate exceeds 2 standard errors: few such are empty"
    ),
    # Curves of figures.
    "panel": Column(_NAME, "text", "Panel of the figure"),
    "curve": Column(_NAME, "text", "Curve in its panel"),
    "kind": Column(_NAME, "text", "How the curve is drawn"),
    "x": Column(_FLOAT, "as the figure's axis", "Value on the horizontal axis"),
    "y": Column(_FLOAT, "as the figure's axis", "Value on the vertical axis"),
    # Check-ins and cells.
    "user": Column(_COUNT, "1", "Whose check-in it is, or a fingerprint of that"),
    "time": Column(pa.timestamp("us", "UTC"), "microseconds, UTC", "When it was made"),
    "latitude": Column(_FLOAT, "degrees, WGS 84", "Latitude", nullable=False),
    "longitude": Column(_FLOAT, "degrees, WGS 84", "Longitude", nullable=False),
    "location": Column(_COUNT, "1", "Identifier of the place, or a fingerprint of it"),
    "window": Column(_NAME, "text", "Month, or first day, of the window of time"),
    "id": Column(_NAME, "text", "Identifier of the cell, unique in its grid"),
    "name": Column(_NAME, "text", "Name of the cell"),
    "row": Column(_COUNT, "1", "Row of the cell from the south, from 0"),
    "column": Column(_COUNT, "1", "Column of the cell from the west, from 0"),
    "geometry": Column(pa.binary(), "degrees, WGS 84", "Outline of the cell"),
}


def schema_of(*names: str, contents: str, other: Mapping[str, Column] | None = None) -> pa.Schema:
    """Return the schema of a table with these columns.

    Parameters
    ----------
    names
        Names in `COLUMNS`, in order.
    contents
        Mark of the file: `TRUE`, `SIMULATED` or `PUBLIC`.
    other
        Columns of the same names that mean something else in this table.
    """
    meant = {**COLUMNS, **(other or {})}
    return pa.schema([meant[name].field(name) for name in names], metadata={CONTENTS: contents})


def described(schema: pa.Schema) -> pa.Schema:
    """Add units and descriptions to a schema, whose types and metadata stay."""
    for place, field in enumerate(schema):
        meant = COLUMNS[field.name].field(field.name)
        schema = schema.set(place, field.with_metadata(meant.metadata))
    return schema


def strictest(contents: list[str]) -> str:
    """Return the mark of something that is made from tables of these contents.

    Raises
    ------
    InputError
        If a mark is unknown.
    """
    order = (PUBLIC, SIMULATED, TRUE)
    for one in contents:
        if one not in order:
            raise InputError(f"{CONTENTS} must be one of {', '.join(order)} (got {one!r})")
    return max(contents, key=order.index, default=PUBLIC)
