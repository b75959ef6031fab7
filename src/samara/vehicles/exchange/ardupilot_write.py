"""ArduPilot's files of a vehicle: a frame file for its simulator, and the parameters of the aircraft.

The frame file is what `samara.vehicles.exchange.ardupilot_read` reads, the other way round: hoverThrOut and propExpo
of the motors on
a full battery, refSpd the speed at which drag holds a lean of refAngle, motorN_yaw the moment that hover has.
"""

import json
import math
from pathlib import Path
from typing import Any

from samara.core.algebra import Vec3
from samara.core.atomic_files import write_text
from samara.physics.air.drag import drag_force
from samara.physics.frames import frd_from_flu
from samara.physics.rotors.propulsion import bus_current, rotor_loads, supply_voltage
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.types import CALM, Vehicle
from samara.vehicles.build import STANDARD_GRAVITY
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.ardupilot_frame_types import FRAMES, MODELS, frame_of
from samara.vehicles.exchange.battery_pack import pack_of
from samara.vehicles.exchange.throttle_curve import hover_throttle, sagged_hover
from samara.vehicles.exchange.typical_propeller import typical_radius
from samara.vehicles.trim import hover

REF_ANGLE = 20.0  # [°]
FASTEST = 1000.0  # [m/s]: refSpd of an aircraft without drag
SPIN_MIN, SPIN_MAX = 0.15, 0.95  # MOT_SPIN_MIN and _MAX, ArduPilot's own
PWM_MIN, PWM_MAX = 1000, 2000
VOLTAGE = 12.6  # [V], of one without a battery
ROUND_TRIP = 1e-12


def ardupilot_frame_numbers(vehicle: Vehicle) -> dict[str, Any]:
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
    numbers: dict[str, Any] = {
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
