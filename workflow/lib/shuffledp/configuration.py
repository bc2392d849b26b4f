"""What the schema cannot say about a configuration: relations between its values."""

from collections.abc import Collection, Mapping
from typing import Any

from shuffledp.errors import InputError
from shuffledp.geography.grid import make_lattice
from shuffledp.geography.layout import layout_from_config
from shuffledp.geography.regions import region_from_config

_NEEDED = {"embedded": set(), "download": {"url", "layout"}, "file": {"path", "layout"}}
_ALLOWED = {
    "embedded": {"kind"},
    "download": {"kind", "url", "layout", "checksum"},
    "file": {"kind", "path", "layout", "checksum"},
}


class ConfigurationError(InputError):
    """A configuration value that cannot be used; the message names its key."""


def check_configuration(config: Mapping[str, Any], embedded: Collection[str]) -> None:
    """Check a configuration that the schema has accepted, before any job runs.

    Parameters
    ----------
    config
        The whole configuration.
    embedded
        Regions whose counts are shipped.

    Raises
    ------
    ConfigurationError
        Naming the key, the value and what would be right: unknown source, missing or needless
        source key, crossed bounds, unusable outline, fewer than two cells, eps at or above eps0.
    """
    _check_budgets(config)
    for name, spec in config["sources"].items():
        _check_source(name, spec)
    _check_source_name(config, "source", config["source"])
    for name, spec in config["regions"].items():
        if "source" in spec:
            _check_source_name(config, f"regions.{name}.source", spec["source"])
        _check_region(name, spec)
        kind = config["sources"][spec.get("source", config["source"])]["kind"]
        if kind == "embedded" and name not in embedded:
            raise ConfigurationError(
                f"regions.{name}: counts are embedded only for {', '.join(sorted(embedded))}; "
                "give the region a source of kind download or file"
            )


def _check_budgets(config: Mapping[str, Any]) -> None:
    smallest = min(config["eps0"])
    for eps in config["eps"]:
        if eps >= smallest:
            raise ConfigurationError(
                f"eps: {eps:g} must be below every eps0 (smallest: {smallest:g}): "
                "at eps >= eps0 delta is 0 and no Gaussian exists"
            )


def _check_source(name: str, spec: Mapping[str, Any]) -> None:
    kind = spec["kind"]
    given = set(spec)
    for key in sorted(_NEEDED[kind] - given):
        raise ConfigurationError(f"sources.{name}: a source of kind {kind} needs the key {key}")
    for key in sorted(given - _ALLOWED[kind]):
        raise ConfigurationError(f"sources.{name}.{key} has no meaning for kind {kind}: remove it")
    if isinstance(spec.get("layout"), Mapping):
        try:
            layout_from_config(spec["layout"])
        except ValueError as error:
            raise ConfigurationError(f"sources.{name}.layout: {error}") from None


def _check_source_name(config: Mapping[str, Any], key: str, name: str) -> None:
    if name not in config["sources"]:
        known = ", ".join(sorted(config["sources"]))
        raise ConfigurationError(f"{key}: there is no source {name!r} (sources: {known})")


def _check_region(name: str, spec: Mapping[str, Any]) -> None:
    try:
        region = region_from_config(name, spec)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    for grid, grid_spec in spec["grids"].items():
        try:
            make_lattice(region, grid_spec)
        except ValueError as error:
            raise ConfigurationError(f"regions.{name}.grids.{grid}: {error}") from None
