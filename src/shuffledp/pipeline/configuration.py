"""Checks of a configuration that its schema cannot express: relations between values.

The rules read this module in every process, so it imports nothing that is slow to load.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

from shuffledp.data.cells import cell_count
from shuffledp.data.cells import check_cells as check_grid
from shuffledp.data.regions import read_basemap, region_from_config
from shuffledp.data.sources import (
    MIN_POSITIVE_BUDGET,
    SOURCE_KINDS,
    layout_from_config,
    source_layout,
)
from shuffledp.data.windows import windows_from_config
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import get_entries
from shuffledp.pipeline.address import check_address
from shuffledp.pipeline.schema import check_values

# Keys that a region may override; the common values are beside `regions`.
_REGION_KEYS: Final = (
    *("source", "unit", "records_per_user", "distinct"),
    *("eps0", "eps", "repetitions", "mechanisms", "bounds"),
)


Regions = Mapping[str, Mapping[str, Any]]
"""Specifications of the regions by name, as `effective_regions` returns them."""


class ConfigurationError(InputError):
    """A configuration value that cannot be used; the message names its key."""


@contextmanager
def _naming(key: str = "") -> Iterator[None]:
    """Turn an `InputError` of the block into a `ConfigurationError` that begins with the key."""
    try:
        yield
    except InputError as error:
        raise ConfigurationError(f"{key}{error}") from None


def leave_out(config: dict[str, Any]) -> None:
    """Remove regions, and keys and grids of regions, that are null, and write dates as text.

    An overlay leaves out a region by ``paris: null``.
    """
    if not isinstance(config.get("regions"), Mapping):
        return
    config["regions"] = {name: spec for name, spec in config["regions"].items() if spec is not None}
    for name, keys in config["regions"].items():
        if not isinstance(keys, Mapping):
            continue
        spec = config["regions"][name] = {k: v for k, v in keys.items() if v is not None}
        if isinstance(spec.get("grids"), Mapping):
            spec["grids"] = {name: grid for name, grid in spec["grids"].items() if grid is not None}
        if isinstance(spec.get("period"), Mapping):
            # YAML reads dates as objects, which JSON and its schemas do not know.
            spec["period"] = {
                key: day.isoformat() if isinstance(day, date) else day
                for key, day in spec["period"].items()
            }


def effective_regions(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return every region with its own values and, where it has none, the common ones.

    The schema has accepted the configuration and supplied its defaults. If there are ``targets``,
    each region has them; their ``mechanisms`` are by default the region's own.
    """
    common: dict[str, Any] = {"records_per_user": 1, "distinct": False}
    common |= {key: config[key] for key in (*_REGION_KEYS, "budgets") if key in config}
    regions = {name: common | dict(spec) for name, spec in config["regions"].items()}
    if "targets" in config:
        for spec in regions.values():
            spec["targets"] = {
                "mechanisms": spec["mechanisms"],
                "colluding": 0,
                "response_rate": 1.0,
                **config["targets"],
            }
    return regions


def budget_column(spec: Mapping[str, Any]) -> str | int | None:
    """Return the column of a region's check-ins with the users' own budgets, or None."""
    budgets = spec.get("budgets")
    return budgets["column"] if isinstance(budgets, Mapping) else None


