"""Assemble a vehicle from a parts list: DC motors on a battery that sags, every parameter with derivation and uncertainty.

from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list

racer = assemble(
    parts_list(name="racer", mass=0.65, diagonal=0.22, motors="2207 1950KV", props="5.1x4.3x3", battery="6S1300")
)
"""

import math
from typing import NamedTuple

from samara.core.algebra import Mat3, Vec3
from samara.core.quantity import Tree
from samara.core.types import Array
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.air.drag import Drag
from samara.physics.rotors.airspeed_moment import AirspeedMoment
from samara.physics.rotors.battery import Thevenin
from samara.physics.rotors.blade_element import RotorAir, RotorDrag
from samara.physics.rotors.motor import DcMotor, steady_current
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.rotors.tilt import Servo
from samara.physics.types import Vehicle
from samara.vehicles.build import ContactShape, Provenance, build_vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.defaults import derived_top_height
from samara.vehicles.effects import min_solidity
from samara.vehicles.parts.battery import Battery, battery
from samara.vehicles.parts.layouts import SINGLE, Hub, min_rotor_spacing
from samara.vehicles.parts.mass_layout import (
    FRAME,
    MAX_CENTRAL_CONTROLLER_MASS,
    PartMasses,
    PlacedParts,
    centre_of_mass,
    controllers_mass,
    drag_areas,
    feet,
    inertia_about_centre,
    inertia_spread,
    place_parts,
)
from samara.vehicles.parts.motor import MotorPart, motor
from samara.vehicles.parts.operating_point import (
    MIN_LOADED_VOLTAGE_FRACTION,
    dc_resistance,
    drive_coefficients,
    full_throttle_point,
)
from samara.vehicles.parts.parts_list import PartsError, PartsList, frame_hubs
from samara.vehicles.parts.performance import full_throttle_current
from samara.vehicles.parts.propeller import Propeller, parse_size, propeller
from samara.vehicles.parts.propeller_tables import generic_blade
from samara.vehicles.parts.uncertain import UncertainValue, exact_value, propagate_uncertainty
from samara.vehicles.rotor_translation import (
    FLOWN_DRAG,
    FLOWN_MOMENT,
    LIFT_SLOPE,
    SOLIDITY_SPREAD,
    rotor_drag_coefficient,
)
from samara.vehicles.trim import hover, thrust_to_weight

BLUFF_BODY_DRAG = UncertainValue(
    1.1, 0.4, "drag coefficient of plates, boxes and round arms, partly in each other's wake"
)
MAX_PROPELLER_OVERLAP = 1.02  # propeller diameter over hub distance: tolerates rounding in the sizes
COAXIAL_GAP = UncertainValue(0.4, 0.3, "0.4 of the propellers' radius")
MIN_THRUST_TO_WEIGHT = 1.1  # thrust over weight: less leaves no margin for attitude control
CONTROLLER_CURRENT_MARGIN = 1.5  # the current limit of a speed controller over that of its motor
MIN_VOLTAGE_FRACTION = (
    0.4  # of the full battery's voltage, at full throttle: with less, the battery is too small for the motors
)
MAX_C_RATE = 150.0  # [1/h]: full-throttle current over the capacity, C; the best packs are sold with 120
LEG_HEIGHT_FRACTION, LOW_LEG_HEIGHT_FRACTION = (
    0.30,
    0.12,
)  # of the diagonal, from the propellers down to the feet, with legs and without
FOOT_CLEARANCE_FRACTION = 0.02  # of the diagonal: the feet are lower than every other part by this


SERVO_LIMIT = UncertainValue(0.6, 0.2, "assumed: a tail mount that turns by 34 deg in either direction")
SERVO_RATE = UncertainValue(8.0, 0.25, "assumed: 60 deg in 0.13 s, as small digital servos do")
SERVO_LAG = UncertainValue(0.04, 0.5, "assumed: two frames at 50 to 100 Hz and the start of its motor")


