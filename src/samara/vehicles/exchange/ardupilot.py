"""Read and write ArduPilot's frame files (Tools/autotest/models/*.json), by the equations of SIM_Frame and SIM_Motor.

    T = (V/V_max)² ((1 − e) u + e u²) W/h · ρ/ρ_ref      all motors, h = hoverThrOut
    f = −c √(ρ A T) v − ½ ρ (C_D S) v|v|,                 C_D S from flying refSpd at refAngle
    Q = 0.05 D u T,   P = T · refVoltage · refCurrent / W,   τ = −J ω · 400° / refRotRate

W is the weight, c = mdrag_coef, A the disc of one motor, D the diagonal, V the battery voltage under load. A file has no rotor
speeds: a propeller with the static C_T of the UIUC set stands in for them. P is matched at hover; so is Q if the file has
motorN_yaw. Otherwise Q is that propeller's, because the simulator's torque is unphysical: Callisto's rotors would have
a figure of merit of 1.2.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.atomic_files import parse_json, write_text
from samara.core.sanitise import quote_value
from samara.physics.air.atmosphere import STANDARD_GRAVITY, air_density
from samara.physics.air.drag import drag_force
from samara.physics.frames import frd_from_flu
from samara.physics.rotors.propulsion import bus_current, rotor_loads, supply_voltage
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.types import CALM, Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import (
    UPRIGHT,
    ImportedRotor,
    ImportedVehicle,
    Number,
    Record,
    UncertainVector,
)
from samara.vehicles.exchange.safe_xml import guard_arithmetic, require_finite, require_positive
from samara.vehicles.exchange.throttle import (
    STATIC_CP_CT,
    STATIC_CT,
    battery_pack,
    hover_throttle,
    idle_speed_fraction,
    loaded_hover_thrust,
    solve_throttle,
    typical_k_thrust,
    typical_radius,
    typical_torque_ratio,
)
from samara.vehicles.parts.layouts import LAYOUTS, SINGLE, Hub, Mount, RotorLayout, layout_hubs, match_rotors
from samara.vehicles.parts.uncertain import UncertainValue
from samara.vehicles.trim import hover

MAX_AZIMUTH_FRACTION = 0.45  # of the angle between two arms: largest deviation of a rotor from its position on a frame


class ArdupilotFrame(NamedTuple):
    """FRAME_CLASS, FRAME_TYPE, and the motors in their order."""

    frame_class: int
    frame_type: int
    layout: RotorLayout


_QUAD_X = LAYOUTS["quad_x"]
_PROPS_OUT = RotorLayout(  # motors in Betaflight's order, with reversed spins
    "quad X, props out",
    tuple(_QUAD_X.mounts[i]._replace(spin=-_QUAD_X.mounts[i].spin) for i in (3, 0, 1, 2)),
    "ArduPilot AP_MotorsMatrix.cpp, BF_X_REV",
)
FRAMES = {
    "quad_x": ArdupilotFrame(1, 1, _QUAD_X),
    "quad_plus": ArdupilotFrame(1, 0, LAYOUTS["quad_plus"]),
    "quad_x_props_out": ArdupilotFrame(1, 18, _PROPS_OUT),
    "hexa_x": ArdupilotFrame(2, 1, LAYOUTS["hexa_x"]),
    "hexa_plus": ArdupilotFrame(2, 0, LAYOUTS["hexa_plus"]),
    "octo_x": ArdupilotFrame(3, 1, LAYOUTS["octo_x"]),
    "octo_plus": ArdupilotFrame(3, 0, LAYOUTS["octo_plus"]),
    "x8": ArdupilotFrame(4, 1, LAYOUTS["x8"]),
    "y6": ArdupilotFrame(5, 10, LAYOUTS["y6"]),
}
SIMULATOR_MODELS = {
    4: "x",
    6: "hexax",
    8: "octa",
}  # by motor count; a frame file with positions overrides the geometry
DEFAULT_LAYOUTS = {4: "quad_x", 6: "hexa_x", 8: "octo_x"}


def motor_order(vehicle: Vehicle, frame: ArdupilotFrame) -> tuple[int, ...] | None:
    """Return the vehicle's rotors in the order of a frame's motors; None if one does not match by position and spin."""
    max_angle = MAX_AZIMUTH_FRACTION * 2.0 * math.pi / len({mount.name for mount in frame.layout.mounts})

    def is_near(rotor: Rotor, mount: Mount) -> bool:
        angle = math.atan2(rotor.r_B.y, rotor.r_B.x) - math.atan2(mount.y, mount.x)
        return abs(math.remainder(angle, 2.0 * math.pi)) < max_angle

    return match_rotors(vehicle, frame.layout.mounts, is_near)


def find_frame(vehicle: Vehicle) -> tuple[str, tuple[int, ...]] | None:
    """Return the name of the vehicle's frame, and its rotors in the order of the frame's motors."""
    for name, frame in FRAMES.items():
        if order := motor_order(vehicle, frame):
            return name, order
    return None


FORMAT = "an ArduPilot frame file"
DEFAULTS = {
    "mass": 3.0,
    "diagonal_size": 0.35,
    "refSpd": 15.08,
    "refAngle": 45.0,
    "refVoltage": 12.09,
    "refCurrent": 29.3,
    "refAlt": 593.0,
    "refTempC": 25.0,
    "refBatRes": 0.01,
    "maxVoltage": 12.6,
    "battCapacityAh": 0.0,
    "hoverThrOut": 0.39,
    "propExpo": 0.65,
    "refRotRate": 120.0,
    "pwmMin": 1000.0,
    "pwmMax": 2000.0,
    "spin_min": 0.15,
    "spin_max": 0.95,
    "slew_max": 150.0,
    "disc_area": 0.385,
    "mdrag_coef": 0.2,
    "bbdrag_coef": 1.0,
    "num_motors": 4.0,
}
"""Values of ArduCopter's simulator for keys that a file leaves out (SIM_FRM_…)."""
REQUIRED_KEYS = ("mass", "hoverThrOut")
POSITIVE_KEYS = (
    *REQUIRED_KEYS,
    "diagonal_size",
    "refSpd",
    "refVoltage",
    "refCurrent",
    "maxVoltage",
    "refBatRes",
    "disc_area",
)
PER_MOTOR = re.compile(r"motor(\d{1,2})_(position|vector|yaw)\Z")
MAX_MOTORS = 32
EARTH_RADIUS = 6356766.0  # [m], of the standard atmosphere
TEN_INCH_LAG = 0.05  # [s]
FULL_CELL_VOLTAGE = 4.173  # [V] in the simulator's table, of which CELL_ROWS are selected rows: charge, volts
CELL_ROWS = (
    *((0.0, 0.001), (0.01, 2.1), (0.02, 2.977), (0.0769, 3.165), (0.2308, 3.462)),
    *((0.4231, 3.679), (0.6154, 3.833), (0.8462, 4.039), (0.9231, 4.085), (1.0, FULL_CELL_VOLTAGE)),
)
UNLIMITED_CAPACITY = 1000.0  # [Ah]
COAXIAL_GAP_FRACTION = 0.5  # of the radius, between the discs of a coaxial pair


