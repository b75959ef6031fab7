"""Data of one picture: arrays over all drones and details of one of them, from a simulation or from recorded runs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.multirotor import complete_environment, state_at_rest, tilt_angles
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Environment, State, Vehicle
from samara.record.flight_streams import CABLE_FIELD, LOAD_FIELDS, is_reading
from samara.record.pictures import is_vision_sensor
from samara.record.run import DroneRecord, Run
from samara.scenario.batteries import battery_status
from samara.scenario.events import FlightSettings
from samara.scenario.scenario import Scenario
from samara.scenario.snapshot import BatteryStatus
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.camera import CameraModel
from samara.sensors.ray_sensors import RaySensor
from samara.sensors.sensor import Sensor
from samara.sim.group import Group
from samara.sim.simulation import Simulation
from samara.vehicles.defaults import cable_ends
from samara.view.interpolation import find_row, interpolate_state
from samara.view.vision_frames import VisionFrame, camera_frame, is_image, motion_state, vision_frame


class DroneDetail(NamedTuple):
    """Details of one drone for its instruments. Values as the simulation holds them; `batteries()` evaluates the physics."""

    name: str
    vehicle: Vehicle
    state: tuple[float, ...]
    command: tuple[float, ...]
    environment: tuple[float, ...]
    reference_W: Vec3 | None  # None: unknown
    controller: str
    task: str = ""
    landed: bool = False
    crashed: bool = False
    measurements: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]] = MappingProxyType({})
    vision_frames: tuple[VisionFrame, ...] = ()

    def state_record(self) -> State:
        """Return the state as a record."""
        state: State = unflatten(state_at_rest(self.vehicle), iter(self.state))
        return state

    def environment_record(self) -> Environment:
        """Return the environment as a record."""
        environment: Environment = unflatten(complete_environment(self.vehicle), iter(self.environment))
        return environment

    def batteries(self) -> tuple[BatteryStatus, ...]:
        """Return charge, voltage and current of each battery."""
        return battery_status(self.state_record(), self.command, self.vehicle, self.environment_record())


class ViewFrame(NamedTuple):
    """Everything that moves, at one time. Arrays have drones first; entries of missing rotors are 0.

    `motor_effectiveness` is the fraction of its command that each motor delivers, 0 for a failed motor; `tilt` is the angle
    of the rotors' servos [rad].
    """

    time: float
    p_W: Array
    q_WB: Array
    rotor_speed: Array
    thrust: Array
    motor_effectiveness: Array
    crashed: Array
    reference_W: Array
    wind_W: Array
    estimate: tuple[Array, Array] | None = None
    plan_W: Array | None = None
    detail: DroneDetail | None = None
    detail_index: int = 0
    cables_W: Array | None = None
    tilt: Array | None = None


def max_rotor_count(vehicles: Sequence[Vehicle]) -> int:
    """Return the largest rotor count of the vehicles."""
    return max((len(vehicle.rotors) for vehicle in vehicles), default=0)


class FrameArrays:
    """The arrays of a frame, filled for groups of drones."""

    def __init__(self, drones: int, vehicles: Sequence[Vehicle]) -> None:
        rotors = max_rotor_count(vehicles)
        self.p_W, self.q_WB = np.empty((drones, 3)), np.empty((drones, 4))
        self.reference_W, self.wind_W = np.empty((drones, 3)), np.empty((drones, 3))
        self.rotor_speed, self.thrust = np.zeros((drones, rotors)), np.zeros((drones, rotors))
        self.motor_effectiveness, self.tilt = np.ones((drones, rotors)), np.zeros((drones, rotors))
        self.cables_W = np.full((drones, 2, 3), np.nan)
        self._estimates: list[tuple[Array, Array]] = []
        self._plans: list[tuple[Array, Array]] = []

    def fill(
        self, indices: Array, vehicle: Vehicle, state: Array, environment: Array, cable_attached: bool = True
    ) -> None:
        """Set the arrays of the drones at `indices` from states and environments, (components, drones)."""
        self.p_W[indices], self.q_WB[indices], self.wind_W[indices] = state[:3].T, state[6:10].T, environment[:3].T
        self.reference_W[indices] = self.p_W[indices]
        state_record: State = unflatten(state_at_rest(vehicle), iter(state))
        if rotors := len(vehicle.rotors):
            environment_record: Environment = unflatten(complete_environment(vehicle), iter(environment))
            loads = rotor_loads(state_record, vehicle, environment_record)
            self.rotor_speed[indices, :rotors] = state[13 : 13 + rotors].T
            self.thrust[indices, :rotors] = np.stack([load.thrust for load in loads], axis=1)
            self.motor_effectiveness[indices, :rotors] = np.stack(environment_record.motor_effectiveness, axis=1)
        if vehicle.servos:
            self.tilt[indices[:, None], vehicle.servos] = np.stack(tilt_angles(state_record, vehicle), axis=1)
        if vehicle.has("slung_load"):
            self.cables_W[indices] = np.moveaxis(np.array(cable_ends(state_record, vehicle, cable_attached)), 2, 0)

    def add_estimate(self, indices: Array, estimate: Array) -> None:
        """Add estimated states of some drones, (components, drones); estimates of other drones default to their states."""
        self._estimates.append((indices, estimate))

    def add_plan(self, indices: Array, plan_W: Array) -> None:
        """Add predicted positions of some drones, (drones, points, 3)."""
        self._plans.append((indices, plan_W))

    def frame(self, time: float, crashed: Array, detail: DroneDetail | None, selected: int) -> ViewFrame:
        """Create the frame; plans are padded with NaN, which is not drawn."""
        estimate, plan = None, None
        if self._estimates:
            estimate = self.p_W.copy(), self.q_WB.copy()
            for indices, estimated in self._estimates:
                estimate[0][indices], estimate[1][indices] = estimated[:3].T, estimated[6:10].T
        if self._plans:
            plan = np.full((len(self.p_W), max(plan_W.shape[1] for _, plan_W in self._plans), 3), np.nan)
            for indices, plan_W in self._plans:
                plan[indices, : plan_W.shape[1]] = plan_W
        motion = (self.p_W, self.q_WB, self.rotor_speed, self.thrust, self.motor_effectiveness, crashed)
        surroundings = (self.reference_W, self.wind_W)
        return ViewFrame(time, *motion, *surroundings, estimate, plan, detail, selected, self.cables_W, self.tilt)


# From a simulation --------------------------------------------------------------------------------------------------


class GroupArrays(NamedTuple):
    """Copies of the arrays of drones that are computed together, components first."""

    indices: Array
    vehicle: Vehicle
    state: Array
    estimate: Array | None
    reference: Array
    command: Array
    environment: Array
    prediction: Array | None
    readings: tuple[tuple[Sensor, Array], ...]
    images: Mapping[str, Array]


class Snapshot(NamedTuple):
    """Copies of the data of a running simulation, made in microseconds, which another thread may read later."""

    time: float
    scenario: Scenario
    setting: FlightSettings
    landed: Array
    crashed: Array
    groups: tuple[GroupArrays, ...]


def take_snapshot(simulation: Simulation) -> Snapshot:
    """Copy the current data of a simulation."""
    return Snapshot(
        simulation.time_us / MICROSECONDS,
        simulation.scenario,
        simulation.setting,
        simulation.landed.copy(),
        simulation.crashed.copy(),
        tuple(_copy_group(group) for group in simulation.groups),
    )


def _copy_group(group: Group) -> GroupArrays:
    prediction = getattr(group.controller, "prediction", None)
    return GroupArrays(
        group.indices,
        group.vehicle,
        group.plant.state.copy(),
        group.estimate.copy() if group.estimate is not group.slots["state"] else None,
        group.reference.copy(),
        group.plant.command.copy(),
        group.plant.environment.copy(),
        prediction.copy() if prediction is not None and prediction.size else None,
        tuple((stage.sensor, stage.reading.copy()) for stage in group.sensors),
        {name: images.copy() for name, images in group.images.items()},
    )


def drone_positions(simulation: Simulation) -> Array:
    """p of every drone, (n, 3)  [m]."""
    p_W = np.empty((len(simulation.scenario.drones), 3))
    for group in simulation.groups:
        p_W[group.indices] = group.plant.state[:3].T
    return p_W


def drone_motion(simulation: Simulation) -> tuple[Array, Array, Array, Array]:
    """Return p [m], q, the reference's p [m] and the rotor speeds [rad/s] of every drone, drones first."""
    n = len(simulation.scenario.drones)
    rotors = max_rotor_count([group.vehicle for group in simulation.groups])
    p_W, q_WB, reference_W, speed = np.empty((n, 3)), np.empty((n, 4)), np.empty((n, 3)), np.zeros((n, rotors))
    for group in simulation.groups:
        indices, state, rotor_count = group.indices, group.plant.state, len(group.vehicle.rotors)
        p_W[indices], q_WB[indices], reference_W[indices] = state[:3].T, state[6:10].T, group.reference[:3].T
        speed[indices, :rotor_count] = state[13 : 13 + rotor_count].T
    return p_W, q_WB, reference_W, speed