class ParameterLog(NamedTuple):
    """Estimates of a vehicle's parameters by their paths, for the provenance of the file."""

    estimates: dict[str, UncertainValue]

    def __call__(self, path: str, estimate: UncertainValue) -> float:
        """Record an estimate and return its value, rounded to its significant digits; exact values are not rounded."""
        self.estimates[path] = estimate._replace(spread=_round_digits(estimate.spread, 2))
        return _round_digits(estimate.value) if estimate.spread > 0.0 else estimate.value

    def note(self, path: str, source: str, spread: float = 0.0) -> None:
        """Record the derivation and spread of a list."""
        self.estimates[path] = UncertainValue(1.0, _round_digits(spread, 2), source)


def _round_digits(value: float, digits: int = 5) -> float:
    return float(f"{value:.{digits}g}")


class Powertrain(NamedTuple):
    """The propulsion of an aircraft."""

    propeller: Propeller
    motor: MotorPart
    battery: Battery


def select_powertrain(parts: PartsList) -> Powertrain:
    """Look up propellers, motors and battery by name; measured values of the parts list replace estimates."""
    estimated = Powertrain(propeller(parts.props, apc_file=parts.apc), motor(parts.motors), battery(parts.battery))
    return Powertrain(
        _override_estimates(
            estimated.propeller,
            parts,
            k_thrust="k_thrust",
            k_torque="k_torque",
            mass="prop_mass",
            inertia="prop_inertia",
        ),
        _override_estimates(
            estimated.motor,
            parts,
            resistance="resistance",
            no_load_current="no_load_current",
            mass="motor_mass",
            inertia="motor_inertia",
        ),
        _override_estimates(estimated.battery, parts, mass="battery_mass", resistance="battery_resistance"),
    )


def _override_estimates(record: Tree, parts: PartsList, **keys: str) -> Tree:
    overrides = {
        field: exact_value(parts.optional_value(key))
        for field, key in keys.items()
        if parts.optional_value(key) is not None
    }
    return record._replace(**overrides) if overrides else record


def assemble(parts: PartsList) -> Vehicle:
    """Assemble the vehicle of a parts list; raise a PartsError if it cannot fly."""
    return assemble_with_powertrain(parts, select_powertrain(parts))


def assemble_with_powertrain(parts: PartsList, power: Powertrain) -> Vehicle:
    """Assemble the vehicle of a parts list with known propellers, motors and battery."""
    radius = power.propeller.radius.value
    gap = (
        exact_value(parts.optional_value("coaxial_gap"))
        if parts.optional_value("coaxial_gap")
        else COAXIAL_GAP._replace(value=COAXIAL_GAP.value * radius)
    )
    rotor_hubs = frame_hubs(parts, gap.value)
    _require_spacing(parts, rotor_hubs, radius)
    size = parts.diagonal or 2.0 * max(math.hypot(hub.position.x, hub.position.y) for hub in rotor_hubs)
    log = ParameterLog({})
    current_limit = _current_limit(parts, power)
    motor_current_limit = power.motor.current_max.value
    controllers = controllers_mass(parts, len(rotor_hubs), motor_current_limit, power.battery.full, power.motor.brushed)
    masses = PartMasses(
        power.motor.mass, power.propeller.mass, power.propeller.inertia, power.battery.mass, controllers
    )
    placed_parts = place_parts(parts, rotor_hubs, size, masses)
    centre = centre_of_mass(placed_parts.bodies)
    rotor_motor = _motor(log, power, current_limit, len(rotor_hubs))
    rotors = [_rotor(log, i, hub, centre, power, rotor_motor) for i, hub in enumerate(rotor_hubs)]
    points = _feet(log, parts, rotor_hubs, placed_parts, centre, size)
    top_height = derived_top_height(points, rotors, 0.0)
    if top_height is not None:
        log.note("contact.top_height", "a tenth of an arm above the propellers", 0.3)
    for field, source in (("stiffness", "the softest ground without sinking in"), ("damping", "0.7 of critical")):
        log.note(f"contact.{field}", f"{source}: the fastest mode at 500 rad/s, which is stable at a step of 1 ms")
    log.note("contact.friction", "rubber on a hard floor", 0.3)
    log("body.mass", exact_value(parts.mass))
    log("gravity.acceleration", exact_value(STANDARD_GRAVITY, "standard gravity"))
    inertia = _inertia(log, parts, placed_parts)
    drag = _drag(log, parts, placed_parts)
    try:
        vehicle = build_vehicle(
            parts.name,
            mass=parts.mass,
            inertia=inertia,
            rotors=rotors,
            actuation="duty",
            battery=[_battery(log, power.battery)],
            contact=ContactShape(points, top_height),
            effects={
                "drag": drag,
                **_rotor_translation(log, power.propeller, rotors[0]),
                **_coaxial(log, rotor_hubs),
            },
            provenance=Provenance(
                _description(parts, size),
                [(path, estimate.source) for path, estimate in log.estimates.items()],
                [(path, estimate.spread) for path, estimate in log.estimates.items() if estimate.spread > 0.0],
            ),
        )
    except VehicleError as error:
        raise PartsError(str(error)) from None
    _require_flight(parts, vehicle, power)
    return vehicle


