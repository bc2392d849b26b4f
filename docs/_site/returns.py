"""A hook of mkdocstrings for the section "Returns" of docstrings.

Our sections describe the result in prose, because the annotation already names its type. The parser
expects a type on the first line and would take the prose for it.
"""

import re
from typing import Any

from griffe import Extension, Function

SECTION = re.compile(r"^(Returns|Yields)\n-+\n((?:\S.*\n?)+)", re.MULTILINE)


class Returns(Extension):
    """Insert the annotated type before the prose."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Rewrite the section of one function."""
        if func.docstring:
            kind = str(func.returns or "None")
            func.docstring.value = SECTION.sub(
                lambda match: f"{match[1]}\n-------\n{kind}\n{_indented(match[2])}",
                func.docstring.value,
            )


def _indented(text: str) -> str:
    return re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)