def snapshot_frame(snapshot: Snapshot, selected: int = 0) -> ViewFrame:
    """Create the frame of a snapshot; `selected` is the drone shown in detail."""
    drones, detail = snapshot.scenario.drones, None
    arrays = FrameArrays(len(drones), [drone.vehicle for drone in drones])
    for group in snapshot.groups:
        indices, vehicle = group.indices, group.vehicle
        cable_attached = vehicle.has("slung_load") and bool(vehicle["slung_load"].stiffness > 0.0)
        arrays.fill(indices, vehicle, group.state, group.environment, cable_attached)
        arrays.reference_W[indices] = group.reference[:3].T
        if group.estimate is not None:
            arrays.add_estimate(indices, group.estimate)
        if group.prediction is not None:
            arrays.add_plan(indices, group.prediction)
        member = np.flatnonzero(indices == selected)
        if len(member):
            detail = _drone_detail(snapshot, group, int(member[0]), selected)
    return arrays.frame(snapshot.time, snapshot.crashed, detail, selected)


def _drone_detail(snapshot: Snapshot, group: GroupArrays, member: int, index: int) -> DroneDetail:
    drone = snapshot.scenario.drones[index]
    return DroneDetail(
        drone.name,
        group.vehicle,
        tuple(group.state[:, member].tolist()),
        tuple(group.command[:, member].tolist()),
        tuple(group.environment[:, member].tolist()),
        Vec3(*group.reference[:3, member].tolist()),
        drone.controller_name,
        snapshot.setting.drones[index].task.name,
        bool(snapshot.landed[index]),
        bool(snapshot.crashed[index]),
        {
            sensor.name: (sensor.fields, sensor.units, tuple(readings[:, member].tolist()))
            for sensor, readings in group.readings
            if not isinstance(sensor.model, RaySensor)
        },
        tuple(
            _vision_frame(snapshot, group, member, sensor, readings[:, member])
            for sensor, readings in group.readings
            if is_vision_sensor(sensor)
        ),
    )