class FrameModel(NamedTuple):
    """Quantities that SIM_Frame derives from a file, at sea level and full voltage."""

    density: float  # ρ_ref [kg/m³]
    full_thrust: float  # of all motors [N]
    hover_fraction: float  # of full thrust, at sea level
    hover_throttle: float  # u
    drag_area: float  # C_D S [m²]
    momentum_drag: float  # c, limited by the drag at refSpd and refAngle
    torque_ratio: float  # Q/T at hover [m]
    hover_power: float  # [W]
    inertia: tuple[float, float, float]
    damping_rate: float  # [1/s]


def frame_model(values: dict[str, float], inertia: tuple[float, float, float] | None = None) -> FrameModel:
    """Evaluate the equations above for the values of a file, by their keys."""
    v = values
    weight = v["mass"] * STANDARD_GRAVITY
    density = float(air_density(EARTH_RADIUS * v["refAlt"] / (EARTH_RADIUS + v["refAlt"])))
    full_thrust = weight / max(v["hoverThrOut"], 0.01) * SEA_LEVEL_DENSITY / density
    throttle = solve_throttle(weight / full_thrust, v["propExpo"])
    tilt = math.radians(v["refAngle"])
    drag = weight * math.tan(tilt)
    momentum_coefficient = v["mdrag_coef"]
    momentum = (
        math.cos(tilt) ** 2
        * momentum_coefficient
        * v["refSpd"]
        * math.sqrt(weight / math.cos(tilt) * density * v["disc_area"])
    )
    area = 0.0
    if momentum > drag:
        momentum_coefficient *= drag / momentum
    else:
        area = v["bbdrag_coef"] * (drag - momentum) / (0.5 * density * v["refSpd"] ** 2)
    ring_inertia = v["mass"] * (0.5 * v["diagonal_size"]) ** 2
    return FrameModel(
        density,
        full_thrust,
        weight / full_thrust,
        throttle,
        area,
        momentum_coefficient,
        0.05 * v["diagonal_size"] * throttle,
        v["refVoltage"] * v["refCurrent"],
        inertia or (0.25 * ring_inertia, 0.25 * ring_inertia, 0.5 * ring_inertia),
        math.radians(400.0) / v["refRotRate"] if v["refRotRate"] > 0.0 else 0.0,
    )


