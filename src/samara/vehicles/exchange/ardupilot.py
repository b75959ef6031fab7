"""Read and write ArduPilot's frame files (Tools/autotest/models/*.json), by the equations of SIM_Frame and SIM_Motor.

    T = (V/V_max)² ((1 − e) u + e u²) W/h · ρ/ρ_ref      all motors, h = hoverThrOut
    f = −c √(ρ A T) v − ½ ρ (C_D S) v|v|,                 C_D S from flying refSpd at refAngle
    Q = 0.05 D u T,   P = T · refVoltage · refCurrent / W,   τ = −J ω · 400° / refRotRate

W is the weight, c = mdrag_coef, A the disc of one motor, D the diagonal, V the voltage that is left of V_max. A file says
nothing of rotor speeds: a propeller with the static C_T of the UIUC set stands for them. P is met at hover; Q is too where the
file gives motorN_yaw. Elsewhere it is that propeller's, for the simulator's own is none that could be: Callisto's would have a
figure of merit of 1.2.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.atomic_files import parsed, write_text
from samara.core.sanitise import shown
from samara.physics.air.atmosphere import STANDARD_GRAVITY, air_density
from samara.physics.air.drag import drag_force
from samara.physics.frames import frd_from_flu
from samara.physics.rotors.propulsion import bus_current, rotor_loads, supply_voltage
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.types import CALM, Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import UPRIGHT, Imported, ImportedRotor, Number, Record, Several
from samara.vehicles.exchange.safe_xml import computable, finite, positive
from samara.vehicles.exchange.throttle import (
    STATIC_CP_CT,
    STATIC_CT,
    hover_throttle,
    idle_share,
    pack_of,
    sagged_hover,
    throttle_for,
    typical_k_thrust,
    typical_radius,
    typical_torque_ratio,
)
from samara.vehicles.parts.layouts import LAYOUTS, SINGLE, Hub, Layout, Mount, hubs_of, match_rotors
from samara.vehicles.parts.uncertain import Estimate
from samara.vehicles.trim import hover

NEAR = 0.45  # of the angle between two arms: as far as a rotor may be from a frame's


class Frame(NamedTuple):
    """FRAME_CLASS, FRAME_TYPE, and the motors in their order."""

    frame_class: int
    frame_type: int
    layout: Layout


_X = LAYOUTS["quad_x"]
_PROPS_OUT = Layout(  # motors of Betaflight's order, which turn the other way round
    "quad X, props out",
    tuple(_X.mounts[i]._replace(spin=-_X.mounts[i].spin) for i in (3, 0, 1, 2)),
    "ArduPilot AP_MotorsMatrix.cpp, BF_X_REV",
)
FRAMES = {
    "quad_x": Frame(1, 1, _X),
    "quad_plus": Frame(1, 0, LAYOUTS["quad_plus"]),
    "quad_x_props_out": Frame(1, 18, _PROPS_OUT),
    "hexa_x": Frame(2, 1, LAYOUTS["hexa_x"]),
    "hexa_plus": Frame(2, 0, LAYOUTS["hexa_plus"]),
    "octo_x": Frame(3, 1, LAYOUTS["octo_x"]),
    "octo_plus": Frame(3, 0, LAYOUTS["octo_plus"]),
    "x8": Frame(4, 1, LAYOUTS["x8"]),
    "y6": Frame(5, 10, LAYOUTS["y6"]),
}
MODELS = {4: "x", 6: "hexax", 8: "octa"}  # of its simulator; a frame file with places of its own says the rest
USUAL = {4: "quad_x", 6: "hexa_x", 8: "octo_x"}


def motor_order(vehicle: Vehicle, frame: Frame) -> tuple[int, ...] | None:
    """The vehicle's rotors in the order of a frame's motors; None where one does not fit by place and turn"""
    near = NEAR * 2.0 * math.pi / len({mount.name for mount in frame.layout.mounts})

    def is_near(rotor: Rotor, mount: Mount) -> bool:
        apart = math.atan2(rotor.r_B.y, rotor.r_B.x) - math.atan2(mount.y, mount.x)
        return abs(math.remainder(apart, 2.0 * math.pi)) < near

    return match_rotors(vehicle, frame.layout.mounts, is_near)


def frame_of(vehicle: Vehicle) -> tuple[str, tuple[int, ...]] | None:
    """The frame that a vehicle has, and its rotors in the order of its motors"""
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
"""What ArduCopter's simulator takes for a key that a file leaves out (SIM_FRM_…)"""
NEEDED = ("mass", "hoverThrOut")
POSITIVE = (*NEEDED, "diagonal_size", "refSpd", "refVoltage", "refCurrent", "maxVoltage", "refBatRes", "disc_area")
PER_MOTOR = re.compile(r"motor(\d{1,2})_(position|vector|yaw)\Z")
MOST_MOTORS = 32
EARTH = 6356766.0  # [m], of the standard atmosphere
LAG_OF_TEN_INCHES = 0.05  # [s]
CELL = 4.173  # [V], full, of the simulator's own table, of which these are some rows: charge, volts
CELL_ROWS = (
    *((0.0, 0.001), (0.01, 2.1), (0.02, 2.977), (0.0769, 3.165), (0.2308, 3.462)),
    *((0.4231, 3.679), (0.6154, 3.833), (0.8462, 4.039), (0.9231, 4.085), (1.0, CELL)),
)
UNLIMITED = 1000.0  # [Ah]
GAP = 0.5  # of the radius, between the discs of a coaxial pair


