"""Rotors near a surface: additional thrust over the ground by image rotors, under a ceiling by restricted inflow.

The ground deflects a rotor's flow as a source mirrored below it would (I. C. Cheeseman and W. E. Bennett, "The effect of the
ground on a helicopter rotor in forward flight", ARC R&M 3021, 1955). The images of its neighbours act on it too, and where
the streams meet under the body a fountain lifts it (P. Sanchez-Cuevas, G. Heredia and A. Ollero, "Characterization of the
aerodynamic ground effect and its influence in multirotor control", Int. J. Aerospace Eng. 2017). Written for images instead
of a square of four rotors, it holds for any rotor layout, including tilted rotors, over any plane.

The surface is the plane `environment.ground`; over a height map it is the tangent plane of the map below the drone.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Vec3, dot, norm, rotate, rotate_inverse
from samara.core.ops import logical_and, maximum, minimum, power, safe_divide, sqrt, where
from samara.core.quantity import Quantity, Scalar, Unit
from samara.physics.effect import Effect, Wrench, add_wrenches
from samara.physics.ground.contact import Ground
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Radius, RotorLoad, rotor_wrench
from samara.physics.types import Command, Environment, State, Vehicle

Height: TypeAlias = Annotated[Scalar, Quantity("m", 0.01, 3.0)]
NearbyPosition: TypeAlias = Annotated[Vec3, Quantity("m", -1.0, 1.0)]
Axis: TypeAlias = Annotated[Vec3, Unit()]
InflowRatio: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 0.9)]

MAX_INFLOW_RATIO = 0.5  # u/v: the thrust at most doubles; there are no measurements closer than half a radius


class GroundEffect(NamedTuple):
    """Strength of the fountain under the body: `body_lift` is Sanchez-Cuevas' K_b, `body_distance` their b.

    Their values are K_b = 2 and, for b, the distance between opposite rotors. With K_b = 0 only the images act.
    """

    body_lift: Annotated[Scalar, Quantity("1", 0.0, 5.0)] = 2.0
    body_distance: Annotated[Scalar, Quantity("m", 0.01, 2.0)] = 0.1


class Ceiling(NamedTuple):
    """The surface above: any point of it, and its unit normal, which points down."""

    point_W: Annotated[Vec3, Quantity("m", -3.0, 3.0)]
    normal_W: Annotated[Vec3, Unit()] = Vec3(0.0, 0.0, -1.0)


def image_inflow(arm_W: NearbyPosition, height: Height, axis_W: Axis, normal_W: Axis, *, radius: Radius) -> Scalar:
    """u/v = (R²/4) (r·a)/|r|³,  r = arm + 2 h n: inflow from the image of a rotor along the axis a of another

    `arm_W` leads from the mirrored rotor to the affected one; `height` is that of the mirrored rotor. For the image of the same
    level rotor it is (R/4h)². It is 0 for a rotor that blows away from the surface.
    """
    distance_W = arm_W + normal_W * (2.0 * height)
    distance_squared = dot(distance_W, distance_W)
    return 0.25 * radius * radius * maximum(dot(distance_W, axis_W), 0.0) / (distance_squared * sqrt(distance_squared))


def fountain_inflow(height: Height, *, radius: Radius, ground_effect: GroundEffect) -> Scalar:
    """u/v = K_b (R²/2) h / (b² + 4h²)^{3/2} for each rotor: four of them are Sanchez-Cuevas' 2R² h / √((b² + 4h²)³) K_b"""
    distance_squared = ground_effect.body_distance * ground_effect.body_distance + 4.0 * height * height
    return ground_effect.body_lift * 0.5 * radius * radius * height / (distance_squared * sqrt(distance_squared))


def thrust_ratio(inflow: InflowRatio) -> Scalar:
    """T/T∞ = 1 / (1 − u/v), at the same power; u/v is limited to ½"""
    return 1.0 / (1.0 - minimum(inflow, MAX_INFLOW_RATIO))


