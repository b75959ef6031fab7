"""Whether a vehicle's numbers can be real: one sentence about the first that cannot."""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args, get_type_hints

import numpy as np

from samara.core.algebra import Mat3, Vec3, dot
from samara.core.quantity import LARGEST, Quantity, Tree, expected
from samara.core.sanitise import shown as written
from samara.core.tree import flatten
from samara.core.units import fields_of
from samara.physics.ground.contact import Contact
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.tilt import Servo
from samara.physics.types import Vehicle
from samara.vehicles.defaults import DEFAULT_STEP, derived_surface, largest_stable_step
from samara.vehicles.effects import check_rotor_air, option_of

SMALLEST_MASS = 1e-6  # [kg]: a mosquito; below it a file has its unit wrong
LARGEST_MASS = 1e5  # [kg]: above every rotorcraft that was ever built
STEEPEST_TILT = 1.4  # [rad]: a rotor that lies on its side has no part in hover
MAX_ROTORS = 64  # the equations are unrolled over rotors
MAX_CONTACT_POINTS = 64
SMALLEST_MOMENT = 1e-18  # [kg m^2]


class VehicleError(ValueError):
    """One sentence: which vehicle, which field, which value, what was expected; of a file one on each line."""


def raise_all(problems: Sequence[str]) -> None:
    """One error for all that is wrong, or none; what is wrong with several rotors alike is said of the first"""
    alike: dict[str, list[str]] = {}
    for problem in problems:
        alike.setdefault(re.sub(r"\[\d+\]", "[]", problem), []).append(problem)
    said = [first if not more else f"{first} (and {len(more)} more like it)" for first, *more in alike.values()]
    if said:
        raise VehicleError("\n".join(said))


def check_all(*checks: Callable[[], None]) -> None:
    """Every check, and one error for all that they find"""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except VehicleError as error:
            problems += str(error).split("\n")
    raise_all(problems)


def check_vehicle(vehicle: Vehicle, name: str | None = None) -> Vehicle:
    """The vehicle itself, or a `VehicleError`: what `build_vehicle` checks, for one whose numbers were replaced."""
    name = name or vehicle.name
    check_body(name, vehicle.mass, vehicle.inertia_B)
    battery = vehicle["battery"] if vehicle.has("battery") else None
    inflow = "set" if vehicle.structure.inflow else None
    check_rotors(name, vehicle.structure.actuation.name, vehicle.rotors, battery, inflow)
    check_battery(name, battery)
    for effect, numbers in zip(vehicle.structure.effects, vehicle.parameters, strict=True):
        if isinstance(numbers, Gravity):
            check_record(f"{name}: {effect.name}", numbers)
        elif isinstance(numbers, Contact):
            check_contact(name, vehicle.mass, vehicle.inertia_B, numbers)
        for value in flatten(numbers):
            if isinstance(value, float) and not math.isfinite(value):
                raise VehicleError(f"{name}: {effect.name} has the value {value}: expected finite numbers")
    check_options(name, vehicle)
    return vehicle


def check_options(name: str, vehicle: Vehicle) -> None:
    """Every effect of the vehicle that a file can name: its numbers, then what it asks of the whole vehicle."""
    found = [option for effect in vehicle.structure.effects if (option := option_of(effect, vehicle))]
    for option in found:
        check_record(f"{name}: {option.name}", vehicle[option.name])
    for check in (check_rotor_air, *(option.check for option in found)):
        if wrong := check(vehicle):
            raise VehicleError(f"{name}: {wrong}")


