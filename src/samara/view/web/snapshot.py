"""One moment as it is drawn: arrays over all drones, and one of them close up; of a simulation, or of recorded runs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest, environment_of, tilt_angles
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Environment, State, Vehicle
from samara.record.flight_streams import CABLE_FIELD, LOAD_FIELDS, is_reading
from samara.record.run import Run, Track
from samara.scenario.batteries import battery_status
from samara.scenario.events import Setting
from samara.scenario.scenario import Scenario
from samara.scenario.snapshot import BatteryStatus
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.ray_sensors import Eye
from samara.sensors.sensor import Sensor
from samara.sim.fly import controller_name
from samara.sim.group import Group
from samara.sim.simulation import Simulation
from samara.vehicles.defaults import cable_ends
from samara.view.depth_colours import Seen, is_picture, moving, seen_at
from samara.view.interpolation import row_at, state_between


class Close(NamedTuple):
    """One drone close up: what its gauges show. Numbers as the simulation holds them; `batteries()` asks the physics."""

    name: str
    vehicle: Vehicle
    state: tuple[float, ...]
    command: tuple[float, ...]
    environment: tuple[float, ...]
    reference_W: Vec3 | None  # None: not known
    controller: str
    task: str = ""
    landed: bool = False
    crashed: bool = False
    measurements: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]] = MappingProxyType({})
    eyes: tuple[Seen, ...] = ()

    def full_state(self) -> State:
        """The state as a record"""
        own: State = unflatten(at_rest(self.vehicle), iter(self.state))
        return own

    def surroundings(self) -> Environment:
        """What it flies in"""
        own: Environment = unflatten(environment_of(self.vehicle), iter(self.environment))
        return own

    def batteries(self) -> tuple[BatteryStatus, ...]:
        """Charge, voltage and current of each of its batteries"""
        return battery_status(self.full_state(), self.command, self.vehicle, self.surroundings())


class Frame(NamedTuple):
    """Everything that moves, at one time. Arrays have drones first; rotors a drone has not are 0.

    `motor_power` is the fraction of its command that each motor delivers, 0 where it has failed; `tilt` is how far servos
    have turned the rotors' axes [rad].
    """

    time: float
    p_W: Array
    q_WB: Array
    rotor_speed: Array
    thrust: Array
    motor_power: Array
    crashed: Array
    reference_W: Array
    wind_W: Array
    estimate: tuple[Array, Array] | None = None
    plan_W: Array | None = None
    close: Close | None = None
    close_index: int = 0
    cables_W: Array | None = None
    tilt: Array | None = None


def most_rotors(vehicles: Sequence[Vehicle]) -> int:
    """The largest number of rotors on one of them"""
    return max((len(vehicle.rotors) for vehicle in vehicles), default=0)


class FrameArrays:
    """The arrays of a frame, filled for some drones at a time."""

    def __init__(self, drones: int, vehicles: Sequence[Vehicle]) -> None:
        rotors = most_rotors(vehicles)
        self.p_W, self.q_WB = np.empty((drones, 3)), np.empty((drones, 4))
        self.reference_W, self.wind_W = np.empty((drones, 3)), np.empty((drones, 3))
        self.rotor_speed, self.thrust = np.zeros((drones, rotors)), np.zeros((drones, rotors))
        self.motor_power, self.tilt = np.ones((drones, rotors)), np.zeros((drones, rotors))
        self.cables_W = np.full((drones, 2, 3), np.nan)
        self._estimates: list[tuple[Array, Array]] = []
        self._plans: list[tuple[Array, Array]] = []

    def fill(self, at: Array, vehicle: Vehicle, state: Array, environment: Array, cable_holds: bool = True) -> None:
        """Set what the drones with indices `at` show, from states and environments, (components, drones)."""
        self.p_W[at], self.q_WB[at], self.wind_W[at] = state[:3].T, state[6:10].T, environment[:3].T
        self.reference_W[at] = self.p_W[at]
        full: State = unflatten(at_rest(vehicle), iter(state))
        if rotors := len(vehicle.rotors):
            around: Environment = unflatten(environment_of(vehicle), iter(environment))
            loads = rotor_loads(full, vehicle, around)
            self.rotor_speed[at, :rotors] = state[13 : 13 + rotors].T
            self.thrust[at, :rotors] = np.stack([load.thrust for load in loads], axis=1)
            self.motor_power[at, :rotors] = np.stack(around.motor_power, axis=1)
        if vehicle.servos:
            self.tilt[at[:, None], vehicle.servos] = np.stack(tilt_angles(full, vehicle), axis=1)
        if vehicle.has("slung_load"):
            self.cables_W[at] = np.moveaxis(np.array(cable_ends(full, vehicle, cable_holds)), 2, 0)

    def add_estimate(self, at: Array, estimate: Array) -> None:
        """Estimated states of some drones, (components, drones); those of the others are their states."""
        self._estimates.append((at, estimate))

    def add_plan(self, at: Array, plan_W: Array) -> None:
        """Predicted positions of some drones, (drones, points, 3)."""
        self._plans.append((at, plan_W))

    def frame(self, time: float, crashed: Array, close: Close | None, chosen: int) -> Frame:
        """The frame; plans are padded with NaN, which is not drawn."""
        estimate, plan = None, None
        if self._estimates:
            estimate = self.p_W.copy(), self.q_WB.copy()
            for at, known in self._estimates:
                estimate[0][at], estimate[1][at] = known[:3].T, known[6:10].T
        if self._plans:
            plan = np.full((len(self.p_W), max(plan_W.shape[1] for _, plan_W in self._plans), 3), np.nan)
            for at, plan_W in self._plans:
                plan[at, : plan_W.shape[1]] = plan_W
        motion = (self.p_W, self.q_WB, self.rotor_speed, self.thrust, self.motor_power, crashed)
        shown = (self.reference_W, self.wind_W)
        return Frame(time, *motion, *shown, estimate, plan, close, chosen, self.cables_W, self.tilt)


# Of a simulation ----------------------------------------------------------------------------------------------------


class Lanes(NamedTuple):
    """Drones that are computed together, as they are: copies of their arrays, components first."""

    indices: Array
    vehicle: Vehicle
    state: Array
    estimate: Array | None
    reference: Array
    command: Array
    environment: Array
    prediction: Array | None
    measuring: tuple[tuple[Sensor, Array], ...]


class Snapshot(NamedTuple):
    """What is taken from a running simulation: copies, made in a few microseconds, which another thread may look at later."""

    time: float
    scenario: Scenario
    setting: Setting
    landed: Array
    crashed: Array
    lanes: tuple[Lanes, ...]


def snapshot_of(simulation: Simulation) -> Snapshot:
    """The simulation as it stands"""
    return Snapshot(
        simulation.time_us / MICROSECONDS,
        simulation.scenario,
        simulation.setting,
        simulation.landed.copy(),
        simulation.crashed.copy(),
        tuple(_lanes(group) for group in simulation.groups),
    )


def _lanes(group: Group) -> Lanes:
    planned = getattr(group.controller, "prediction", None)
    return Lanes(
        group.indices,
        group.vehicle,
        group.plant.state.copy(),
        group.estimate.copy() if group.estimate is not group.slots["state"] else None,
        group.reference.copy(),
        group.plant.command.copy(),
        group.plant.environment.copy(),
        planned.copy() if planned is not None and planned.size else None,
        tuple((own.sensor, own.reading.copy()) for own in group.sensors),
    )


def positions_of(simulation: Simulation) -> Array:
    """p of every drone, (n, 3)  [m]"""
    p_W = np.empty((len(simulation.scenario.drones), 3))
    for group in simulation.groups:
        p_W[group.indices] = group.plant.state[:3].T
    return p_W


def motion_of(simulation: Simulation) -> tuple[Array, Array, Array, Array]:
    """p [m], q, the reference's p [m] and the rotor speeds [rad/s] of every drone, drones first"""
    n = len(simulation.scenario.drones)
    rotors = most_rotors([group.vehicle for group in simulation.groups])
    p_W, q_WB, reference_W, speed = np.empty((n, 3)), np.empty((n, 4)), np.empty((n, 3)), np.zeros((n, rotors))
    for group in simulation.groups:
        at, state, own = group.indices, group.plant.state, len(group.vehicle.rotors)
        p_W[at], q_WB[at], reference_W[at] = state[:3].T, state[6:10].T, group.reference[:3].T
        speed[at, :own] = state[13 : 13 + own].T
    return p_W, q_WB, reference_W, speed