def cheeseman_bennett(height: Height, *, radius: Radius) -> Scalar:
    """T/T∞ = 1 / (1 − (R/4h)²): one isolated, level rotor"""
    quarter = radius / (4.0 * height)
    return thrust_ratio(quarter * quarter)


def ceiling_ratio(gap: Height, *, radius: Radius) -> Scalar:
    """T/T∞ = γ^{2/3},  γ = ½ + ½ √(1 + (R/h)²/8), at the same power, h the gap between rotor and ceiling

    Momentum theory with the air entering through the gap's side, 2πRh (Y. H. Hsiao and P. Chirarattananon, "Ceiling effects
    for hybrid aerial–surface locomotion of small rotorcraft", 2019). Closer than R/4 as at R/4.
    """
    tightness = safe_divide(radius, maximum(gap, 0.25 * radius))
    return power(0.5 + 0.5 * sqrt(1.0 + tightness * tightness / 8.0), 2.0 / 3.0)


def height_above_plane(p_W: NearbyPosition, *, ground: Ground) -> Scalar:
    """h = (p − p₀)·n  [m]"""
    return dot(p_W - ground.point_W, ground.normal_W)


def max_rotor_distance(vehicle: Vehicle) -> Scalar:
    """b = max |rᵢ − rⱼ|: the distance between opposite rotors  [m]"""
    largest: Scalar = 0.0
    for i, rotor in enumerate(vehicle.rotors):
        for other in vehicle.rotors[:i]:
            largest = maximum(largest, norm(rotor.r_B - other.r_B))
    return largest


def _hub_geometry(state: State, vehicle: Vehicle) -> list[tuple[Vec3, Vec3, Scalar]]:
    """Return position, thrust direction (world axes) and radius of each rotor."""
    return [
        (state.p_W + rotate(state.q_WB, rotor.r_B), rotate(state.q_WB, rotor.axis_B), rotor.radius)
        for rotor in vehicle.rotors
    ]


def _additional_load(ratio: Scalar, load: RotorLoad) -> RotorLoad:
    """ΔT = (T/T∞ − 1) T; the surface adds no torque"""
    return RotorLoad((ratio - 1.0) * load.thrust, 0.0)


def _ground_wrench(
    effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    ground, parameters = environment.ground, vehicle["ground_effect"]
    normal_B = rotate_inverse(state.q_WB, ground.normal_W)  # in body axes the rotor positions are constants of a trace
    body_height = height_above_plane(state.p_W, ground=ground)
    heights = [maximum(body_height + dot(rotor.r_B, normal_B), 0.25 * rotor.radius) for rotor in vehicle.rotors]
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        upright = maximum(dot(rotor.axis_B, normal_B), 0.0)
        inflow: Scalar = 0.0
        for other, height in zip(vehicle.rotors, heights, strict=True):
            arm_B = rotor.r_B - other.r_B
            inflow = inflow + image_inflow(arm_B, height, rotor.axis_B, normal_B, radius=other.radius)
            inflow = inflow + upright * fountain_inflow(height, radius=other.radius, ground_effect=parameters)
        total = add_wrenches(total, rotor_wrench(_additional_load(thrust_ratio(inflow), load), rotor))
    return total


def _ceiling_wrench(
    effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    ceiling: Ceiling = vehicle["ceiling_effect"]
    total = Wrench()
    for (p_W, axis_W, radius), load, rotor in zip(
        _hub_geometry(state, vehicle), rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True
    ):
        gap = height_above_plane(p_W, ground=Ground(ceiling.point_W, ceiling.normal_W))
        facing = dot(axis_W, ceiling.normal_W) < 0.0
        ratio = where(logical_and(facing, gap > 0.0), ceiling_ratio(gap, radius=radius), 1.0)
        total = add_wrenches(total, rotor_wrench(_additional_load(ratio, load), rotor))
    return total


GROUND_EFFECT = Effect("ground_effect", wrench=_ground_wrench, planned=False)
CEILING_EFFECT = Effect("ceiling_effect", wrench=_ceiling_wrench, planned=False)
