"""One moment as it is drawn: arrays over all drones, and one of them close up; of a simulation, or of recorded runs."""

from collections.abc import Mapping, Sequence
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
    task: str
    controller: str
    landed: bool
    crashed: bool
    measurements: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]]
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
    n = len(snapshot.scenario.drones)
    rotors = most_rotors([drone.vehicle for drone in snapshot.scenario.drones])
    p_W, q_WB, reference_W, wind_W = np.empty((n, 3)), np.empty((n, 4)), np.empty((n, 3)), np.empty((n, 3))
    speed, thrust, power = np.zeros((n, rotors)), np.zeros((n, rotors)), np.ones((n, rotors))
    p_estimate, q_estimate = np.empty((n, 3)), np.empty((n, 4))
    plans: list[tuple[Array, Array]] = []
    cables, tilt = np.full((n, 2, 3), np.nan), np.zeros((n, rotors))
    close = None
    for lanes in snapshot.lanes:
        at, state, own = lanes.indices, lanes.state, len(lanes.vehicle.rotors)
        p_W[at], q_WB[at], reference_W[at] = state[:3].T, state[6:10].T, lanes.reference[:3].T
        wind_W[at] = lanes.environment[:3].T
        speed[at, :own] = state[13 : 13 + own].T
        if own:
            thrust[at, :own] = thrusts_of(state, lanes.environment, lanes.vehicle)
            power[at, :own] = _powers(lanes.environment, lanes.vehicle)
            tilt[at, :own] = _tilts(state, lanes.vehicle)
        known = state if lanes.estimate is None else lanes.estimate
        p_estimate[at], q_estimate[at] = known[:3].T, known[6:10].T
        if lanes.prediction is not None:
            plans.append((at, lanes.prediction))
        if lanes.vehicle.has("slung_load"):
            cables[at] = _cables(state, lanes.vehicle, lanes.vehicle["slung_load"].stiffness > 0.0)
        lane = np.flatnonzero(at == chosen)
        if len(lane):
            close = _close(snapshot, lanes, int(lane[0]), chosen)
    return Frame(
        snapshot.time,
        p_W,
        q_WB,
        speed,
        thrust,
        power,
        snapshot.crashed,
        reference_W,
        wind_W,
        (p_estimate, q_estimate) if any(lanes.estimate is not None for lanes in snapshot.lanes) else None,
        _together(plans, n),
        close,
        chosen,
        cables,
        tilt,
    )


def _tilts(state: Array, vehicle: Vehicle) -> Array:
    """How far the axis of every rotor of every drone is turned, (drones, rotors): 0 of those without a servo  [rad]"""
    angles = np.zeros((state.shape[1], len(vehicle.rotors)))
    if vehicle.servos:
        moving: State = unflatten(at_rest(vehicle), iter(state))
        angles[:, vehicle.servos] = np.stack(tilt_angles(moving, vehicle), axis=1)
    return angles


def thrusts_of(state: Array, environment: Array, vehicle: Vehicle) -> Array:
    """Of every rotor of every drone, (drones, rotors)  [N]"""
    moving: State = unflatten(at_rest(vehicle), iter(state))
    return np.stack([load.thrust for load in rotor_loads(moving, vehicle, _around(environment, vehicle))], axis=1)


def _powers(environment: Array, vehicle: Vehicle) -> Array:
    """What every motor of every drone delivers of its command, (drones, rotors)"""
    return np.stack(_around(environment, vehicle).motor_power, axis=1)


def _around(environment: Array, vehicle: Vehicle) -> Environment:
    around: Environment = unflatten(environment_of(vehicle), iter(environment))
    return around


def _cables(state: Array, vehicle: Vehicle, holds: bool) -> Array:
    """From the hook to the load of every drone, (drones, 2, 3)  [m]"""
    moving: State = unflatten(at_rest(vehicle), iter(state))
    return np.moveaxis(np.array(cable_ends(moving, vehicle, holds)), 2, 0)


def _together(plans: list[tuple[Array, Array]], n: int) -> Array | None:
    """Plans of some drones, as long as the longest; the others' are not drawn: NaN."""
    if not plans:
        return None
    longest = max(planned.shape[1] for _, planned in plans)
    whole = np.full((n, longest, 3), np.nan)
    for at, planned in plans:
        whole[at, : planned.shape[1]] = planned
    return whole


