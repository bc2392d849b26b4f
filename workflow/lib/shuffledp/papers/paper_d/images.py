"""Images of digits to train on: scikit-learn's own, or MNIST's IDX files."""

import gzip
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers

CLASSES: Final = 10
_GZIP: Final = b"\x1f\x8b"
_UNSIGNED_BYTES: Final = 0x08
# The four files of MNIST, by the keys of the configuration.
IMAGES, LABELS, TEST_IMAGES, TEST_LABELS = "images", "labels", "test_images", "test_labels"


@dataclass(frozen=True)
class Images:
    """Images and labels, in training and for the test.

    Attributes
    ----------
    name
        Of the data, in tables.
    train, test
        Pixels in ``[0, 1]``, shape ``(n, pixels)``.
    train_labels, test_labels
        0 to 9, shape ``(n,)``.
    """

    name: str
    train: Floats
    train_labels: Integers
    test: Floats
    test_labels: Integers


def read_idx(path: Path, key: str, dimensions: int) -> NDArray[np.uint8]:
    """Read unsigned bytes in the IDX format, plain or packed with gzip.

    Parameters
    ----------
    path
        The file.
    key
        Of the configuration, for messages.
    dimensions
        That the file must have: 3 for images, 1 for labels.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged or cut short, is no IDX file of unsigned bytes, or
        has another number of dimensions.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{key}: {path} cannot be read ({error.strerror})") from None
    try:
        data = gzip.decompress(raw) if raw.startswith(_GZIP) else raw
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{key}: {path} is damaged or cut short ({error}): replace it") from None
    found = int.from_bytes(data[:4])
    wanted = _UNSIGNED_BYTES << 8 | dimensions
    if len(data) < 4 or found >> 8 != _UNSIGNED_BYTES:
        raise InputError(
            f"{key}: {path} is no IDX file of unsigned bytes: it begins with {data[:4].hex()!r}, "
            f"not with {wanted:08x}"
        )
    if found != wanted:
        raise InputError(
            f"{key}: {path} begins with {found:08x}, not with {wanted:08x}: images have 3 "
            "dimensions and labels 1; are the two exchanged?"
        )
    start = 4 + 4 * dimensions
    shape = [int.from_bytes(data[place : place + 4]) for place in range(4, start, 4)]
    if len(data) != start + math.prod(shape):
        raise InputError(
            f"{key}: {path} has {len(data)} bytes, but its header promises "
            f"{start + math.prod(shape)}: it is cut short or damaged; replace it"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def bundled_digits() -> tuple[Floats, Integers]:
    """Scikit-learn's 1,797 images of 8 by 8 pixels, and their labels."""
    from sklearn.datasets import load_digits  # takes a second

    bunch = load_digits()
    return bunch.data / 16.0, bunch.target.astype(np.int64)


def _labelled(
    files: Mapping[str, Path], images: str, labels: str, key: str
) -> tuple[Floats, Integers]:
    pixels = read_idx(files[images], f"{key}.{images}", 3)
    digits = read_idx(files[labels], f"{key}.{labels}", 1).astype(np.int64)
    if len(pixels) != len(digits):
        raise InputError(
            f"{key}.{labels}: {files[labels]} has {len(digits)} labels for {len(pixels)} images of "
            f"{files[images]}: they are of different sets"
        )
    if digits.size and digits.max() >= CLASSES:
        raise InputError(
            f"{key}.{labels}: {files[labels]} has a label {digits.max()}: labels are 0 to 9"
        )
    return pixels.reshape(len(pixels), math.prod(pixels.shape[1:])) / 255.0, digits


def load_images(
    files: Mapping[str, Path], key: str, test_share: float, rng: np.random.Generator
) -> Images:
    """Images to train and to test on.

    Parameters
    ----------
    files
        IDX files by `IMAGES`, `LABELS`, and maybe `TEST_IMAGES` and `TEST_LABELS`; none for the
        bundled digits.
    key
        Of the configuration that names the files, for messages.
    test_share
        Share of the images that the test has if it has no files of its own. They are the last
        ones after a random permutation.
    rng
        Source of that permutation.

    Raises
    ------
    InputError
        As `read_idx`, and if labels do not fit images or the test's images are of another size.
    """
    name = "MNIST" if files else "digits"
    pixels, labels = _labelled(files, IMAGES, LABELS, key) if files else bundled_digits()
    order = rng.permutation(len(pixels))
    pixels, labels = pixels[order], labels[order]
    if TEST_IMAGES in files:
        test = _labelled(files, TEST_IMAGES, TEST_LABELS, key)
        if test[0].shape[1] != pixels.shape[1]:
            raise InputError(
                f"{key}.{TEST_IMAGES}: its images have {test[0].shape[1]} pixels, those of "
                f"{key}.{IMAGES} {pixels.shape[1]}"
            )
        return Images(name, pixels, labels, *test)
    kept = len(pixels) - round(test_share * len(pixels))
    return Images(name, pixels[:kept], labels[:kept], pixels[kept:], labels[kept:])


def principal_components(train: Floats, test: Floats, number: int) -> tuple[Floats, Floats]:
    """Both sets along the training set's leading principal components, centred, not scaled.

    The sign of a component is that of its largest entry. The components are of the data as they
    are: they have no noise, and nothing accounts for what they tell.

    Parameters
    ----------
    train, test
        Records as rows, ``(n, d)`` and ``(m, d)``.
    number
        Components that are kept, at most d.
    """
    centre = train.mean(axis=0)
    axes = np.linalg.eigh((train - centre).T @ (train - centre))[1][:, ::-1][:, :number]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    return (train - centre) @ axes, (test - centre) @ axes
