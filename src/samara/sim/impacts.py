"""What hits what within a step: the first touch of a drone's feet, body or propellers with a solid, and of two drones.

The integrator moved a drone from one state to the next; between them every part goes straight. `first_hit` finds the earliest
touch, however thin the solid and fast the drone, and `bounced` gives the state just after it, from which the rest of the step
is to be flown again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from samara.algebra import Vec3, dot, norm, normalize, rotate
from samara.arrays import flatten, unflatten
from samara.obstacles import HeightMap, Solid, disc_time_to_reach, disc_touch, time_to_reach, touch
from samara.physics.collision import Collider, contact_velocity
from samara.physics.impact import Material, body_blow, collider_of, struck, wall_blow
from samara.physics.multirotor import State, Vehicle
from samara.physics.solids import Box


class Part(NamedTuple):
    """A ball of some radius, which may be 0, or with an axis a disc: a propeller."""

    name: str
    center_B: Vec3
    radius: float
    axis_B: Vec3 | None = None


class Hit(NamedTuple):
    """Who touched what: when, as a share of the step; where, from the centre of mass; which way is out; how fast [m/s]."""

    share: float
    part: Part
    solid: int
    r_W: Vec3
    normal_W: Vec3
    depth: float
    speed: float

    @property
    def strikes_propeller(self) -> bool:
        """Whether it was a propeller"""
        return self.part.axis_B is not None

    def __str__(self) -> str:
        return f"{self.part.name} hit solid {self.solid} at {self.speed:.3g} m/s"


def parts_of(vehicle: Vehicle, body_radius: float = 0.0) -> tuple[Part, ...]:
    """The body as a ball, the feet of its contact as points, and every rotor that has a radius as a disc"""
    feet = vehicle["contact"].points_B if vehicle.has("contact") else ()
    parts = [Part("body", Vec3(0.0, 0.0, 0.0), body_radius)]
    parts += [Part(f"foot {i}", point_B, 0.0) for i, point_B in enumerate(feet)]
    parts += [
        Part(f"propeller {i}", rotor.r_B, rotor.radius, rotor.axis_B)
        for i, rotor in enumerate(vehicle.rotors)
        if rotor.radius > 0.0
    ]
    return tuple(parts)


def hull_of(state: State, parts: Sequence[Part]) -> Box:
    """The box, in body axes, around all parts: what other drones hit"""
    reach = [
        [abs(x) + (part.radius if part.axis_B is None else part.radius * (1.0 - a * a) ** 0.5) for x, a in pairs]
        for part in parts
        for pairs in [tuple(zip(part.center_B, part.axis_B or (0.0, 0.0, 0.0), strict=True))]
    ]
    half = [max(max(own[k] for own in reach), 1e-3) for k in range(3)]
    return Box(state.p_W, Vec3(*half), state.q_WB)


def between(before: State, after: State, share: float) -> State:
    """x₀ + s (x₁ − x₀), with a unit quaternion: the state at a share of the step"""
    leaves = zip(flatten(before), flatten(after), strict=True)
    state: State = unflatten(before, iter([a + share * (b - a) for a, b in leaves]))
    return state._replace(q_WB=normalize(state.q_WB))


def first_hit(
    before: State,
    after: State,
    vehicle: Vehicle,
    parts: Sequence[Part],
    solids: Sequence[Solid],
    drift_W: Sequence[Vec3] | None = None,
) -> Hit | None:
    """The earliest touch of any part with any solid it approaches, or None

    `drift_W` is how far each solid itself moves within the step [m]; none where not given.
    """
    first: Hit | None = None
    for part in parts:
        start_W = before.p_W + rotate(before.q_WB, part.center_B)
        end_W = after.p_W + rotate(after.q_WB, part.center_B)
        for index, solid in enumerate(solids):
            own_W = end_W - start_W - (drift_W[index] if drift_W else Vec3(0.0, 0.0, 0.0))
            gap = touch(solid, start_W).distance
            if not isinstance(solid, HeightMap) and gap > part.radius + norm(own_W):
                continue
            share = _share(solid, start_W, own_W, before, part)
            if share > 1.0 or (first and share >= first.share):
                continue
            hit = _hit_at(share, between(before, after, share), vehicle, part, index, solid, drift_W)
            first = hit or first
    return first


def _share(solid: Solid, start_W: Vec3, move_W: Vec3, before: State, part: Part) -> float:
    if part.axis_B is None or isinstance(solid, HeightMap):
        return float(time_to_reach(solid, start_W, move_W, part.radius if part.axis_B is None else 0.0))
    return float(disc_time_to_reach(solid, start_W, move_W, rotate(before.q_WB, part.axis_B), part.radius))


def _hit_at(
    share: float,
    state: State,
    vehicle: Vehicle,
    part: Part,
    index: int,
    solid: Solid,
    drift_W: Sequence[Vec3] | None,
) -> Hit | None:
    """The touch itself, unless the part is leaving"""
    center_W = state.p_W + rotate(state.q_WB, part.center_B)
    if drift_W:
        center_W = center_W - drift_W[index] * share
    if part.axis_B is None:
        own = touch(solid, center_W)
        point_W, distance = center_W - own.normal_W * part.radius, own.distance - part.radius
    else:
        own, point_W = disc_touch(solid, center_W, rotate(state.q_WB, part.axis_B), part.radius)
        distance = own.distance
    r_W = point_W - state.p_W if not drift_W else point_W + drift_W[index] * share - state.p_W
    speed = -dot(contact_velocity(collider_of(state, r_W, vehicle)), own.normal_W)
    if speed <= 0.0 and not drift_W:
        return None
    return Hit(share, part, index, r_W, own.normal_W, max(-float(distance), 0.0), float(speed))


def bounced(before: State, after: State, hit: Hit, vehicle: Vehicle, material: Material) -> State:
    """The state just after a hit on a solid that nothing moves: at the touch, with its blow, and out of it"""
    state = between(before, after, hit.share)
    body = collider_of(state, hit.r_W, vehicle)
    blow = wall_blow(body, Vec3(0.0, 0.0, 0.0), hit.normal_W, material=material)
    out = struck(state, blow, hit.r_W, vehicle)
    return out._replace(p_W=out.p_W + hit.normal_W * hit.depth)


class Drone(NamedTuple):
    """One drone through a step, for what drones do to each other."""

    before: State
    after: State
    vehicle: Vehicle
    parts: tuple[Part, ...]


def first_meeting(one: Drone, other: Drone) -> Hit | None:
    """The earliest touch of a part of one drone with the other's hull, or None; the other does not turn meanwhile"""
    drift_W = other.after.p_W - other.before.p_W
    hull = hull_of(other.before, other.parts)
    hit = first_hit(one.before, one.after, one.vehicle, one.parts, (hull,), (drift_W,))
    if hit is None:
        return None
    own, their = _colliders(one, other, hit)
    approach = dot(contact_velocity(own) - contact_velocity(their), hit.normal_W)
    return hit._replace(speed=-float(approach)) if approach < 0.0 else None


def both_bounced(one: Drone, other: Drone, hit: Hit, material: Material) -> tuple[State, State]:
    """Both drones just after they met"""
    own, their = _colliders(one, other, hit)
    blow = body_blow(own, their, hit.normal_W, material=material)
    mine, theirs = between(one.before, one.after, hit.share), between(other.before, other.after, hit.share)
    return struck(mine, blow, own.r_W, one.vehicle), struck(theirs, -blow, their.r_W, other.vehicle)


def _colliders(one: Drone, other: Drone, hit: Hit) -> tuple[Collider, Collider]:
    mine, theirs = between(one.before, one.after, hit.share), between(other.before, other.after, hit.share)
    r_other_W = mine.p_W + hit.r_W - theirs.p_W
    return collider_of(mine, hit.r_W, one.vehicle), collider_of(theirs, r_other_W, other.vehicle)
