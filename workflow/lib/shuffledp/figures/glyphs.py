"""Which characters figures can show."""

from functools import cache
from pathlib import Path

import matplotlib as mpl
from matplotlib.ft2font import FT2Font


def missing_glyphs(text: str) -> str:
    """Characters of a text that the font of all figures has no sign for, in order, each once.

    The font comes with matplotlib. One of the machine's own would draw other figures elsewhere.
    """
    return "".join(dict.fromkeys(each for each in text if ord(each) not in _known()))


@cache
def _known() -> frozenset[int]:
    font = Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return frozenset(FT2Font(str(font)).get_charmap())
