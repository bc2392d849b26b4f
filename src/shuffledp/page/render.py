"""Render the page: template, style, scripts and data in one file."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

_PARTS = files("shuffledp.page")
# In the order of their dependencies.
_SCRIPTS = (
    *("vendor/d3.min.js", "vendor/plot.min.js", "scripts/common.js", "scripts/drawing.js"),
    *(
        f"scripts/{name}.js"
        for name in ("maps", "privacy", "utility", "planner", "reproduction", "page")
    ),
)


def page_part(name: str) -> str:
    """Return the text of a file that belongs to the page: a template, a script or the style."""
    return _PARTS.joinpath(name).read_text(encoding="utf-8")


def embedded_json(data: Any) -> str:
    """Return JSON for a script element, in which no tag can end the element.

    Raise a ValueError for a number that is NaN or infinite, which JSON cannot represent.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _source(script: str) -> str:
    """Return the content security policy's source expression that allows a script."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def render(data: Mapping[str, Any]) -> str:
    """Return the page as HTML; `data` has the keys set by `workflow/scripts/write_page.py`."""
    return render_template(page_part("page.html"), [page_part(name) for name in _SCRIPTS], data)


def render_template(template: str, scripts: Sequence[str], data: Mapping[str, Any]) -> str:
    """Return a page as HTML from its template, scripts in order, and data, in the common style."""
    environment = Environment(
        loader=PackageLoader("shuffledp", "page"),  # for `frame.html`, which templates extend
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(template).render(
        data=data,
        style=page_part("style.css"),
        scripts=scripts,
        allowed=" ".join(map(_source, scripts)),
        embedded=embedded_json(data),
    )