def check_configuration(config: Mapping[str, Any], embedded: Collection[str]) -> None:
    """Check a configuration that the schema has accepted, with its defaults, before any job runs.

    `embedded` are the regions whose counts ship with the workflow. Raises `ConfigurationError` if a
    source is unknown, or lacks a key or has a needless one; if a box has opposite edges swapped, an
    outline is unusable, or a grid has fewer than two cells; if eps is not below eps0, a number is
    not finite or not an integer, or a text has control characters; if an address or title is
    unusable; if users are protected where the source does not distinguish them; if several records
    per user count where users are not protected, or with keys that assume one; or if budgets are
    all 0, have shares that do not sum to 1, or are in a column that the source cannot have. The
    message names the key, the value and what is accepted.
    """
    with _naming():
        check_values(config)
    for name, spec in config["sources"].items():
        _check_source(name, spec)
    _check_source_name(config, "source", config["source"])
    regions = effective_regions(config)
    for name, spec in regions.items():
        if "source" in config["regions"][name]:
            _check_source_name(config, f"regions.{name}.source", spec["source"])
        _check_region(name, spec)
        _check_budgets(name, spec)
        _check_colluding(name, spec)
        _check_contributions(name, spec)
        source = config["sources"][spec["source"]]
        if source["kind"] == "embedded" and name not in embedded:
            raise ConfigurationError(
                f"regions.{name}: counts are embedded only for {', '.join(sorted(embedded))}; "
                "give the region a source of kind download or file"
            )
        if spec["unit"] == "user":
            _check_users(name, source)
        if "period" in spec:
            _check_times(name, source)
        if budget_column(spec) is not None:
            _check_budget_column(name, spec, source)
        elif "budgets" in spec:
            own = "budgets" in config["regions"][name]
            _check_own_budgets(f"regions.{name}.budgets" if own else "budgets", spec["budgets"])
    _check_titles(regions)
    _check_images(config.get("personalised", {}).get("mnist", {}))


def check_mechanisms(regions: Regions) -> None:
    """Check that the mechanisms of every region exist.

    Raises `ConfigurationError` if one does not exist, or a region has none that is calibrated to
    the privacy of k-RR.
    """
    for name, spec in regions.items():
        with _naming(f"regions.{name}: "):
            chosen = get_entries(spec["mechanisms"])
            get_entries(spec.get("targets", spec)["mechanisms"])
        if not any(mechanism.matched for mechanism in chosen):
            raise ConfigurationError(
                f"regions.{name}: mechanisms must include one that is calibrated to a privacy, "
                f"such as gaussian, to compare with, got {', '.join(spec['mechanisms'])}"
            )


def check_bounds(regions: Regions, get_bound: Callable[[str], object]) -> None:
    """Check that the bounds of every region exist.

    `get_bound` is `shuffledp.accounting.registry.get_bound`, which is slow to import. Raises
    `ConfigurationError` if a bound does not exist.
    """
    for name, spec in regions.items():
        with _naming(f"regions.{name}: "):
            for bound in spec["bounds"]:
                get_bound(bound)


def region_titles(regions: Regions) -> dict[str, str]:
    """Return each region's name in figures, which is its key unless it has a title."""
    return {name: spec.get("title", name) for name, spec in regions.items()}


def check_glyphs(titles: Mapping[str, str], missing_glyphs: Callable[[str], str]) -> None:
    """Check that figures can show every region's title, as `region_titles` returns them.

    `missing_glyphs` is `shuffledp.figures.style.missing_glyphs`, which is slow to import. Raises
    `ConfigurationError` if the figures' font lacks a character, such as a Chinese one.
    """
    for name, title in titles.items():
        if missing := missing_glyphs(title):
            raise ConfigurationError(
                f"regions.{name}.title: the font of the figures has no glyph for {missing}: write "
                f"the title in Latin, Greek or Cyrillic letters, got {title!r}"
            )


def check_cells(regions: Regions) -> None:
    """Check `individual_every` against the cells of each grid, after `check_configuration`.

    Raises `ConfigurationError` if it selects no cell of a grid, or fewer than two cells meet an
    outline.
    """
    for name, spec in regions.items():
        region = region_from_config(name, spec)
        for grid, grid_spec in spec["grids"].items():
            with _naming(f"regions.{name}.grids.{grid}: "):
                k = cell_count(region, grid_spec)
            every = spec.get("individual_every")
            if every is not None and every >= k:
                raise ConfigurationError(
                    f"regions.{name}.individual_every must be below the number of cells, which is "
                    f"{k} for the grid {grid}, got {every}; by default a twentieth of the cells "
                    "have a row"
                )


