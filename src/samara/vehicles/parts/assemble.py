"""From a parts list to a vehicle: DC motors on a battery that sags, every number with its making and its error bar.

from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list

racer = assemble(
    parts_list(name="racer", mass=0.65, diagonal=0.22, motors="2207 1950KV", props="5.1x4.3x3", battery="6S1300")
)
"""

import math
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Mat3, Vec3, norm
from samara.core.quantity import Tree
from samara.core.types import Array
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.air.drag import Drag
from samara.physics.rotors.battery import Thevenin
from samara.physics.rotors.blade_element import HubFlow, RotorAir, RotorDrag, in_plane_force
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.motor import DcMotor, steady_current
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.rotors.tilt import Servo
from samara.physics.types import Vehicle
from samara.vehicles.build import ContactShape, Provenance, build_vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.defaults import derived_top
from samara.vehicles.parts.battery import Battery, battery
from samara.vehicles.parts.layouts import SINGLE, Hub, nearest_beside
from samara.vehicles.parts.mass_layout import (
    FRAME,
    ON_THE_BODY,
    Placed,
    Weights,
    centre_of_mass,
    controllers_mass,
    drag_areas,
    feet,
    inertia_about_centre,
    inertia_spread,
    placed,
)
from samara.vehicles.parts.motor import Motor, motor
from samara.vehicles.parts.operating_point import LEAST_SAGGED, dc_resistance, drive, full_throttle
from samara.vehicles.parts.parts_list import PartsError, PartsList, hubs
from samara.vehicles.parts.performance import full_throttle_current
from samara.vehicles.parts.propeller import Curve, Propeller, propeller
from samara.vehicles.parts.propeller_tables import generic_blade
from samara.vehicles.parts.uncertain import Estimate, derived, given
from samara.vehicles.trim import hover, thrust_to_weight

BLUFF = Estimate(1.1, 0.4, "drag coefficient of plates, boxes and round arms, some behind others")
OVERLAP = 1.02  # discs that reach past each other by less than this are a matter of rounding
COAXIAL_GAP = Estimate(0.4, 0.3, "0.4 of the propellers' radius")
LEAST_LIFT = 1.1  # thrust over weight: with less nothing is left to steer with
CONTROLLER_ROOM = 1.5  # the largest current of a speed controller over that of its motor
LEAST_VOLTAGE = 0.4  # of the full battery's, at full throttle: with less it is too small for these motors
MOST_RATING = 150.0  # [1/h]: full throttle in units of the capacity, C; the best packs are sold with 120
SLOW_SHARE, SLOW_LAG = 0.4, 20.0  # of a battery's resistance, and [s]: what shows only after a while
LEGS, LOW = 0.30, 0.12  # of the diagonal, from the propellers down to the feet, with legs and without
FOOT_GAP = 0.02  # of the diagonal: feet reach that much lower than anything else


SERVO_REACH = Estimate(0.6, 0.2, "assumed: a tail mount that turns by 34 deg to either side")
SERVO_RATE = Estimate(8.0, 0.25, "assumed: 60 deg in 0.13 s, as small digital servos do")
SERVO_LAG = Estimate(0.04, 0.5, "assumed: two frames at 50 to 100 Hz and the start of its motor")


class Made(NamedTuple):
    """The numbers of a file by their paths, and what is said of each"""

    numbers: dict[str, Estimate]

    def __call__(self, path: str, own: Estimate) -> float:
        """The number, with as many digits as an estimate deserves; one that was given as it was"""
        self.numbers[path] = own._replace(spread=_rounded(own.spread, 2))
        return _rounded(own.value) if own.spread > 0.0 else own.value

    def note(self, path: str, how: str, spread: float = 0.0) -> None:
        """What is said of a value that is a list"""
        self.numbers[path] = Estimate(1.0, _rounded(spread, 2), how)


def _rounded(value: float, digits: int = 5) -> float:
    return float(f"{value:.{digits}g}")


class Power(NamedTuple):
    """What turns and what feeds it"""

    propeller: Propeller
    motor: Motor
    battery: Battery