def _vision_frame(snapshot: Snapshot, group: GroupArrays, member: int, sensor: Sensor, reading: Array) -> VisionFrame:
    motion, age = motion_state(group.state[:, member]), _age(sensor, snapshot.time)
    if isinstance(sensor.model, CameraModel):
        images = {image.name: group.images[f"{sensor.name}/{image.name}"][member] for image in sensor.images}
        return camera_frame(sensor, images, motion, age)
    return VisionFrame(sensor.name, sensor.model, reading, motion, age)


def _age(sensor: Sensor, now: float) -> float:
    """Return the age of the current reading: the delay, plus the time since the last sample [s]."""
    elapsed = (now - sensor.delay) % (1.0 / sensor.rate) if sensor.rate else 0.0
    return sensor.delay + elapsed


# From recorded runs -------------------------------------------------------------------------------------------------


def recorded_frame(
    runs: Sequence[Run], time: float, selected: int = 0, vision_sensors: Sequence[Mapping[str, Sensor]] | None = None
) -> ViewFrame:
    """Create the frame of all drones of all runs at a time [s], interpolated between logged rows; before its first and after
    its last row a drone stands still. `vision_sensors` are the vision sensors of each drone by name, as
    `samara.view.vision_frames.vision_sensors` returns them."""
    tracks = [track for run in runs for track in run.drone_records]
    arrays = FrameArrays(len(tracks), [track.vehicle for track in tracks])
    for k, track in enumerate(tracks):
        indices, state = np.array([k]), _interpolate_row(track, "state", time)
        environment = np.array(_latest_row(track, "environment", time)[: len(_environment_fields(track))])
        arrays.fill(indices, track.vehicle, state[:, None], environment[:, None], _cable_attached(track, time))
        arrays.reference_W[k] = _reference_position(track, time, state[:3])
        if "estimate" in track.tables and len(track.tables["estimate"].times_us):
            arrays.add_estimate(indices, _interpolate_row(track, "estimate", time)[:, None])
        if "predicted_path" in track.tables and len(track.tables["predicted_path"].times_us):
            arrays.add_plan(indices, np.array(_latest_row(track, "predicted_path", time)).reshape(1, -1, 3))
    crashed = np.array([_status(track, "crashed", time) for track in tracks])
    detail = _recorded_detail(tracks[selected], time, vision_sensors[selected] if vision_sensors else {})
    return arrays.frame(time, crashed, detail, selected)


