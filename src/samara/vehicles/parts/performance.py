"""What a pilot knows of an aircraft: throttle in hover, thrust over weight, time in the air, top speed, climb, amperes.

Each with the interval that 95 of 100 aircraft would lie in whose numbers are off as far as their spreads say: every number that
has one is drawn many times, log-normal, and every aircraft drawn is balanced by the equations it flies with, all at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.batch_scalar import as_scalar
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.effect import Role
from samara.physics.multirotor import at_rest, wrench
from samara.physics.rotors.battery import BatteryState, Thevenin
from samara.physics.rotors.propulsion import bus_current
from samara.physics.types import CALM, State, Vehicle
from samara.vehicles.parts.propeller import TOGETHER
from samara.vehicles.trim import hover
from samara.vehicles.writer import spreads_still_true

DRAWS = 200
SEED = 19
RESERVE = 0.2  # of the charge: what a pilot lands with
_HIGH = 1e3  # [m]: out of reach of the ground
_TOO_FAST = 1e5  # [rad/s] for any motor
_ROUNDS = 30
_SHIFT = 1e-6  # of a number, for slopes
_LEAST_SINE = 1e-3
_ENDS = (2.5, 97.5)  # [%]
_THRUST, _TORQUE = "rotors.k_thrust", "rotors.k_torque"


class PilotFigure(NamedTuple):
    """One figure in the unit a pilot has it in, and the ends of its 95 % interval"""

    name: str
    value: float
    low: float
    high: float
    unit: str

    @property
    def shown(self) -> str:
        """The value with its unit"""
        return f"{_digits(self.value)} {self.unit}".strip()

    @property
    def interval(self) -> str:
        """The ends of the interval with their unit; nothing where no number is in doubt"""
        return "" if self.low == self.high else f"{_digits(self.low)} to {_digits(self.high)} {self.unit}".strip()


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}" if abs(value) >= 10.0 else f"{value:.2g}"


def pilot_figures(vehicle: Vehicle, draws: int = DRAWS) -> list[PilotFigure]:
    """What a pilot knows, of any vehicle with rotors: throttle and amperes of one that has duties and a battery"""
    with np.errstate(all="ignore"):  # aircraft that do not lift have no climb, and no number for it
        return [_figure(*each) for each in _all_figures(vehicle, draws)]


def _all_figures(vehicle: Vehicle, draws: int) -> list[tuple[str, Scalar, str]]:
    lanes = _drawn(vehicle, draws)
    shares = np.array([float(as_scalar(own)) for own in hover(vehicle)[0].rotor_speed])
    free = _pushed_by_air(lanes)
    weight = as_scalar(vehicle.mass) * as_scalar(vehicle["gravity"].acceleration)
    hovering = _hovering(free, shares)
    full = _at_full_throttle(free)
    found: list[tuple[str, Scalar, str]] = []
    if free.structure.actuation.name in ("duty", "normalized"):
        commands = free.structure.actuation.steady_command(hovering, free, CALM)
        found.append(("hover throttle", 100.0 * sum(commands) / len(commands), "%"))
    found.append(("thrust/weight", _lift(full, free) / weight, ""))
    if free.has("battery"):
        found.append(("hover current", _current(hovering, free), "A"))
        if isinstance(free["battery"], tuple):
            found.append(("hover time", _hover_time(hovering, free) / 60.0, "min"))
        found.append(("full throttle", _current(full, free, full=True), "A"))
    found.append(("top speed", 3.6 * _top_speed(full, free, weight), "km/h"))
    found.append(("climb", _climb(full, free), "m/s"))
    return found


def full_throttle_current(vehicle: Vehicle) -> float:
    """I of the bus with all motors at full throttle, standing, on a full battery  [A]"""
    free = _pushed_by_air(vehicle)
    return float(np.ravel(_current(_at_full_throttle(free), free, full=True))[0])


def _figure(name: str, values: Array, unit: str) -> PilotFigure:
    """The first lane is the vehicle itself; of the others those that have such a figure"""
    all_values = np.ravel(np.asarray(values, dtype=float))
    drawn = all_values[np.isfinite(all_values)]
    low, high = np.percentile(drawn, _ENDS) if drawn.size else (math.nan, math.nan)
    return PilotFigure(name, float(all_values[0]), float(low), float(high), unit)


# Aircraft drawn at random ------------------------------------------------------------------------------------------


def _drawn(vehicle: Vehicle, draws: int) -> Vehicle:
    """The vehicle in lane 0, and others whose numbers differ as their spreads say; parts of a kind are off alike"""
    spreads: dict[str, float] = {}
    for path, spread in spreads_still_true(vehicle).items():
        head, _, field = path.rpartition(".")
        table = head.partition("[")[0]
        where = {"rotor": "rotors", "rotors": "rotors", "motor": "rotors.motor"}.get(table, table)
        where = "rotors.motor" if head.endswith(".motor") else where
        if where == "body":
            where, field = "", {"inertia": "inertia_B"}.get(field, field)
        spreads[f"{where}.{field}".lstrip(".")] = spread
    dice = np.random.default_rng(SEED)
    off = {path: dice.standard_normal(draws) for path in sorted(spreads)}
    if {_THRUST, _TORQUE} <= off.keys():
        off[_TORQUE] = TOGETHER * off[_THRUST] + math.sqrt(1.0 - TOGETHER**2) * off[_TORQUE]
    drawn: dict[str, Tree] = {}
    for path, normal in off.items():
        own = _number(vehicle, path)
        if own is not None:
            drawn[path] = _times(own, np.exp(spreads[path] * np.concatenate([[0.0], normal])))
    many = vehicle.replace(drawn) if drawn else vehicle
    return many if drawn else replace(vehicle, mass=np.full(1, as_scalar(vehicle.mass)))


def _number(vehicle: Vehicle, path: str) -> Tree:
    """The number at a path of `Vehicle.replace`, of the first of several; None for what moves nothing here"""
    if path in ("mass",):
        return vehicle.mass
    head, *fields = path.split(".")
    if "position" in fields or (head != "rotors" and not _moves_in_air(vehicle, head)):
        return None
    record: Tree = vehicle.rotors[0] if head == "rotors" else vehicle[head]
    record = record[0] if type(record) is tuple else record
    for field in fields:
        if not hasattr(record, field):
            return None
        record = getattr(record, field)
    return record if isinstance(record, (float, int, Vec3)) or field == "table_voltage" else None


def _moves_in_air(vehicle: Vehicle, effect: str) -> bool:
    return vehicle.has(effect) and vehicle.structure.effects[vehicle.index(effect)].role not in (
        Role.CONTACT,
        Role.WEIGHT,
    )


def _times(own: Tree, factor: Array) -> Tree:
    if isinstance(own, tuple):
        scaled = [each * factor for each in own]
        return Vec3(*scaled) if isinstance(own, Vec3) else tuple(scaled)
    return own * factor


def _pushed_by_air(vehicle: Vehicle) -> Vehicle:
    """The vehicle without what moves no steady flight: the ground, and torque that only spins rotors up"""
    gone = [own.name for own in vehicle.structure.effects if own.role in (Role.CONTACT, Role.MOMENTUM)]
    return vehicle.without_effect(*gone)


# Balances ----------------------------------------------------------------------------------------------------------


def _still(vehicle: Vehicle, speeds: Sequence[Scalar]) -> State:
    return at_rest(vehicle, Vec3(0.0, 0.0, _HIGH))._replace(rotor_speed=tuple(speeds))


def _upwards(state: State, vehicle: Vehicle) -> Array:
    """f_z of all that acts, in world axes  [N]"""
    return _forces(state, vehicle).z


def _forces(state: State, vehicle: Vehicle) -> Vec3:
    total = wrench(state, (), vehicle, CALM)  # without the rotors' momentum no command makes a difference
    return rotate(state.q_WB, total.f_B) + total.f_W


def _lift(state: State, vehicle: Vehicle) -> Array:
    return _upwards(state, vehicle) + vehicle.mass * vehicle["gravity"].acceleration


def _hovering(vehicle: Vehicle, shares: Array) -> State:
    """Rotor speeds in the ratio of the vehicle's own hover, as much faster or slower as carries the weight: Newton"""
    scale: Array = np.ones(_lanes(vehicle))
    for _ in range(6):
        here, ahead = (
            _upwards(_still(vehicle, [own * factor for own in shares]), vehicle)
            for factor in (scale, scale * (1.0 + _SHIFT))
        )
        scale = scale - here * scale * _SHIFT / (ahead - here)
    return _still(vehicle, [own * scale for own in shares])


