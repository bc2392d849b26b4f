"""Reference systems: read their names, and convert positions to degrees in WGS 84.

Systems are looked up by EPSG code and never by a definition, which can name grids and other files
that PROJ would open.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from shuffledp.errors import InputError, shortened

if TYPE_CHECKING:  # the command's options are read without numpy
    from shuffledp.numerics.arrays import Floats

WGS84: Final = "EPSG:4326"
_NAME: Final = re.compile(
    r"(?:urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?"
    r"(?:EPSG[:/](?:[\d.]*[:/])?(?P<code>\d{4,6})|(?:OGC[:/](?:[\d.]*[:/])?)?CRS84)",
    re.ASCII | re.IGNORECASE,
)
_WGS84_AXIS: Final = 6_378_137.0  # metres; ellipsoids of datums in the centre of the earth have it
_WGS84_INVERSE_FLATTENING: Final = 298.257
_REL_TOL_OF_CONVERSION: Final = 1e-6  # to degrees and back


def epsg_code(name: str) -> int | None:
    """Return the EPSG code in the name of a reference system, None for WGS 84.

    Names are those that files write, in any case: ``EPSG:2154``, ``urn:ogc:def:crs:EPSG::2154``,
    ``http://www.opengis.net/def/crs/EPSG/0/2154`` or ``OGC:CRS84``. Raises `InputError` for others.
    """
    match = _NAME.fullmatch(name.strip())
    if not match:
        raise InputError(
            "the reference system must be an EPSG code such as EPSG:2154, or OGC:CRS84, got "
            f"{shortened(repr(name))}"
        )
    code = None if match["code"] is None else int(match["code"])
    return None if code == int(WGS84.removeprefix("EPSG:")) else code


@cache
def degrees_from(code: int) -> Any:
    """Return the `pyproj.Transformer` from an EPSG code to degrees in WGS 84, x or easting first.

    PROJ's grids are not downloaded, so that a conversion may be off by some metres. One of unknown
    accuracy is used only if the datum has the ellipsoid of WGS 84, because such datums lie within
    two metres of it; others may be hundreds of metres away. Raises `InputError` if the code is not
    that of a projected or geographic system, or cannot be converted.
    """
    from pyproj import CRS, Transformer, network
    from pyproj.exceptions import ProjError

    online = network.is_network_enabled()
    network.set_network_enabled(False)
    try:
        system = CRS.from_authority("EPSG", code)
        if not (system.is_projected or system.is_geographic):
            raise InputError(
                f"EPSG:{code} ({system.name}) is neither projected nor geographic: convert the "
                f"positions to {WGS84}"
            )
        try:
            return Transformer.from_crs(system, WGS84, always_xy=True, allow_ballpark=False)
        except ProjError:
            if not _is_centred(system.ellipsoid):
                raise
            return Transformer.from_crs(system, WGS84, always_xy=True)
    except ProjError as error:
        raise InputError(
            f"EPSG:{code} cannot be converted to WGS 84: convert the positions to {WGS84}"
        ) from error
    finally:
        network.set_network_enabled(online)


def _is_centred(ellipsoid: Any) -> bool:
    return (
        ellipsoid is not None
        and abs(ellipsoid.semi_major_metre - _WGS84_AXIS) < 1.0
        and abs(ellipsoid.inverse_flattening - _WGS84_INVERSE_FLATTENING) < 0.01
    )


def to_degrees(code: int, x: "Floats", y: "Floats") -> "tuple[Floats, Floats]":
    """Convert positions to latitudes and longitudes.

    A position that cannot be converted becomes NaN. So does one far outside the system's area that
    wraps around to another place: converting it back reveals that.
    """
    import numpy as np

    transformer = degrees_from(code)
    degrees = np.array(transformer.transform(x, y), dtype=np.float64)
    original = np.array([x, y])
    tolerance = _REL_TOL_OF_CONVERSION * np.maximum(1.0, np.abs(original))
    with np.errstate(invalid="ignore"):  # a difference of infinities
        back = np.array(transformer.transform(*degrees, direction="INVERSE"))
        degrees[:, ~(np.abs(back - original) <= tolerance).all(axis=0)] = np.nan
    return degrees[1], degrees[0]
