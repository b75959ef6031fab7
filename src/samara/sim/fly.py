"""`samara.fly`: fly a scenario and record it to a file, or in memory."""

import hashlib
import inspect
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from samara.compiler.stepper import FLIGHT_BACKENDS as BACKENDS
from samara.compiler.stepper import require_backend
from samara.control.controller_type import plain_option
from samara.control.policy_file import Policy
from samara.control.registry import ControllerSpec
from samara.core.sanitise import suggest_closest
from samara.physics.types import Vehicle
from samara.record.flight_streams import drone_streams
from samara.record.load import load_own_run
from samara.record.recorder import BackgroundRecorder, LogLine, Recorder, Stream
from samara.record.recording import RecordingError
from samara.record.run import DroneRecord, Run
from samara.record.streams import Attachments, RecordedStream, StreamBlock, concatenate_blocks
from samara.scenario.autopilot import Autopilot
from samara.scenario.changes import (
    Changes,
    ControllerChoice,
    SensorChoice,
    VehicleChoice,
    WindChoice,
    change_scenario,
)
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.snapshot import BUS_SCHEMA_VERSION
from samara.scenario.timeline import MICROSECONDS
from samara.scenario.world import WORLD_FILE, world_json
from samara.sim.initial_state import scenario_timeline
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.sim.stage import StageArrangement
from samara.sim.varied import varied_scenario
from samara.vehicles.effects import EffectOption
from samara.world.track import Track as RaceTrack

Progress = Callable[[float, float], None]
PATH_POINTS = 401  # points of a drone's reference path in the 3D scene
MIN_SLEEP = 2e-3  # [s]: shorter sleeps cost more than they wait


class ExecutionOptions(TypedDict, total=False):
    """How `fly` executes a flight; none of these options changes its bits."""

    overwrite: bool
    realtime: bool
    progress: Progress
    on_message: Callable[[str], None]
    full_resolution: bool
    step_by_step: bool


def fly(
    scenario: str | Path | Scenario = "waypoints",
    *,
    vehicle: VehicleChoice | None = None,
    controller: ControllerChoice | None = None,
    wind: WindChoice | None = None,
    sensors: SensorChoice | None = None,
    seed: int | None = None,
    duration: float | None = None,
    autopilot: Autopilot | None = None,
    settings: Mapping[str, object] | None = None,
    vary: Mapping[str, object] | None = None,
    effects: Sequence[EffectOption] = (),
    stages: StageArrangement = lambda standard: standard,
    backend: str | None = None,
    out: str | Path | None = None,
    **execution: Unpack[ExecutionOptions],
) -> Run:
    """Fly a scenario and return the run.

    Args:
        scenario: name of a shipped scenario, path of a TOML file, or a `Scenario`.
        vehicle: vehicle of all drones: a shipped name, the path of a TOML file, or a `Vehicle`.
        controller: controller of all drones: a name, the folder of a policy, `"file.py:function"`,
            `samara.control.controller_spec("mpc", position_weight=60.0)`, or a function `f(state, reference, vehicle)` that
            returns a command, or `f(state, reference, vehicle, controller_state)` that returns (command, controller_state).
            The first controller state is the function's attribute `initial_state`, by default ().
        wind: speed of a steady wind [m/s], from the scenario's direction or the west; velocity of the air in world axes
            [m/s]; "none"; a model and its mean speed, such as "dryden:6"; a [wind] table or a list of them; or a source of
            `samara.wind`.
        sensors: sensors of all drones: names, tables or sensors, as in a scenario's file; "none" removes them.
        seed: seed of all random numbers.
        duration: duration of the flight [s].
        autopilot: autopilot that flies all drones instead of a controller.
        settings: changes of other keys of a scenario given by name or path, such as {"drones.yaw_deg": 90.0}.
        vary: parameters by name, as in `samara.fly_many`, with the value of this flight: {"mass": 1.1}.
        effects: custom effects that the scenario and its vehicles may name.
        stages: function of the standard stages that returns the stages to run; see `samara.sim.stage`.
        backend: "llvm" (default), "numpy", "jax" or "python" for the physics; "python" uses plain floats, so that a debugger
            stops inside an equation. Results agree to rounding, and a recording replays on the backend it was flown on.
        out: MCAP file to record to; without it the flight stays in memory.
        execution: `overwrite` replaces an existing recording; `realtime` waits for the wall clock; `progress(now, total)`
            and `on_message(text)` are called during the flight; `full_resolution=False` thins a long recorded flight to as many
            rows as a plot shows; `step_by_step` steps from Python instead of running one compiled program (slower,
            bit-identical).

    Returns:
        The run; `run.problem` is the reason if the flight ended early or its recording is incomplete.
    """
    unknown = sorted(execution.keys() - ExecutionOptions.__annotations__.keys())
    if unknown:
        arguments = [*inspect.signature(fly).parameters, *ExecutionOptions.__annotations__]
        suggestion = suggest_closest(unknown[0], arguments)
        raise TypeError(f"fly() got an unexpected keyword argument {unknown[0]!r}{suggestion}")
    if out is not None and Path(out).suffix != ".mcap":
        raise RecordingError(f"out = {str(out)!r}: expected a file whose name ends in .mcap")
    changes = Changes(vehicle, controller, wind, sensors, seed, duration)
    flown_scenario = change_scenario(scenario, changes, settings, effects=effects)
    if backend is not None:
        require_backend(backend, BACKENDS)
        flown_scenario = replace(flown_scenario, backend=backend)
    if autopilot is not None:
        from samara.scenario.autopilot_sensors import assign_autopilot

        flown_scenario = assign_autopilot(flown_scenario, autopilot)
    variation = None
    if vary:
        flown_scenario, variation = varied_scenario(flown_scenario, vary)
    realtime, step_by_step = execution.get("realtime", False), execution.get("step_by_step", False)
    progress = execution.get("progress", lambda now, total: None)
    on_message = execution.get("on_message", lambda message: None)
    if out is None:
        return _fly_in_memory(
            flown_scenario, realtime, progress, on_message, stages, variation, step_by_step=step_by_step
        )
    overwrite = execution.get("overwrite", False)
    with (
        create_recorder(flown_scenario, out, overwrite=overwrite, variation=variation) as recorder,
        BackgroundRecorder(recorder) as background,
    ):
        simulation = Simulation(flown_scenario, background.write_blocks, on_message, stages, variation=variation)
        _fly_to_end(simulation, realtime, progress, step_by_step=step_by_step)
        background.write_blocks([], [final_log_line(simulation)])
    ended = simulation.end_reason
    del simulation  # frees the rows of the last second
    return load_recorded_run(recorder, flown_scenario, ended, full_resolution=execution.get("full_resolution", True))