def power_of(parts: PartsList) -> Power:
    """Propellers, motors and battery by their names, with what is known of them in place of what is estimated"""
    own = Power(propeller(parts.props, apc_file=parts.apc), motor(parts.motors), battery(parts.battery))
    return Power(
        _with_known(
            own.propeller, parts, k_thrust="k_thrust", k_torque="k_torque", mass="prop_mass", inertia="prop_inertia"
        ),
        _with_known(
            own.motor,
            parts,
            resistance="resistance",
            no_load_current="no_load_current",
            mass="motor_mass",
            inertia="motor_inertia",
        ),
        _with_known(own.battery, parts, mass="battery_mass", resistance="battery_resistance"),
    )


def _with_known(record: Tree, parts: PartsList, **keys: str) -> Tree:
    known = {field: given(parts.given(key)) for field, key in keys.items() if parts.given(key) is not None}
    return record._replace(**known) if known else record


def assemble(parts: PartsList) -> Vehicle:
    """The vehicle of a parts list, or a PartsError that says why there is none that flies"""
    return assembled(parts, power_of(parts))


def assembled(parts: PartsList, power: Power) -> Vehicle:
    """The vehicle of a parts list on propellers, motors and a battery that are known"""
    radius = power.propeller.radius.value
    gap = (
        given(parts.given("coaxial_gap"))
        if parts.given("coaxial_gap")
        else COAXIAL_GAP._replace(value=COAXIAL_GAP.value * radius)
    )
    own_hubs = hubs(parts, gap.value)
    _require_apart(parts, own_hubs, radius)
    size = parts.diagonal or 2.0 * max(math.hypot(hub.place.x, hub.place.y) for hub in own_hubs)
    made = Made({})
    limit = _current_limit(parts, power)
    most = power.motor.current_max.value
    controllers = controllers_mass(parts, len(own_hubs), most, power.battery.full, power.motor.brushed)
    weights = Weights(power.motor.mass, power.propeller.mass, power.propeller.inertia, power.battery.mass, controllers)
    parts_placed = placed(parts, own_hubs, size, weights)
    centre = centre_of_mass(parts_placed.bodies)
    rotor_motor = _motor(made, power, limit, len(own_hubs))
    rotors = [_rotor(made, i, hub, centre, power, rotor_motor) for i, hub in enumerate(own_hubs)]
    points = _feet(made, parts, own_hubs, parts_placed, centre, size)
    top = derived_top(points, rotors, 0.0)
    if top is not None:
        made.note("contact.top", "a tenth of an arm above the propellers", 0.3)
    for field, how in (("stiffness", "the softest that does not sink in"), ("damping", "0.7 of critical")):
        made.note(f"contact.{field}", f"{how}: the fastest mode at 500 rad/s, which a step of 1 ms follows")
    made.note("contact.friction", "rubber on a hard floor", 0.3)
    made("body.mass", given(parts.mass))
    made("gravity.acceleration", given(STANDARD_GRAVITY, "standard gravity"))
    inertia = _inertia(made, parts, parts_placed)
    drag = _drag(made, parts, parts_placed)
    try:
        vehicle = build_vehicle(
            parts.name,
            mass=parts.mass,
            inertia=inertia,
            rotors=rotors,
            actuation="duty",
            battery=[_battery(made, power.battery)],
            contact=ContactShape(points, top),
            effects={
                "drag": drag,
                "rotor_drag": _rotor_drag(made, power.propeller, rotors[0]),
                **_coaxial(made, own_hubs),
            },
            provenance=Provenance(
                _description(parts, size),
                [(path, number.how) for path, number in made.numbers.items()],
                [(path, number.spread) for path, number in made.numbers.items() if number.spread > 0.0],
            ),
        )
    except VehicleError as error:
        raise PartsError(str(error)) from None
    _require_flight(parts, vehicle, power)
    return vehicle


def _description(parts: PartsList, size: float) -> str:
    frame = f"{len(parts.rotors)} rotors by coordinates" if parts.rotors else parts.layout.replace("_", " ")
    return f"{frame}, {1e3 * size:.0f} mm, motors {parts.motors}, propellers {parts.props}, battery {parts.battery}"


# The drive ----------------------------------------------------------------------------------------------------------


