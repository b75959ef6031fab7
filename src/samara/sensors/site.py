"""The site: position of the world's origin on Earth and date, for magnetometer, barometer and GPS receiver."""

import math
from functools import lru_cache
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.physics.frames import Geodetic, enu_from_ned

NANOTESLA = 1e-9
HOME_DEGREES = (47.397742, 8.545594, 0.0)
"""Default home: the latitude and longitude of PX4's simulators [deg], at sea level [m], as the default air density."""


def geodetic(latitude_deg: float, longitude_deg: float, altitude: float) -> Geodetic:
    """Convert degrees and metres to a `Geodetic` position in radians."""
    return Geodetic(latitude_deg * (math.pi / 180.0), longitude_deg * (math.pi / 180.0), altitude)


class Site(NamedTuple):
    """The world's origin on the WGS-84 ellipsoid [rad, m], and the date as a decimal year."""

    origin: Geodetic = geodetic(*HOME_DEGREES)
    year: float = 2026.0


HOME = Site()


def site_from_degrees(
    latitude_deg: float, longitude_deg: float, altitude: float = 0.0, year: float = HOME.year
) -> Site:
    """Return the site at a latitude and longitude in degrees and an altitude in metres above mean sea level."""
    for label, value, limit in (("latitude_deg", latitude_deg, 90.0), ("longitude_deg", longitude_deg, 180.0)):
        if not abs(value) <= limit:
            raise ValueError(f"{label} is {value}; expected a number within [-{limit:g}, {limit:g}]")
    if not -1000.0 <= altitude <= 20000.0:
        raise ValueError(f"altitude is {altitude} m; expected a number within [-1000, 20000]")
    return Site(Geodetic(math.radians(latitude_deg), math.radians(longitude_deg), float(altitude)), float(year))


@lru_cache(maxsize=64)
def magnetic_field(site: Site) -> Vec3:
    """B_W of the World Magnetic Model, by pygeomag; east, north, up  [T]"""
    from pygeomag import GeoMag  # type: ignore[import-untyped]

    origin = site.origin
    try:
        model = GeoMag(base_year=site.year)
        field = model.calculate(
            glat=math.degrees(origin.latitude),
            glon=math.degrees(origin.longitude),
            alt=origin.altitude / 1000.0,
            time=site.year,
        )
    except ValueError as error:
        raise ValueError(f"the magnetic field of the year {site.year:g} is not known: {error}") from None
    return enu_from_ned(Vec3(field.x, field.y, field.z)) * NANOTESLA