def _close(snapshot: Snapshot, lanes: Lanes, lane: int, index: int) -> Close:
    drone = snapshot.scenario.drones[index]
    return Close(
        drone.name,
        lanes.vehicle,
        tuple(lanes.state[:, lane].tolist()),
        tuple(lanes.command[:, lane].tolist()),
        tuple(lanes.environment[:, lane].tolist()),
        Vec3(*lanes.reference[:3, lane].tolist()),
        snapshot.setting.drones[index].task.name,
        controller_name(drone),
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
    rotors = most_rotors([track.vehicle for track in tracks])
    n = len(tracks)
    p_W, q_WB, reference_W, thrust = np.empty((n, 3)), np.empty((n, 4)), np.empty((n, 3)), np.zeros((n, rotors))
    speed, power, wind_W = np.zeros((n, rotors)), np.ones((n, rotors)), np.zeros((n, 3))
    p_estimate, q_estimate, estimated = np.empty((n, 3)), np.empty((n, 4)), False
    plans: list[tuple[Array, Array]] = []
    cables, tilt = np.full((n, 2, 3), np.nan), np.zeros((n, rotors))
    for k, track in enumerate(tracks):
        row, share = row_at(track.tables["state"].times_us, time)
        rows = track.tables["state"].rows
        here = state_between(rows, row, share)
        own = len(track.vehicle.rotors)
        p_W[k], q_WB[k], speed[k, :own] = here[:3], here[6:10], here[13 : 13 + own]
        if own:
            around = np.array(_held(track, "environment", time)[: len(_environment_fields(track))])[:, None]
            thrust[k, :own] = thrusts_of(here[:, None], around, track.vehicle)[0]
            power[k, :own] = _powers(around, track.vehicle)[0]
            tilt[k, :own] = _tilts(here[:, None], track.vehicle)[0]
        if "environment" in track.tables:
            wind_W[k] = _held(track, "environment", time)[:3]
        if track.vehicle.has("slung_load"):
            cables[k] = _cables(here[:, None], track.vehicle, _cable_holds(track, time))[0]
        reference_W[k] = _reference_position(track, time, p_W[k])
        p_estimate[k], q_estimate[k] = p_W[k], q_WB[k]
        if "estimate" in track.tables and len(track.tables["estimate"].times_us):
            known = _at(track, "estimate", time)
            p_estimate[k], q_estimate[k], estimated = known[:3], known[6:10], True
        if "plan" in track.tables and len(track.tables["plan"].times_us):
            plans.append((np.array([k]), np.array(_held(track, "plan", time)).reshape(1, -1, 3)))
    return Frame(
        time,
        p_W,
        q_WB,
        speed,
        thrust,
        power,
        np.array([_stands(track, "crashed", time) for track in tracks]),
        reference_W,
        wind_W,
        (p_estimate, q_estimate) if estimated else None,
        _together(plans, n),
        _recorded_close(tracks[chosen], time, eyes[chosen] if eyes else {}),
        chosen,
        cables,
        tilt,
    )


def _stands(track: Track, what: str, time: float) -> bool:
    """Whether a drone has "landed" or "crashed" at a time [s], where its recording says so"""
    said = track.status(what)
    row = (
        int(np.searchsorted(track.tables["status"].times_us, time * MICROSECONDS, side="right")) - 1
        if len(said)
        else -1
    )
    return row >= 0 and bool(said[row])


def _at(track: Track, name: str, time: float) -> Array:
    table = track.tables[name]
    row, share = row_at(table.times_us, time)
    if name == "estimate":
        return state_between(table.rows, row, share)
    own: Array = table.rows[row] if share == 0.0 else table.rows[row] + share * (table.rows[row + 1] - table.rows[row])
    return own


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
    row, share = row_at(track.tables["state"].times_us, time)
    environment = _held(track, "environment", time)[: len(_environment_fields(track))]
    state = state_between(track.tables["state"].rows, row, share)
    return Close(
        track.name,
        track.vehicle,
        tuple(state.tolist()),
        _held(track, "command", time),
        environment,
        Vec3(*_reference_position(track, time, state[:3]).tolist()),
        "",
        track.controller,
        _stands(track, "landed", time),
        _stands(track, "crashed", time),
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