def frame_of(snapshot: Snapshot, chosen: int = 0) -> Frame:
    """The snapshot as it is drawn; `chosen` is the drone to see close up"""
    drones, close = snapshot.scenario.drones, None
    arrays = FrameArrays(len(drones), [drone.vehicle for drone in drones])
    for lanes in snapshot.lanes:
        at, vehicle = lanes.indices, lanes.vehicle
        holds = vehicle.has("slung_load") and bool(vehicle["slung_load"].stiffness > 0.0)
        arrays.fill(at, vehicle, lanes.state, lanes.environment, holds)
        arrays.reference_W[at] = lanes.reference[:3].T
        if lanes.estimate is not None:
            arrays.add_estimate(at, lanes.estimate)
        if lanes.prediction is not None:
            arrays.add_plan(at, lanes.prediction)
        lane = np.flatnonzero(at == chosen)
        if len(lane):
            close = _close(snapshot, lanes, int(lane[0]), chosen)
    return arrays.frame(snapshot.time, snapshot.crashed, close, chosen)


def _close(snapshot: Snapshot, lanes: Lanes, lane: int, index: int) -> Close:
    drone = snapshot.scenario.drones[index]
    return Close(
        drone.name,
        lanes.vehicle,
        tuple(lanes.state[:, lane].tolist()),
        tuple(lanes.command[:, lane].tolist()),
        tuple(lanes.environment[:, lane].tolist()),
        Vec3(*lanes.reference[:3, lane].tolist()),
        controller_name(drone),
        snapshot.setting.drones[index].task.name,
        bool(snapshot.landed[index]),
        bool(snapshot.crashed[index]),
        {
            sensor.name: (sensor.fields, sensor.units, tuple(said[:, lane].tolist()))
            for sensor, said in lanes.measuring
            if not isinstance(sensor.about, Eye)
        },
        tuple(
            Seen(sensor.name, sensor.about, said[:, lane], moving(lanes.state[:, lane]), _age(sensor, snapshot.time))
            for sensor, said in lanes.measuring
            if isinstance(sensor.about, Eye)
        ),
    )