class Model(NamedTuple):
    """What SIM_Frame computes of the numbers of a file: at sea level and full voltage where it depends on them."""

    density: float  # ρ_ref [kg/m³]
    full_thrust: float  # of all motors [N]
    hover_share: float  # of full thrust, at sea level
    hover_throttle: float  # u
    drag_area: float  # C_D S [m²]
    momentum_drag: float  # c, held where refSpd and refAngle leave less
    torque_ratio: float  # Q/T at hover [m]
    hover_power: float  # [W]
    inertia: tuple[float, float, float]
    damping_rate: float  # [1/s]


def frame_model(numbers: dict[str, float], inertia: tuple[float, float, float] | None = None) -> Model:
    """The equations above, of the numbers by their names in the file"""
    n = numbers
    weight = n["mass"] * STANDARD_GRAVITY
    density = float(air_density(EARTH * n["refAlt"] / (EARTH + n["refAlt"])))
    full = weight / max(n["hoverThrOut"], 0.01) * SEA_LEVEL_DENSITY / density
    throttle = throttle_for(weight / full, n["propExpo"])
    tilt = math.radians(n["refAngle"])
    drag = weight * math.tan(tilt)
    coefficient = n["mdrag_coef"]
    momentum = (
        math.cos(tilt) ** 2 * coefficient * n["refSpd"] * math.sqrt(weight / math.cos(tilt) * density * n["disc_area"])
    )
    area = 0.0
    if momentum > drag:
        coefficient *= drag / momentum
    else:
        area = n["bbdrag_coef"] * (drag - momentum) / (0.5 * density * n["refSpd"] ** 2)
    ring = n["mass"] * (0.5 * n["diagonal_size"]) ** 2
    return Model(
        density,
        full,
        weight / full,
        throttle,
        area,
        coefficient,
        0.05 * n["diagonal_size"] * throttle,
        n["refVoltage"] * n["refCurrent"],
        inertia or (0.25 * ring, 0.25 * ring, 0.5 * ring),
        math.radians(400.0) / n["refRotRate"] if n["refRotRate"] > 0.0 else 0.0,
    )


def ardupilot_frame(text: str, origin: str, layout: str | None = None) -> Imported:
    """Read an aircraft from the text of a frame file; `layout` is one of `FRAMES`, X with as many motors by default"""
    with computable(origin):
        return _aircraft(text, origin, layout)