def _lanes(vehicle: Vehicle) -> int:
    """How many aircraft the numbers are of"""
    return max(np.size(own) for own in flatten((vehicle.mass, vehicle.rotors, vehicle.parameters)))


def _charged(state: State, vehicle: Vehicle, charge: float) -> State:
    """The state with its batteries at that charge, their polarisation as it is"""
    if not vehicle.has("battery") or not isinstance(vehicle["battery"], tuple):
        return state
    at = vehicle.index("battery")
    own = tuple(BatteryState(charge, each.polarisation) for each in state.effects[at])
    return state._replace(effects=(*state.effects[:at], own, *state.effects[at + 1 :]))


def _current(state: State, vehicle: Vehicle, full: bool = False) -> Array:
    actuation = vehicle.structure.actuation
    command = (1.0,) * len(vehicle.rotors) if full else actuation.steady_command(state, vehicle, CALM)
    return bus_current(state, command, vehicle, CALM)


def _hover_time(hovering: State, vehicle: Vehicle) -> Array:
    """t = C ∫ dSOC / I(SOC), from full to a fifth: the current grows as the voltage falls  [s]"""
    charges = np.linspace(1.0, RESERVE, 5)
    inverse = [1.0 / _settled_current(hovering, vehicle, float(charge)) for charge in charges]
    mean = sum(0.5 * (a + b) for a, b in pairwise(inverse)) / (len(charges) - 1)
    capacity: Array = sum(own.capacity for own in vehicle["battery"] if isinstance(own, Thevenin))
    return capacity * (1.0 - RESERVE) * mean