def check_basemaps(regions: Regions, shipped: Mapping[str, str]) -> None:
    """Check that the base map of every region can be drawn, if it has one.

    `shipped` has the paths of the base maps that are called ``embedded``. Raises
    `ConfigurationError` if the file of a base map is missing, unusable or shows another place, or
    none ships for the region.
    """
    for name, spec in regions.items():
        if "basemap" not in spec:
            continue
        path = Path(spec["basemap"])
        if spec["basemap"] == "embedded":
            if name not in shipped:
                raise ConfigurationError(
                    f"regions.{name}.basemap: embedded only for {', '.join(sorted(shipped))}; give "
                    "a path, or leave it out"
                )
            path = Path(shipped[name])
        with _naming(f"regions.{name}."):
            bounds = [each.geometry.bounds for each in read_basemap(path)]
        wests, souths, easts, norths = zip(*bounds, strict=True)
        west, south, east, north = min(wests), min(souths), max(easts), max(norths)
        box = region_from_config(name, spec).box
        if west > box.east or east < box.west or south > box.north or north < box.south:
            raise ConfigurationError(
                f"regions.{name}.basemap: {path} shows another place (longitude {west:g} to "
                f"{east:g}, latitude {south:g} to {north:g}): take one of the region"
            )


def _check_budgets(region: str, spec: Mapping[str, Any]) -> None:
    smallest = min(spec["eps0"])
    for eps in spec["eps"]:
        if eps >= smallest:
            raise ConfigurationError(
                f"eps of region {region}: {eps:g} must be below every eps0 (smallest: "
                f"{smallest:g}): at eps >= eps0 delta is 0 and no Gaussian exists"
            )


def _check_own_budgets(key: str, budgets: Any) -> None:
    groups = budgets if isinstance(budgets, list) else [{"eps": budgets, "share": 1.0}]
    for group in groups:
        if 0.0 < group["eps"] < MIN_POSITIVE_BUDGET:
            raise ConfigurationError(
                f"{key}: eps must be 0 or at least {MIN_POSITIVE_BUDGET:g}, got {group['eps']:g}"
            )
    if not any(group["eps"] for group in groups):
        raise ConfigurationError(
            f"{key} must not all be 0: the reports would then say nothing about the cells"
        )
    total = math.fsum(group["share"] for group in groups)
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        raise ConfigurationError(f"{key}: the shares must sum to 1, got {total:g}")