def _description(parts: PartsList, size: float) -> str:
    frame = f"{len(parts.rotors)} rotors by coordinates" if parts.rotors else parts.layout.replace("_", " ")
    props = f"{parts.props} ({parse_size(parts.props).name})" if parts.props.isdigit() else parts.props
    return f"{frame}, {1e3 * size:.0f} mm, motors {parts.motors}, propellers {props}, battery {parts.battery}"


# Propulsion ---------------------------------------------------------------------------------------------------------


def _current_limit(parts: PartsList, power: Powertrain) -> UncertainValue:
    if (specified := parts.optional_value("current_max")) is not None:
        return exact_value(specified)
    motor_limit = power.motor.current_max
    return propagate_uncertainty(
        f"{CONTROLLER_CURRENT_MARGIN:g} times the motor's current limit ({motor_limit.source})",
        lambda current: CONTROLLER_CURRENT_MARGIN * current,
        motor_limit,
    )


def _motor(log: ParameterLog, power: Powertrain, current_limit: UncertainValue, rotors: int) -> DcMotor:
    motor_estimate = power.motor
    full_throttle_voltage = _full_throttle_voltage(power, rotors)
    resistance = propagate_uncertainty(
        f"{motor_estimate.resistance.source}; with the drop over the winding's inductance at full throttle on "
        f"{full_throttle_voltage:.3g} V",
        lambda winding, inductance: _resistance(power, winding, inductance, full_throttle_voltage),
        motor_estimate.resistance,
        motor_estimate.inductance,
    )
    braking = "synchronous rectification: the controller brakes as hard as it drives, and charges the battery"
    log.note(
        "motor.current_min",
        "a transistor and a diode: it does not brake" if motor_estimate.brushed else braking,
        current_limit.spread,
    )
    log.note("motor.damping", "none besides the no-load current")
    return DcMotor(
        constant=log(
            "motor.kv",
            motor_estimate.constant._replace(source=f"{motor_estimate.constant.source}; {motor_estimate.kv.source}"),
        ),
        resistance=log("motor.resistance", resistance),
        no_load_current=log("motor.no_load_current", motor_estimate.no_load_current),
        current_min=0.0 if motor_estimate.brushed else -_round_digits(current_limit.value),
        current_max=log("motor.current_max", current_limit),
        efficiency=log(
            "motor.efficiency", UncertainValue(0.97, 0.02, "switching losses of a speed controller, 2 to 5 %")
        ),
        dead_zone=log("motor.dead_zone", UncertainValue(0.02, 0.5, "duty at which speed controllers start a motor")),
    )


def _resistance(power: Powertrain, winding: float, inductance: float, voltage: float) -> float:
    adjusted_drive = drive_coefficients(power.motor, power.propeller)._replace(
        resistance=winding, inductance=inductance
    )
    return dc_resistance(voltage, adjusted_drive)


