"""Name, type, unit and description of every column, defined once for all tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

# Marks of files under the key CONTENTS (docs/run-data.md). True data identify people, and whoever
# knows the seed of simulated releases can compute the true data from them.
CONTENTS: Final = "contents"
TRUE: Final = "true data"
SIMULATED: Final = "simulated release"
PUBLIC: Final = "public"

_FLOAT, _INTEGER, _TEXT, _FLAG = pa.float64(), pa.int64(), pa.string(), pa.bool_()


@dataclass(frozen=True)
class Column:
    """A column with one meaning in all tables.

    The type is an Arrow type. The unit is that of the values, ``1`` for a pure number and ``text``
    for words. The description is the meaning of a value, without a full stop. If ``nullable``, a
    value may be missing.
    """

    type: Any
    unit: str
    description: str
    nullable: bool = True

    def field(self, name: str) -> pa.Field:
        """Return the Arrow field of a column with this name."""
        metadata = {"unit": self.unit, "description": self.description}
        return pa.field(name, self.type, self.nullable, metadata=metadata)


# Columns of tables in which estimates are numbers of records instead of shares of n.
IN_RECORDS: Final[Mapping[str, Column]] = {
    "estimate": Column(_FLOAT, "records", "Estimated number of records in the cell"),
    "standard_error": Column(
        _FLOAT, "records", "Standard error of an unbiased estimate, computable from the release"
    ),
}

COLUMNS: Final[Mapping[str, Column]] = {
    # What is collected.
    "n": Column(
        _INTEGER, "records", "Number of records in the collection, each counted as one user's"
    ),
    "k": Column(_INTEGER, "cells", "Number of cells of the grid"),
    "region": Column(_TEXT, "text", "Name of the region in the configuration"),
    "grid": Column(_TEXT, "text", "Name of the grid in the configuration"),
    "cell": Column(_INTEGER, "1", "Number of the cell, from 0"),
    "count": Column(_INTEGER, "records", "True number of records in the cell"),
    # Privacy.
    "eps0": Column(_FLOAT, "1", "Local privacy budget of one report"),
    "eps": Column(_FLOAT, "1", "Central privacy budget"),
    "delta": Column(_FLOAT, "1", "Delta at eps"),
    "log10_delta": Column(_FLOAT, "1", "Decimal logarithm of delta at eps"),
    "bound": Column(_TEXT, "text", "Name of the bound on delta"),
    "colluding": Column(_INTEGER, "users", "Number of users who collude with the adversary"),
    "response_rate": Column(_FLOAT, "1", "Probability with which a user responds"),
    # Releases.
    "calibration": Column(_TEXT, "text", "What the noise was chosen for (docs/data.md)"),
    "mechanism": Column(_TEXT, "text", "Name of the mechanism"),
    "estimator": Column(_TEXT, "text", "Name of the mechanism's estimator"),
    "repetition": Column(_INTEGER, "1", "Index of the independent release, from 0"),
    "estimate": Column(_FLOAT, "share of n", "Estimated share of the records that are in the cell"),
    "standard_error": Column(
        _FLOAT, "share of n", "Standard error of an unbiased estimate, computable from the release"
    ),
    "parameters": Column(_TEXT, "text", "Parameters of the mechanism, with all digits"),
    "local_eps0": Column(
        _FLOAT, "1", "Local privacy budget of a user's messages before they are mixed"
    ),
    "messages": Column(_FLOAT, "messages", "Mean number of messages of a user who responds"),
    "reason": Column(_TEXT, "text", "Why the mechanism cannot meet the target"),
    # Errors.
    "tv_distance": Column(_FLOAT, "1", "Total variation distance of estimate and truth"),
    "expected_tv_distance": Column(
        _FLOAT, "1", "Expected total variation distance of an unbiased estimate and the truth"
    ),
    "cell_error": Column(
        _FLOAT, "records", "Error of a cell's count, root mean square over the cells"
    ),
    "expected_cell_error": Column(
        _FLOAT, "records", "Standard deviation of a cell's unbiased count, root mean square"
    ),
    "error": Column(_FLOAT, "records", "Estimated minus true number of records in the cell"),
    "known": Column(
        _FLAG, "1", "Whether the estimate exceeds 2 standard errors; few empty cells do"
    ),
    # Curves of figures.
    "panel": Column(_TEXT, "text", "Panel of the figure"),
    "curve": Column(_TEXT, "text", "Curve in its panel"),
    "kind": Column(_TEXT, "text", "How the curve is drawn"),
    "x": Column(_FLOAT, "as the figure's axis", "Value on the horizontal axis"),
    "y": Column(_FLOAT, "as the figure's axis", "Value on the vertical axis"),
    # Check-ins and cells.
    "user": Column(_INTEGER, "1", "Number that stands for the user in this file"),
    "time": Column(pa.timestamp("us", "UTC"), "microseconds, UTC", "Time of the check-in"),
    "latitude": Column(_FLOAT, "degrees, WGS 84", "Latitude", nullable=False),
    "longitude": Column(_FLOAT, "degrees, WGS 84", "Longitude", nullable=False),
    "location": Column(_INTEGER, "1", "Identifier of the place"),
    "window": Column(_TEXT, "text", "Month, or first day, of the window of time"),
    "id": Column(_TEXT, "text", "Identifier of the cell, unique in its grid"),
    "name": Column(_TEXT, "text", "Name of the cell"),
    "row": Column(_INTEGER, "1", "Row of the cell from the south, from 0"),
    "column": Column(_INTEGER, "1", "Column of the cell from the west, from 0"),
    "geometry": Column(pa.binary(), "degrees, WGS 84", "Outline of the cell"),
}


def schema_of(*names: str, contents: str, other: Mapping[str, Column] | None = None) -> pa.Schema:
    """Return the schema of a table with these columns, named as in `COLUMNS`, in order.

    `contents` is the mark of the file: `TRUE`, `SIMULATED` or `PUBLIC`. The columns in `other`
    replace those of the same name in `COLUMNS`.
    """
    columns = {**COLUMNS, **(other or {})}
    return pa.schema([columns[name].field(name) for name in names], metadata={CONTENTS: contents})


def described(schema: pa.Schema, other: Mapping[str, Column] | None = None) -> pa.Schema:
    """Return a schema with units and descriptions added to its columns.

    The columns are those in `COLUMNS`, and further ones in `other`.
    """
    columns = {**COLUMNS, **(other or {})}
    fields = [
        field.with_metadata(columns[field.name].field(field.name).metadata) for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)
