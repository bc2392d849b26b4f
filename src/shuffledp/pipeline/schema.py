"""Check configuration files, and a configuration against its JSON schema."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match

from shuffledp.errors import InputError, did_you_mean, one_line

_MAX_ERRORS: Final = 10  # in one message
_CONTROLS: Final = {chr(i) for i in (*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))}
_INTEGER_KEYS: Final = {"seed", "repetitions", "n", "individual_every", "colluding"}
_USER: Final = re.compile(r"//[^/?#\s]*@")
_KEY: Final = re.compile(r"[?&;#]([^=&;#\s]+)=")  # in a query or a fragment
_SECRET_KEY: Final = re.compile(
    r"token|secret|signature|credential|passw|authori|session|accesskey|key$|"
    r"\b(key|sig|pass|pwd|pw|o?auth|jwt|sas)\b"
)


class _StrictLoader(yaml.SafeLoader):
    """A YAML loader that refuses a key given twice, of which other loaders keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            name, line = (key.tag, str(key.value)), key.start_mark.line + 1
            if name in lines:
                problem = f"{key.value} is given twice, in lines {lines[name]} and {line}"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
            lines[name] = line
        return node


def check_unique_keys(path: Path) -> None:
    """Check that a YAML or JSON file is valid and gives no key twice.

    Raises `InputError` if it is not; the message names the file and, where it is known, the line.
    """
    text = path.read_bytes()
    try:
        # JSON is YAML except for tabs between its values.
        flat = text.replace(b"\t", b" ") if text.lstrip()[:1] in (b"{", b"[") else text
        content = yaml.load(flat, _StrictLoader)
        if isinstance(content, dict) and "__use_yte__" in content:
            raise InputError(f"{path}: __use_yte__ makes a template of it, which would run as code")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(one_line(f"{path}{line}: {error.problem}")) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(one_line(f"{path}: {error}")) from None


def check_schema(config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check a configuration against the content of ``config.schema.yaml`` (draft 2020-12).

    Raises `InputError` if the configuration is not valid, has a value that the schema cannot
    refuse, such as NaN or a NUL in a path, or has an address with a secret. The message has a line
    for each error, at most ten, that begins with the key.
    """
    # The validator's messages show values, so secrets are refused first.
    for key, value in _leaves(config, ""):
        if isinstance(value, str) and holds_secret(value):
            raise InputError(
                f"{key}: the address holds a user name, a password or a token, which logs and "
                "results would show: download the file by hand and give its path"
            )
    errors = sorted(Draft202012Validator(schema).iter_errors(config), key=_key_of)
    lines = [_describe(best_match([error]) or error) for error in errors]
    lines = lines or [
        f"{key}: {problem}, got {value!r}"
        for key, value in _leaves(config, "")
        if (problem := _problem(key, value))
    ]
    if lines:
        more = [f"and {len(lines) - _MAX_ERRORS} more"] if len(lines) > _MAX_ERRORS else []
        raise InputError("\n".join([*map(one_line, lines[:_MAX_ERRORS]), *more]))


def holds_secret(text: str) -> bool:
    """Return whether a text is an address with a user name or password, or a secret key.

    A key of the query or the fragment is secret if its name says so, such as ``token`` or ``sig``.
    """
    if "://" not in text:
        return False
    keys = (re.sub("[^a-z0-9]", " ", unquote(key).lower()) for key in _KEY.findall(text))
    return bool(_USER.search(text)) or any(map(_SECRET_KEY.search, keys))


def set_defaults(config: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Add the schema's default of every top-level key that a configuration leaves out."""
    for key, spec in schema["properties"].items():
        if "default" in spec:
            config.setdefault(key, spec["default"])


def _describe(error: ValidationError) -> str:
    """Return the validator's message after the key, with a remedy for the likeliest mistakes."""
    message = error.message
    schema: Any = error.schema
    value: Any = error.instance
    if error.validator == "additionalProperties":
        unknown = [str(key) for key in value if key not in schema["properties"]]
        message += did_you_mean(unknown[0], schema["properties"])
    elif error.validator in ("oneOf", "pattern") and "description" in schema:
        shown = "this address" if "://" in str(value) else repr(value)
        message = f"{shown} is not accepted. {schema['description']}"
    elif error.validator == "type" and isinstance(value, str) and _reads_as_number(value):
        message += "; YAML reads a number only with a point before the exponent, as in 1.0e-6"
    return ": ".join(filter(None, [_key_of(error), message]))


def _key_of(error: ValidationError) -> str:
    """Return the key of the wrong value, such as ``regions.paris.n[2]``."""
    return error.json_path.removeprefix("$").removeprefix(".")


def _leaves(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a mapping or list, with its key: ``regions.paris.n[2]``."""
    if isinstance(node, Mapping):
        for child, value in node.items():
            yield from _leaves(value, f"{key}.{child}".removeprefix("."))
    elif isinstance(node, list):
        for position, value in enumerate(node):
            yield from _leaves(value, f"{key}[{position}]")
    else:
        yield key, node


def _problem(key: str, value: Any) -> str | None:
    """Return what is wrong with a value that the schema accepts, or None."""
    name = key.rpartition(".")[2].partition("[")[0]
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, float) and name in _INTEGER_KEYS:
        return "must be written without point or exponent, such as 1000"
    if isinstance(value, str) and name != "separator" and not _CONTROLS.isdisjoint(value):
        return "must not contain control characters"
    return None


def _reads_as_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