def _full_throttle_voltage(power: Powertrain, rotors: int) -> float:
    """V of the full battery with all rotors at full throttle  [V]"""
    motor_drive, battery_resistance = drive_coefficients(power.motor, power.propeller), power.battery.resistance.value
    operating_point = full_throttle_point(power.battery.full, battery_resistance, rotors, motor_drive)
    return max(
        power.battery.full - battery_resistance * rotors * operating_point.supply_current,
        MIN_LOADED_VOLTAGE_FRACTION * power.battery.full,
    )


def _rotor(log: ParameterLog, i: int, hub: Hub, centre: Vec3, power: Powertrain, dc_motor: DcMotor) -> Rotor:
    inertia = propagate_uncertainty(
        f"propeller ({power.propeller.inertia.source}) and motor ({power.motor.inertia.source})",
        lambda blades, motor_rotor: blades + motor_rotor,
        power.propeller.inertia,
        power.motor.inertia,
    )
    log.note(f"rotors[{i}].position", f"{hub.name}; from the centre of mass of the parts in their usual positions")
    log.note(f"rotors[{i}].axis", "upright")
    return Rotor(
        r_B=Vec3(*(round(x, 6) for x in hub.position - centre)),
        axis_B=Vec3(0.0, 0.0, 1.0),
        spin=hub.spin,
        k_thrust=log("rotor.k_thrust", power.propeller.k_thrust),
        k_torque=log("rotor.k_torque", power.propeller.k_torque),
        inertia=log("rotor.inertia", inertia),
        radius=log("rotor.radius", power.propeller.radius),
        motor=dc_motor,
        servo=_servo(log, f"rotors[{i}].servo", hub) if hub.tilting else (),
    )


def _servo(log: ParameterLog, path: str, hub: Hub) -> Servo:
    """Return a small digital servo on the boom; the hinge is along the boom."""
    boom_length = math.hypot(hub.position.x, hub.position.y)
    log.note(f"{path}.hinge_B", "along the boom, towards the centre")
    log.note(f"{path}.low", SERVO_LIMIT.source, SERVO_LIMIT.spread)
    return Servo(
        hinge_B=Vec3(0.0 - hub.position.x / boom_length, 0.0 - hub.position.y / boom_length, 0.0),
        low=-SERVO_LIMIT.value,
        high=log(f"{path}.high", SERVO_LIMIT),
        rate=log(f"{path}.rate", SERVO_RATE),
        lag=log(f"{path}.lag", SERVO_LAG),
    )


def _battery(log: ParameterLog, battery_estimate: Battery) -> Thevenin:
    total, (fraction, settling_time) = battery_estimate.resistance, battery_estimate.polarisation
    ohmic = total._replace(value=(1.0 - fraction) * total.value, source=f"{1.0 - fraction:g} of: {total.source}")
    polarisation = total._replace(value=fraction * total.value, source=f"{fraction:g} of: {total.source}")
    capacitance = propagate_uncertainty(
        f"polarisation settles in {settling_time:g} s", lambda r: settling_time / r, polarisation, model_spread=0.5
    )
    cell = f"{battery_estimate.chemistry} cell"
    log.note("battery[0].table_charge", f"knots of the curve of a {cell}")
    log.note("battery[0].table_voltage", f"{cell}, {battery_estimate.cells} in series", 0.02)
    return Thevenin(
        capacity=log("battery[0].capacity", battery_estimate.capacity),
        table_charge=battery_estimate.table_charge,
        table_voltage=tuple(_round_digits(voltage) for voltage in battery_estimate.table_voltage),
        resistance=log("battery[0].resistance", ohmic),
        polarisation_resistance=log("battery[0].polarisation_resistance", polarisation),
        polarisation_capacitance=log("battery[0].polarisation_capacitance", capacitance),
    )


# The airframe -------------------------------------------------------------------------------------------------------


