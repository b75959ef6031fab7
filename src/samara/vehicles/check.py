"""Check that a vehicle's parameters are physically possible; report the first that is not in one sentence."""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args, get_type_hints

import numpy as np

from samara.core.algebra import Mat3, Vec3, dot
from samara.core.quantity import MAX_MAGNITUDE, Quantity, Tree, violated_requirement
from samara.core.sanitise import quote_value as show_value
from samara.core.tree import flatten
from samara.core.units import record_fields
from samara.physics.ground.contact import Contact
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.tilt import Servo
from samara.physics.types import Vehicle
from samara.vehicles.defaults import DEFAULT_STEP, derived_surface, largest_stable_step
from samara.vehicles.effects import check_air_conflicts, effect_option

MIN_MASS = 1e-6  # [kg]: a mosquito; a lighter vehicle has its mass in the wrong unit
MAX_MASS = 1e5  # [kg]: heavier than every rotorcraft ever built
MAX_SERVO_TILT = 1.4  # [rad]: a rotor on its side contributes nothing to hover
MAX_ROTORS = 64  # the equations are unrolled over rotors
MAX_CONTACT_POINTS = 64
MIN_PRINCIPAL_MOMENT = 1e-18  # [kg m^2]


class VehicleError(ValueError):
    """One sentence with vehicle, field, value and expectation; several mistakes of a file are one per line."""


def raise_problems(problems: Sequence[str]) -> None:
    """Raise one `VehicleError` with all problems, if there are any; problems that differ only in an index are counted."""
    similar: dict[str, list[str]] = {}
    for problem in problems:
        similar.setdefault(re.sub(r"\[\d+\]", "[]", problem), []).append(problem)
    messages = [first if not more else f"{first} (and {len(more)} more like it)" for first, *more in similar.values()]
    if messages:
        raise VehicleError("\n".join(messages))