def ardupilot_frame(text: str, origin: str, layout: str | None = None) -> ImportedVehicle:
    """Read a vehicle from the text of a frame file; `layout` is one of `FRAMES`, by default X with the file's motor count."""
    with guard_arithmetic(origin):
        return _read_frame(text, origin, layout)


def _read_frame(text: str, origin: str, layout: str | None) -> ImportedVehicle:
    entries = _parse_object(text, origin)
    vectors = {key: _vector(value, f"{origin}: {key}") for key, value in entries.items() if _is_vector(key)}
    specified = {key: require_finite(value, f"{origin}: {key}") for key, value in entries.items() if key in DEFAULTS}
    yaws = {key: require_finite(value, f"{origin}: {key}") for key, value in entries.items() if key.endswith("_yaw")}
    values = {**DEFAULTS, **specified}
    _check_values(values, specified, origin)
    moments = vectors.get("moment_inertia", (0.0, 0.0, 0.0))
    model = frame_model(values, moments if all(moments) else None)
    count = int(values["num_motors"])
    name, hubs = _layout_hubs(values, layout, origin)
    rotors, note = _rotors(values, model, name, hubs, vectors, yaws, origin)
    unknown = [key for key in entries if key not in values and key not in vectors and key not in yaws]
    defaulted = [key for key in DEFAULTS if key not in specified and key not in ("refTempC", "bbdrag_coef")]
    notes = [note] if note else []
    if defaulted:
        notes.append(f"not in the file, set to the defaults of ArduPilot's simulator: {', '.join(defaulted)}")
    if unknown:
        notes.append(f"not known to ArduPilot's simulator, and left out: {', '.join(unknown[:20])}")
    if specified.get("slew_max", DEFAULTS["slew_max"]) > 0.0:
        notes.append("slew_max is left out: motors follow with a lag instead")

    def source_text(*keys: str) -> str:
        key_list = ", ".join(key if key in entries else f"{key} (by default)" for key in keys)
        return f"{Path(origin).name}: {key_list}"

    drag = 0.5 * SEA_LEVEL_DENSITY * model.drag_area
    effects: dict[str, Record] = {}
    if drag > 0.0:
        source = source_text("refSpd", "refAngle", "mdrag_coef")
        effects["drag"] = {"quadratic": UncertainVector((drag, drag, drag), f"{source}; SIM_Frame's areaCd")}
    if model.momentum_drag > 0.0:
        k_thrust, disc_area = rotors[0].k_thrust, values["disc_area"] / count
        assert k_thrust is not None
        value = model.momentum_drag * math.sqrt(SEA_LEVEL_DENSITY * disc_area * k_thrust.value)
        coefficient = UncertainValue(
            value, 0.5 * k_thrust.spread, f"{source_text('mdrag_coef', 'disc_area')}; c √(ρ A kF), in all directions"
        )
        effects["rotor_drag"] = {"coefficient": coefficient, "axial": coefficient}
    if model.damping_rate > 0.0:
        damping = tuple(model.damping_rate * j for j in model.inertia)
        effects["damping"] = {"linear": UncertainVector(damping, f"{source_text('refRotRate')}; J 400°/refRotRate")}
    return ImportedVehicle(
        name=re.sub(r"\W+", "_", Path(origin).stem) or "frame",
        origin=origin,
        format=FORMAT,
        mass=UncertainValue(values["mass"], 0.0, source_text("mass")),
        inertia=UncertainVector(model.inertia, source_text("moment_inertia"))
        if all(moments)
        else UncertainVector(
            model.inertia, f"{source_text('mass', 'diagonal_size')}; half the mass on a ring, as SIM_Frame has it", 0.3
        ),
        rotors=rotors,
        actuation="normalized",
        effects=effects,
        battery=_battery(values, source_text),
        description=f"{Path(origin).name}, an ArduPilot frame with {count} motors",
        notes=tuple(notes),
    )