def _inertia(log: ParameterLog, parts: PartsList, placed_parts: PlacedParts) -> Mat3 | tuple[float, ...]:
    if (specified := parts.optional_value("inertia")) is not None:
        log.note("body.inertia", "given")
        return tuple(specified)
    matrix = inertia_about_centre(placed_parts.bodies)
    masses: dict[str, float] = {}
    for body in placed_parts.bodies:
        masses[body.name] = masses.get(body.name, 0.0) + body.mass.value
    mass_list = ", ".join(f"{name} {1e3 * mass:.3g} g" for name, mass in masses.items())
    log.note(
        "body.inertia",
        f"parts as boxes, cylinders and rods in their usual positions: {mass_list}",
        inertia_spread(placed_parts.bodies, FRAME),
    )
    if not _has_products_of_inertia(matrix):
        return tuple(_round_digits(float(x)) for x in matrix.diagonal())
    return Mat3(*(_round_digits(float(x)) for x in (0.5 * (matrix + matrix.T)).ravel()))


def _has_products_of_inertia(matrix: Array) -> bool:
    """Return whether any product of inertia exceeds rounding."""
    max_product = max(abs(float(matrix[0, 1])), abs(float(matrix[0, 2])), abs(float(matrix[1, 2])))
    return max_product > 1e-9 * float(matrix.max())


def _drag(log: ParameterLog, parts: PartsList, placed_parts: PlacedParts) -> Drag:
    log.note("drag.linear", "none besides that of the rotors")
    log.note("drag.isotropic", "none besides that of each axis")
    if (specified := parts.optional_value("drag_area")) is not None:
        areas, spread, source = specified, 0.0, "the given drag area"
    else:
        frontal_areas = drag_areas(placed_parts.bodies)
        areas, spread = frontal_areas * BLUFF_BODY_DRAG.value, BLUFF_BODY_DRAG.spread
        area_list = ", ".join(f"{1e4 * area:.3g}" for area in frontal_areas)
        source = (
            f"{BLUFF_BODY_DRAG.value:g} ({BLUFF_BODY_DRAG.source}) times the parts' frontal areas, "
            f"{area_list} cm^2 along x, y and z"
        )
    log.note("drag.quadratic", f"½ρ at sea level times {source}", spread)
    return Drag(quadratic=Vec3(*(_round_digits(0.5 * SEA_LEVEL_DENSITY * area) for area in areas)))


def _rotor_translation(log: ParameterLog, propeller_estimate: Propeller, rotor: Rotor) -> dict[str, object]:
    """Switch on drag, thrust and moment of rotors that move through the air; none of them acts in hover."""
    drag = propagate_uncertainty(
        f"{FLOWN_DRAG.value:g} kF/R: {FLOWN_DRAG.source}",
        rotor_drag_coefficient,
        propeller_estimate.k_thrust,
        propeller_estimate.radius,
        FLOWN_DRAG,
    )
    log.note("rotor_drag.axial", "none besides that of translational_lift")
    log.note("airspeed_moment.arm", "none besides that of each rotor's position")
    blade = generic_blade(propeller_estimate.size)
    solidity = max(blade.solidity, min_solidity(rotor, LIFT_SLOPE.value))
    return {
        "rotor_drag": RotorDrag(log("rotor_drag.coefficient", drag)),
        "airspeed_moment": AirspeedMoment(
            *(log(f"airspeed_moment.{axis}", FLOWN_MOMENT) for axis in ("roll", "pitch"))
        ),
        "translational_lift": RotorAir(
            log(
                "translational_lift.solidity",
                UncertainValue(solidity, SOLIDITY_SPREAD, f"a generic {blade.name} blade"),
            ),
            log("translational_lift.lift_slope", LIFT_SLOPE),
        ),
    }


def _coaxial(log: ParameterLog, rotor_hubs: tuple[Hub, ...]) -> dict[str, object]:
    """Switch on the effect of upper rotors' wakes on lower rotors if there are coaxial pairs."""
    if all(hub.level == SINGLE for hub in rotor_hubs):
        return {}
    log.note("coaxial.solidity", "typical blades of this thrust, for the lower rotor in the upper one's wake", 0.2)
    log.note("coaxial.lift_slope", LIFT_SLOPE.source, LIFT_SLOPE.spread)
    return {"coaxial": True}


