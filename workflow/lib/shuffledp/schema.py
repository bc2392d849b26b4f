"""A configuration against its schema: each fault as a line that names the key and what is right."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError

from shuffledp.errors import InputError

_MOST: Final = 10  # faults in one message
_LONGEST: Final = 300  # characters of a value or of a validator's own words


def check_schema(config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check a configuration against a JSON schema (draft 2020-12).

    Parameters
    ----------
    config
        The whole configuration.
    schema
        The content of ``config.schema.yaml``.

    Raises
    ------
    InputError
        Naming the key of every fault, at most ten, and what would be right.
    """
    errors = sorted(Draft202012Validator(schema).iter_errors(config), key=_place)
    lines = [line for error in errors for line in _faults(error)]
    if lines:
        more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
        raise InputError("\n".join([*lines[:_MOST], *more]))


def _place(error: ValidationError) -> str:
    """Key of the value at fault: ``regions.paris.n[2]``."""
    text = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    )
    return text.removeprefix(".")


def _below(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _faults(error: ValidationError) -> Iterator[str]:
    """Say what is wrong, in words that need no knowledge of JSON schema."""
    place = _place(error)
    value: Any = error.instance
    wanted: Any = error.validator_value
    if "propertyNames" in error.absolute_schema_path:
        yield (
            f"{place}: the name {_short(value)} must be made of lower-case letters, digits and _, "
            "and begin with a letter or a digit"
        )
    elif error.validator == "additionalProperties":
        schema: Any = error.schema
        known = list(schema["properties"])
        for key in value:
            if key not in known:
                yield f"{_below(place, key)}: there is no such key{_meant(str(key), known)}"
    elif error.validator == "required":
        # One error for each that is missing: its words begin with the name.
        key = next(key for key in wanted if error.message.startswith(repr(key)))
        yield f"{_below(place, key)}: this key is missing"
    elif error.validator == "oneOf":
        yield from _alternatives(error)
    elif error.validator == "type" and _reads_as_number(value) and _wants_number(wanted):
        yield (
            f"{place}: {value!r} is text to YAML, which reads a number only with a point before "
            f"the exponent, as in 1.0e-6, and without quotes"
        )
    else:
        yield f"{place or 'the configuration'}: {error.message[:_LONGEST]}"


def _alternatives(error: ValidationError) -> Iterator[str]:
    """One of several forms is wanted: name them, or what is wrong with the one that is meant."""
    place, value = _place(error), error.instance
    forms: Any = error.validator_value
    if all(set(form) == {"required"} for form in forms):
        keys = " or ".join(key for form in forms for key in form["required"])
        yield f"{place}: give either {keys}, and not both"
        return
    meant = [i for i, form in enumerate(forms) if form.get("type") == "object"]
    if isinstance(value, Mapping) and meant:
        for inner in sorted(error.context or (), key=_place):
            if inner.schema_path[0] == meant[0]:
                yield from _faults(inner)
        return
    yield f"{place}: must be {' or '.join(map(_form, forms))} (got {_short(value)})"


def _form(form: Mapping[str, Any]) -> str:
    if "const" in form:
        return f"the word {form['const']}"
    if form["type"] == "integer":
        return f"a whole number from {form['minimum']}"
    return f"a mapping with the keys {', '.join(form['required'])}"


def _meant(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else f" (keys: {', '.join(known)})"


def _wants_number(types: object) -> bool:
    return types in ("number", "integer")


def _reads_as_number(value: object) -> bool:
    """Whether a value is text that was meant as a number."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True