def check_all(*checks: Callable[[], None]) -> None:
    """Run every check and raise one error for all problems."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except VehicleError as error:
            problems += str(error).split("\n")
    raise_problems(problems)


def check_vehicle(vehicle: Vehicle, name: str | None = None) -> Vehicle:
    """Run the checks of `build_vehicle` on a vehicle whose parameters were replaced, and return the vehicle."""
    name = name or vehicle.name
    check_body(name, vehicle.mass, vehicle.inertia_B)
    battery = vehicle["battery"] if vehicle.has("battery") else None
    inflow = "set" if vehicle.structure.inflow else None
    check_rotors(name, vehicle.structure.actuation.name, vehicle.rotors, battery, inflow)
    check_battery(name, battery)
    for effect, record in zip(vehicle.structure.effects, vehicle.parameters, strict=True):
        if isinstance(record, Gravity):
            check_record(f"{name}: {effect.name}", record)
        elif isinstance(record, Contact):
            check_contact(name, vehicle.mass, vehicle.inertia_B, record)
        for value in flatten(record):
            if isinstance(value, float) and not math.isfinite(value):
                raise VehicleError(f"{name}: {effect.name} has the value {value}: expected finite numbers")
    check_options(name, vehicle)
    return vehicle


def check_options(name: str, vehicle: Vehicle) -> None:
    """Check the parameters of every effect that a file can name, then its requirements on the rest of the vehicle."""
    options = [option for effect in vehicle.structure.effects if (option := effect_option(effect, vehicle))]
    for option in options:
        check_record(f"{name}: {option.name}", vehicle[option.name])
    for check in (check_air_conflicts, *(option.check for option in options)):
        if problem := check(vehicle):
            raise VehicleError(f"{name}: {problem}")


def check_body(name: str, mass: float, inertia_B: Mat3) -> None:
    requirement = violated_requirement(mass, Quantity("kg", MIN_MASS, MAX_MAGNITUDE))
    if requirement or mass < MIN_MASS:
        raise VehicleError(f"{name}: body.mass = {mass!r} kg: expected {requirement or f'at least {MIN_MASS:g} kg'}")
    if mass > MAX_MASS:
        raise VehicleError(f"{name}: body.mass = {mass!r} kg: expected at most {MAX_MASS:g} kg")
    if not (isinstance(inertia_B, Mat3) and all(isinstance(entry, (int, float)) for entry in inertia_B)):
        raise VehicleError(f"{name}: body.inertia = {inertia_B!r} kg m^2: expected a Mat3 of 9 numbers")
    matrix = np.array(inertia_B, dtype=float).reshape(3, 3)
    subject = f"{name}: body.inertia = {matrix.tolist()} kg m^2"
    if not np.isfinite(matrix).all():
        raise VehicleError(f"{subject}: expected finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
        raise VehicleError(f"{subject}: expected a symmetric matrix")
    smallest, middle, largest = (float(x) for x in np.linalg.eigvalsh(matrix))
    if smallest <= MIN_PRINCIPAL_MOMENT:
        raise VehicleError(
            f"{subject}: expected a positive-definite matrix, moments above {MIN_PRINCIPAL_MOMENT:g}; "
            f"its smallest principal moment is {smallest:.6g}"
        )
    if smallest + middle < largest * (1.0 - 1e-12):
        raise VehicleError(
            f"{subject}: expected principal moments that satisfy the triangle inequality, I1 + I2 >= I3; "
            f"{smallest:.6g} + {middle:.6g} < {largest:.6g}"
        )


def check_rotors(name: str, actuation: str, rotors: Sequence[Rotor], battery: Tree, inflow: str | None) -> None:
    if (actuation == "wrench") == bool(rotors):
        expected_count = "none" if actuation == "wrench" else "at least one"
        raise VehicleError(
            f"{name}: rotors has {len(rotors)} entries; actuation {actuation!r} expects {expected_count}"
        )
    if not isinstance(rotors, (tuple, list)):
        raise VehicleError(f"{name}: rotors = {show_value(rotors)}: expected a tuple of rotors")
    check_all(
        *(partial(_check_rotor, name, i, rotors, actuation, inflow) for i in range(len(rotors))),
        partial(check_supply, name, actuation, battery),
    )


def check_supply(name: str, actuation: str, battery: Tree) -> None:
    if actuation == "wrench" and battery:
        raise VehicleError(
            f"{name}: battery is given; actuation 'wrench' expects none, because there is no motor to draw from it"
        )
    if actuation == "duty" and not battery:
        raise VehicleError(f"{name}: battery is missing; actuation 'duty' needs its voltage")


def _check_rotor(name: str, i: int, rotors: Sequence[Rotor], actuation: str, inflow: str | None) -> None:
    rotor, path = rotors[i], f"{name}: rotors[{i}]"
    motor_type = DcMotor if actuation == "duty" else Lag
    for field, unit in (("r_B", "m"), ("axis_B", "1")):
        check_numbers(f"{path}.{field}", getattr(rotor, field), Quantity(unit, -1.0, 1.0), 3)
    if abs(math.hypot(*rotor.axis_B) - 1.0) > 1e-9:
        raise VehicleError(f"{path}.axis_B = {tuple(rotor.axis_B)}: expected a unit vector")
    if rotor.spin not in (-1, 1):
        raise VehicleError(f"{path}.spin = {rotor.spin}: expected +1 (ccw) or -1 (cw)")
    hints = get_type_hints(Rotor, include_extras=True)
    for field in ("k_thrust", "k_torque", "inertia", "radius"):
        check_numbers(f"{path}.{field}", getattr(rotor, field), get_args(hints[field])[1], 1)
    if not isinstance(rotor.motor, motor_type):
        motor_name = type(rotor.motor).__name__
        raise VehicleError(f"{path}.motor is a {motor_name}; actuation {actuation!r} expects a {motor_type.__name__}")
    check_record(f"{path}.motor", rotor.motor)
    if not rotor.motor.efficiency <= 1.0:
        raise VehicleError(f"{path}.motor.efficiency = {rotor.motor.efficiency}: expected at most 1")
    if isinstance(rotor.motor, DcMotor):
        check_dc_motor(f"{path}.motor", rotor.motor)
    if isinstance(rotor.motor, Lag) and not 0.0 <= rotor.motor.speed_min < rotor.motor.speed_max:
        limits = f"[{rotor.motor.speed_min}, {rotor.motor.speed_max}]"
        raise VehicleError(f"{path}.motor speeds {limits} rad/s: expected 0 <= speed_min < speed_max")
    if inflow and rotor.radius <= 0.0:
        raise VehicleError(f"{path}.radius = {rotor.radius} m: expected a positive number, the inflow model needs it")
    if actuation == "duty" and rotor.inertia <= 0.0:
        raise VehicleError(
            f"{path}.inertia = {rotor.inertia} kg m^2: expected a positive number, the motor accelerates it"
        )
    if rotor.servo != ():
        check_servo(f"{path}.servo", rotor)
    for j, other_rotor in enumerate(rotors[:i]):
        if tuple(rotor.r_B) == tuple(other_rotor.r_B):
            raise VehicleError(f"{path}.r_B = {tuple(rotor.r_B)} m: expected another position, rotors[{j}] is there")


def check_servo(path: str, rotor: Rotor) -> None:
    servo = rotor.servo
    if not isinstance(servo, Servo):
        raise VehicleError(f"{path} is a {type(servo).__name__}: expected a Servo")
    check_record(path, servo)
    if abs(dot(servo.hinge_B, rotor.axis_B)) > 1e-9:
        raise VehicleError(
            f"{path}.hinge_B = {tuple(servo.hinge_B)}: expected a hinge perpendicular to the rotor's axis"
        )
    if not -MAX_SERVO_TILT <= servo.low < servo.high <= MAX_SERVO_TILT:
        limits = f"[{servo.low:.6g}, {servo.high:.6g}]"
        raise VehicleError(f"{path} limits {limits} rad: expected low < high, within ±{MAX_SERVO_TILT:g} rad")
    if not (servo.rate > 0.0 and servo.lag > 0.0):
        raise VehicleError(f"{path} has rate {servo.rate} rad/s and lag {servo.lag} s: expected positive numbers")


def check_record(path: str, record: Tree) -> None:
    """Check that every value of a record is finite and within the range that its annotation declares."""
    for field_name, field in record_fields(type(record)).items():
        value = getattr(record, field_name)
        check_numbers(f"{path}.{field_name}", value, field.quantity, field.length)
        if field.is_direction and abs(math.hypot(*value) - 1.0) > 1e-9:
            raise VehicleError(f"{path}.{field_name} = {tuple(value)}: expected a unit vector")


def check_numbers(path: str, value: Tree, quantity: Quantity, count: int) -> None:
    """Check a value of `count` numbers (1, 3, or 0 for a list of any length)."""
    if count != 1 and not (isinstance(value, tuple) and len(value) in (count, count or len(value))):
        raise VehicleError(f"{path} = {value!r}: expected {count or 'a tuple of'} numbers")
    for number in value if count != 1 else (value,):
        if requirement := violated_requirement(number, quantity):
            unit = "" if quantity.unit == "1" else f" {quantity.unit}"
            raise VehicleError(f"{path} = {number!r}{unit}: expected {requirement}")


def check_dc_motor(path: str, motor: DcMotor) -> None:
    for field, value, is_valid, requirement in (
        ("dead_zone", motor.dead_zone, motor.dead_zone < 1.0, "less than 1"),
        ("current_min", motor.current_min, motor.current_min <= 0.0, "0 (no charging) or a negative number"),
    ):
        if not is_valid:
            raise VehicleError(f"{path}.{field} = {value}: expected {requirement}")


def check_battery(name: str, battery: Ideal | Sequence[Ideal | Thevenin] | None) -> None:
    batteries = [battery] if isinstance(battery, Ideal) else battery or ()
    if len(batteries) > 1 and any(isinstance(cell_model, Ideal) for cell_model in batteries):
        raise VehicleError(
            f"{name}: battery has {len(batteries)} entries: expected an ideal battery to be the only one"
        )
    for i, cell_model in enumerate(batteries):
        path = f"{name}: battery[{i}]"
        if not isinstance(cell_model, (Ideal, Thevenin)):
            raise VehicleError(f"{path} = {cell_model!r}: expected an Ideal or a Thevenin battery")
        check_record(path, cell_model)
        if isinstance(cell_model, Ideal):
            continue
        if len(cell_model.table_charge) < 2 or list(cell_model.table_charge) != sorted(set(cell_model.table_charge)):
            raise VehicleError(
                f"{path}.table_charge = {list(cell_model.table_charge)}: expected two or more increasing numbers"
            )
        if list(cell_model.table_voltage) != sorted(cell_model.table_voltage):
            raise VehicleError(
                f"{path}.table_voltage = {list(cell_model.table_voltage)} V: expected numbers that do not decrease"
            )
        if cell_model.table_charge[-1] > 1.0:
            raise VehicleError(f"{path}.table_charge = {list(cell_model.table_charge)}: expected numbers within [0, 1]")
        if len(cell_model.table_voltage) != len(cell_model.table_charge):
            raise VehicleError(
                f"{path}.table_voltage has {len(cell_model.table_voltage)} values: expected {len(cell_model.table_charge)}, "
                "as many as table_charge"
            )


def check_points(name: str, points: tuple[Vec3, ...]) -> None:
    for i, point_B in enumerate(points):
        check_numbers(f"{name}: contact.points[{i}]", point_B, Quantity("m", -1.0, 1.0), 3)


def check_contact(name: str, mass: float, inertia_B: Mat3, contact: Contact) -> None:
    points, surface = contact.points_B, contact.surface
    check_points(name, points)
    if not isinstance(contact.top_height, tuple):
        check_numbers(f"{name}: contact.top_height", contact.top_height, Quantity("m", -1.0, 1.0), 1)
    check_record(f"{name}: contact", surface)
    upside_down = contact.upper_B or points
    step = min(
        largest_stable_step(mass, inertia_B, contact_points, surface) for contact_points in {points, upside_down}
    )
    if step < DEFAULT_STEP:
        stable_surface = derived_surface(mass, inertia_B, points, surface.friction)
        raise VehicleError(
            f"{name}: contact.stiffness = {surface.stiffness:.6g} N/m with damping {surface.damping:.6g} N s/m: expected "
            f"values stable at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s; "
            f"{stable_surface.stiffness:.4g} N/m and {stable_surface.damping:.4g} N s/m are stable"
        )