def _parse_object(text: str, origin: str) -> dict[str, object]:
    """Parse the JSON object of a file; like ArduPilot, ignore text before the first brace and after a #."""
    start = text.find("{")
    if start < 0:
        raise VehicleError(f"{origin}: has no brace; expected {FORMAT}, a JSON object")
    json_text = re.sub(r"#[^\r\n]*", "", text[start:])
    try:
        entries = parse_json(json_text)
    except ValueError as reason:
        raise VehicleError(f"{origin}: is not JSON ({str(reason)[:100]}); expected {FORMAT}") from None
    assert isinstance(entries, dict)
    return entries


def _is_vector(key: str) -> bool:
    match = PER_MOTOR.match(key)
    return key == "moment_inertia" or (match is not None and match[2] != "yaw")


def _vector(value: object, path: str) -> tuple[float, float, float]:
    if not isinstance(value, list) or len(value) != 3:
        raise VehicleError(f"{path} = {quote_value(value)}: expected three numbers")
    x, y, z = (require_finite(component, path) for component in value)
    return x, y, z


def _check_values(values: dict[str, float], specified: dict[str, float], origin: str) -> None:
    for key in REQUIRED_KEYS:
        if key not in specified:
            raise VehicleError(f"{origin}: {key} is missing; expected it in {FORMAT}")
    for key in POSITIVE_KEYS:
        require_positive(values[key], f"{origin}: {key}")
    for key, low, high in (("hoverThrOut", 0.0, 1.0), ("propExpo", 0.0, 1.0), ("refAngle", 0.0, 85.0)):
        if not low <= values[key] <= high or (key == "hoverThrOut" and values[key] == 1.0):
            raise VehicleError(f"{origin}: {key} = {values[key]:g}: expected a number from {low:g} to {high:g}")
    if not -1000.0 <= values["refAlt"] <= 9000.0:
        raise VehicleError(f"{origin}: refAlt = {values['refAlt']:g}: expected a height from -1000 to 9000 m")
    for key in ("mdrag_coef", "bbdrag_coef", "battCapacityAh"):
        if values[key] < 0.0:
            raise VehicleError(f"{origin}: {key} = {values[key]:g}: expected a number that is not negative")
    count = values["num_motors"]
    if not (count == int(count) and 1 <= count <= MAX_MOTORS):
        raise VehicleError(f"{origin}: num_motors = {count:g}: expected a whole number from 1 to {MAX_MOTORS}")


