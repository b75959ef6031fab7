"""A vehicle put together from records: which effects it has, and whether its numbers can be real."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samara.algebra import Mat3, Vec3, diagonal
from samara.arrays import flatten
from samara.physics import drag as drag_effects
from samara.physics import gravity as gravity_effects
from samara.physics import propulsion
from samara.physics.actuator import Lag, SecondOrder
from samara.physics.battery import Ideal, Thevenin
from samara.physics.contact import COMPLIANT, Contact, Surface
from samara.physics.drag import Damping, Drag
from samara.physics.effect import Actuation, Effect
from samara.physics.gravity import Gravity
from samara.physics.motor import DcMotor
from samara.physics.multirotor import Structure, Vehicle
from samara.physics.rotor import Rotor, inflow_factor, inflow_factor_signed
from samara.quantity import Scalar
from samara.vehicles.ground import DEFAULT_STEP, derived_surface, largest_stable_step

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


class VehicleError(ValueError):
    """One sentence: which vehicle, which field, which value, what was expected."""


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
        raise VehicleError(f"{name}: body.inertia has {len(inertia)} numbers; expected 3 (diagonal) or 9 (rows)")
    inertia_B = Mat3(*inertia) if len(inertia) == 9 else diagonal(Vec3(*inertia))
    _check_body(name, mass, inertia_B)
    for field, value, known in (
        ("actuation", actuation, tuple(ACTUATIONS)),
        ("gravity.model", gravity_model, tuple(GRAVITIES)),
        ("drag.axes", drag_axes, tuple(DRAG_AXES)),
        ("inflow.model", inflow, tuple(INFLOWS)),
    ):
        if value is not None and value not in known:
            raise VehicleError(f"{name}: {field} = {value!r}: expected one of {', '.join(known)}")
    _check_rotors(name, actuation, rotors, battery, inflow)

    effects: list[tuple[Effect, Any]] = [(GRAVITIES[gravity_model], Gravity(gravity))]
    effects.append((propulsion.ROTORS if rotors else propulsion.COMMANDED_WRENCH, ()))
    if any(rotor.inertia > 0.0 for rotor in rotors):
        effects.append((propulsion.ROTOR_MOMENTUM, ()))
    if drag is not None:
        effects.append((DRAG_AXES[drag_axes], drag))
    if damping is not None:
        effects.append((drag_effects.ANGULAR, damping))
    if contact_points:
        points = tuple(Vec3(*(float(x) for x in point)) for point in contact_points)
        surface = derived_surface(mass, inertia_B, points, friction)
        if contact_stiffness is not None:
            surface = surface._replace(stiffness=contact_stiffness)
        if contact_damping is not None:
            surface = surface._replace(damping=contact_damping)
        _check_contact(name, mass, inertia_B, points, surface)
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
    return Vehicle(structure, mass, inertia_B, tuple(rotors), tuple(numbers for _, numbers in effects))


def check_vehicle(vehicle: Vehicle, name: str | None = None) -> Vehicle:
    """The vehicle itself, or a `VehicleError`: what `build_vehicle` checks, for one whose numbers were replaced."""
    name = name or vehicle.name
    _check_body(name, vehicle.mass, vehicle.inertia_B)
    battery = vehicle["battery"] if vehicle.has("battery") else None
    inflow = "set" if vehicle.structure.inflow else None
    _check_rotors(name, vehicle.structure.actuation.name, vehicle.rotors, battery, inflow)
    for effect, numbers in zip(vehicle.structure.effects, vehicle.parameters, strict=True):
        for value in flatten(numbers):
            if not math.isfinite(value):
                raise VehicleError(f"{name}: {effect.name} has the value {value}; expected finite numbers")
    if vehicle.has("contact"):
        contact: Contact = vehicle["contact"]
        _check_contact(name, vehicle.mass, vehicle.inertia_B, contact.points_B, contact.surface)
    return vehicle


def _check_body(name: str, mass: float, inertia_B: Mat3) -> None:
    if not (isinstance(mass, (int, float)) and math.isfinite(mass) and mass > 0.0):
        raise VehicleError(f"{name}: body.mass = {mass} kg: expected a positive number")
    matrix = np.array(inertia_B, dtype=float).reshape(3, 3)
    shown = f"{name}: body.inertia = {matrix.tolist()} kg m^2"
    if not np.isfinite(matrix).all():
        raise VehicleError(f"{shown}: expected finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
        raise VehicleError(f"{shown}: expected a symmetric matrix")
    smallest, middle, largest = (float(x) for x in np.linalg.eigvalsh(matrix))
    if smallest <= 0.0:
        raise VehicleError(
            f"{shown}: expected a positive-definite matrix; its smallest principal moment is {smallest:.6g}"
        )
    if smallest + middle < largest * (1.0 - 1e-12):
        raise VehicleError(
            f"{shown}: expected principal moments no mass can break, I1 + I2 >= I3; "
            f"{smallest:.6g} + {middle:.6g} < {largest:.6g}"
        )


def _check_rotors(name: str, actuation: str, rotors: Sequence[Rotor], battery: Any, inflow: str | None) -> None:
    if (actuation == "wrench") == bool(rotors):
        expected = "none" if actuation == "wrench" else "at least one"
        raise VehicleError(f"{name}: rotors has {len(rotors)} entries; actuation {actuation!r} expects {expected}")
    motor_kind = DcMotor if actuation == "duty" else Lag
    for i, rotor in enumerate(rotors):
        where = f"{name}: rotors[{i}]"
        for field, value in zip(("r_B", "axis_B"), (rotor.r_B, rotor.axis_B), strict=True):
            if not all(math.isfinite(x) for x in value):
                raise VehicleError(f"{where}.{field} = {tuple(value)}: expected finite numbers")
        if abs(math.hypot(*rotor.axis_B) - 1.0) > 1e-9:
            raise VehicleError(f"{where}.axis_B = {tuple(rotor.axis_B)}: expected a unit vector")
        if rotor.spin not in (-1, 1):
            raise VehicleError(f"{where}.spin = {rotor.spin}: expected +1 (ccw) or -1 (cw)")
        if not (math.isfinite(rotor.k_thrust) and rotor.k_thrust > 0.0):
            raise VehicleError(f"{where}.k_thrust = {rotor.k_thrust} N s^2/rad^2: expected a positive number")
        for field in ("k_torque", "inertia", "radius"):
            value = getattr(rotor, field)
            if not (math.isfinite(value) and value >= 0.0):
                raise VehicleError(f"{where}.{field} = {value}: expected a number that is not negative")
        if not isinstance(rotor.motor, motor_kind):
            kind = type(rotor.motor).__name__
            raise VehicleError(f"{where}.motor is a {kind}; actuation {actuation!r} expects a {motor_kind.__name__}")
        if isinstance(rotor.motor, Lag) and not 0.0 <= rotor.motor.speed_min < rotor.motor.speed_max:
            limits = f"[{rotor.motor.speed_min}, {rotor.motor.speed_max}]"
            raise VehicleError(f"{where}.motor speeds {limits} rad/s: expected 0 <= speed_min < speed_max")
        if inflow and rotor.radius <= 0.0:
            raise VehicleError(
                f"{where}.radius = {rotor.radius} m: expected a positive number, the inflow model needs it"
            )
        if actuation == "duty" and rotor.inertia <= 0.0:
            raise VehicleError(
                f"{where}.inertia = {rotor.inertia} kg m^2: expected a positive number, the motor turns it"
            )
        for j, other in enumerate(rotors[:i]):
            if tuple(rotor.r_B) == tuple(other.r_B):
                raise VehicleError(
                    f"{where}.r_B = {tuple(rotor.r_B)} m: expected a place of its own, rotors[{j}] is there"
                )
    if actuation == "duty" and not battery:
        raise VehicleError(f"{name}: battery is missing; actuation 'duty' needs its voltage")


def _check_contact(name: str, mass: float, inertia_B: Mat3, points: tuple[Vec3, ...], surface: Surface) -> None:
    for field, value in zip(surface._fields, surface, strict=True):
        if not (math.isfinite(value) and value >= 0.0):
            raise VehicleError(f"{name}: contact.{field} = {value}: expected a number that is not negative")
    step = largest_stable_step(mass, inertia_B, points, surface)
    if step < DEFAULT_STEP:
        softest = derived_surface(mass, inertia_B, points, surface.friction)
        raise VehicleError(
            f"{name}: contact.stiffness = {surface.stiffness:.6g} N/m with damping {surface.damping:.6g} N s/m: expected "
            f"values stable at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s; "
            f"{softest.stiffness:.4g} N/m and {softest.damping:.4g} N s/m would do"
        )
