"""Attach a payload to a vehicle: it changes the mass, the centre of mass and the inertia."""

from typing import NamedTuple

from samara.core.algebra import ZERO, Mat3, Vec3, cross, dot, rotate
from samara.core.quantity import Scalar
from samara.physics.types import State, Vehicle


class Payload(NamedTuple):
    """A point mass fixed to the body at r_B from the bare vehicle's centre of mass  [kg, m]."""

    mass: float = 0.0
    r_B: Vec3 = ZERO


def point_inertia(mass: Scalar, r: Vec3) -> Mat3:
    """J = m (r·r I − r rᵀ), of a point mass about the origin (Steiner)  [kg·m²]"""
    norm_squared = dot(r, r)
    rows = ((norm_squared - r.x * r.x, -r.x * r.y, -r.x * r.z), (-r.y * r.x, norm_squared - r.y * r.y, -r.y * r.z))
    last_row = (-r.z * r.x, -r.z * r.y, norm_squared - r.z * r.z)
    return Mat3(*(mass * entry for row in (*rows, last_row) for entry in row))


def centre_shift(vehicle: Vehicle, payload: Payload) -> Vec3:
    """d = m_p r / (m + m_p): from the bare vehicle's centre of mass to that of vehicle and payload  [m]"""
    return payload.r_B * (payload.mass / (vehicle.mass + payload.mass))


def with_payload(vehicle: Vehicle, payload: Payload) -> Vehicle:
    """m' = m + m_p;  J' = J + m (d·d I − d dᵀ) + m_p (s·s I − s sᵀ), s = r − d;  rotors, feet and hook at r − d"""
    if not payload.mass:
        return vehicle
    if payload.mass < 0.0:
        raise ValueError(f"payload mass is {payload.mass} kg; expected a number that is not negative")
    d = centre_shift(vehicle, payload)
    inertia = vehicle.inertia_B + point_inertia(vehicle.mass, d) + point_inertia(payload.mass, payload.r_B - d)
    loaded = vehicle.replace(
        mass=vehicle.mass + payload.mass,
        inertia_B=inertia,
        rotors=tuple(rotor._replace(r_B=rotor.r_B - d) for rotor in vehicle.rotors),
    )
    if loaded.has("contact"):
        contact = vehicle["contact"]
        loaded = loaded.replace({"contact.points_B": tuple(point - d for point in contact.points_B)})
        if contact.top_height != ():
            loaded = loaded.replace({"contact.top_height": contact.top_height - d.z})
    if loaded.has("slung_load"):
        loaded = loaded.replace({"slung_load.attachment_B": vehicle["slung_load"].attachment_B - d})
    return loaded


def shift_centre_of_mass(state: State, shift_B: Vec3) -> State:
    """p' = p + R d,  v' = v + R (ω × d): the same motion, described at another point of the body"""
    return state._replace(
        p_W=state.p_W + rotate(state.q_WB, shift_B),
        v_W=state.v_W + rotate(state.q_WB, cross(state.omega_B, shift_B)),
    )