def create_recorder(
    scenario: Scenario, out: str | Path, *, overwrite: bool, variation: Variation | None = None
) -> Recorder:
    """Create the recorder that writes a flight of this scenario to a file."""
    from samara.record.foxglove import scene_message

    reference_paths = {drone.name: drone.task.sample_path(scenario.duration, PATH_POINTS) for drone in scenario.drones}
    scene = scene_message({drone.name: drone.vehicle for drone in scenario.drones}, scenario.world, reference_paths)
    streams = scenario_streams(scenario)
    return Recorder(
        out,
        streams,
        run_metadata(scenario, variation),
        recording_attachments(scenario),
        overwrite=overwrite,
        scene=scene,
    )


def load_recorded_run(recorder: Recorder, scenario: Scenario, end_reason: str, *, full_resolution: bool = True) -> Run:
    """Load the run from its file; its `problem` is that of the recorder, else `end_reason`, else the run's own."""
    try:
        run = load_own_run(
            recorder.path, {drone.name: drone.vehicle for drone in scenario.drones}, all_rows=full_resolution
        )
    except RecordingError:
        if recorder.problem:  # explains why the file is incomplete
            raise RecordingError(recorder.problem) from None
        raise
    return replace(run, problem=recorder.problem or end_reason or run.problem)


def _fly_to_end(simulation: Simulation, realtime: bool, progress: Progress, *, step_by_step: bool = False) -> None:
    """Fly to the end; pass the recorded rows to the sink even if the flight is interrupted."""
    try:
        if realtime:
            _fly_in_real_time(simulation, progress)
        else:
            simulation.run(progress, step_by_step=step_by_step)
    except BaseException:
        simulation.flush()
        simulation.close()
        raise


def _fly_in_real_time(simulation: Simulation, progress: Progress) -> None:
    started, total = time.perf_counter(), simulation.timeline.end_us / MICROSECONDS
    while simulation.advance():
        now = simulation.time_us / MICROSECONDS
        if simulation.time_us % MICROSECONDS == 0 < simulation.time_us:
            simulation.flush()  # blocks may be longer than 1 s: a killed process loses at most one second
        ahead = now - (time.perf_counter() - started)
        if ahead > MIN_SLEEP:
            progress(now, total)
            time.sleep(ahead)
    progress(simulation.time_us / MICROSECONDS if simulation.end_reason else total, total)


def final_log_line(simulation: Simulation) -> LogLine:
    """Return the last line of the log: landed, in the air, or crashed."""
    drones = simulation.scenario.drones
    crashed_names = [drones[index].name for index in np.flatnonzero(simulation.crashed)]
    outcome = "landed" if all(simulation.landed) else "in the air"
    if crashed_names:
        outcome = f"crashed: {', '.join(crashed_names)}" if len(drones) > 1 else "crashed"
    return LogLine(simulation.time_us, "info", simulation.scenario.name, outcome)


