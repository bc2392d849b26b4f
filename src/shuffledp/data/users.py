"""Tell users apart by their identifiers."""

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shuffledp.numerics.arrays import Integers

_SHORT_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,17}")
_END_OF_SHORT: Final = 10**18
_FIRST_NUMBER: Final = 2 * 10**18  # of the first user in the table; above all short integers
_MISSING: Final = -(2**63)


class UserNumbers:
    """Assign numbers to users by their identifiers, without collisions.

    Fingerprints could collide, and two users who share m records are protected half as well.
    Integers of up to 18 digits are their own numbers; all other identifiers are kept in a table,
    about 200 bytes each, and numbered in the order in which they are first seen.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, identifiers: Any) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the number of the user of each record, and which records have one.

        `identifiers` are a result of `values.to_identifier`, or several in one chunked array.
        """
        if isinstance(identifiers, pa.ChunkedArray):
            parts = [self.number(chunk) for chunk in identifiers.chunks]
            numbers = np.concatenate([part[0] for part in parts] or [np.empty(0, np.int64)])
            return numbers, numbers != _MISSING
        if pa.types.is_integer(identifiers.type):
            known = identifiers.is_valid().to_numpy(zero_copy_only=False)
            numbers = pc.fill_null(identifiers, 0).to_numpy()
            long = known & ((numbers >= _END_OF_SHORT) | (numbers <= -_END_OF_SHORT))
            numbers = np.where(known, numbers, _MISSING)
            if long.any():
                values, index = np.unique(numbers[long], return_inverse=True)
                numbers[long] = np.array([self._number(b"%d" % value) for value in values])[index]
            return numbers, known
        table = self._table(identifiers.dictionary)
        missing = len(identifiers.dictionary)  # a missing identifier gets the last entry
        index = identifiers.indices.fill_null(missing).to_numpy(zero_copy_only=False)
        numbers = table[index]
        return numbers, numbers != _MISSING

    def _table(self, texts: Any) -> Integers:
        """Return the number of each text of a dictionary, and that of a missing identifier."""
        short = pc.match_substring_regex(texts, rf"^({_SHORT_INTEGER.pattern.decode()})$")
        if pc.all(short).as_py() is not False:  # None if there are no texts
            integers = pc.fill_null(pc.cast(pc.cast(texts, pa.string()), pa.int64()), _MISSING)
            return np.append(integers.to_numpy(), _MISSING)
        numbers = [_MISSING if text is None else self._number(text) for text in texts.to_pylist()]
        return np.array([*numbers, _MISSING], dtype=np.int64)

    def _number(self, text: bytes) -> int:
        if _SHORT_INTEGER.fullmatch(text):
            return int(text)
        return self._numbers.setdefault(text, _FIRST_NUMBER + len(self._numbers))