def _current_limit(parts: PartsList, power: Power) -> Estimate:
    if (known := parts.given("current_max")) is not None:
        return given(known)
    most = power.motor.current_max
    return derived(
        f"{CONTROLLER_ROOM:g} times the motor's largest current ({most.how})", lambda own: CONTROLLER_ROOM * own, most
    )


def _motor(made: Made, power: Power, limit: Estimate, rotors: int) -> DcMotor:
    own = power.motor
    at_full = _full_voltage(power, rotors)
    resistance = derived(
        f"{own.resistance.how}; with what the winding's inductance takes at full throttle on {at_full:.3g} V",
        lambda winding, inductance: _resistance(power, winding, inductance, at_full),
        own.resistance,
        own.inductance,
    )
    brakes = "synchronous rectification: the controller brakes as hard as it drives, and the battery takes it back"
    made.note(
        "motor.current_min", "a transistor and a diode: it does not brake" if own.brushed else brakes, limit.spread
    )
    made.note("motor.damping", "none besides the no-load current")
    return DcMotor(
        constant=made("motor.constant", own.constant._replace(how=f"{own.constant.how}; {own.kv.how}")),
        resistance=made("motor.resistance", resistance),
        no_load_current=made("motor.no_load_current", own.no_load_current),
        current_min=0.0 if own.brushed else -_rounded(limit.value),
        current_max=made("motor.current_max", limit),
        efficiency=made("motor.efficiency", Estimate(0.97, 0.02, "switching losses of a speed controller, 2 to 5 %")),
        dead_zone=made("motor.dead_zone", Estimate(0.02, 0.5, "what speed controllers need to start")),
    )


def _resistance(power: Power, winding: float, inductance: float, voltage: float) -> float:
    own = drive(power.motor, power.propeller)._replace(resistance=winding, inductance=inductance)
    return dc_resistance(voltage, own)


def _full_voltage(power: Power, rotors: int) -> float:
    """V of the full battery with all rotors at full throttle  [V]"""
    own, source = drive(power.motor, power.propeller), power.battery.resistance.value
    at_full = full_throttle(power.battery.full, source, rotors, own)
    return max(power.battery.full - source * rotors * at_full.drawn, LEAST_SAGGED * power.battery.full)


def _rotor(made: Made, i: int, hub: Hub, centre: Vec3, power: Power, own_motor: DcMotor) -> Rotor:
    turns = derived(
        f"propeller ({power.propeller.inertia.how}) and motor ({power.motor.inertia.how})",
        lambda blades, bell: blades + bell,
        power.propeller.inertia,
        power.motor.inertia,
    )
    made.note(f"rotors[{i}].position", f"{hub.name}; from the centre of mass of the parts where builders put them")
    made.note(f"rotors[{i}].axis", "upright")
    return Rotor(
        r_B=Vec3(*(round(x, 6) for x in hub.place - centre)),
        axis_B=Vec3(0.0, 0.0, 1.0),
        spin=hub.spin,
        k_thrust=made("rotor.k_thrust", power.propeller.k_thrust),
        k_torque=made("rotor.k_torque", power.propeller.k_torque),
        inertia=made("rotor.inertia", turns),
        radius=made("rotor.radius", power.propeller.radius),
        motor=own_motor,
        servo=_servo(made, f"rotors[{i}].servo", hub) if hub.tilting else (),
    )


def _servo(made: Made, path: str, hub: Hub) -> Servo:
    """A small digital servo on the boom, which is the hinge"""
    far = math.hypot(hub.place.x, hub.place.y)
    made.note(f"{path}.hinge_B", "along the boom, towards the centre")
    made.note(f"{path}.low", SERVO_REACH.how, SERVO_REACH.spread)
    return Servo(
        hinge_B=Vec3(0.0 - hub.place.x / far, 0.0 - hub.place.y / far, 0.0),
        low=-SERVO_REACH.value,
        high=made(f"{path}.high", SERVO_REACH),
        rate=made(f"{path}.rate", SERVO_RATE),
        lag=made(f"{path}.lag", SERVO_LAG),
    )