def _check_budget_column(region: str, spec: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    if not SOURCE_KINDS[source["kind"]].real_users:
        raise ConfigurationError(
            f"regions.{region}: budgets.column needs a file of check-ins by real users, and a "
            f"source of kind {source['kind']} has none: give the region a source of kind download "
            "or file, or its own budgets as a number or as groups"
        )
    with _naming(f"regions.{region}: "):
        source_layout(source["layout"], budget_column(spec))


def _check_colluding(region: str, spec: Mapping[str, Any]) -> None:
    colluding = spec.get("targets", {}).get("colluding", 0)
    for n in spec["n"]:
        if n != "all" and colluding >= n:
            raise ConfigurationError(
                f"targets.colluding: {colluding} must be below every n, since the target is honest "
                f"(regions.{region}.n: {n})"
            )


def _check_contributions(region: str, spec: Mapping[str, Any]) -> None:
    """Refuse a bound per user if users are not protected, or with keys that assume one record."""
    m, distinct = spec["records_per_user"], spec["distinct"]
    if spec["unit"] == "checkin":
        for key, value, default in (("records_per_user", m, 1), ("distinct", distinct, False)):
            if value != default:
                text = str(value).lower()
                raise ConfigurationError(
                    f"regions.{region}: {key} bounds the check-ins of each user, which needs unit: "
                    f"user, got {key}: {text} with unit: checkin: set unit: user, or leave {key} "
                    "out"
                )
    if m == 1:
        return
    targets = spec.get("targets", {})
    for key, present in (
        ("budgets", "budgets" in spec),
        ("targets.colluding", targets.get("colluding", 0) > 0),
        ("targets.response_rate", targets.get("response_rate", 1.0) < 1.0),
        ("targets.slots", "slots" in targets),
    ):
        if present:
            raise ConfigurationError(
                f"regions.{region}: {key} is only known for one record per user, got "
                f"records_per_user: {m}: leave {key} out, or set records_per_user: 1"
            )


def _check_source(name: str, spec: Mapping[str, Any]) -> None:
    kind, keys = spec["kind"], set(spec) - {"kind"}
    required, optional = SOURCE_KINDS[kind].required_keys, SOURCE_KINDS[kind].optional_keys
    for key in sorted(required - keys):
        raise ConfigurationError(f"sources.{name}: a source of kind {kind} needs the key {key}")
    for key in sorted(keys - required - optional):
        raise ConfigurationError(f"sources.{name}.{key} has no meaning for kind {kind}: remove it")
    if kind == "download":
        with _naming(f"sources.{name}.url "):
            check_address(spec["url"])
    if isinstance(spec.get("layout"), Mapping):
        with _naming(f"sources.{name}.layout: "):
            layout_from_config(spec["layout"])


def _check_images(files: Mapping[str, Any]) -> None:
    named = {"test_images", "test_labels"} & set(files)
    if len(named) == 1:
        raise ConfigurationError(
            f"personalised.mnist: give both test_images and test_labels, or neither, got "
            f"{named.pop()} alone"
        )
    for name, spec in files.items():
        if "url" in spec:
            with _naming(f"personalised.mnist.{name}.url "):
                check_address(spec["url"])


def _check_titles(regions: Regions) -> None:
    named: dict[str, str] = {}
    for name, spec in regions.items():
        title = spec.get("title", name)
        if title in named:
            raise ConfigurationError(
                f"regions.{name}.title: {title!r} is also the title of {named[title]}; "
                "figures distinguish regions by their titles"
            )
        if title.count("$") > 1:
            raise ConfigurationError(
                f"regions.{name}.title: figures would set the text between two $ as mathematics, "
                f"got {title!r}"
            )
        named[title] = name


def _check_users(region: str, source: Mapping[str, Any]) -> None:
    """Refuse to protect users where the source does not distinguish them."""
    if not SOURCE_KINDS[source["kind"]].real_users:
        raise ConfigurationError(
            f"unit: user needs to know who checked in, and the source of regions.{region}, of kind "
            f"{source['kind']}, does not say it: use a source of kind download or file, or unit: "
            f"checkin, or leave the region out by `{region}: null`"
        )
    layout = source.get("layout")
    if isinstance(layout, Mapping) and "user" not in layout.get("columns", {}):
        raise ConfigurationError(
            f"unit: user needs the column `user` in the layout of the source of regions.{region}"
        )


def _check_times(region: str, source: Mapping[str, Any]) -> None:
    """Refuse a period where the source does not say when people checked in."""
    layout = source.get("layout")
    timed = SOURCE_KINDS[source["kind"]].real_rows
    if not timed or (isinstance(layout, Mapping) and "time" not in layout.get("columns", {})):
        raise ConfigurationError(
            f"regions.{region}.period needs to know when people checked in: use a source of kind "
            "download or file whose layout has the column `time`"
        )


def _check_source_name(config: Mapping[str, Any], key: str, name: str) -> None:
    if name not in config["sources"]:
        names = ", ".join(sorted(config["sources"]))
        raise ConfigurationError(f"{key}: there is no source {name!r} (sources: {names})")


def _check_region(name: str, spec: Mapping[str, Any]) -> None:
    with _naming():
        region = region_from_config(name, spec)
    for grid, grid_spec in spec["grids"].items():
        with _naming(f"regions.{name}.grids.{grid}: "):
            check_grid(region, grid_spec)
    with _naming(f"regions.{name}."):
        windows_from_config(spec)
