"""A vehicle put together from records: which effects it has, and in which order."""

from collections.abc import Callable, Sequence
from typing import Any

from samara.algebra import Mat3, Vec3, diagonal
from samara.arrays import flatten, unflatten
from samara.physics import drag as drag_effects
from samara.physics import gravity as gravity_effects
from samara.physics import propulsion
from samara.physics.actuator import SecondOrder
from samara.physics.battery import Ideal, Thevenin
from samara.physics.contact import COMPLIANT, Contact
from samara.physics.drag import Damping, Drag
from samara.physics.effect import Actuation, Effect
from samara.physics.gravity import Gravity
from samara.physics.multirotor import Structure, Vehicle
from samara.physics.rotor import Rotor, inflow_factor, inflow_factor_signed
from samara.quantity import Scalar
from samara.vehicles.check import (
    VehicleError,
    check_battery,
    check_body,
    check_contact,
    check_points,
    check_record,
    check_rotors,
)
from samara.vehicles.ground import derived_surface

ACTUATIONS: dict[str, Actuation] = {
    own.name: own for own in (propulsion.NORMALIZED, propulsion.SPEED, propulsion.DUTY, propulsion.WRENCH)
}
GRAVITIES: dict[str, Effect] = {"uniform": gravity_effects.UNIFORM, "spherical": gravity_effects.SPHERICAL}
DRAG_AXES: dict[str, Effect] = {"world": drag_effects.WORLD_AXES, "body": drag_effects.BODY_AXES}
INFLOWS: dict[str, Callable[[Scalar, Scalar, Scalar], Scalar]] = {
    "squared": inflow_factor,
    "signed": inflow_factor_signed,
}
STANDARD_GRAVITY = 9.80665


def build_vehicle(
    name: str,
    *,
    mass: float,
    inertia: Sequence[float] | Mat3,
    rotors: Sequence[Rotor] = (),
    actuation: str = "normalized",
    gravity: float = STANDARD_GRAVITY,
    gravity_model: str = "uniform",
    drag: Drag | None = None,
    drag_axes: str = "body",
    damping: Damping | None = None,
    inflow: str | None = None,
    actuator: SecondOrder | None = None,
    battery: Ideal | Sequence[Thevenin] | None = None,
    contact_points: Sequence[Vec3] = (),
    friction: float = 0.8,
    contact_stiffness: float | None = None,
    contact_damping: float | None = None,
    description: str = "",
    sources: Sequence[tuple[str, str]] = (),
) -> Vehicle:
    """A checked vehicle from its records; SI units, body axes forward-left-up. What is not given is off.

    Inertia is the diagonal or a full `Mat3`. Without a contact stiffness it follows from mass, inertia and points.
    """
    if len(inertia) not in (3, 9):
        raise VehicleError(f"{name}: body.inertia has {len(inertia)} numbers: expected 3 (diagonal) or 9 (rows)")
    inertia_B = Mat3(*inertia) if len(inertia) == 9 else diagonal(Vec3(*inertia))
    check_body(name, mass, inertia_B)
    for field, value, known in (
        ("actuation", actuation, tuple(ACTUATIONS)),
        ("gravity.model", gravity_model, tuple(GRAVITIES)),
        ("drag.axes", drag_axes, tuple(DRAG_AXES)),
        ("inflow.model", inflow, tuple(INFLOWS)),
    ):
        if value is not None and value not in known:
            raise VehicleError(f"{name}: {field} = {value!r}: expected one of {', '.join(known)}")
    check_rotors(name, actuation, rotors, battery, inflow)
    for field, record in (("gravity", Gravity(gravity)), ("drag", drag), ("damping", damping), ("actuator", actuator)):
        if record is not None:
            check_record(f"{name}: {field}", record)
    check_battery(name, battery)

    effects: list[tuple[Effect, Any]] = [(GRAVITIES[gravity_model], Gravity(gravity))]
    effects.append((propulsion.ROTORS if rotors else propulsion.COMMANDED_WRENCH, ()))
    if any(rotor.inertia > 0.0 for rotor in rotors):
        effects.append((propulsion.ROTOR_MOMENTUM, ()))
    if drag is not None:
        effects.append((DRAG_AXES[drag_axes], drag))
    if damping is not None:
        effects.append((drag_effects.ANGULAR, damping))
    if contact_points:
        points = tuple(Vec3(*point) for point in contact_points)
        check_points(name, points)
        surface = derived_surface(mass, inertia_B, points, friction)
        if contact_stiffness is not None:
            surface = surface._replace(stiffness=contact_stiffness)
        if contact_damping is not None:
            surface = surface._replace(damping=contact_damping)
        check_contact(name, mass, inertia_B, points, surface)
        effects.append((COMPLIANT, Contact(points, surface)))
    if actuator is not None:
        effects.append((propulsion.SECOND_ORDER_ACTUATOR, actuator))
    if isinstance(battery, Ideal):
        effects.append((propulsion.IDEAL_BATTERY, battery))
    elif battery:
        effects.append((propulsion.THEVENIN_BATTERY, tuple(battery)))
    structure = Structure(
        name=name,
        actuation=ACTUATIONS[actuation],
        effects=tuple(effect for effect, _ in effects),
        inflow=INFLOWS[inflow] if inflow else None,
        description=description,
        sources=tuple(sources),
    )
    numbers = (mass, inertia_B, tuple(rotors), tuple(own for _, own in effects))
    return Vehicle(structure, *unflatten(numbers, (float(number) for number in flatten(numbers))))
