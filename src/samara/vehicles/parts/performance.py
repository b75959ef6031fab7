"""Performance of an aircraft: hover throttle, thrust over weight, hover time, top speed, climb, current.

Each figure has a 95 % interval over the uncertainty of the vehicle's parameters: every parameter with a spread is sampled many
times, log-normal, and every sampled aircraft is trimmed with the equations of flight, all in one batch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.batch_scalar import float_or_batch_scalar
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.effect import Role
from samara.physics.multirotor import state_at_rest, wrench
from samara.physics.rotors.battery import BatteryState, Thevenin
from samara.physics.rotors.propulsion import bus_current
from samara.physics.types import CALM, State, Vehicle
from samara.vehicles.parts.propeller import THRUST_TORQUE_CORRELATION
from samara.vehicles.trim import hover
from samara.vehicles.writer import valid_spreads

DEFAULT_SAMPLES = 200
SEED = 19
RESERVE_CHARGE = 0.2  # of the charge: left in the battery at landing, the last of five steps of the integral
_FREE_AIR_HEIGHT = 1e3  # [m]: beyond the influence of the ground
_SPEED_UPPER_BOUND = 1e5  # [rad/s]: faster than any motor
_ITERATIONS = 30
_RELATIVE_STEP = 1e-6  # relative, for finite differences
_MIN_PITCH_SINE = 1e-3
_PERCENTILES = (2.5, 97.5)  # [%]
_THRUST_PATH, _TORQUE_PATH = "rotors.k_thrust", "rotors.k_torque"


class PerformanceFigure(NamedTuple):
    """One performance figure in a customary unit, with the ends of its 95 % interval."""

    name: str
    value: float
    low: float
    high: float
    unit: str

    @property
    def value_text(self) -> str:
        """The value with its unit."""
        return f"{_format_value(self.value)} {self.unit}".strip()

    @property
    def interval(self) -> str:
        """The ends of the interval with their unit; empty if no parameter is uncertain."""
        return (
            ""
            if self.low == self.high
            else f"{_format_value(self.low)} to {_format_value(self.high)} {self.unit}".strip()
        )


def _format_value(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}" if abs(value) >= 10.0 else f"{value:.2g}"


def performance_figures(vehicle: Vehicle, draws: int = DEFAULT_SAMPLES) -> list[PerformanceFigure]:
    """Compute all figures of a vehicle with rotors; throttle and current need duty commands and a battery."""
    with np.errstate(all="ignore"):  # the climb of aircraft that cannot lift is NaN
        return [_figure(*figure) for figure in _all_figures(vehicle, draws)]


def _all_figures(vehicle: Vehicle, draws: int) -> list[tuple[str, Scalar, str]]:
    batch = _sample_batch(vehicle, draws)
    hover_speeds = np.array([float(float_or_batch_scalar(speed)) for speed in hover(vehicle)[0].rotor_speed])
    airborne = _airborne_vehicle(batch)
    weight = float_or_batch_scalar(vehicle.mass) * float_or_batch_scalar(vehicle["gravity"].acceleration)
    hover_state = _hover_state(airborne, hover_speeds)
    full_state = _full_throttle_state(airborne)
    figures: list[tuple[str, Scalar, str]] = []
    if airborne.structure.actuation.name in ("duty", "normalized"):
        commands = airborne.structure.actuation.steady_command(hover_state, airborne, CALM)
        figures.append(("hover throttle", 100.0 * sum(commands) / len(commands), "%"))
    figures.append(("thrust/weight", _total_thrust(full_state, airborne) / weight, ""))
    if airborne.has("battery"):
        figures.append(("hover current", _current(hover_state, airborne), "A"))
        if isinstance(airborne["battery"], tuple):
            to_empty, to_reserve = _hover_times(hover_state, airborne)
            figures.append(("hover time to empty", to_empty / 60.0, "min"))
            figures.append((f"hover time, {100.0 * RESERVE_CHARGE:.0f} % left", to_reserve / 60.0, "min"))
        figures.append(("full throttle", _current(full_state, airborne, full_throttle=True), "A"))
    figures.append(("top speed", 3.6 * _top_speed(full_state, airborne, weight), "km/h"))
    figures.append(("climb", _climb_speed(full_state, airborne), "m/s"))
    return figures


def full_throttle_current(vehicle: Vehicle) -> float:
    """Bus current with all motors at full throttle, static, on a full battery  [A]"""
    airborne = _airborne_vehicle(vehicle)
    return float(np.ravel(_current(_full_throttle_state(airborne), airborne, full_throttle=True))[0])


def _figure(name: str, values: Array, unit: str) -> PerformanceFigure:
    """Return the value of the first sample, the vehicle itself, and the interval over all samples with a finite value."""
    all_values = np.ravel(np.asarray(values, dtype=float))
    finite = all_values[np.isfinite(all_values)]
    low, high = np.percentile(finite, _PERCENTILES) if finite.size else (math.nan, math.nan)
    return PerformanceFigure(name, float(all_values[0]), float(low), float(high), unit)


# Sampled aircraft --------------------------------------------------------------------------------------------------


def _sample_batch(vehicle: Vehicle, draws: int) -> Vehicle:
    """Return a batch: the vehicle itself, then samples of its parameters by their spreads; equal parts share one error."""
    spreads: dict[str, float] = {}
    for path, spread in valid_spreads(vehicle).items():
        table_path, _, field = path.rpartition(".")
        table = table_path.partition("[")[0]
        prefix = {"rotor": "rotors", "rotors": "rotors", "motor": "rotors.motor"}.get(table, table)
        prefix = "rotors.motor" if table_path.endswith(".motor") else prefix
        if prefix == "rotors.motor":
            field = {"kv": "constant"}.get(field, field)
        if prefix == "body":
            prefix, field = "", {"inertia": "inertia_B"}.get(field, field)
        spreads[f"{prefix}.{field}".lstrip(".")] = spread
    generator = np.random.default_rng(SEED)
    normals = {path: generator.standard_normal(draws) for path in sorted(spreads)}
    if {_THRUST_PATH, _TORQUE_PATH} <= normals.keys():
        normals[_TORQUE_PATH] = (
            THRUST_TORQUE_CORRELATION * normals[_THRUST_PATH]
            + math.sqrt(1.0 - THRUST_TORQUE_CORRELATION**2) * normals[_TORQUE_PATH]
        )
    samples: dict[str, Tree] = {}
    for path, normal in normals.items():
        value = _sampled_value(vehicle, path)
        if value is not None:
            samples[path] = _scale(value, np.exp(spreads[path] * np.concatenate([[0.0], normal])))
    batch = vehicle.replace(samples) if samples else vehicle
    return batch if samples else replace(vehicle, mass=np.full(1, float_or_batch_scalar(vehicle.mass)))


def _sampled_value(vehicle: Vehicle, path: str) -> Tree:
    """Return the value at a path of `Vehicle.replace`, in a list that of the first element; None if it has no influence
    here."""
    if path in ("mass",):
        return vehicle.mass
    root, *fields = path.split(".")
    if "position" in fields or (root != "rotors" and not _affects_flight(vehicle, root)):
        return None
    record: Tree = vehicle.rotors[0] if root == "rotors" else vehicle[root]
    record = record[0] if type(record) is tuple else record
    for field in fields:
        if not hasattr(record, field):
            return None
        record = getattr(record, field)
    return record if isinstance(record, (float, int, Vec3)) or field == "table_voltage" else None


def _affects_flight(vehicle: Vehicle, effect: str) -> bool:
    return vehicle.has(effect) and vehicle.structure.effects[vehicle.index(effect)].role not in (
        Role.CONTACT,
        Role.WEIGHT,
    )


def _scale(value: Tree, factor: Array) -> Tree:
    if isinstance(value, tuple):
        scaled = [component * factor for component in value]
        return Vec3(*scaled) if isinstance(value, Vec3) else tuple(scaled)
    return value * factor


def _airborne_vehicle(vehicle: Vehicle) -> Vehicle:
    """Return the vehicle without effects that vanish in steady flight: ground contact and rotor momentum."""
    removed = [effect.name for effect in vehicle.structure.effects if effect.role in (Role.CONTACT, Role.MOMENTUM)]
    return vehicle.without_effect(*removed)


# Steady flight -----------------------------------------------------------------------------------------------------


def _stationary_state(vehicle: Vehicle, speeds: Sequence[Scalar]) -> State:
    return state_at_rest(vehicle, Vec3(0.0, 0.0, _FREE_AIR_HEIGHT))._replace(rotor_speed=tuple(speeds))


def _vertical_force(state: State, vehicle: Vehicle) -> Array:
    """f_z of the total force, in world axes  [N]"""
    return _total_force(state, vehicle).z


def _total_force(state: State, vehicle: Vehicle) -> Vec3:
    total = wrench(state, (), vehicle, CALM)  # without the rotors' momentum the command has no influence
    return rotate(state.q_WB, total.f_B) + total.f_W


def _total_thrust(state: State, vehicle: Vehicle) -> Array:
    return _vertical_force(state, vehicle) + vehicle.mass * vehicle["gravity"].acceleration


def _hover_state(vehicle: Vehicle, hover_speeds: Array) -> State:
    """Scale the rotor speeds of the vehicle's own hover until they carry the weight, by Newton's method."""
    scale: Array = np.ones(_batch_size(vehicle))
    for _ in range(6):
        force, shifted_force = (
            _vertical_force(_stationary_state(vehicle, [speed * factor for speed in hover_speeds]), vehicle)
            for factor in (scale, scale * (1.0 + _RELATIVE_STEP))
        )
        scale = scale - force * scale * _RELATIVE_STEP / (shifted_force - force)
    return _stationary_state(vehicle, [speed * scale for speed in hover_speeds])


def _batch_size(vehicle: Vehicle) -> int:
    """Return the count of aircraft in the batch."""
    return max(np.size(leaf) for leaf in flatten((vehicle.mass, vehicle.rotors, vehicle.parameters)))


def _set_charge(state: State, vehicle: Vehicle, charge: float) -> State:
    """Return the state with its batteries at that charge and unchanged polarisation."""
    if not vehicle.has("battery") or not isinstance(vehicle["battery"], tuple):
        return state
    index = vehicle.index("battery")
    battery_states = tuple(BatteryState(charge, battery_state.polarisation) for battery_state in state.effects[index])
    return state._replace(effects=(*state.effects[:index], battery_states, *state.effects[index + 1 :]))


def _current(state: State, vehicle: Vehicle, full_throttle: bool = False) -> Array:
    actuation = vehicle.structure.actuation
    command = (1.0,) * len(vehicle.rotors) if full_throttle else actuation.steady_command(state, vehicle, CALM)
    return bus_current(state, command, vehicle, CALM)


def _hover_times(hovering: State, vehicle: Vehicle) -> tuple[Array, Array]:
    """t = C ∫ dSOC / I(SOC), from full to empty and to the reserve; the current grows as the voltage falls  [s]"""
    charges = np.linspace(1.0, 0.0, 6)  # the reserve is one of them
    inverse_currents = [1.0 / _settled_current(hovering, vehicle, float(charge)) for charge in charges]
    steps = [0.5 * (a + b) / (len(charges) - 1) for a, b in pairwise(inverse_currents)]
    capacity: Array = sum(battery.capacity for battery in vehicle["battery"] if isinstance(battery, Thevenin))
    return capacity * sum(steps), capacity * sum(steps[:-1])


def _settled_current(hovering: State, vehicle: Vehicle, charge: float) -> Array:
    """I in hover with the polarisation settled, V₁ = R₁ I; infinite where the voltage does not suffice to hover  [A]"""
    state, index = _set_charge(hovering, vehicle, charge), vehicle.index("battery")
    current = _current(state, vehicle)
    for _ in range(6):
        battery_states = tuple(
            BatteryState(charge, battery.polarisation_resistance * current / len(vehicle["battery"]))
            for battery in vehicle["battery"]
        )
        state = state._replace(effects=(*state.effects[:index], battery_states, *state.effects[index + 1 :]))
        current = _current(state, vehicle)
    if vehicle.structure.actuation.name not in ("duty", "normalized"):
        return current
    command = vehicle.structure.actuation.steady_command(state, vehicle, CALM)
    exhausted: Array = np.where(np.maximum.reduce([np.asarray(value) for value in command]) > 1.0, math.inf, current)
    return exhausted


def _full_throttle_state(vehicle: Vehicle) -> State:
    """Ω̇ = 0 with all motors at full throttle, static, on a full battery"""
    speeds = [np.full(_batch_size(vehicle), _SPEED_UPPER_BOUND) for _ in vehicle.rotors]
    state = _stationary_state(vehicle, speeds)
    for _ in range(_ITERATIONS):
        state = _newton_step(state, vehicle)
    return state


def _newton_step(state: State, vehicle: Vehicle) -> State:
    """One Newton step on Ω̇(Ω) = 0 of all rotors; from above it does not overshoot"""
    actuation, full_command = vehicle.structure.actuation, (1.0,) * len(vehicle.rotors)
    if actuation.name == "speed":
        return state._replace(
            rotor_speed=tuple(rotor.motor.speed_max + 0.0 * state.rotor_speed[0] for rotor in vehicle.rotors)
        )
    shifted_state = state._replace(rotor_speed=tuple(speed * (1.0 + _RELATIVE_STEP) for speed in state.rotor_speed))
    acceleration, shifted_acceleration = (
        actuation.rotor_acceleration(trial, full_command, vehicle, CALM) for trial in (state, shifted_state)
    )
    speeds = [
        speed + a * (_RELATIVE_STEP * speed) / (a - b)
        for speed, a, b in zip(state.rotor_speed, acceleration, shifted_acceleration, strict=True)
    ]
    return state._replace(rotor_speed=tuple(np.maximum(speed, 1.0) for speed in speeds))


def _climb_speed(full_state: State, vehicle: Vehicle) -> Array:
    """Σ f_z = 0 straight up at full throttle  [m/s]; NaN if thrust does not exceed weight"""
    return _solve_steady_speed(full_state, vehicle, lambda speed: (Vec3(0.0, 0.0, speed), Quat(1.0, 0.0, 0.0, 0.0)))


def _solve_steady_speed(full_state: State, vehicle: Vehicle, motion: Callable[[Array], tuple[Vec3, Quat]]) -> Array:
    can_climb = _vertical_force(full_state, vehicle) > 0.0
    speed: Array = np.full(_batch_size(vehicle), 1.0)
    state = full_state

    def residual(trial_speed: Array, trial_state: State) -> Array:
        v_W, q_WB = motion(trial_speed)
        return _vertical_force(trial_state._replace(v_W=v_W, q_WB=q_WB), vehicle)

    for _ in range(_ITERATIONS):
        v_W, q_WB = motion(speed)
        state = _newton_step(state._replace(v_W=v_W, q_WB=q_WB), vehicle)
        force, shifted_force = residual(speed, state), residual(speed * (1.0 + _RELATIVE_STEP), state)
        step = -force * speed * _RELATIVE_STEP / (shifted_force - force)
        speed = np.clip(speed + step, 0.5 * speed, 2.0 * speed)
    return np.where(can_climb, speed, math.nan)


def _top_speed(full_state: State, vehicle: Vehicle, weight: float) -> Array:
    """Σ f_x = Σ f_z = 0 in level flight, pitched forward, at full throttle  [m/s]

    Newton's method in speed and the sine of the pitch; the rotor speeds follow.
    """
    lift = _total_thrust(full_state, vehicle)
    can_fly = lift > weight
    pitch_sine: Array = np.sqrt(np.maximum(1.0 - (weight / np.maximum(lift, weight)) ** 2, _MIN_PITCH_SINE))
    speed: Array = np.full(_batch_size(vehicle), 5.0)
    state = full_state

    def residual(v: Array, sine: Array, trial_state: State) -> tuple[Array, Array]:
        pitch = np.arcsin(sine)
        q_WB = Quat(np.cos(0.5 * pitch), 0.0, np.sin(0.5 * pitch), 0.0)
        f_W = _total_force(trial_state._replace(v_W=Vec3(v, 0.0, 0.0), q_WB=q_WB), vehicle)
        return f_W.x, f_W.z

    for _ in range(_ITERATIONS):
        pitch = np.arcsin(pitch_sine)
        attitude = Quat(np.cos(0.5 * pitch), 0.0, np.sin(0.5 * pitch), 0.0)
        state = _newton_step(state._replace(v_W=Vec3(speed, 0.0, 0.0), q_WB=attitude), vehicle)
        x, z = residual(speed, pitch_sine, state)
        xv, zv = (
            (b - a) / (_RELATIVE_STEP * speed)
            for a, b in zip((x, z), residual(speed * (1.0 + _RELATIVE_STEP), pitch_sine, state), strict=True)
        )
        xs, zs = (
            (b - a) / (_RELATIVE_STEP * pitch_sine)
            for a, b in zip((x, z), residual(speed, pitch_sine * (1.0 + _RELATIVE_STEP), state), strict=True)
        )
        determinant = xv * zs - xs * zv
        speed_step, sine_step = -(zs * x - xs * z) / determinant, -(xv * z - zv * x) / determinant
        speed = np.clip(speed + 0.7 * speed_step, 0.5 * speed, 2.0 * speed)
        pitch_sine = np.clip(pitch_sine + 0.7 * sine_step, _MIN_PITCH_SINE, 0.9999)
    return np.where(can_fly, speed, math.nan)