def _aircraft(text: str, origin: str, layout: str | None) -> Imported:
    said = _object(text, origin)
    vectors = {key: _three(value, f"{origin}: {key}") for key, value in said.items() if _is_vector(key)}
    own = {key: finite(value, f"{origin}: {key}") for key, value in said.items() if key in DEFAULTS}
    yaws = {key: finite(value, f"{origin}: {key}") for key, value in said.items() if key.endswith("_yaw")}
    numbers = {**DEFAULTS, **own}
    _check(numbers, own, origin)
    moments = vectors.get("moment_inertia", (0.0, 0.0, 0.0))
    model = frame_model(numbers, moments if all(moments) else None)
    count = int(numbers["num_motors"])
    name, hubs = _hubs(numbers, layout, origin)
    rotors, note = _rotors(numbers, model, name, hubs, vectors, yaws, origin)
    unknown = [key for key in said if key not in numbers and key not in vectors and key not in yaws]
    taken = [key for key in DEFAULTS if key not in own and key not in ("refTempC", "bbdrag_coef")]
    notes = [note] if note else []
    if taken:
        notes.append(f"not in the file, and as ArduPilot's simulator has it by default: {', '.join(taken)}")
    if unknown:
        notes.append(f"not known to ArduPilot's simulator, and left out: {', '.join(unknown[:20])}")
    if own.get("slew_max", DEFAULTS["slew_max"]) > 0.0:
        notes.append("slew_max is left out: motors follow with a lag instead")

    def how(*keys: str) -> str:
        listed = ", ".join(key if key in said else f"{key} (by default)" for key in keys)
        return f"{Path(origin).name}: {listed}"

    drag = 0.5 * SEA_LEVEL_DENSITY * model.drag_area
    effects: dict[str, Record] = {}
    if drag > 0.0:
        source = how("refSpd", "refAngle", "mdrag_coef")
        effects["drag"] = {"quadratic": Several((drag, drag, drag), f"{source}; SIM_Frame's areaCd")}
    if model.momentum_drag > 0.0:
        k_thrust, each = rotors[0].k_thrust, numbers["disc_area"] / count
        assert k_thrust is not None
        value = model.momentum_drag * math.sqrt(SEA_LEVEL_DENSITY * each * k_thrust.value)
        along = Estimate(
            value, 0.5 * k_thrust.spread, f"{how('mdrag_coef', 'disc_area')}; c √(ρ A kF), in all directions"
        )
        effects["rotor_drag"] = {"coefficient": along, "axial": along}
    if model.damping_rate > 0.0:
        about = tuple(model.damping_rate * j for j in model.inertia)
        effects["damping"] = {"linear": Several(about, f"{how('refRotRate')}; J 400°/refRotRate")}
    return Imported(
        name=re.sub(r"\W+", "_", Path(origin).stem) or "frame",
        origin=origin,
        format=FORMAT,
        mass=Estimate(numbers["mass"], 0.0, how("mass")),
        inertia=Several(model.inertia, how("moment_inertia"))
        if all(moments)
        else Several(
            model.inertia, f"{how('mass', 'diagonal_size')}; half the mass on a ring, as SIM_Frame has it", 0.3
        ),
        rotors=rotors,
        actuation="normalized",
        effects=effects,
        battery=_battery(numbers, how),
        description=f"{Path(origin).name}, an ArduPilot frame with {count} motors",
        notes=tuple(notes),
    )


def _object(text: str, origin: str) -> dict[str, object]:
    """The JSON object of a file; as ArduPilot has it, what is before the first brace and behind a # is no part of it"""
    start = text.find("{")
    if start < 0:
        raise VehicleError(f"{origin}: has no brace; expected {FORMAT}, a JSON object")
    bare = re.sub(r"#[^\r\n]*", "", text[start:])
    try:
        said = parsed(bare)
    except ValueError as reason:
        raise VehicleError(f"{origin}: is not JSON ({str(reason)[:100]}); expected {FORMAT}") from None
    assert isinstance(said, dict)
    return said


def _is_vector(key: str) -> bool:
    match = PER_MOTOR.match(key)
    return key == "moment_inertia" or (match is not None and match[2] != "yaw")


def _three(value: object, where: str) -> tuple[float, float, float]:
    if not isinstance(value, list) or len(value) != 3:
        raise VehicleError(f"{where} = {shown(value)}: expected three numbers")
    x, y, z = (finite(each, where) for each in value)
    return x, y, z