def _layout_hubs(values: dict[str, float], layout: str | None, origin: str) -> tuple[str, tuple[Hub, ...]]:
    """Return the layout's name and its hubs on the file's diagonal; ("", ()) if no layout has the motor count."""
    count = int(values["num_motors"])
    name = (layout or DEFAULT_LAYOUTS.get(count, "")).strip().lower().replace("-", "_").replace(" ", "_")
    if not name:
        return "", ()
    if name not in FRAMES:
        raise VehicleError(f"{origin}: layout {quote_value(layout)}: expected one of {', '.join(FRAMES)}")
    frame_layout = FRAMES[name].layout
    if len(frame_layout.mounts) != count:
        raise VehicleError(
            f"{origin}: num_motors = {count}, and {name} has {len(frame_layout.mounts)}: expected equal counts"
        )
    _, radius = _discs(values, layout_hubs(frame_layout, values["diagonal_size"], 0.0))
    return name, layout_hubs(frame_layout, values["diagonal_size"], COAXIAL_GAP_FRACTION * radius)


def _discs(values: dict[str, float], hubs: tuple[Hub, ...]) -> tuple[int, float]:
    """Return the count of discs that make up disc_area, a coaxial pair being one, and their radius."""
    discs = sum(1.0 if hub.level == SINGLE else 0.5 for hub in hubs) or values["num_motors"]
    return int(discs), math.sqrt(values["disc_area"] / (math.pi * discs))


def _rotors(
    values: dict[str, float],
    model: FrameModel,
    name: str,
    hubs: tuple[Hub, ...],
    vectors: dict[str, tuple[float, float, float]],
    yaws: dict[str, float],
    origin: str,
) -> tuple[tuple[ImportedRotor, ...], str]:
    file, count = Path(origin).name, int(values["num_motors"])
    discs, radius = _discs(values, hubs)
    weight = values["mass"] * STANDARD_GRAVITY
    k_thrust = typical_k_thrust(radius)
    hover_speed = math.sqrt(weight / (count * k_thrust))
    k_thrust_source = f"a propeller of its radius; {STATIC_CT.source}"
    file_ratios = [abs(yaws.get(f"motor{i + 1}_yaw", 0.0)) * model.torque_ratio for i in range(count)]
    ratios = [file_ratio or typical_torque_ratio(radius) for file_ratio in file_ratios]
    ratio = sum(ratios) / count
    ideal_speed = model.hover_power / (ratio * weight)
    if hover_speed > ideal_speed:  # the typical propeller would need more power than the file has
        hover_speed, k_thrust_source = ideal_speed, "refVoltage × refCurrent at hover, at an efficiency of 1"
        k_thrust = weight / (count * hover_speed**2)
    speed_max = math.sqrt(model.full_thrust / (count * k_thrust))
    lag = UncertainValue(TEN_INCH_LAG * radius / 0.127, 0.4, "not in the file; 0.05 s for ten inches, as the radius")
    motor = {
        "speed_min": UncertainValue(
            idle_speed_fraction(model.hover_fraction, values["propExpo"]) * speed_max,
            0.5 * STATIC_CT.spread,
            f"{file}: propExpo, hoverThrOut; the throttle curve at hover",
        ),
        "speed_max": UncertainValue(
            speed_max, 0.5 * STATIC_CT.spread, f"{file}: mass, hoverThrOut, refAlt; with k_thrust"
        ),
        "time_constant_up": lag,
        "time_constant_down": lag,
        "efficiency": UncertainValue(
            ratio * weight * hover_speed / model.hover_power,
            math.hypot(0.5 * STATIC_CT.spread, 0.0 if all(file_ratios) else STATIC_CP_CT.spread),
            f"{file}: refVoltage, refCurrent; the power of hover",
        ),
        "full_voltage": UncertainValue(values["maxVoltage"], 0.0, f"{file}: maxVoltage"),
    }
    rotors = []
    uses_layout = False
    for i in range(count):
        position = vectors.get(f"motor{i + 1}_position", (0.0, 0.0, 0.0))
        yaw = yaws.get(f"motor{i + 1}_yaw", 0.0)
        if not (hubs or (any(position) and yaw)):
            raise VehicleError(
                f"{origin}: motor{i + 1}_position or motor{i + 1}_yaw is missing; Samara has no default frame with {count} "
                "motors"
            )
        if any(position):
            hub_position = UncertainVector((position[0], -position[1], -position[2]), f"{file}: motor{i + 1}_position")
        else:
            gap_text = "" if hubs[i].level == SINGLE else f", {COAXIAL_GAP_FRACTION:g} of a radius apart"
            hub_position = UncertainVector(tuple(hubs[i].position), f"{file}: diagonal_size; {name}{gap_text}")
            uses_layout = True
        vector = vectors.get(f"motor{i + 1}_vector", (0.0, 0.0, 0.0))
        length = math.hypot(*vector)
        axis = (
            UncertainVector(
                (vector[0] / length, -vector[1] / length, -vector[2] / length), f"{file}: motor{i + 1}_vector"
            )
            if length
            else UPRIGHT
        )
        rotors.append(
            ImportedRotor(
                position=hub_position,
                spin=(1 if yaw > 0.0 else -1) if yaw else hubs[i].spin,
                axis=axis,
                k_thrust=UncertainValue(k_thrust, STATIC_CT.spread, f"{file}: disc_area; {k_thrust_source}"),
                k_torque=UncertainValue(
                    ratios[i] * k_thrust,
                    math.hypot(STATIC_CT.spread, 0.0 if file_ratios[i] else STATIC_CP_CT.spread),
                    f"{file}: motor{i + 1}_yaw, diagonal_size; 0.05 D u at hover, with k_thrust"
                    if file_ratios[i]
                    else f"{file}: disc_area; with k_thrust, and {STATIC_CP_CT.source}",
                ),
                radius=UncertainValue(radius, 0.0, f"{file}: disc_area, on {discs} discs"),
                motor=motor,
            )
        )
    note = (
        f"motors are at half of diagonal_size, {name}; ArduPilot's simulator puts them at the full diagonal_size, "
        "twice as far out"
        if uses_layout
        else ""
    )
    if uses_layout and count == 8 and name == "octo_x":
        note += "; an octa-quad, with two motors on an arm, is the layout x8"
    return tuple(rotors), note


