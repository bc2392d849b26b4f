"""Check a configuration against its schema, and report each error by key, value and remedy."""

import math
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator, ValidationError

from shuffledp.errors import InputError, did_you_mean
from shuffledp.pipeline.address import masked

_MAX_ERRORS: Final = 10  # in one message
_MAX_SHOWN_CHARACTERS: Final = 300  # of a value in a message
_TEMPLATE_KEY: Final = "__use_yte__"  # lets Snakemake run code in a configuration file
_MAX_VALUES: Final = 1_000_000  # of a file, with all aliases expanded
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"  # tag of the key <<
_INTEGER_KEYS: Final = {"seed", "repetitions", "n", "individual_every", "colluding"}


def check_schema(config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check a configuration against the content of ``config.schema.yaml`` (draft 2020-12).

    Raises `InputError` if the configuration is not valid; the message has a line for each error, at
    most ten.
    """
    errors = sorted(Draft202012Validator(schema).iter_errors(config), key=_key_of)
    lines = [line for error in errors for line in _describe(error)]
    if lines:
        more = [f"and {len(lines) - _MAX_ERRORS} more"] if len(lines) > _MAX_ERRORS else []
        raise InputError("\n".join([*map(_printable, lines[:_MAX_ERRORS]), *more]))


def set_defaults(config: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Add the schema's default of every top-level key that a configuration leaves out."""
    for key, spec in schema["properties"].items():
        if "default" in spec:
            config.setdefault(key, spec["default"])


def _printable(line: str) -> str:
    """Escape characters that would break a line or move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def check_values(config: Mapping[str, Any]) -> None:
    """Check for invalid values that the schema accepts, such as NaN or a NUL in a path.

    Raises `InputError` if there is one; the message names its key and value.
    """
    for key, value in _leaves(config, ""):
        _check_value(key, value)


def check_unique_keys(path: Path) -> None:
    """Check a YAML or JSON file, also for what readers accept silently, such as a repeated key.

    Raises `InputError` if a key is given twice, of which YAML readers keep the last; or if the file
    is not valid YAML, has an invalid tag or value, expands to more than a million values by
    aliases, or is a template whose code Snakemake would run.
    """
    root = _compose(path)
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path} must hold keys and their values, such as `seed: 1`")
    if _count_values(root, {}) > _MAX_VALUES:
        raise InputError(
            f"{path}: its aliases (*name) expand to more than {_MAX_VALUES:,} values: write the "
            "values out"
        )
    if any(key.value == _TEMPLATE_KEY for key, _ in root.value):
        raise InputError(f"{path}: {_TEMPLATE_KEY} lets a file run code: write its result out")
    _check_mapping(path, root, "", set())
    for line, problem in _invalid_values(root):
        raise InputError(f"{path}, line {line} has an invalid value ({problem:.200})")


def _children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _count_values(node: Any, counts: dict[int, int]) -> int:
    """Return the number of values in a node with aliases expanded; a cyclic alias counts as 0."""
    if id(node) not in counts:
        counts[id(node)] = 0
        counts[id(node)] = 1 + sum(_count_values(child, counts) for child in _children(node))
    return counts[id(node)]


def _invalid_values(root: Any) -> Iterator[tuple[int, str]]:
    """Yield the line and the problem of an invalid value, such as a tag that names a function."""
    loader = yaml.SafeLoader("")
    try:
        for scalar in _scalars(root, set()):
            if scalar.tag != _MERGE_TAG:
                loader.construct_object(scalar)
        loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        yield (mark.line if mark else 0) + 1, error.problem or "no value"
    # Errors of Python's conversion of numbers and dates have no line.
    except (ValueError, AttributeError, OverflowError):
        kind = scalar.tag.rpartition(":")[2]
        yield scalar.start_mark.line + 1, f"{scalar.value[:40]!r} is not a valid {kind}"


def _scalars(node: Any, visited: set[int]) -> Iterator[Any]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif id(node) not in visited:
        visited.add(id(node))
        for child in _children(node):
            yield from _scalars(child, visited)


def _compose(path: Path) -> Any:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
        # JSON is YAML except for tabs between its values.
        flat = text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text
        return yaml.compose(flat, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: the byte {content[error.start]:#04x} is not UTF-8: save the "
            "file in that encoding"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        tab = "\t" in text.split("\n")[line - 1]
        remedy = ": indent with spaces, not with tabs" if tab else ""
        raise InputError(
            f"{path}, line {line} is not valid YAML ({error.problem}){remedy}"
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid YAML ({' '.join(str(error).split()):.200})"
        ) from None


def _check_mapping(path: Path, node: Any, parent: str, visited: set[int]) -> None:
    if id(node) in visited:  # an anchor may stand within itself
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _check_mapping(path, child, f"{parent}[{index}]", visited)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, child in node.value:
            name, tagged = _child_key(parent, key.value), (key.tag, str(key.value))
            line = key.start_mark.line + 1
            if tagged in lines:
                raise InputError(
                    f"{name} is given twice, in lines {lines[tagged]} and {line} of {path}, and "
                    "only the last would count: keep one"
                )
            lines[tagged] = line
            _check_mapping(path, child, name, visited)


def _key_of(error: ValidationError) -> str:
    """Return the key of the wrong value, such as ``regions.paris.n[2]``."""
    text = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    )
    return text.removeprefix(".")


def _child_key(parent: str, key: object) -> str:
    return f"{parent}.{key}" if parent else str(key)


def _show(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    text = masked(repr(value)) if "://" in str(value) else repr(value)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def _describe(error: ValidationError) -> Iterator[str]:
    """Yield a description of the error that needs no knowledge of JSON schema."""
    place = _key_of(error)
    value: Any = error.instance
    schema: Any = error.schema
    if "propertyNames" in error.absolute_schema_path:
        yield (
            f"{place}: the name {_show(value)} must be made of lower-case letters, digits and _, "
            "and begin with a letter or a digit"
        )
    elif error.validator == "additionalProperties":
        keys = list(schema["properties"])
        for key in value:
            if key not in keys:
                remedy = did_you_mean(str(key), keys) or f" (keys: {', '.join(keys)})"
                yield f"{_child_key(place, key)}: there is no such key{remedy}"
    elif error.validator == "required":
        # There is one error for each missing key, and its message begins with the key.
        wanted: Any = error.validator_value
        key = next(key for key in wanted if error.message.startswith(repr(key)))
        yield f"{_child_key(place, key)}: this key is missing"
    elif error.validator == "oneOf":
        yield from _alternatives(error)
    elif error.validator == "uniqueItems":
        yield f"{place}: every entry must differ from the others, got {_show(value)}"
    elif error.validator == "pattern":
        yield f"{place}: {_show(value)} is not accepted. {schema['description']}"
    elif (
        error.validator == "type"
        and schema["type"] in ("number", "integer")
        and _reads_as_number(value)
    ):
        yield (
            f"{place}: {value!r} is text to YAML, which reads a number only with a point before "
            f"the exponent, as in 1.0e-6, and without quotes"
        )
    else:
        yield f"{place or 'the configuration'}: must be {_accepted(schema)}, got {_show(value)}"


def _alternatives(error: ValidationError) -> Iterator[str]:
    """Yield the accepted alternatives, or the errors of the alternative that was meant."""
    place, value = _key_of(error), error.instance
    alternatives: Any = error.validator_value
    if all(set(form) == {"required"} for form in alternatives):
        keys = " or ".join(key for form in alternatives for key in form["required"])
        if isinstance(value, Mapping):
            yield f"{place}: give either {keys}, and not both"
        return
    mappings = [i for i, form in enumerate(alternatives) if form.get("type") == "object"]
    if isinstance(value, Mapping) and mappings:
        for inner in sorted(error.context or (), key=_key_of):
            if inner.schema_path[0] == mappings[0]:
                yield from _describe(inner)
        return
    yield f"{place}: must be {_accepted({'oneOf': alternatives})}, got {_show(value)}"


def _accepted(schema: Mapping[str, Any]) -> str:
    """Return what a schema accepts, in words: ``a whole number from 2 or the word all``."""
    kind = schema.get("type")
    if kind is None:
        words = [f"the word {schema['const']}"] if "const" in schema else schema.get("enum")
        return " or ".join(words or map(_accepted, schema["oneOf"]))
    if isinstance(kind, list):
        return " or ".join(_accepted({**schema, "type": one}) for one in kind)
    return _ACCEPTED[kind](schema)


def _mapping(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return "a mapping with one or more names"
    if schema.get("maxProperties") == 1:
        return f"a mapping with one of the keys {', '.join(schema['properties'])}"
    if "required" not in schema:
        return f"a mapping with keys such as {', '.join(list(schema['properties'])[:3])}"
    keys = schema["required"]
    return f"a mapping with the key{'s' * (len(keys) > 1)} {', '.join(keys)}"


def _list(schema: Mapping[str, Any]) -> str:
    min_items, max_items = schema.get("minItems"), schema.get("maxItems")
    count = f"{min_items} entries" if min_items == max_items else "one or more entries"
    item = schema["prefixItems"][0] if "prefixItems" in schema else schema["items"]
    return f"a list of {count}, each {_accepted(item)}"


def _text(schema: Mapping[str, Any]) -> str:
    if schema.get("maxLength") == 1:
        return "one character"
    return "text that is not empty" if "minLength" in schema else "text"


def _number(schema: Mapping[str, Any]) -> str:
    words = [f"{word} {schema[key]:g}" for key, word in _LIMITS.items() if key in schema]
    return " ".join(["a whole number" if schema["type"] == "integer" else "a number", *words])


_LIMITS: Final = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "exclusiveMaximum": "and below",
}
_ACCEPTED: Final = {
    "object": _mapping,
    "array": _list,
    "string": _text,
    "boolean": lambda schema: "true or false",
    "integer": _number,
    "number": _number,
}


def _reads_as_number(value: object) -> bool:
    """Return whether a value is text that can be read as a number."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _leaves(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a mapping or list, with its key: ``regions.paris.n[2]``."""
    if isinstance(node, Mapping):
        for child, value in node.items():
            yield from _leaves(value, _child_key(key, child))
    elif isinstance(node, list):
        for position, value in enumerate(node):
            yield from _leaves(value, f"{key}[{position}]")
    else:
        yield key, node


def _check_value(key: str, value: Any) -> None:
    name = key.rpartition(".")[2].partition("[")[0]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{key} must be a finite number, got {value}")
        if name in _INTEGER_KEYS:
            raise InputError(
                f"{key} must be written without point or exponent, such as 1000, got {value}"
            )
    elif isinstance(value, str) and name != "separator":
        for character in value:
            if unicodedata.category(character) in ("Cc", "Cs"):
                raise InputError(
                    f"{key} holds the control character {character!r}: remove it, got {value!r}"
                )