def _battery(made: Made, own: Battery) -> Thevenin:
    whole = own.resistance
    at_once = whole._replace(value=(1.0 - SLOW_SHARE) * whole.value, how=f"{1.0 - SLOW_SHARE:g} of: {whole.how}")
    slow = whole._replace(value=SLOW_SHARE * whole.value, how=f"{SLOW_SHARE:g} of: {whole.how}")
    capacitance = derived(f"polarisation settles in {SLOW_LAG:g} s", lambda r: SLOW_LAG / r, slow, model=0.5)
    made.note("battery[0].table_charge", "where the curve of a lithium-polymer cell bends")
    made.note("battery[0].table_voltage", f"a lithium-polymer cell's, {own.cells} in series", 0.02)
    return Thevenin(
        capacity=made("battery[0].capacity", own.capacity),
        table_charge=own.table_charge,
        table_voltage=tuple(_rounded(volts) for volts in own.table_voltage),
        resistance=made("battery[0].resistance", at_once),
        polarisation_resistance=made("battery[0].polarisation_resistance", slow),
        polarisation_capacitance=made("battery[0].polarisation_capacitance", capacitance),
    )


# The airframe -------------------------------------------------------------------------------------------------------


def _inertia(made: Made, parts: PartsList, own: Placed) -> Mat3 | tuple[float, ...]:
    if (known := parts.given("inertia")) is not None:
        made.note("body.inertia", "given")
        return tuple(known)
    matrix = inertia_about_centre(own.bodies)
    weights: dict[str, float] = {}
    for body in own.bodies:
        weights[body.name] = weights.get(body.name, 0.0) + body.mass.value
    listed = ", ".join(f"{name} {1e3 * mass:.3g} g" for name, mass in weights.items())
    made.note(
        "body.inertia",
        f"parts as boxes, cylinders and rods at their places: {listed}",
        inertia_spread(own.bodies, FRAME),
    )
    if not _tilted(matrix):
        return tuple(_rounded(float(x)) for x in matrix.diagonal())
    return Mat3(*(_rounded(float(x)) for x in (0.5 * (matrix + matrix.T)).ravel()))


def _tilted(matrix: Array) -> bool:
    """Whether any product of inertia is more than rounding"""
    off = max(abs(float(matrix[0, 1])), abs(float(matrix[0, 2])), abs(float(matrix[1, 2])))
    return off > 1e-9 * float(matrix.max())


def _drag(made: Made, parts: PartsList, own: Placed) -> Drag:
    made.note("drag.linear", "none besides the rotors'")
    made.note("drag.isotropic", "none besides that of each axis")
    if (known := parts.given("drag_area")) is not None:
        areas, spread, how = known, 0.0, "the drag area that was given"
    else:
        seen = drag_areas(own.bodies)
        areas, spread = seen * BLUFF.value, BLUFF.spread
        shown = ", ".join(f"{1e4 * area:.3g}" for area in seen)
        how = f"{BLUFF.value:g} ({BLUFF.how}) times the parts' areas, {shown} cm^2 seen along x, y and z"
    made.note("drag.quadratic", f"½ρ at sea level times {how}", spread)
    return Drag(quadratic=Vec3(*(_rounded(0.5 * SEA_LEVEL_DENSITY * area) for area in areas)))


def _rotor_drag(made: Made, own: Propeller, rotor: Rotor) -> RotorDrag:
    """k = |H| / (Ω u_e) by blade elements in hover, k_a = −C_T′ ρD³/2π from the propeller's C_T(J)"""
    air, speed = RotorAir(solidity=generic_blade(own.size).solidity), 1000.0
    induced = hover_induced(rotor.k_thrust * speed * speed, SEA_LEVEL_DENSITY, rotor.radius)
    pull = in_plane_force(speed, induced, HubFlow(0.0, Vec3(1.0, 0.0, 0.0)), rotor, air, SEA_LEVEL_DENSITY)
    across = Estimate(float(norm(pull)) / speed, 0.5, "blade elements in hover: lift that leans back, and profile drag")
    axial = derived(
        f"mean slope of C_T(J) up to half of the J without thrust; {own.ct.how}",
        lambda slope, radius: slope * SEA_LEVEL_DENSITY * (2.0 * radius) ** 3 / (2.0 * math.pi),
        Estimate(_falling(own.ct), own.ct.spread, own.ct.how),
        own.radius,
        model=0.1,
    )
    return RotorDrag(made("rotor_drag.coefficient", across), made("rotor_drag.axial", axial))