def _feet(
    log: ParameterLog,
    parts: PartsList,
    rotor_hubs: tuple[Hub, ...],
    placed_parts: PlacedParts,
    centre: Vec3,
    size: float,
) -> tuple[Vec3, ...]:
    specified = parts.optional_value("leg_height")
    default_height = (
        LOW_LEG_HEIGHT_FRACTION if parts.mass < MAX_CENTRAL_CONTROLLER_MASS else LEG_HEIGHT_FRACTION
    ) * size
    leg_height = (
        specified
        if specified is not None
        else max(default_height, placed_parts.lowest + FOOT_CLEARANCE_FRACTION * size)
    )
    source = (
        "given: from the propellers to the feet"
        if specified
        else f"feet {100 * leg_height / size:.0f} % of the diagonal below the propellers"
    )
    log.note("contact.points", source, 0.0 if specified else 0.3)
    return tuple(Vec3(*(round(x, 6) for x in point - centre)) for point in feet(rotor_hubs, leg_height, 0.6))


# Feasibility --------------------------------------------------------------------------------------------------------


def _require_spacing(parts: PartsList, rotor_hubs: tuple[Hub, ...], radius: float) -> None:
    spacing = min_rotor_spacing(rotor_hubs)
    if 2.0 * radius > MAX_PROPELLER_OVERLAP * spacing:
        size_text = f"diagonal = {parts.diagonal:g} m" if parts.diagonal else "rotors"
        raise PartsError(
            f"props = {parts.props!r} are {2e3 * radius:.0f} mm across and {size_text} puts them {1e3 * spacing:.0f} mm apart: "
            "expected propellers that do not overlap"
        )


def _require_flight(parts: PartsList, vehicle: Vehicle, power: Powertrain) -> None:
    """Raise a PartsError unless thrust exceeds weight, the motors sustain hover and the battery sustains full throttle."""
    try:
        thrust_ratio = thrust_to_weight(vehicle)
    except ValueError as error:
        raise PartsError(f"{parts.name}: {error}") from None
    if thrust_ratio < MIN_THRUST_TO_WEIGHT:
        raise PartsError(
            f"mass = {parts.mass:g} kg: {len(vehicle.rotors)} of motors = {parts.motors!r} with props = {parts.props!r} on "
            f"battery = {parts.battery!r} lift {thrust_ratio * parts.mass:.3g} kg; expected at least "
            f"{MIN_THRUST_TO_WEIGHT:g} times the mass"
        )
    state, _ = hover(vehicle)
    motor_current_limit = power.motor.current_max.value
    hover_current = max(
        float(steady_current(speed, rotor.k_torque * speed * speed, rotor.motor))
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    )
    if hover_current > motor_current_limit:
        raise PartsError(
            f"motors = {parts.motors!r}: hovering takes {hover_current:.3g} A per motor, and its limit is about "
            f"{motor_current_limit:.3g} A; expected larger motors, other propellers or less mass"
        )
    full_current, capacity_ah = full_throttle_current(vehicle), power.battery.capacity.value / 3600.0
    voltage_fraction = 1.0 - full_current * power.battery.resistance.value / power.battery.full
    if full_current > MAX_C_RATE * capacity_ah or voltage_fraction < MIN_VOLTAGE_FRACTION:
        raise PartsError(
            f"battery = {parts.battery!r}: full throttle takes {full_current:.3g} A, {full_current / capacity_ah:.0f} C, "
            f"under which it retains {100.0 * max(voltage_fraction, 0.0):.0f} % of its voltage; "
            f"expected at most {MAX_C_RATE:.0f} C and at least {100.0 * MIN_VOLTAGE_FRACTION:.0f} %, "
            "a larger battery or smaller motors"
        )