def _settled_current(hovering: State, vehicle: Vehicle, charge: float) -> Array:
    """I in hover with the polarisation settled, V₁ = R₁ I  [A]"""
    state, at = _charged(hovering, vehicle, charge), vehicle.index("battery")
    current = _current(state, vehicle)
    for _ in range(6):
        own = tuple(
            BatteryState(charge, battery.polarisation_resistance * current / len(vehicle["battery"]))
            for battery in vehicle["battery"]
        )
        state = state._replace(effects=(*state.effects[:at], own, *state.effects[at + 1 :]))
        current = _current(state, vehicle)
    return current


def _at_full_throttle(vehicle: Vehicle) -> State:
    """Ω̇ = 0 with all motors at full throttle, standing, on a full battery"""
    speeds = [np.full(_lanes(vehicle), _TOO_FAST) for _ in vehicle.rotors]
    state = _still(vehicle, speeds)
    for _ in range(_ROUNDS):
        state = _faster(state, vehicle)
    return state


def _faster(state: State, vehicle: Vehicle) -> State:
    """One step of Newton's on Ω̇(Ω) = 0, all rotors together; from above it does not overshoot"""
    actuation, full = vehicle.structure.actuation, (1.0,) * len(vehicle.rotors)
    if actuation.name == "speed":
        return state._replace(
            rotor_speed=tuple(rotor.motor.speed_max + 0.0 * state.rotor_speed[0] for rotor in vehicle.rotors)
        )
    ahead = state._replace(rotor_speed=tuple(own * (1.0 + _SHIFT) for own in state.rotor_speed))
    here, there = (actuation.rotor_acceleration(own, full, vehicle, CALM) for own in (state, ahead))
    speeds = [
        speed + a * (_SHIFT * speed) / (a - b) for speed, a, b in zip(state.rotor_speed, here, there, strict=True)
    ]
    return state._replace(rotor_speed=tuple(np.maximum(own, 1.0) for own in speeds))


