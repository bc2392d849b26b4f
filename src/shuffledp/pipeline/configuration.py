"""Checks of a configuration that its schema cannot express: relations between values.

The rules read this module in every process, so it imports nothing that is slow to load.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

from shuffledp.data.cells import cell_count
from shuffledp.data.download import check_address
from shuffledp.data.regions import Region, read_basemap, region_from_config
from shuffledp.data.sources import SOURCE_KINDS, layout_from_config
from shuffledp.data.windows import windows_from_config
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import get_entries

# Keys that a region may override; the common values are beside `regions`.
_REGION_KEYS: Final = (
    *("source", "unit", "records_per_user", "distinct"),
    *("eps0", "eps", "repetitions", "mechanisms", "bounds"),
)
# Bounds that need no check, which would import all others; the schema's default.
_COMMON_BOUNDS: Final = {"upper", "lower", "single-bin", "single-bin-as-printed"}

Spec = Mapping[str, Any]
"""A part of a configuration, such as a region of `effective_regions`."""


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Let the message of an `InputError` of the block begin with the key."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{key}{error}") from None


def leave_out(config: dict[str, Any]) -> None:
    """Remove regions, and keys within regions, that are null, and write dates as text.

    An overlay leaves out a region by ``paris: null``.
    """
    if "regions" in config:
        config["regions"] = _without_nulls(config["regions"])


def _without_nulls(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _without_nulls(value) for key, value in node.items() if value is not None}
    # YAML reads dates as objects, which JSON and its schemas do not know.
    return node.isoformat() if isinstance(node, date) else node


def effective_regions(config: Spec) -> dict[str, dict[str, Any]]:
    """Return every region with its own values and, where it has none, the common ones.

    The schema has accepted the configuration and supplied its defaults. If there are ``targets``,
    each region has them; their ``mechanisms`` are by default the region's own, and otherwise
    limited to these if the configuration names any.
    """
    common: dict[str, Any] = {"records_per_user": 1, "distinct": False}
    common["mechanisms"] = ["gaussian", "krr"]
    common |= {key: config[key] for key in _REGION_KEYS if key in config}
    regions = {name: common | dict(spec) for name, spec in config["regions"].items()}
    if "targets" in config:
        for name, spec in regions.items():
            usual = {"mechanisms": spec["mechanisms"], "colluding": 0, "response_rate": 1.0}
            spec["targets"] = targets = usual | config["targets"]
            if "mechanisms" in config or "mechanisms" in config["regions"][name]:
                own = spec["mechanisms"]
                targets["mechanisms"] = [each for each in targets["mechanisms"] if each in own]
    return regions


def check_configuration(config: Spec, basemaps: Mapping[str, Path]) -> None:
    """Check a configuration that the schema has accepted, with its defaults, before any job runs.

    `basemaps` are the base maps that ship with the workflow, by the names of the regions whose
    counts ship with it, too. Raises `InputError` if a source, a region, a grid, a mechanism, a
    bound, a base map or a title is unknown or unusable, or contradicts another key. The
    message names the key, the value and what is accepted.
    """
    for name, spec in config["sources"].items():
        _check_source(name, spec)
    _source(config, "source", config["source"])
    with _naming("targets.mechanisms: "):
        get_entries(config.get("targets", {}).get("mechanisms", []))
    titles: dict[str, str] = {}
    for name, spec in effective_regions(config).items():
        source = _source(config, f"regions.{name}.source", spec["source"])
        if source["kind"] == "embedded" and name not in basemaps:
            raise InputError(
                f"regions.{name}: counts are embedded only for {', '.join(sorted(basemaps))}; "
                "give the region a source of kind download or file"
            )
        _check_unit(name, spec, source)
        _check_sweeps(name, spec)
        _check_title(name, spec.get("title", name), titles)
        _check_place(name, spec, basemaps)


def _source(config: Spec, key: str, name: str) -> Spec:
    sources: Mapping[str, Spec] = config["sources"]
    if name not in sources:
        raise InputError(f"{key}: there is no source {name!r} (sources: {', '.join(sources)})")
    return sources[name]


def _check_source(name: str, spec: Spec) -> None:
    kind, keys = spec["kind"], set(spec) - {"kind"}
    required, optional = SOURCE_KINDS[kind].required_keys, SOURCE_KINDS[kind].optional_keys
    for key in sorted(required - keys):
        raise InputError(f"sources.{name}: a source of kind {kind} needs the key {key}")
    for key in sorted(keys - required - optional):
        raise InputError(f"sources.{name}.{key} has no meaning for kind {kind}: remove it")
    if kind == "download":
        with _naming(f"sources.{name}.url "):
            check_address(spec["url"])
    if isinstance(spec.get("layout"), Mapping):
        with _naming(f"sources.{name}.layout: "):
            layout_from_config(spec["layout"])


def _lacks(source: Spec, column: str) -> bool:
    """Return whether the layout of a source names its columns, and this one not."""
    layout = source.get("layout")
    return isinstance(layout, Mapping) and column not in layout.get("columns", {})


def _check_unit(region: str, spec: Spec, source: Spec) -> None:
    """Check that users are known if they are protected, and that bounds per user fit the unit."""
    kind = SOURCE_KINDS[source["kind"]]
    m, distinct = spec["records_per_user"], spec["distinct"]
    if spec["unit"] == "checkin":
        for key, value, default in (("records_per_user", m, 1), ("distinct", distinct, False)):
            if value != default:
                text = str(value).lower()
                raise InputError(
                    f"regions.{region}: {key} bounds the check-ins of each user, which needs unit: "
                    f"user, got {key}: {text} with unit: checkin: set unit: user, or leave {key} "
                    "out"
                )
    elif not kind.real_users:
        raise InputError(
            f"unit: user needs to know who checked in, and the source of regions.{region}, of kind "
            f"{source['kind']}, does not say it: use a source of kind download or file, or unit: "
            f"checkin, or leave the region out by `{region}: null`"
        )
    elif _lacks(source, "user"):
        raise InputError(
            f"unit: user needs the column `user` in the layout of the source of regions.{region}"
        )
    if "period" in spec and (not kind.real_rows or _lacks(source, "time")):
        raise InputError(
            f"regions.{region}.period needs to know when people checked in: use a source of kind "
            "download or file whose layout has the column `time`"
        )
    targets = spec.get("targets", {})
    for key, present in (
        ("targets.colluding", targets.get("colluding", 0) > 0),
        ("targets.response_rate", targets.get("response_rate", 1.0) < 1.0),
    ):
        if m > 1 and present:
            raise InputError(
                f"regions.{region}: {key} is only known for one record per user, got "
                f"records_per_user: {m}: leave {key} out, or set records_per_user: 1"
            )


def _check_sweeps(region: str, spec: Spec) -> None:
    """Check the budgets of the sweeps, and that the mechanisms and bounds exist."""
    smallest = min(spec["eps0"])
    for eps in spec["eps"]:
        if eps >= smallest:
            raise InputError(
                f"eps of region {region}: {eps:g} must be below every eps0 (smallest: "
                f"{smallest:g}): at eps >= eps0 delta is 0 and no Gaussian exists"
            )
    colluding = spec.get("targets", {}).get("colluding", 0)
    for n in spec["n"]:
        if n != "all" and colluding >= n:
            raise InputError(
                f"targets.colluding: {colluding} must be below every n, since the target is honest "
                f"(regions.{region}.n: {n})"
            )
    with _naming(f"regions.{region}: "):
        chosen = get_entries(spec["mechanisms"])
        if set(spec["bounds"]) - _COMMON_BOUNDS:
            from shuffledp.accounting.bound_registry import get_bound

            for bound in spec["bounds"]:
                get_bound(bound)
    if not spec.get("targets", spec)["mechanisms"]:
        raise InputError(
            f"regions.{region}: targets.mechanisms must name one of mechanisms, which limits it to "
            f"{', '.join(spec['mechanisms'])}"
        )
    if not any(mechanism.matched for mechanism in chosen):
        raise InputError(
            f"regions.{region}: mechanisms must include one that is calibrated to a privacy, "
            f"such as gaussian, to compare with, got {', '.join(spec['mechanisms'])}"
        )


def _check_title(region: str, title: str, titles: dict[str, str]) -> None:
    """Check that figures can show a title, and that no earlier one in `titles` is the same."""
    key = f"regions.{region}.title"
    if title in titles:
        raise InputError(
            f"{key}: {title!r} is also the title of {titles[title]}; figures distinguish regions "
            "by their titles"
        )
    titles[title] = region
    if title.count("$") > 1:
        raise InputError(
            f"{key}: figures would set the text between two $ as mathematics, got {title!r}"
        )
    if not title.isascii():
        from shuffledp.figures.style import missing_glyphs

        if missing := missing_glyphs(title):
            raise InputError(
                f"{key}: the font of the figures has no glyph for {missing}: write the title in "
                f"Latin, Greek or Cyrillic letters, got {title!r}"
            )


def _check_place(name: str, spec: Spec, basemaps: Mapping[str, Path]) -> None:
    """Check a region's outline or box, windows, grids and base map."""
    region = region_from_config(name, spec)
    with _naming(f"regions.{name}."):
        windows_from_config(spec)
        if "basemap" in spec:
            _check_basemap(region, spec["basemap"], basemaps)
    every = spec.get("individual_every")
    for grid, grid_spec in spec["grids"].items():
        with _naming(f"regions.{name}.grids.{grid}: "):
            k = cell_count(region, grid_spec)
        if every is not None and every >= k:
            raise InputError(
                f"regions.{name}.individual_every must be below the number of cells, which is {k} "
                f"for the grid {grid}, got {every}; by default a twentieth of the cells have a row"
            )


def _check_basemap(region: Region, spec: str, basemaps: Mapping[str, Path]) -> None:
    if spec == "embedded" and region.name not in basemaps:
        names = ", ".join(sorted(basemaps))
        raise InputError(f"basemap: embedded only for {names}; give a path, or leave it out")
    path = basemaps[region.name] if spec == "embedded" else Path(spec)
    bounds = [each.geometry.bounds for each in read_basemap(path)]
    wests, souths, easts, norths = zip(*bounds, strict=True)
    west, south, east, north = min(wests), min(souths), max(easts), max(norths)
    box = region.box
    if west > box.east or east < box.west or south > box.north or north < box.south:
        raise InputError(
            f"basemap: {path} shows another place (longitude {west:g} to {east:g}, latitude "
            f"{south:g} to {north:g}): take one of the region"
        )
