"""Seeded damage to files of check-ins, as done by disks, transfers, editors and exports."""

from collections.abc import Callable

import numpy as np

Random = np.random.Generator
HUGE = [b"1e999", b"9" * 40, b"-1e308", b"1e-400", b"18446744073709551616", b"0x7fffffff", b"inf"]
ODD = [b"", b" ", b"NaN", b"None", b"-", b"1,5", b"1_0", "４８".encode(), b"\xff", b"1e", b"+-1"]


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def _rows(lines: list[bytes], random: Random) -> list[int]:
    """Choose one row or a tenth of the rows."""
    size = random.choice([1, 1, 1 + len(lines) // 10])
    return random.choice(len(lines), size=size, replace=False).tolist()


def _edit_fields(
    data: bytes, random: Random, edit: Callable[[list[bytes]], list[bytes]], separator: bytes
) -> bytes:
    lines = _lines(data)
    for row in _rows(lines, random):
        lines[row] = separator.join(edit(lines[row].rstrip(b"\n").split(separator))) + b"\n"
    return b"".join(lines)


def flip_bits(data: bytes, random: Random, separator: bytes) -> bytes:
    damaged = bytearray(data)
    for position in random.integers(len(data), size=random.integers(1, 20)):
        damaged[position] ^= 1 << int(random.integers(8))
    return bytes(damaged)


def cut_end(data: bytes, random: Random, separator: bytes) -> bytes:
    return data[: int(random.integers(len(data)))]


def cut_rows(data: bytes, random: Random, separator: bytes) -> bytes:
    lines = _lines(data)
    for row in _rows(lines, random):
        lines[row] = lines[row][: int(random.integers(len(lines[row])))] + b"\n"
    return b"".join(lines)


def add_field(data: bytes, random: Random, separator: bytes) -> bytes:
    return _edit_fields(data, random, lambda fields: [*fields, fields[0]], separator)


def _put(values: list[bytes]) -> Callable[[bytes, Random, bytes], bytes]:
    def put(data: bytes, random: Random, separator: bytes) -> bytes:
        def edit(fields: list[bytes]) -> list[bytes]:
            fields[int(random.integers(len(fields)))] = values[int(random.integers(len(values)))]
            return fields

        return _edit_fields(data, random, edit, separator)

    return put


def insert_nul(data: bytes, random: Random, separator: bytes) -> bytes:
    position = int(random.integers(len(data)))
    return data[:position] + b"\0" * int(random.integers(1, 4)) + data[position:]


def line_ends(data: bytes, random: Random, separator: bytes) -> bytes:
    end = [b"\r\n", b"\r", b"\n\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8"][random.integers(6)]
    if random.random() < 0.5:
        return data.replace(b"\n", end)
    lines = _lines(data)
    for row in _rows(lines, random):
        lines[row] = lines[row].rstrip(b"\n") + end
    return b"".join(lines)


def join_rows(data: bytes, random: Random, separator: bytes) -> bytes:
    lines = _lines(data)
    for row in _rows(lines, random):
        lines[row] = lines[row].rstrip(b"\n")
    return b"".join(lines)


TEXT = {
    "bits flipped": flip_bits,
    "file cut short": cut_end,
    "rows cut": cut_rows,
    "field too many": add_field,
    "huge numbers": _put(HUGE),
    "odd fields": _put(ODD),
    "NUL inserted": insert_nul,
    "other line ends": line_ends,
    "rows joined": join_rows,
}
"""Damage to text by its name: bytes of whole lines, random numbers, separator to damaged bytes."""