def _status(track: DroneRecord, name: str, time: float) -> bool:
    """Whether a drone has "landed" or "crashed" at a time [s], according to its recording."""
    flags = track.status(name)
    if not len(flags):
        return False
    row = int(np.searchsorted(track.tables["status"].times_us, time * MICROSECONDS, side="right")) - 1
    return row >= 0 and bool(flags[row])


def _interpolate_row(track: DroneRecord, name: str, time: float) -> Array:
    """Interpolate a row of states, estimates or references."""
    table = track.tables[name]
    row, fraction = find_row(table.times_us, time)
    if name in ("state", "estimate"):
        return interpolate_state(table.rows, row, fraction)
    lower: Array = table.rows[row]
    return lower if fraction == 0.0 else lower + fraction * (table.rows[row + 1] - lower)


def _reference_position(track: DroneRecord, time: float, p_W: Array) -> Array:
    """Return the desired position at a time, or the drone's own for a flight without a reference."""
    desired = _interpolate_row(track, "reference", time)[:3] if "reference" in track.tables else p_W
    return desired if np.isfinite(desired).all() else p_W


def _latest_row(track: DroneRecord, name: str, time: float) -> tuple[float, ...]:
    table = track.tables[name]
    return tuple(table.rows[find_row(table.times_us, time)[0]].tolist())


def _cable_attached(track: DroneRecord, time: float) -> bool:
    fields = track.tables["environment"].fields
    return CABLE_FIELD not in fields or _latest_row(track, "environment", time)[fields.index(CABLE_FIELD)] > 0.5


def _environment_fields(track: DroneRecord) -> list[str]:
    return [f for f in track.tables["environment"].fields if f not in (*LOAD_FIELDS, CABLE_FIELD)]


def _recorded_detail(track: DroneRecord, time: float, vision_sensors: Mapping[str, Sensor]) -> DroneDetail:
    environment = _latest_row(track, "environment", time)[: len(_environment_fields(track))]
    state = _interpolate_row(track, "state", time)
    return DroneDetail(
        track.name,
        track.vehicle,
        tuple(state.tolist()),
        _latest_row(track, "command", time),
        environment,
        Vec3(*_reference_position(track, time, state[:3]).tolist()) if "reference" in track.tables else None,
        track.controller,
        "",
        _status(track, "landed", time),
        _status(track, "crashed", time),
        {
            name: (table.fields, table.units, _latest_row(track, name, time))
            for name, table in track.tables.items()
            if is_reading(table) and len(table.times_us) and not is_image(table.fields)
        },
        tuple(
            vision_frame(track, sensor, time)
            for name, sensor in vision_sensors.items()
            if len(track.tables[name].times_us) and time * MICROSECONDS >= track.tables[name].times_us[0]
        ),
    )