def _check(numbers: dict[str, float], own: dict[str, float], origin: str) -> None:
    for key in NEEDED:
        if key not in own:
            raise VehicleError(f"{origin}: {key} is missing; expected it in {FORMAT}")
    for key in POSITIVE:
        positive(numbers[key], f"{origin}: {key}")
    for key, low, high in (("hoverThrOut", 0.0, 1.0), ("propExpo", 0.0, 1.0), ("refAngle", 0.0, 85.0)):
        if not low <= numbers[key] <= high or (key == "hoverThrOut" and numbers[key] == 1.0):
            raise VehicleError(f"{origin}: {key} = {numbers[key]:g}: expected a number from {low:g} to {high:g}")
    if not -1000.0 <= numbers["refAlt"] <= 9000.0:
        raise VehicleError(f"{origin}: refAlt = {numbers['refAlt']:g}: expected a height from -1000 to 9000 m")
    for key in ("mdrag_coef", "bbdrag_coef", "battCapacityAh"):
        if numbers[key] < 0.0:
            raise VehicleError(f"{origin}: {key} = {numbers[key]:g}: expected a number that is not negative")
    count = numbers["num_motors"]
    if not (count == int(count) and 1 <= count <= MOST_MOTORS):
        raise VehicleError(f"{origin}: num_motors = {count:g}: expected a whole number from 1 to {MOST_MOTORS}")


def _hubs(numbers: dict[str, float], layout: str | None, origin: str) -> tuple[str, tuple[Hub, ...]]:
    """The layout's name and its motors, on the file's diagonal; "" where only the file can say"""
    count = int(numbers["num_motors"])
    name = (layout or USUAL.get(count, "")).strip().lower().replace("-", "_").replace(" ", "_")
    if not name:
        return "", ()
    if name not in FRAMES:
        raise VehicleError(f"{origin}: layout {shown(layout)}: expected one of {', '.join(FRAMES)}")
    own = FRAMES[name].layout
    if len(own.mounts) != count:
        raise VehicleError(f"{origin}: num_motors = {count}, and {name} has {len(own.mounts)}: expected as many")
    _, radius = _discs(numbers, hubs_of(own, numbers["diagonal_size"], 0.0))
    return name, hubs_of(own, numbers["diagonal_size"], GAP * radius)


def _discs(numbers: dict[str, float], hubs: tuple[Hub, ...]) -> tuple[int, float]:
    """How many discs make up disc_area, a coaxial pair being one, and their radius"""
    discs = sum(1.0 if hub.level == SINGLE else 0.5 for hub in hubs) or numbers["num_motors"]
    return int(discs), math.sqrt(numbers["disc_area"] / (math.pi * discs))


