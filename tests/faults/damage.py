"""Seeded damage to files of check-ins, as done by disks, transfers, editors and exports."""

import gzip
import zlib
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


def overwrite(data: bytes, random: Random, separator: bytes) -> bytes:
    start, size = int(random.integers(len(data))), int(random.integers(1, 300))
    return data[:start] + random.bytes(size) + data[start + size :]


def zero_block(data: bytes, random: Random, separator: bytes) -> bytes:
    """Zero a block, as a file system does that lost it in a crash."""
    start = int(random.integers(len(data)))
    return data[:start] + bytes(min(512, len(data) - start)) + data[start + 512 :]


def cut_end(data: bytes, random: Random, separator: bytes) -> bytes:
    return data[: int(random.integers(len(data)))]


def cut_middle(data: bytes, random: Random, separator: bytes) -> bytes:
    first, second = sorted(random.integers(len(data), size=2).tolist())
    return data[:first] + data[second:]


def cut_rows(data: bytes, random: Random, separator: bytes) -> bytes:
    lines = _lines(data)
    for row in _rows(lines, random):
        lines[row] = lines[row][: int(random.integers(len(lines[row])))] + b"\n"
    return b"".join(lines)


def cut_field(data: bytes, random: Random, separator: bytes) -> bytes:
    return _edit_fields(data, random, lambda fields: fields[1:], separator)


def add_field(data: bytes, random: Random, separator: bytes) -> bytes:
    return _edit_fields(data, random, lambda fields: [*fields, fields[0]], separator)


def swap_columns(data: bytes, random: Random, separator: bytes) -> bytes:
    def swap(fields: list[bytes]) -> list[bytes]:
        return [fields[place] for place in order] if len(fields) == len(order) else fields

    order = random.permutation(data.split(b"\n")[0].count(separator) + 1).tolist()
    if random.random() < 0.5:
        return _edit_fields(data, random, swap, separator)
    lines = [separator.join(swap(line.split(separator))) for line in data.split(b"\n")]
    return b"\n".join(lines)


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


def recode(data: bytes, random: Random, separator: bytes) -> bytes:
    name = ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp037", "utf-7"][random.integers(6)]
    return data.decode().encode(name)


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


def other_file(data: bytes, random: Random, separator: bytes) -> bytes:
    page = b"\n<!DOCTYPE html><html><body>Not found</body></html>\n"
    others = [b"", b"\n\n\n", b"\0" * 700, page, b"PK\x03\x04" + data, b"PAR1" + data, b"{}", b" "]
    return others[random.integers(len(others))]


TEXT = {
    "bits flipped": flip_bits,
    "bytes overwritten": overwrite,
    "block zeroed": zero_block,
    "file cut short": cut_end,
    "middle missing": cut_middle,
    "rows cut": cut_rows,
    "field missing": cut_field,
    "field too many": add_field,
    "columns swapped": swap_columns,
    "huge numbers": _put(HUGE),
    "odd fields": _put(ODD),
    "NUL inserted": insert_nul,
    "other encoding": recode,
    "other line ends": line_ends,
    "rows joined": join_rows,
    "another file": other_file,
}
"""Damage to text by its name: bytes of whole lines, random numbers, separator to damaged bytes."""


def damage_gzip(packed: bytes, random: Random) -> bytes:
    """Packed bytes cut, flipped, with something after the end, or with a wrong check value.

    A second packed part and another time in the header are no damage.
    """
    kind = random.integers(7)
    if kind == 0:
        return packed[: int(random.integers(1, len(packed)))]
    if kind == 1:
        return flip_bits(packed, random, b"")
    if kind == 2:
        return packed + random.bytes(int(random.integers(1, 50)))
    if kind == 3:
        return packed[:-8] + (zlib.crc32(random.bytes(9))).to_bytes(4, "little") + packed[-4:]
    if kind == 4:
        return gzip.compress(packed)
    if kind == 5:
        return packed + gzip.compress(b"")
    return packed[:4] + random.bytes(4) + packed[8:]