def _battery(values: dict[str, float], source_text: Callable[..., str]) -> dict[str, Number]:
    full_voltage, resistance = values["maxVoltage"], values["refBatRes"]
    is_limited = values["battCapacityAh"] > 0.0
    rows = (
        [(charge, voltage / FULL_CELL_VOLTAGE * full_voltage) for charge, voltage in CELL_ROWS]
        if is_limited
        else [(0.0, full_voltage), (1.0, full_voltage)]
    )
    polarisation = 1e-3 * resistance
    no_polarisation = "ArduPilot's simulator has none; a thousandth of the resistance"
    return {
        "capacity": UncertainValue(
            3600.0 * (values["battCapacityAh"] or UNLIMITED_CAPACITY),
            0.0,
            source_text("battCapacityAh") + ("" if is_limited else "; 0 is unlimited, and a thousand here"),
        ),
        "table_charge": UncertainVector(tuple(charge for charge, _ in rows), "SIM_Battery's table, some of its rows"),
        "table_voltage": UncertainVector(
            tuple(voltage for _, voltage in rows), f"{source_text('maxVoltage')}; SIM_Battery's table"
        ),
        "resistance": UncertainValue(resistance, 0.0, source_text("refBatRes")),
        "polarisation_resistance": UncertainValue(polarisation, 0.0, no_polarisation),
        "polarisation_capacitance": UncertainValue(1.0 / polarisation, 0.0, no_polarisation),
    }


REF_ANGLE = 20.0  # [°]
MAX_REFERENCE_SPEED = 1000.0  # [m/s]: refSpd of an aircraft without drag
SPIN_MIN, SPIN_MAX = 0.15, 0.95  # ArduPilot's defaults of MOT_SPIN_MIN and MOT_SPIN_MAX
PWM_MIN, PWM_MAX = 1000, 2000
DEFAULT_VOLTAGE = 12.6  # [V] of a vehicle without a battery
SPEED_TOLERANCE = 1e-12