def _rotors(
    numbers: dict[str, float],
    model: Model,
    name: str,
    hubs: tuple[Hub, ...],
    vectors: dict[str, tuple[float, float, float]],
    yaws: dict[str, float],
    origin: str,
) -> tuple[tuple[ImportedRotor, ...], str]:
    file, count = Path(origin).name, int(numbers["num_motors"])
    discs, radius = _discs(numbers, hubs)
    weight = numbers["mass"] * STANDARD_GRAVITY
    k_thrust = typical_k_thrust(radius)
    hover_speed = math.sqrt(weight / (count * k_thrust))
    made = f"a propeller of its radius; {STATIC_CT.how}"
    said = [abs(yaws.get(f"motor{i + 1}_yaw", 0.0)) * model.torque_ratio for i in range(count)]
    ratios = [own or typical_torque_ratio(radius) for own in said]
    ratio = sum(ratios) / count
    at_full_efficiency = model.hover_power / (ratio * weight)
    if hover_speed > at_full_efficiency:  # such a propeller would take more power than the file says
        hover_speed, made = at_full_efficiency, "refVoltage × refCurrent at hover, at an efficiency of 1"
        k_thrust = weight / (count * hover_speed**2)
    speed_max = math.sqrt(model.full_thrust / (count * k_thrust))
    lag = Estimate(LAG_OF_TEN_INCHES * radius / 0.127, 0.4, "not in the file; 0.05 s for ten inches, as the radius")
    motor = {
        "speed_min": Estimate(
            idle_share(model.hover_share, numbers["propExpo"]) * speed_max,
            0.5 * STATIC_CT.spread,
            f"{file}: propExpo, hoverThrOut; the throttle curve at hover",
        ),
        "speed_max": Estimate(speed_max, 0.5 * STATIC_CT.spread, f"{file}: mass, hoverThrOut, refAlt; with k_thrust"),
        "rise": lag,
        "fall": lag,
        "efficiency": Estimate(
            ratio * weight * hover_speed / model.hover_power,
            math.hypot(0.5 * STATIC_CT.spread, 0.0 if all(said) else STATIC_CP_CT.spread),
            f"{file}: refVoltage, refCurrent; the power of hover",
        ),
        "full_voltage": Estimate(numbers["maxVoltage"], 0.0, f"{file}: maxVoltage"),
    }
    rotors = []
    assumed = False
    for i in range(count):
        position = vectors.get(f"motor{i + 1}_position", (0.0, 0.0, 0.0))
        yaw = yaws.get(f"motor{i + 1}_yaw", 0.0)
        if not (hubs or (any(position) and yaw)):
            raise VehicleError(
                f"{origin}: motor{i + 1}_position or motor{i + 1}_yaw is missing; ArduPilot has no usual frame with {count} "
                "motors that is known here"
            )
        if any(position):
            place = Several((position[0], -position[1], -position[2]), f"{file}: motor{i + 1}_position")
        else:
            pair = "" if hubs[i].level == SINGLE else f", {GAP:g} of a radius apart"
            place = Several(tuple(hubs[i].place), f"{file}: diagonal_size; {name}{pair}")
            assumed = True
        vector = vectors.get(f"motor{i + 1}_vector", (0.0, 0.0, 0.0))
        length = math.hypot(*vector)
        axis = (
            Several((vector[0] / length, -vector[1] / length, -vector[2] / length), f"{file}: motor{i + 1}_vector")
            if length
            else UPRIGHT
        )
        rotors.append(
            ImportedRotor(
                position=place,
                spin=(1 if yaw > 0.0 else -1) if yaw else hubs[i].spin,
                axis=axis,
                k_thrust=Estimate(k_thrust, STATIC_CT.spread, f"{file}: disc_area; {made}"),
                k_torque=Estimate(
                    ratios[i] * k_thrust,
                    math.hypot(STATIC_CT.spread, 0.0 if said[i] else STATIC_CP_CT.spread),
                    f"{file}: motor{i + 1}_yaw, diagonal_size; 0.05 D u at hover, with k_thrust"
                    if said[i]
                    else f"{file}: disc_area; with k_thrust, and {STATIC_CP_CT.how}",
                ),
                radius=Estimate(radius, 0.0, f"{file}: disc_area, on {discs} discs"),
                motor=motor,
            )
        )
    note = (
        f"motors are at half of diagonal_size, {name}; ArduPilot's simulator puts them at the whole of it, twice as far out"
        if assumed
        else ""
    )
    if assumed and count == 8 and name == "octo_x":
        note += "; an octa-quad, with two motors on an arm, is the layout x8"
    return tuple(rotors), note


def _battery(numbers: dict[str, float], how: Callable[..., str]) -> dict[str, Number]:
    full, resistance = numbers["maxVoltage"], numbers["refBatRes"]
    limited = numbers["battCapacityAh"] > 0.0
    rows = [(charge, volts / CELL * full) for charge, volts in CELL_ROWS] if limited else [(0.0, full), (1.0, full)]
    small = 1e-3 * resistance
    none = "ArduPilot's simulator has none; a thousandth of the resistance"
    return {
        "capacity": Estimate(
            3600.0 * (numbers["battCapacityAh"] or UNLIMITED),
            0.0,
            how("battCapacityAh") + ("" if limited else "; 0 is unlimited, and a thousand here"),
        ),
        "table_charge": Several(tuple(charge for charge, _ in rows), "SIM_Battery's table, some of its rows"),
        "table_voltage": Several(tuple(volts for _, volts in rows), f"{how('maxVoltage')}; SIM_Battery's table"),
        "resistance": Estimate(resistance, 0.0, how("refBatRes")),
        "polarisation_resistance": Estimate(small, 0.0, none),
        "polarisation_capacitance": Estimate(1.0 / small, 0.0, none),
    }


