"""The International Standard Atmosphere of 1976 up to 20 km: temperature, pressure, density.

Altitude is geopotential, above mean sea level; using the geometric altitude instead makes an error of 10 m at 8 km.
The mean wind near the ground grows with height, by a power law or a logarithmic law.
"""

from typing import Annotated, TypeAlias

from samara.core.ops import exp, log, maximum, minimum, power
from samara.core.quantity import AirDensity, Quantity, Scalar

SEA_LEVEL_TEMPERATURE = 288.15  # [K]
SEA_LEVEL_PRESSURE = 101325.0  # [Pa]
LAPSE_RATE = 0.0065  # [K/m]
TROPOPAUSE = 11000.0  # [m]
GAS_CONSTANT = 287.05287  # [J/(kg K)], specific gas constant of dry air
STANDARD_GRAVITY = 9.80665  # [m/s²]

Altitude: TypeAlias = Annotated[Scalar, Quantity("m", -1000.0, 20000.0)]
Height: TypeAlias = Annotated[Scalar, Quantity("m", -100.0, 1000.0)]
Temperature: TypeAlias = Annotated[Scalar, Quantity("K", 250.0, 320.0)]
Pressure: TypeAlias = Annotated[Scalar, Quantity("Pa", 9e4, 11e4)]


def air_temperature(altitude: Altitude, *, sea_level_temperature: Temperature = SEA_LEVEL_TEMPERATURE) -> Scalar:
    """T = T₀ − L h to 11 km, then constant  [K]"""
    return sea_level_temperature - LAPSE_RATE * minimum(altitude, TROPOPAUSE)


def air_pressure(
    altitude: Altitude,
    *,
    sea_level_temperature: Temperature = SEA_LEVEL_TEMPERATURE,
    sea_level_pressure: Pressure = SEA_LEVEL_PRESSURE,
) -> Scalar:
    """p = p₀ (T/T₀)^(g/LR) to 11 km, then times e^{−g (h − 11 km) / RT}  [Pa]"""
    temperature = air_temperature(altitude, sea_level_temperature=sea_level_temperature)
    troposphere_ratio = power(temperature / sea_level_temperature, STANDARD_GRAVITY / (LAPSE_RATE * GAS_CONSTANT))
    stratosphere_ratio = exp(-STANDARD_GRAVITY * maximum(altitude - TROPOPAUSE, 0.0) / (GAS_CONSTANT * temperature))
    return sea_level_pressure * troposphere_ratio * stratosphere_ratio


def air_density(altitude: Altitude) -> Scalar:
    """ρ = p / (R T)  [kg/m³]"""
    return air_pressure(altitude) / (GAS_CONSTANT * air_temperature(altitude))


def density_at_height(height: Height, *, home_density: AirDensity, home_altitude: Altitude) -> Scalar:
    """ρ(z) = ρ_home ρ_ISA(h₀ + z) / ρ_ISA(h₀): the density at a height above home, which is at the altitude h₀  [kg/m³]

    ρ_home is ρ_ISA(h₀) on a standard day. A measured ρ_home scales the profile of the standard atmosphere.
    """
    return home_density * (air_density(home_altitude + height) / air_density(home_altitude))


def pressure_altitude(pressure: Pressure) -> Scalar:
    """h = (T₀/L) (1 − (p/p₀)^(LR/g)): the inverse of `air_pressure`, to 11 km  [m]"""
    ratio = power(pressure / SEA_LEVEL_PRESSURE, LAPSE_RATE * GAS_CONSTANT / STANDARD_GRAVITY)
    return SEA_LEVEL_TEMPERATURE / LAPSE_RATE * (1.0 - ratio)


HeightAboveGround: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 300.0)]
ReferenceHeight: TypeAlias = Annotated[Scalar, Quantity("m", 2.0, 100.0)]
Roughness: TypeAlias = Annotated[Scalar, Quantity("m", 1e-4, 1.0)]

_MIN_HEIGHT = 0.01  # [m]: a power law has no slope at height 0


def power_law(
    height: HeightAboveGround,
    *,
    reference_height: ReferenceHeight,
    exponent: Annotated[Scalar, Quantity("1", 0.0, 0.5)],
) -> Scalar:
    """W/W₀ = (h/h₀)^α; α = 1/7 over open land; below 1 cm as at 1 cm"""
    return power(maximum(height, _MIN_HEIGHT) / reference_height, exponent)


def log_law(height: HeightAboveGround, *, reference_height: ReferenceHeight, roughness: Roughness) -> Scalar:
    """W/W₀ = ln(h/z₀) / ln(h₀/z₀) above the roughness length z₀, 0 below it

    z₀ is 0.0002 m for open water, 0.03 m for grass, 0.1 m for crops, 1 m for a town; the handbook has 0.15 ft and 2 ft.
    """
    return log(maximum(height, roughness) / roughness) / log(reference_height / roughness)