def _age(sensor: Sensor, now: float) -> float:
    """How long ago what is heard now was measured: the delay, and what has passed since then of the period  [s]"""
    since = (now - sensor.delay) % (1.0 / sensor.rate) if sensor.rate else 0.0
    return sensor.delay + since


# Of recorded runs ---------------------------------------------------------------------------------------------------


def frame_at(
    runs: Sequence[Run], time: float, chosen: int = 0, eyes: Sequence[Mapping[str, Sensor]] | None = None
) -> Frame:
    """All drones of all runs at a time [s], between two logged rows in proportion; before its first and after its last row
    a drone stands still. `eyes` are the cameras and lidars of each, by name: see `eyes_of`"""
    tracks = [track for run in runs for track in run.tracks]
    arrays = FrameArrays(len(tracks), [track.vehicle for track in tracks])
    for k, track in enumerate(tracks):
        at, state = np.array([k]), _at(track, "state", time)
        environment = np.array(_held(track, "environment", time)[: len(_environment_fields(track))])
        arrays.fill(at, track.vehicle, state[:, None], environment[:, None], _cable_holds(track, time))
        arrays.reference_W[k] = _reference_position(track, time, state[:3])
        if "estimate" in track.tables and len(track.tables["estimate"].times_us):
            arrays.add_estimate(at, _at(track, "estimate", time)[:, None])
        if "plan" in track.tables and len(track.tables["plan"].times_us):
            arrays.add_plan(at, np.array(_held(track, "plan", time)).reshape(1, -1, 3))
    crashed = np.array([_status(track, "crashed", time) for track in tracks])
    close = _recorded_close(tracks[chosen], time, eyes[chosen] if eyes else {})
    return arrays.frame(time, crashed, close, chosen)


def _status(track: Track, name: str, time: float) -> bool:
    """Whether a drone has "landed" or "crashed" at a time [s], where its recording says so."""
    recorded = track.status(name)
    if not len(recorded):
        return False
    row = int(np.searchsorted(track.tables["status"].times_us, time * MICROSECONDS, side="right")) - 1
    return row >= 0 and bool(recorded[row])


def _at(track: Track, name: str, time: float) -> Array:
    """A row of states, estimates or references between two recorded ones."""
    table = track.tables[name]
    row, fraction = row_at(table.times_us, time)
    if name in ("state", "estimate"):
        return state_between(table.rows, row, fraction)
    before: Array = table.rows[row]
    return before if fraction == 0.0 else before + fraction * (table.rows[row + 1] - before)


def _reference_position(track: Track, time: float, p_W: Array) -> Array:
    """Return the desired position at a time, or the drone's own for a flight without a reference."""
    desired = _at(track, "reference", time)[:3] if "reference" in track.tables else p_W
    return desired if np.isfinite(desired).all() else p_W


def _held(track: Track, name: str, time: float) -> tuple[float, ...]:
    table = track.tables[name]
    return tuple(table.rows[row_at(table.times_us, time)[0]].tolist())


def _cable_holds(track: Track, time: float) -> bool:
    fields = track.tables["environment"].fields
    return CABLE_FIELD not in fields or _held(track, "environment", time)[fields.index(CABLE_FIELD)] > 0.5


def _environment_fields(track: Track) -> list[str]:
    return [f for f in track.tables["environment"].fields if f not in (*LOAD_FIELDS, CABLE_FIELD)]


def _recorded_close(track: Track, time: float, eyes: Mapping[str, Sensor]) -> Close:
    environment = _held(track, "environment", time)[: len(_environment_fields(track))]
    state = _at(track, "state", time)
    return Close(
        track.name,
        track.vehicle,
        tuple(state.tolist()),
        _held(track, "command", time),
        environment,
        Vec3(*_reference_position(track, time, state[:3]).tolist()),
        track.controller,
        "",
        _status(track, "landed", time),
        _status(track, "crashed", time),
        {
            name: (table.fields, table.units, _held(track, name, time))
            for name, table in track.tables.items()
            if is_reading(table) and len(table.times_us) and not is_picture(table.fields)
        },
        tuple(
            seen_at(track, sensor, time)
            for name, sensor in eyes.items()
            if len(track.tables[name].times_us) and time * MICROSECONDS >= track.tables[name].times_us[0]
        ),
    )