REF_ANGLE = 20.0  # [°]
FASTEST = 1000.0  # [m/s]: refSpd of an aircraft without drag
SPIN_MIN, SPIN_MAX = 0.15, 0.95  # MOT_SPIN_MIN and _MAX, ArduPilot's own
PWM_MIN, PWM_MAX = 1000, 2000
VOLTAGE = 12.6  # [V], of one without a battery
ROUND_TRIP = 1e-12


def ardupilot_frame_numbers(vehicle: Vehicle) -> dict[str, float | list[float]]:
    """The keys of a frame file"""
    order = _order(vehicle)[1]
    found = hover_throttle(vehicle)
    reach = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    diagonal = 2.0 * reach
    radii = [float(rotor.radius) or typical_radius(rotor.k_thrust).value for rotor in vehicle.rotors]
    discs = {(round(rotor.r_B.x, 9), round(rotor.r_B.y, 9)): r for rotor, r in zip(vehicle.rotors, radii, strict=True)}
    area = sum(math.pi * r * r for r in discs.values())
    k_thrust = sum(float(rotor.k_thrust) for rotor in vehicle.rotors) / len(vehicle.rotors)
    momentum = 0.0
    if vehicle.has("rotor_drag"):
        each = area / len(vehicle.rotors)
        momentum = float(vehicle["rotor_drag"].coefficient) / math.sqrt(SEA_LEVEL_DENSITY * each * k_thrust)
    pack, (volts, amps) = pack_of(vehicle), _hover_power(vehicle)
    numbers: dict[str, float | list[float]] = {
        "mass": float(vehicle.mass),
        "diagonal_size": diagonal,
        "refSpd": _reference_speed(vehicle, momentum, area),
        "refAngle": REF_ANGLE,
        "refVoltage": volts,
        "refCurrent": amps,
        "refAlt": 0.0,
        "refTempC": 15.0,
        "refBatRes": pack.resistance if pack and pack.resistance else 1e-3,
        "maxVoltage": pack.voltage if pack else VOLTAGE,
        "battCapacityAh": pack.capacity / 3600.0 if pack else 0.0,
        "propExpo": found.expo,
        "refRotRate": _rotation_rate(vehicle),
        "hoverThrOut": found.thrust,
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
    for i, at in enumerate(order, 1):
        rotor = vehicle.rotors[at]
        ratio = float(rotor.k_torque / rotor.k_thrust)
        numbers[f"motor{i}_position"] = [float(x) + 0.0 for x in frd_from_flu(rotor.r_B)]
        numbers[f"motor{i}_vector"] = [float(x) + 0.0 for x in frd_from_flu(rotor.axis_B)]
        numbers[f"motor{i}_yaw"] = float(rotor.spin) * ratio / (0.05 * diagonal * found.throttle)
    return numbers


def ardupilot_parameters(vehicle: Vehicle) -> dict[str, float]:
    """FRAME_CLASS, FRAME_TYPE, the motors' curve and range, and the battery"""
    name, _ = _order(vehicle)
    frame, found, pack = FRAMES[name], hover_throttle(vehicle), pack_of(vehicle)
    numbers: dict[str, float] = {
        "FRAME_CLASS": frame.frame_class,
        "FRAME_TYPE": frame.frame_type,
        "MOT_PWM_MIN": PWM_MIN,
        "MOT_PWM_MAX": PWM_MAX,
        "MOT_SPIN_MIN": SPIN_MIN,
        "MOT_SPIN_MAX": SPIN_MAX,
        "MOT_THST_EXPO": found.expo,
        "MOT_THST_HOVER": min(max(sagged_hover(vehicle), 0.125), 0.6875),  # ArduPilot's own limits
    }
    if pack and pack.capacity:
        numbers["BATT_CAPACITY"] = round(pack.capacity / 3.6)
    return numbers


def ardupilot_json(vehicle: Vehicle) -> str:
    """The text of a frame file"""
    body = json.dumps(ardupilot_frame_numbers(vehicle), indent=4)
    model = MODELS[len(vehicle.rotors)]
    return f"# {vehicle.name}, written by Samara\n# arducopter --model {model}:THIS_FILE\n{body}\n"


def ardupilot_text(vehicle: Vehicle) -> str:
    """The text of a file of parameters, as ground stations and SITL's --defaults load it"""
    lines = [f"# {vehicle.name}, written by Samara"]
    name, order = _order(vehicle)
    listed = ", ".join(f"{i} is rotor {at}" for i, at in enumerate(order, 1))
    lines.append(f"# motors of {FRAMES[name].layout.title}: {listed}")
    for key, value in ardupilot_parameters(vehicle).items():
        lines.append(f"{key} {int(value) if value == int(value) else repr(value)}")
    return "\n".join(lines) + "\n"


def write_ardupilot(vehicle: Vehicle, target: Path) -> tuple[Path, ...]:
    """NAME.json for the simulator and NAME.parm for the aircraft"""
    base = target.with_suffix("") if target.suffix in (".json", ".parm") else target
    paths = (base.with_name(f"{base.name}.json"), base.with_name(f"{base.name}.parm"))
    for path, text in zip(paths, (ardupilot_json(vehicle), ardupilot_text(vehicle)), strict=True):
        write_text(path, text)
    return paths


def ardupilot_left_out(vehicle: Vehicle) -> tuple[str, ...]:
    """What a frame file has no word for"""
    found = ["how fast the motors follow, and how fast they turn", "products of inertia"]
    if vehicle.has("drag"):
        drag = vehicle["drag"]
        if any(drag.linear) or len({*drag.quadratic}) > 1:
            found.append("drag that is linear or differs between the axes: it is met ahead, at refSpd")
    return tuple(found)


def _order(vehicle: Vehicle) -> tuple[str, tuple[int, ...]]:
    found = frame_of(vehicle)
    if found is None:
        raise VehicleError(
            f"{vehicle.name}: its {len(vehicle.rotors)} rotors are no frame of ArduPilot's by place and turn: expected one "
            f"of {', '.join(FRAMES)}"
        )
    return found


def _hover_power(vehicle: Vehicle) -> tuple[float, float]:
    """Volts and amperes of hover; without a battery as many amperes as its rotors' power takes"""
    state, command = hover(vehicle)
    if vehicle.has("battery"):
        return float(supply_voltage(state, command, vehicle, CALM)), float(bus_current(state, command, vehicle, CALM))
    loads = rotor_loads(state, vehicle, CALM)
    power = sum(float(load.torque * speed) for load, speed in zip(loads, state.rotor_speed, strict=True))
    return VOLTAGE, power / VOLTAGE


def _rotation_rate(vehicle: Vehicle) -> float:
    """400° J / c about the vertical, the simulator's terminal rate; 0 is none"""
    damping = float(vehicle["damping"].linear.z) if vehicle.has("damping") else 0.0
    return math.radians(400.0) * float(vehicle.inertia_B.zz) / damping if damping > 0.0 else 0.0


def _reference_speed(vehicle: Vehicle, momentum: float, area: float) -> float:
    """V with D(V) + cos²θ c V √(W/cosθ ρ A) = W tan θ: drag of body and rotors at a lean θ, as SIM_Frame adds them up"""
    tilt, weight = math.radians(REF_ANGLE), float(vehicle.mass) * STANDARD_GRAVITY
    rotors = math.cos(tilt) ** 2 * momentum * math.sqrt(weight / math.cos(tilt) * SEA_LEVEL_DENSITY * area)

    def excess(v: float) -> float:
        body = -float(drag_force(Vec3(v, 0.0, 0.0), drag=vehicle["drag"]).x) if vehicle.has("drag") else 0.0
        return body + rotors * v - weight * math.tan(tilt)

    low, high = 0.0, FASTEST
    if excess(high) < 0.0:
        return FASTEST
    while high - low > ROUND_TRIP * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return high