def check_body(name: str, mass: float, inertia_B: Mat3) -> None:
    wanted = expected(mass, Quantity("kg", SMALLEST_MASS, LARGEST))
    if wanted or mass < SMALLEST_MASS:
        raise VehicleError(f"{name}: body.mass = {mass!r} kg: expected {wanted or f'at least {SMALLEST_MASS:g} kg'}")
    if mass > LARGEST_MASS:
        raise VehicleError(f"{name}: body.mass = {mass!r} kg: expected at most {LARGEST_MASS:g} kg")
    if not (isinstance(inertia_B, Mat3) and all(isinstance(each, (int, float)) for each in inertia_B)):
        raise VehicleError(f"{name}: body.inertia = {inertia_B!r} kg m^2: expected a Mat3 of 9 numbers")
    matrix = np.array(inertia_B, dtype=float).reshape(3, 3)
    shown = f"{name}: body.inertia = {matrix.tolist()} kg m^2"
    if not np.isfinite(matrix).all():
        raise VehicleError(f"{shown}: expected finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
        raise VehicleError(f"{shown}: expected a symmetric matrix")
    smallest, middle, largest = (float(x) for x in np.linalg.eigvalsh(matrix))
    if smallest <= SMALLEST_MOMENT:
        raise VehicleError(
            f"{shown}: expected a positive-definite matrix, moments above {SMALLEST_MOMENT:g}; "
            f"its smallest principal moment is {smallest:.6g}"
        )
    if smallest + middle < largest * (1.0 - 1e-12):
        raise VehicleError(
            f"{shown}: expected principal moments no mass can break, I1 + I2 >= I3; "
            f"{smallest:.6g} + {middle:.6g} < {largest:.6g}"
        )


def check_rotors(name: str, actuation: str, rotors: Sequence[Rotor], battery: Tree, inflow: str | None) -> None:
    if (actuation == "wrench") == bool(rotors):
        expected = "none" if actuation == "wrench" else "at least one"
        raise VehicleError(f"{name}: rotors has {len(rotors)} entries; actuation {actuation!r} expects {expected}")
    if not isinstance(rotors, (tuple, list)):
        raise VehicleError(f"{name}: rotors = {written(rotors)}: expected a tuple of rotors")
    check_all(
        *(partial(_check_rotor, name, i, rotors, actuation, inflow) for i in range(len(rotors))),
        partial(check_supply, name, actuation, battery),
    )


def check_supply(name: str, actuation: str, battery: Tree) -> None:
    if actuation == "wrench" and battery:
        raise VehicleError(
            f"{name}: battery is given; actuation 'wrench' expects none, no motor takes anything from it"
        )
    if actuation == "duty" and not battery:
        raise VehicleError(f"{name}: battery is missing; actuation 'duty' needs its voltage")


def _check_rotor(name: str, i: int, rotors: Sequence[Rotor], actuation: str, inflow: str | None) -> None:
    rotor, where = rotors[i], f"{name}: rotors[{i}]"
    motor_kind = DcMotor if actuation == "duty" else Lag
    for field, unit in (("r_B", "m"), ("axis_B", "1")):
        check_numbers(f"{where}.{field}", getattr(rotor, field), Quantity(unit, -1.0, 1.0), 3)
    if abs(math.hypot(*rotor.axis_B) - 1.0) > 1e-9:
        raise VehicleError(f"{where}.axis_B = {tuple(rotor.axis_B)}: expected a unit vector")
    if rotor.spin not in (-1, 1):
        raise VehicleError(f"{where}.spin = {rotor.spin}: expected +1 (ccw) or -1 (cw)")
    hints = get_type_hints(Rotor, include_extras=True)
    for field in ("k_thrust", "k_torque", "inertia", "radius"):
        check_numbers(f"{where}.{field}", getattr(rotor, field), get_args(hints[field])[1], 1)
    if not isinstance(rotor.motor, motor_kind):
        kind = type(rotor.motor).__name__
        raise VehicleError(f"{where}.motor is a {kind}; actuation {actuation!r} expects a {motor_kind.__name__}")
    check_record(f"{where}.motor", rotor.motor)
    if not rotor.motor.efficiency <= 1.0:
        raise VehicleError(f"{where}.motor.efficiency = {rotor.motor.efficiency}: expected at most 1")
    if isinstance(rotor.motor, DcMotor):
        check_dc_motor(f"{where}.motor", rotor.motor)
    if isinstance(rotor.motor, Lag) and not 0.0 <= rotor.motor.speed_min < rotor.motor.speed_max:
        limits = f"[{rotor.motor.speed_min}, {rotor.motor.speed_max}]"
        raise VehicleError(f"{where}.motor speeds {limits} rad/s: expected 0 <= speed_min < speed_max")
    if inflow and rotor.radius <= 0.0:
        raise VehicleError(f"{where}.radius = {rotor.radius} m: expected a positive number, the inflow model needs it")
    if actuation == "duty" and rotor.inertia <= 0.0:
        raise VehicleError(f"{where}.inertia = {rotor.inertia} kg m^2: expected a positive number, the motor turns it")
    if rotor.servo != ():
        check_servo(f"{where}.servo", rotor)
    for j, other in enumerate(rotors[:i]):
        if tuple(rotor.r_B) == tuple(other.r_B):
            raise VehicleError(f"{where}.r_B = {tuple(rotor.r_B)} m: expected a place of its own, rotors[{j}] is there")


def check_servo(where: str, rotor: Rotor) -> None:
    servo = rotor.servo
    if not isinstance(servo, Servo):
        raise VehicleError(f"{where} is a {type(servo).__name__}: expected a Servo")
    check_record(where, servo)
    if abs(dot(servo.hinge_B, rotor.axis_B)) > 1e-9:
        raise VehicleError(f"{where}.hinge_B = {tuple(servo.hinge_B)}: expected a hinge across the rotor's axis")
    if not -STEEPEST_TILT <= servo.low < servo.high <= STEEPEST_TILT:
        limits = f"[{servo.low:.6g}, {servo.high:.6g}]"
        raise VehicleError(f"{where} limits {limits} rad: expected low < high, within ±{STEEPEST_TILT:g} rad")
    if not (servo.rate > 0.0 and servo.lag > 0.0):
        raise VehicleError(f"{where} has rate {servo.rate} rad/s and lag {servo.lag} s: expected positive numbers")


def check_record(where: str, record: Tree) -> None:
    """Every number of a record finite and of the sign its annotation declares."""
    for name, own in fields_of(type(record)).items():
        value = getattr(record, name)
        check_numbers(f"{where}.{name}", value, own.quantity, own.numbers)
        if own.is_direction and abs(math.hypot(*value) - 1.0) > 1e-9:
            raise VehicleError(f"{where}.{name} = {tuple(value)}: expected a unit vector")


def check_numbers(where: str, value: Tree, quantity: Quantity, count: int) -> None:
    """One number, three, or (count 0) any number of them."""
    if count != 1 and not (isinstance(value, tuple) and len(value) in (count, count or len(value))):
        raise VehicleError(f"{where} = {value!r}: expected {count or 'a tuple of'} numbers")
    for number in value if count != 1 else (value,):
        if wanted := expected(number, quantity):
            unit = "" if quantity.unit == "1" else f" {quantity.unit}"
            raise VehicleError(f"{where} = {number!r}{unit}: expected {wanted}")


def check_dc_motor(where: str, motor: DcMotor) -> None:
    for field, value, fine, wanted in (
        ("dead_zone", motor.dead_zone, motor.dead_zone < 1.0, "less than 1"),
        ("current_min", motor.current_min, motor.current_min <= 0.0, "0 (no charging) or a negative number"),
    ):
        if not fine:
            raise VehicleError(f"{where}.{field} = {value}: expected {wanted}")


def check_battery(name: str, battery: Ideal | Sequence[Ideal | Thevenin] | None) -> None:
    batteries = [battery] if isinstance(battery, Ideal) else battery or ()
    if len(batteries) > 1 and any(isinstance(each, Ideal) for each in batteries):
        raise VehicleError(f"{name}: battery has {len(batteries)} entries: expected an ideal one to stand alone")
    for i, each in enumerate(batteries):
        where = f"{name}: battery[{i}]"
        if not isinstance(each, (Ideal, Thevenin)):
            raise VehicleError(f"{where} = {each!r}: expected an Ideal or a Thevenin battery")
        check_record(where, each)
        if isinstance(each, Ideal):
            continue
        if len(each.table_charge) < 2 or list(each.table_charge) != sorted(set(each.table_charge)):
            raise VehicleError(
                f"{where}.table_charge = {list(each.table_charge)}: expected two or more increasing numbers"
            )
        if list(each.table_voltage) != sorted(each.table_voltage):
            raise VehicleError(
                f"{where}.table_voltage = {list(each.table_voltage)} V: expected numbers that do not fall"
            )
        if each.table_charge[-1] > 1.0:
            raise VehicleError(f"{where}.table_charge = {list(each.table_charge)}: expected numbers within [0, 1]")
        if len(each.table_voltage) != len(each.table_charge):
            raise VehicleError(
                f"{where}.table_voltage has {len(each.table_voltage)} values: expected {len(each.table_charge)}, "
                "as many as table_charge"
            )


def check_points(name: str, points: tuple[Vec3, ...]) -> None:
    for i, point_B in enumerate(points):
        check_numbers(f"{name}: contact.points[{i}]", point_B, Quantity("m", -1.0, 1.0), 3)


def check_contact(name: str, mass: float, inertia_B: Mat3, contact: Contact) -> None:
    points, surface = contact.points_B, contact.surface
    check_points(name, points)
    if not isinstance(contact.top, tuple):
        check_numbers(f"{name}: contact.top", contact.top, Quantity("m", -1.0, 1.0), 1)
    check_record(f"{name}: contact", surface)
    upside_down = contact.upper_B or points
    step = min(largest_stable_step(mass, inertia_B, own, surface) for own in {points, upside_down})
    if step < DEFAULT_STEP:
        softest = derived_surface(mass, inertia_B, points, surface.friction)
        raise VehicleError(
            f"{name}: contact.stiffness = {surface.stiffness:.6g} N/m with damping {surface.damping:.6g} N s/m: expected "
            f"values stable at the default step {DEFAULT_STEP:g} s, these need dt <= {step:.3g} s; "
            f"{softest.stiffness:.4g} N/m and {softest.damping:.4g} N s/m would do"
        )