def _climb(full: State, vehicle: Vehicle) -> Array:
    """Σ f_z = 0 straight up at full throttle  [m/s]; not a number where there is no thrust to spare"""
    return _balanced_flight(full, vehicle, lambda speed: (Vec3(0.0, 0.0, speed), Quat(1.0, 0.0, 0.0, 0.0)))


def _balanced_flight(full: State, vehicle: Vehicle, way: Callable[[Array], tuple[Vec3, Quat]]) -> Array:
    able = _upwards(full, vehicle) > 0.0
    speed: Array = np.full(_lanes(vehicle), 1.0)
    state = full

    def left(own: Array, at: State) -> Array:
        v_W, q_WB = way(own)
        return _upwards(at._replace(v_W=v_W, q_WB=q_WB), vehicle)

    for _ in range(_ROUNDS):
        v_W, q_WB = way(speed)
        state = _faster(state._replace(v_W=v_W, q_WB=q_WB), vehicle)
        here, ahead = left(speed, state), left(speed * (1.0 + _SHIFT), state)
        step = -here * speed * _SHIFT / (ahead - here)
        speed = np.clip(speed + step, 0.5 * speed, 2.0 * speed)
    return np.where(able, speed, math.nan)


def _top_speed(full: State, vehicle: Vehicle, weight: float) -> Array:
    """Σ f_x = Σ f_z = 0 level, leaning forward, at full throttle  [m/s]

    Newton in speed and the sine of the lean, the rotors' speeds following.
    """
    lift = _lift(full, vehicle)
    able = lift > weight
    lean: Array = np.sqrt(np.maximum(1.0 - (weight / np.maximum(lift, weight)) ** 2, _LEAST_SINE))
    speed: Array = np.full(_lanes(vehicle), 5.0)
    state = full

    def left(v: Array, sine: Array, at: State) -> tuple[Array, Array]:
        pitch = np.arcsin(sine)
        q_WB = Quat(np.cos(0.5 * pitch), 0.0, np.sin(0.5 * pitch), 0.0)
        f_W = _forces(at._replace(v_W=Vec3(v, 0.0, 0.0), q_WB=q_WB), vehicle)
        return f_W.x, f_W.z

    for _ in range(_ROUNDS):
        pitch = np.arcsin(lean)
        turned = Quat(np.cos(0.5 * pitch), 0.0, np.sin(0.5 * pitch), 0.0)
        state = _faster(state._replace(v_W=Vec3(speed, 0.0, 0.0), q_WB=turned), vehicle)
        x, z = left(speed, lean, state)
        xv, zv = (
            (b - a) / (_SHIFT * speed) for a, b in zip((x, z), left(speed * (1.0 + _SHIFT), lean, state), strict=True)
        )
        xs, zs = (
            (b - a) / (_SHIFT * lean) for a, b in zip((x, z), left(speed, lean * (1.0 + _SHIFT), state), strict=True)
        )
        whole = xv * zs - xs * zv
        speed_step, lean_step = -(zs * x - xs * z) / whole, -(xv * z - zv * x) / whole
        speed = np.clip(speed + 0.7 * speed_step, 0.5 * speed, 2.0 * speed)
        lean = np.clip(lean + 0.7 * lean_step, _LEAST_SINE, 0.9999)
    return np.where(able, speed, math.nan)
