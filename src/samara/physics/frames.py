"""Frame conversions: ENU/FLU inside Samara, NED/FRD or NWU outside, and positions on the Earth.

In Samara, the world is x east, y north, z up and the body x forward, y left, z up. Outside (PX4, MAVLink, the NED simulator,
Hakoniwa) the world is x north, y east, z down and the body x forward, y right, z down. NWU is x north, y west, z up. The maps
are rotations, never a lone sign flip: each has determinant +1 and is its own inverse.

Converted states and wrenches keep their named-tuple types; only the axes of their components change.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Attitude, Euler, Quat, Vec3, Vector, euler_from_quat
from samara.core.ops import atan2, cos, safe_norm, sin, sqrt, wrap_angle
from samara.core.quantity import Angle, Quantity, Scalar
from samara.physics.effect import Wrench
from samara.physics.types import State

Speed: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 30.0)]
Altitude: TypeAlias = Annotated[Scalar, Quantity("m", -100.0, 9000.0)]
EarthPosition: TypeAlias = Annotated[Vec3, Quantity("m", 3.3e6, 4.1e6)]
LocalPosition: TypeAlias = Annotated[Vec3, Quantity("m", -5000.0, 5000.0)]

_SQRT_HALF = math.sqrt(0.5)
_NED_FROM_ENU = Quat(0.0, _SQRT_HALF, _SQRT_HALF, 0.0)  # half a turn about the horizontal diagonal; its own inverse
_HALF_TURN_X = Quat(0.0, 1.0, 0.0, 0.0)  # FLU ↔ FRD, and NWU ↔ NED

WGS84_SEMI_MAJOR_AXIS = 6378137.0  # [m]
WGS84_FLATTENING = 1.0 / 298.257223563
_ECCENTRICITY_SQUARED = WGS84_FLATTENING * (2.0 - WGS84_FLATTENING)
_LATITUDE_ITERATIONS = 2  # Bowring's error after one is 1 µm at 10 km, 5 cm at 40 000 km; after two it is rounding


_LOCAL_ITERATIONS = 8  # set by the round-trip test


class Geodetic(NamedTuple):
    """A position on or above the WGS-84 ellipsoid."""

    latitude: Annotated[Scalar, Quantity("rad", -1.5, 1.5)]
    longitude: Angle
    altitude: Altitude


def _components(vector: Vector) -> Vector:
    """Return the vector if it has three components (the first axis of an array); ValueError otherwise."""
    if not isinstance(vector, Vec3) and (not hasattr(vector, "__len__") or len(vector) != 3):
        shape = getattr(vector, "shape", None)
        description = f"{vector!r:.60}" if shape is None else f"an array of shape {shape}"
        raise ValueError(
            f"the vector is {description}; expected a Vec3, or three components x, y, z: shape (3,) or (3, N)"
        )
    return vector


def ned_from_enu(v_enu: Vector) -> Vec3:
    """(x, y, z) → (y, x, −z), of a `Vec3` or three components: a list, an array of shape (3,) or (3, N)"""
    x, y, z = _components(v_enu)
    return Vec3(y, x, -z)


def enu_from_ned(v_ned: Vector) -> Vec3:
    """(x, y, z) → (y, x, −z)"""
    return ned_from_enu(v_ned)


def ned_from_nwu(v_nwu: Vector) -> Vec3:
    """(x, y, z) → (x, −y, −z), of a `Vec3` or three components: a list, an array of shape (3,) or (3, N)"""
    x, y, z = _components(v_nwu)
    return Vec3(x, -y, -z)


def nwu_from_ned(v_ned: Vector) -> Vec3:
    """(x, y, z) → (x, −y, −z)"""
    return ned_from_nwu(v_ned)


def frd_from_flu(v_flu: Vector) -> Vec3:
    """(x, y, z) → (x, −y, −z), for vectors, rates and torques alike"""
    return ned_from_nwu(v_flu)


def flu_from_frd(v_frd: Vector) -> Vec3:
    """(x, y, z) → (x, −y, −z), for vectors, rates and torques alike"""
    return ned_from_nwu(v_frd)


def attitude_ned_frd_from_enu_flu(q_enu_flu: Attitude) -> Quat:
    """q_NED,FRD = q_NED←ENU ⊗ q_ENU,FLU ⊗ q_FLU←FRD: level and facing east becomes yaw +90°"""
    return _NED_FROM_ENU * q_enu_flu * _HALF_TURN_X


def attitude_enu_flu_from_ned_frd(q_ned_frd: Attitude) -> Quat:
    """q_ENU,FLU = q_ENU←NED ⊗ q_NED,FRD ⊗ q_FRD←FLU: the same product, as both half turns are their own inverse"""
    return attitude_ned_frd_from_enu_flu(q_ned_frd)


def attitude_ned_frd_from_nwu_flu(q_nwu_flu: Attitude) -> Quat:
    """q_NED,FRD = (0,1,0,0) ⊗ q_NWU,FLU ⊗ (0,1,0,0)"""
    return _HALF_TURN_X * q_nwu_flu * _HALF_TURN_X


def attitude_nwu_flu_from_ned_frd(q_ned_frd: Attitude) -> Quat:
    """q_NWU,FLU = (0,1,0,0) ⊗ q_NED,FRD ⊗ (0,1,0,0)"""
    return attitude_ned_frd_from_nwu_flu(q_ned_frd)


def state_ned_frd_from_enu_flu(state: State) -> State:
    """p, v by `ned_from_enu`; q by `attitude_ned_frd_from_enu_flu`; ω by `frd_from_flu`; rotor speeds and effects unchanged"""
    return state._replace(
        p_W=ned_from_enu(state.p_W),
        v_W=ned_from_enu(state.v_W),
        q_WB=attitude_ned_frd_from_enu_flu(state.q_WB),
        omega_B=frd_from_flu(state.omega_B),
    )


def state_enu_flu_from_ned_frd(state: State) -> State:
    """Convert back with the same map: every part of it is its own inverse."""
    return state_ned_frd_from_enu_flu(state)


def state_ned_frd_from_nwu_flu(state: State) -> State:
    """p, v by `ned_from_nwu`; q by `attitude_ned_frd_from_nwu_flu`; ω by `frd_from_flu`"""
    return state._replace(
        p_W=ned_from_nwu(state.p_W),
        v_W=ned_from_nwu(state.v_W),
        q_WB=attitude_ned_frd_from_nwu_flu(state.q_WB),
        omega_B=frd_from_flu(state.omega_B),
    )


def state_nwu_flu_from_ned_frd(state: State) -> State:
    """Convert back with the same map: every part of it is its own inverse."""
    return state_ned_frd_from_nwu_flu(state)


def wrench_ned_frd_from_enu_flu(wrench: Wrench) -> Wrench:
    """f_B, τ_B by `frd_from_flu`; f_W by `ned_from_enu`"""
    return Wrench(frd_from_flu(wrench.f_B), frd_from_flu(wrench.tau_B), ned_from_enu(wrench.f_W))


def wrench_enu_flu_from_ned_frd(wrench: Wrench) -> Wrench:
    """Convert back with the same map: every part of it is its own inverse."""
    return wrench_ned_frd_from_enu_flu(wrench)


def euler_ned_from_enu(euler: Euler) -> Euler:
    """roll the same, pitch negated, ψ_NED = 90° − ψ_ENU  [rad]"""
    return Euler(euler.roll, -euler.pitch, yaw_ned_from_enu(euler.yaw))


def euler_enu_from_ned(euler: Euler) -> Euler:
    """Convert back with the same map: it is its own inverse."""
    return euler_ned_from_enu(euler)


def yaw_ned_from_enu(yaw: Angle) -> Scalar:
    """ψ_NED = π/2 − ψ_ENU, in [−π, π): clockwise from north, from counter-clockwise from east  [rad]"""
    return wrap_angle(math.pi / 2.0 - yaw)


def yaw_enu_from_ned(yaw: Angle) -> Scalar:
    """ψ_ENU = π/2 − ψ_NED, in [−π, π)  [rad]"""
    return yaw_ned_from_enu(yaw)


def yaw_ned_from_nwu(yaw: Angle) -> Scalar:
    """ψ_NED = −ψ_NWU: both angles start at north; the vertical axis is reversed  [rad]"""
    return wrap_angle(-yaw)


def yaw_nwu_from_ned(yaw: Angle) -> Scalar:
    """ψ_NWU = −ψ_NED  [rad]"""
    return yaw_ned_from_nwu(yaw)


def yaw_from_quat(q: Attitude) -> Scalar:
    """ψ, the yaw of the Z-Y-X Euler angles, about the third axis of the world frame  [rad]"""
    return euler_from_quat(q).yaw


def wind_ned_from_direction(speed: Speed, direction_from: Angle) -> Vec3:
    """w_NED = −V (cos ψ, sin ψ, 0): "from north" (ψ = 0) moves towards south  [m/s]"""
    return Vec3(-speed * cos(direction_from), -speed * sin(direction_from), 0.0)


def wind_enu_from_direction(speed: Speed, direction_from: Angle) -> Vec3:
    """w_ENU = −V (sin ψ, cos ψ, 0), ψ the direction of origin, clockwise from north  [m/s]"""
    return enu_from_ned(wind_ned_from_direction(speed, direction_from))


def altitude_from_ned(p_ned: LocalPosition, origin_altitude: Altitude) -> Scalar:
    """h = h₀ − p_D: down is positive  [m above mean sea level]"""
    return origin_altitude - p_ned.z


def earth_from_geodetic(position: Geodetic) -> Vec3:
    """x = (N + h) cos φ cos λ, y = (N + h) cos φ sin λ, z = (N(1 − e²) + h) sin φ;  N = a / √(1 − e² sin² φ)  [m]

    Earth-centred, Earth-fixed: x through Greenwich, z through the north pole.
    """
    s, c = sin(position.latitude), cos(position.latitude)
    n = WGS84_SEMI_MAJOR_AXIS / sqrt(1.0 - _ECCENTRICITY_SQUARED * s * s)
    equatorial = (n + position.altitude) * c
    return Vec3(
        equatorial * cos(position.longitude),
        equatorial * sin(position.longitude),
        (n * (1.0 - _ECCENTRICITY_SQUARED) + position.altitude) * s,
    )


def geodetic_from_earth(p_earth: EarthPosition) -> Geodetic:
    """tan φ = (z + e'² b sin³β) / (ρ − e² a cos³β),  tan β = (1 − f) tan φ  (Bowring 1976, iterated)  [rad, m]"""
    a, b = WGS84_SEMI_MAJOR_AXIS, WGS84_SEMI_MAJOR_AXIS * (1.0 - WGS84_FLATTENING)
    second_eccentricity_squared = _ECCENTRICITY_SQUARED / (1.0 - _ECCENTRICITY_SQUARED)
    rho = safe_norm(p_earth.x, p_earth.y)
    y, x = p_earth.z, rho * (1.0 - WGS84_FLATTENING)
    for _ in range(_LATITUDE_ITERATIONS):
        length = sqrt(x * x + y * y)
        sin_beta, cos_beta = y / length, x / length
        axial = p_earth.z + second_eccentricity_squared * b * sin_beta * sin_beta * sin_beta
        radial = rho - _ECCENTRICITY_SQUARED * a * cos_beta * cos_beta * cos_beta
        y, x = axial * (1.0 - WGS84_FLATTENING), radial
    length = sqrt(axial * axial + radial * radial)
    s, c = axial / length, radial / length
    altitude = rho * c + p_earth.z * s - a * sqrt(1.0 - _ECCENTRICITY_SQUARED * s * s)
    return Geodetic(atan2(axial, radial), atan2(p_earth.y, p_earth.x), altitude)


def enu_from_geodetic(position: Geodetic, origin: Geodetic) -> Vec3:
    """p_ENU = R(φ₀, λ₀) (r(position) − r(origin)): the position in the tangent plane at the origin  [m]

    Written in Δφ, Δλ, Δh, so that the Earth's radius does not cancel the digits of nearby positions:
    e = (N+h) cos φ sin Δλ,  n = (N+h)(sin Δφ + 2 cos φ sin φ₀ sin²½Δλ) − e² cos φ₀ Δ(N sin φ),
    u = ΔN + Δh − 2 (N+h)(sin²½Δφ + cos φ cos φ₀ sin²½Δλ) − e² sin φ₀ Δ(N sin φ).
    """
    s, c, s0, c0 = sin(position.latitude), cos(position.latitude), sin(origin.latitude), cos(origin.latitude)
    d_latitude, d_longitude = position.latitude - origin.latitude, position.longitude - origin.longitude
    half_latitude, half_longitude = sin(0.5 * d_latitude), sin(0.5 * d_longitude)
    w, w0 = sqrt(1.0 - _ECCENTRICITY_SQUARED * s * s), sqrt(1.0 - _ECCENTRICITY_SQUARED * s0 * s0)
    n = WGS84_SEMI_MAJOR_AXIS / w
    d_sin = 2.0 * cos(0.5 * (position.latitude + origin.latitude)) * half_latitude
    d_n = n * _ECCENTRICITY_SQUARED * (s + s0) * d_sin / (w0 * (w + w0))
    flattening = _ECCENTRICITY_SQUARED * (n * d_sin + d_n * s0)
    radius, longitude_term = n + position.altitude, 2.0 * c * half_longitude * half_longitude
    return Vec3(
        radius * c * sin(d_longitude),
        radius * (sin(d_latitude) + s0 * longitude_term) - flattening * c0,
        d_n
        + (position.altitude - origin.altitude)
        - radius * (2.0 * half_latitude * half_latitude + c0 * longitude_term)
        - flattening * s0,
    )


def geodetic_from_enu(p_enu: LocalPosition, origin: Geodetic) -> Geodetic:
    """The inverse of `enu_from_geodetic`: φ += Δn/(M+h), λ += Δe/((N+h) cos φ), h += Δu, iterated  [rad, m]

    Each iteration reduces the error by a factor |p|/R: three digits at 5 km. M and N are the radii of curvature at the origin.
    """
    s, c = sin(origin.latitude), cos(origin.latitude)
    w = sqrt(1.0 - _ECCENTRICITY_SQUARED * s * s)
    prime_vertical = WGS84_SEMI_MAJOR_AXIS / w + origin.altitude
    meridian = WGS84_SEMI_MAJOR_AXIS * (1.0 - _ECCENTRICITY_SQUARED) / (w * w * w) + origin.altitude
    position = origin
    for _ in range(_LOCAL_ITERATIONS):
        residual = p_enu - enu_from_geodetic(position, origin)
        position = Geodetic(
            position.latitude + residual.y / meridian,
            position.longitude + residual.x / (prime_vertical * c),
            position.altitude + residual.z,
        )
    return position