def _fly_in_memory(
    scenario: Scenario,
    realtime: bool,
    progress: Progress,
    on_message: Callable[[str], None],
    stages: StageArrangement,
    variation: Variation | None = None,
    *,
    step_by_step: bool,
) -> Run:
    recorded_blocks: list[StreamBlock] = []
    logs: list[LogLine] = []

    def sink(blocks: Sequence[StreamBlock], lines: Sequence[LogLine]) -> None:
        recorded_blocks.extend(blocks)
        logs.extend(lines)

    simulation = Simulation(scenario, sink, on_message, stages, variation=variation)
    _fly_to_end(simulation, realtime, progress, step_by_step=step_by_step)
    logs.append(final_log_line(simulation))
    rows_by_topic = concatenate_blocks(recorded_blocks)
    tables: dict[str, dict[str, RecordedStream]] = {drone.name: {} for drone in scenario.drones}
    for topic, fields, units, schema_name, raster in scenario_streams(scenario):
        if topic in rows_by_topic:
            _, drone_name, name = topic.split("/", 2)
            tables[drone_name][name] = RecordedStream(fields, units, schema_name, *rows_by_topic[topic], raster)
    return Run(
        scenario.name,
        tuple(
            DroneRecord(drone.name, drone.vehicle, drone.controller_name, tables[drone.name])
            for drone in scenario.drones
        ),
        tuple(logs),
        run_metadata(scenario, variation),
        recording_attachments(scenario),
        simulation.end_reason,
    )


def _controller_options(drone: Drone) -> dict[str, object]:
    """Return the options of a tuned controller, as an entry of the metadata; {} if it has the default options."""
    controller = drone.controller
    if not isinstance(controller, ControllerSpec) or not controller.options or drone.autopilot:
        return {}
    options = {key: _option_metadata(value) for key, value in controller.options}
    return {"controller_options": options}


def _option_metadata(value: object) -> object:
    """Convert an option for the metadata: a policy to its description, a track to its name."""
    if isinstance(value, Policy):
        return value.metadata
    return value.name if isinstance(value, RaceTrack) else plain_option(value)


def scenario_streams(scenario: Scenario) -> list[Stream]:
    """Return the streams of all drones; an estimate that equals the true state is not recorded twice."""
    streams_by_identity: dict[tuple[int, ...], dict[str, Stream]] = {}  # equal drones share field names and units
    streams = []
    for drone in scenario.drones:
        identity = drone.vehicle, drone.controller, drone.estimator, drone.sensors, drone.autopilot
        key = tuple(map(id, identity))
        if key not in streams_by_identity:
            streams_by_identity[key] = drone_streams(drone)
        for name, stream in streams_by_identity[key].items():
            if name != "estimate" or drone.estimator.name != "truth":
                streams.append(stream._replace(topic=f"/{drone.name}/{name}"))
    return streams


def run_metadata(scenario: Scenario, variation: Variation | None = None) -> dict[str, str]:
    """Return the metadata of a recording: everything needed to repeat the flight."""
    from samara.core.version import __version__

    timeline = scenario_timeline(scenario)
    return {
        "schema": str(BUS_SCHEMA_VERSION),
        "scenario": scenario.name,
        "description": scenario.description,
        "seed": str(scenario.seed),
        "duration": repr(scenario.duration),
        "rates": json.dumps(asdict(scenario.rates)),
        "instants_us": json.dumps(timeline.extra_us),
        "integrator": scenario.integrator,
        **({} if scenario.backend == "llvm" else {"backend": scenario.backend}),
        **(
            {"varied": json.dumps(dict(variation.base_values))}
            if variation is not None and variation.base_values
            else {}
        ),
        "settings": json.dumps(dict(scenario.settings), default=_json_default),
        "versions": json.dumps({"samara": __version__, "python": platform.python_version(), "numpy": np.__version__}),
        "drones": json.dumps(
            [
                {
                    "name": drone.name,
                    "vehicle": drone.vehicle.name,
                    "controller": drone.controller_name,
                    **_controller_options(drone),
                    "estimator": drone.estimator.name,
                }
                for drone in scenario.drones
            ]
        ),
    }


def _json_default(value: object) -> object:
    """Convert a value that JSON cannot express, such as an array or a date of a TOML file."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def recording_attachments(scenario: Scenario) -> Attachments:
    """Collect the files inside a recording: the scenario's text, the tables it names, and each drone's vehicle."""
    files: dict[str, bytes | Vehicle] = {}
    if scenario.text:
        files |= {**scenario.files, "scenario.toml": scenario.text.encode()}
    if not scenario.world.is_empty:
        files[WORLD_FILE] = world_json(scenario.world).encode()
    embedded = {content for content in files.values() if isinstance(content, bytes)}
    files |= {f"vehicle/{drone.name}.toml": drone.vehicle for drone in scenario.drones}
    for policy in dict.fromkeys(candidate for candidate in map(drone_policy, scenario.drones) if candidate is not None):
        files |= {f"policy/{policy.digest}/{name}": data for name, data in policy.files if data not in embedded}
    return Attachments(files)


def drone_policy(drone: Drone) -> Policy | None:
    """Return the policy that flies a drone, None if it is not flown by a policy with files."""
    policy = drone.controller.option_values.get("file") if isinstance(drone.controller, ControllerSpec) else None
    return policy if isinstance(policy, Policy) and not drone.autopilot else None


def fingerprint(run: Run) -> str:
    """Return the SHA-256 over the state streams (times and values) of all drones in order."""
    digest = hashlib.sha256()
    for track in run.drone_records:
        table = track.tables["state"]
        digest.update(np.ascontiguousarray(table.times_us, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(table.rows, dtype="<f8").tobytes())
    return digest.hexdigest()