def _coaxial(made: Made, own_hubs: tuple[Hub, ...]) -> dict[str, object]:
    """The wake of upper rotors on the lower ones, of blades that fit the rotors' thrust; nothing without pairs"""
    if all(hub.level == SINGLE for hub in own_hubs):
        return {}
    made.note("coaxial.solidity", "typical blades of this thrust, for what the upper wake leaves the lower rotor", 0.2)
    made.note("coaxial.lift_slope", "thin aerofoils, 2π less what small blades lose", 0.1)
    return {"coaxial": True}


def _falling(ct: Curve) -> float:
    """−ΔC_T/ΔJ from standing to half of the table"""
    half = 0.5 * ct.advance[-1]
    return (ct.values[0] - float(np.interp(half, ct.advance, ct.values))) / half


def _feet(
    made: Made, parts: PartsList, own_hubs: tuple[Hub, ...], own: Placed, centre: Vec3, size: float
) -> tuple[Vec3, ...]:
    known = parts.given("leg_height")
    usual = (LOW if parts.mass < ON_THE_BODY else LEGS) * size
    below = known if known is not None else max(usual, own.lowest + FOOT_GAP * size)
    how = (
        "given: from the propellers to the feet"
        if known
        else f"as far below the propellers as {100 * below / size:.0f} % of the diagonal"
    )
    made.note("contact.points", how, 0.0 if known else 0.3)
    return tuple(Vec3(*(round(x, 6) for x in point - centre)) for point in feet(own_hubs, below, 0.6))


# What does not fly --------------------------------------------------------------------------------------------------


def _require_apart(parts: PartsList, own_hubs: tuple[Hub, ...], radius: float) -> None:
    apart = nearest_beside(own_hubs)
    if 2.0 * radius > OVERLAP * apart:
        where = f"diagonal = {parts.diagonal:g} m" if parts.diagonal else "rotors"
        raise PartsError(
            f"props = {parts.props!r} are {2e3 * radius:.0f} mm across and {where} puts them {1e3 * apart:.0f} mm apart: "
            "expected propellers that do not overlap"
        )


def _require_flight(parts: PartsList, vehicle: Vehicle, power: Power) -> None:
    """Thrust above the weight, motors that stand hovering, and a battery that feeds them"""
    try:
        lift = thrust_to_weight(vehicle)
    except ValueError as error:
        raise PartsError(f"{parts.name}: {error}") from None
    if lift < LEAST_LIFT:
        raise PartsError(
            f"mass = {parts.mass:g} kg: {len(vehicle.rotors)} of motors = {parts.motors!r} with props = {parts.props!r} on "
            f"battery = {parts.battery!r} lift {lift * parts.mass:.3g} kg; expected at least {LEAST_LIFT:g} times the mass"
        )
    state, _ = hover(vehicle)
    most = power.motor.current_max.value
    drawn = max(
        float(steady_current(speed, rotor.k_torque * speed * speed, rotor.motor))
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    )
    if drawn > most:
        raise PartsError(
            f"motors = {parts.motors!r}: hovering takes {drawn:.3g} A of each, and it stands about {most:.3g} A; "
            "expected larger motors, other propellers or less mass"
        )
    asked, hours = full_throttle_current(vehicle), power.battery.capacity.value / 3600.0
    under_load = 1.0 - asked * power.battery.resistance.value / power.battery.full
    if asked > MOST_RATING * hours or under_load < LEAST_VOLTAGE:
        raise PartsError(
            f"battery = {parts.battery!r}: full throttle takes {asked:.3g} A, {asked / hours:.0f} C, under which it keeps "
            f"{100.0 * max(under_load, 0.0):.0f} % of its voltage; expected at most {MOST_RATING:.0f} C and at least "
            f"{100.0 * LEAST_VOLTAGE:.0f} %, a larger battery or smaller motors"
        )