def ardupilot_frame_values(vehicle: Vehicle) -> dict[str, float | list[float]]:
    """Return the keys and values of a frame file."""
    order = _require_frame(vehicle)[1]
    hover_point = hover_throttle(vehicle)
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    diagonal = 2.0 * arm
    radii = [float(rotor.radius) or typical_radius(rotor.k_thrust).value for rotor in vehicle.rotors]
    discs = {(round(rotor.r_B.x, 9), round(rotor.r_B.y, 9)): r for rotor, r in zip(vehicle.rotors, radii, strict=True)}
    area = sum(math.pi * r * r for r in discs.values())
    k_thrust = sum(float(rotor.k_thrust) for rotor in vehicle.rotors) / len(vehicle.rotors)
    momentum = 0.0
    if vehicle.has("rotor_drag"):
        disc_area = area / len(vehicle.rotors)
        momentum = float(vehicle["rotor_drag"].coefficient) / math.sqrt(SEA_LEVEL_DENSITY * disc_area * k_thrust)
    battery, (voltage, current) = battery_pack(vehicle), _hover_power(vehicle)
    values: dict[str, float | list[float]] = {
        "mass": float(vehicle.mass),
        "diagonal_size": diagonal,
        "refSpd": _reference_speed(vehicle, momentum, area),
        "refAngle": REF_ANGLE,
        "refVoltage": voltage,
        "refCurrent": current,
        "refAlt": 0.0,
        "refTempC": 15.0,
        "refBatRes": battery.resistance if battery and battery.resistance else 1e-3,
        "maxVoltage": battery.voltage if battery else DEFAULT_VOLTAGE,
        "battCapacityAh": battery.capacity / 3600.0 if battery else 0.0,
        "propExpo": hover_point.expo,
        "refRotRate": _rotation_rate(vehicle),
        "hoverThrOut": hover_point.thrust,
        "pwmMin": PWM_MIN,
        "pwmMax": PWM_MAX,
        "spin_min": SPIN_MIN,
        "spin_max": SPIN_MAX,
        "slew_max": 0,
        "disc_area": area,
        "mdrag_coef": momentum,
        "bbdrag_coef": 1.0,
        "num_motors": len(vehicle.rotors),
        "moment_inertia": [float(vehicle.inertia_B.xx), float(vehicle.inertia_B.yy), float(vehicle.inertia_B.zz)],
    }
    for i, rotor_index in enumerate(order, 1):
        rotor = vehicle.rotors[rotor_index]
        ratio = float(rotor.k_torque / rotor.k_thrust)
        values[f"motor{i}_position"] = [float(x) + 0.0 for x in frd_from_flu(rotor.r_B)]
        values[f"motor{i}_vector"] = [float(x) + 0.0 for x in frd_from_flu(rotor.axis_B)]
        values[f"motor{i}_yaw"] = float(rotor.spin) * ratio / (0.05 * diagonal * hover_point.throttle)
    return values


def ardupilot_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Return FRAME_CLASS, FRAME_TYPE, the motors' curve and range, and the battery parameters."""
    name, _ = _require_frame(vehicle)
    frame, hover_point, battery = FRAMES[name], hover_throttle(vehicle), battery_pack(vehicle)
    values: dict[str, float] = {
        "FRAME_CLASS": frame.frame_class,
        "FRAME_TYPE": frame.frame_type,
        "MOT_PWM_MIN": PWM_MIN,
        "MOT_PWM_MAX": PWM_MAX,
        "MOT_SPIN_MIN": SPIN_MIN,
        "MOT_SPIN_MAX": SPIN_MAX,
        "MOT_THST_EXPO": hover_point.expo,
        "MOT_THST_HOVER": min(max(loaded_hover_thrust(vehicle), 0.125), 0.6875),  # ArduPilot's own limits
    }
    if battery and battery.capacity:
        values["BATT_CAPACITY"] = round(battery.capacity / 3.6)
    return values


def ardupilot_json(vehicle: Vehicle) -> str:
    """Return the text of a frame file."""
    body = json.dumps(ardupilot_frame_values(vehicle), indent=4)
    model = SIMULATOR_MODELS[len(vehicle.rotors)]
    return f"# {vehicle.name}, written by Samara\n# arducopter --model {model}:THIS_FILE\n{body}\n"


def ardupilot_text(vehicle: Vehicle) -> str:
    """Return the text of a parameter file, as ground stations and SITL's --defaults load it."""
    lines = [f"# {vehicle.name}, written by Samara"]
    name, order = _require_frame(vehicle)
    motor_list = ", ".join(f"{i} is rotor {rotor_index}" for i, rotor_index in enumerate(order, 1))
    lines.append(f"# motors of {FRAMES[name].layout.title}: {motor_list}")
    for key, value in ardupilot_parameters(vehicle).items():
        lines.append(f"{key} {int(value) if value == int(value) else repr(value)}")
    return "\n".join(lines) + "\n"


def write_ardupilot(vehicle: Vehicle, target: Path) -> tuple[Path, ...]:
    """Write NAME.json for the simulator and NAME.parm for the aircraft."""
    base = target.with_suffix("") if target.suffix in (".json", ".parm") else target
    paths = (base.with_name(f"{base.name}.json"), base.with_name(f"{base.name}.parm"))
    for path, text in zip(paths, (ardupilot_json(vehicle), ardupilot_text(vehicle)), strict=True):
        write_text(path, text)
    return paths


def ardupilot_omissions(vehicle: Vehicle) -> tuple[str, ...]:
    """Properties of the vehicle that a frame file cannot express."""
    omissions = ["lag and speed of the motors", "products of inertia"]
    if vehicle.has("drag"):
        drag = vehicle["drag"]
        if any(drag.linear) or len({*drag.quadratic}) > 1:
            omissions.append("drag that is linear or differs between the axes: it is matched forward, at refSpd")
    return tuple(omissions)


def _require_frame(vehicle: Vehicle) -> tuple[str, tuple[int, ...]]:
    frame = find_frame(vehicle)
    if frame is None:
        raise VehicleError(
            f"{vehicle.name}: its {len(vehicle.rotors)} rotors match no frame of ArduPilot by position and spin: expected one "
            f"of {', '.join(FRAMES)}"
        )
    return frame


def _hover_power(vehicle: Vehicle) -> tuple[float, float]:
    """Voltage and current in hover; without a battery, the current that the rotors' power takes at `DEFAULT_VOLTAGE`."""
    state, command = hover(vehicle)
    if vehicle.has("battery"):
        return float(supply_voltage(state, command, vehicle, CALM)), float(bus_current(state, command, vehicle, CALM))
    loads = rotor_loads(state, vehicle, CALM)
    power = sum(float(load.torque * speed) for load, speed in zip(loads, state.rotor_speed, strict=True))
    return DEFAULT_VOLTAGE, power / DEFAULT_VOLTAGE


def _rotation_rate(vehicle: Vehicle) -> float:
    """400° J / c about the vertical, the simulator's terminal rate; 0 without damping"""
    damping = float(vehicle["damping"].linear.z) if vehicle.has("damping") else 0.0
    return math.radians(400.0) * float(vehicle.inertia_B.zz) / damping if damping > 0.0 else 0.0


def _reference_speed(vehicle: Vehicle, momentum: float, area: float) -> float:
    """V with D(V) + cos²θ c V √(W/cosθ ρ A) = W tan θ: drag of body and rotors at a tilt θ, summed as in SIM_Frame"""
    tilt, weight = math.radians(REF_ANGLE), float(vehicle.mass) * STANDARD_GRAVITY
    rotor_drag = math.cos(tilt) ** 2 * momentum * math.sqrt(weight / math.cos(tilt) * SEA_LEVEL_DENSITY * area)

    def excess(v: float) -> float:
        body_drag = -float(drag_force(Vec3(v, 0.0, 0.0), drag=vehicle["drag"]).x) if vehicle.has("drag") else 0.0
        return body_drag + rotor_drag * v - weight * math.tan(tilt)

    low, high = 0.0, MAX_REFERENCE_SPEED
    if excess(high) < 0.0:
        return MAX_REFERENCE_SPEED
    while high - low > SPEED_TOLERANCE * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return high
