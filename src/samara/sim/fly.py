"""`samara.fly`: a scenario, flown; recorded to a file while it flies, or kept in memory."""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from samara.compiler.stepper import IN_FLIGHT as BACKENDS
from samara.compiler.stepper import require_backend
from samara.control.policy_file import Policy
from samara.control.registry import Tuned, name_of
from samara.physics.types import Vehicle
from samara.record.flight_streams import streams_of
from samara.record.load import load_flown_run
from samara.record.recorder import Background, LogLine, Recorder, Stream
from samara.record.recording import RecordingError
from samara.record.run import Run, Track
from samara.record.streams import Attachments, Block, Table, tables
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import at_own_rate
from samara.scenario.load import load_scenario
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.snapshot import BUS_SCHEMA_VERSION
from samara.scenario.timeline import MICROSECONDS
from samara.scenario.world import WORLD_FILE, world_json
from samara.sim.initial_state import timeline_of
from samara.sim.setup import Variation
from samara.sim.simulation import Simulation
from samara.sim.stage import Arrange
from samara.sim.varied import varied_scenario
from samara.vehicles.effects import EffectOption
from samara.world.track import Track as RaceTrack

Progress = Callable[[float, float], None]
PATH_POINTS = 401  # of the path a drone is asked to fly, in the picture of it
SHORTEST_SLEEP = 2e-3  # [s]: less is not worth asking the system for


class ExecutionOptions(TypedDict, total=False):
    """How `fly` executes a flight; none of these options changes its bits."""

    overwrite: bool
    realtime: bool
    progress: Progress
    tell: Callable[[str], None]
    whole: bool
    step_by_step: bool


def fly(
    scenario: str | Path | Scenario = "waypoints",
    *,
    controller: str | Tuned | Callable[..., Any] | None = None,
    autopilot: Autopilot | None = None,
    settings: Mapping[str, object] | None = None,
    vary: Mapping[str, object] | None = None,
    effects: Sequence[EffectOption] = (),
    stages: Arrange = lambda standard: standard,
    backend: str | None = None,
    out: str | Path | None = None,
    **execution: Unpack[ExecutionOptions],
) -> Run:
    """Fly a scenario and return the run.

    Args:
        scenario: name of a shipped scenario, path of a TOML file, or a `Scenario`.
        controller: controller of all drones: a name, `tuned("ilqr", position_weight=60.0)` of `samara.control.registry`, or
            a function.
        autopilot: autopilot that flies all drones instead of a controller.
        settings: changes of a scenario given by name or path, such as {"duration": 5.0, "drones.vehicle": "iris"}.
        vary: parameters by name, as in `samara.fly_many`, with the value of this flight: {"mass": 1.1}.
        effects: custom effects that the scenario and its vehicles may name.
        stages: function of the standard stages that returns the stages to run; see `samara.sim.stage`.
        backend: "llvm" (default), "numpy", "jax" or "python" for the physics; "python" uses plain floats, so that a debugger
            stops inside an equation. Results agree to rounding, and a recording replays on the backend it was flown on.
        out: MCAP file to record to; without it the flight stays in memory.
        execution: `overwrite` replaces an existing recording; `realtime` waits for the wall clock; `progress(now, total)`
            and `tell(message)` are called during the flight; `whole=False` returns a long recorded flight with as many rows
            as a picture shows; `step_by_step` steps from Python instead of running one compiled program (slower,
            bit-identical).
    """
    unknown = sorted(execution.keys() - ExecutionOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"fly() got an unexpected keyword argument {unknown[0]!r}")
    if isinstance(scenario, Scenario):
        if settings:
            raise ValueError(
                "settings change a scenario that is a name or a file; this one is a record: use dataclasses.replace"
            )
        flight = scenario
    else:
        flight = load_scenario(scenario, settings or {}, effects=effects)
    if controller is not None:
        drones = tuple(replace(drone, controller=controller) for drone in flight.drones)
        flight = at_own_rate(replace(flight, drones=drones))
    if backend is not None:
        require_backend(backend, BACKENDS)
        flight = replace(flight, backend=backend)
    if autopilot is not None:
        from samara.scenario.autopilot_sensors import flown_by

        flight = flown_by(flight, autopilot)
    variation = None
    if vary:
        flight, variation = varied_scenario(flight, vary)
    realtime, step_by_step = execution.get("realtime", False), execution.get("step_by_step", False)
    progress = execution.get("progress", lambda now, total: None)
    tell = execution.get("tell", lambda message: None)
    if out is None:
        return _in_memory(flight, realtime, progress, tell, stages, variation, step_by_step=step_by_step)
    overwrite = execution.get("overwrite", False)
    with recorder_of(flight, out, overwrite=overwrite, variation=variation) as recorder, Background(recorder) as behind:
        simulation = Simulation(flight, behind.write_blocks, tell, stages, variation=variation)
        _to_the_end(simulation, realtime, progress, step_by_step=step_by_step)
        behind.write_blocks([], [ending(simulation)])
    ended = simulation.ended
    del simulation  # frees the rows of the last second
    return recorded(recorder, flight, ended, whole=execution.get("whole", True))


def recorder_of(
    scenario: Scenario, out: str | Path, *, overwrite: bool, variation: Variation | None = None
) -> Recorder:
    """What writes a flight of this scenario to a file while it is flown"""
    from samara.record.foxglove import scene_message

    asked = {drone.name: drone.task.path(scenario.duration, PATH_POINTS) for drone in scenario.drones}
    scene = scene_message({drone.name: drone.vehicle for drone in scenario.drones}, scenario.world, asked)
    streams = all_streams(scenario)
    return Recorder(out, streams, about(scenario, variation), attachments(scenario), overwrite=overwrite, scene=scene)


def recorded(recorder: Recorder, scenario: Scenario, ended: str, *, whole: bool = True) -> Run:
    """The run as its file has it, with what went wrong on the way, or why it `ended`"""
    try:
        run = load_flown_run(recorder.path, {drone.name: drone.vehicle for drone in scenario.drones}, whole=whole)
    except RecordingError:
        if recorder.problem:  # why there is too little in it
            raise RecordingError(recorder.problem) from None
        raise
    return replace(run, problem=recorder.problem or ended or run.problem)


def _to_the_end(simulation: Simulation, realtime: bool, progress: Progress, *, step_by_step: bool = False) -> None:
    """Flies it; what was flown is handed on even when it is stopped on the way."""
    try:
        if realtime:
            _by_the_clock(simulation, progress)
        else:
            simulation.run(progress, step_by_step=step_by_step)
    except BaseException:
        simulation.flush()
        simulation.close()
        raise


def _by_the_clock(simulation: Simulation, progress: Progress) -> None:
    started, total = time.perf_counter(), simulation.timeline.end_us / MICROSECONDS
    while simulation.advance():
        now = simulation.time_us / MICROSECONDS
        if simulation.time_us % MICROSECONDS == 0 < simulation.time_us:
            simulation.flush()  # a block may be longer: who is killed by the clock loses a second at most
        ahead = now - (time.perf_counter() - started)
        if ahead > SHORTEST_SLEEP:
            progress(now, total)
            time.sleep(ahead)
    progress(simulation.time_us / MICROSECONDS if simulation.ended else total, total)


def ending(simulation: Simulation) -> LogLine:
    """The last word of a flight"""
    drones = simulation.scenario.drones
    wrecks = [drones[index].name for index in np.flatnonzero(simulation.crashed)]
    words = "landed" if all(simulation.landed) else "in the air"
    if wrecks:
        words = f"crashed: {', '.join(wrecks)}" if len(drones) > 1 else "crashed"
    return LogLine(simulation.time_us, "info", simulation.scenario.name, words)


def _in_memory(
    scenario: Scenario,
    realtime: bool,
    progress: Progress,
    tell: Callable[[str], None],
    stages: Arrange,
    variation: Variation | None = None,
    *,
    step_by_step: bool,
) -> Run:
    kept: list[Block] = []
    logs: list[LogLine] = []

    def sink(blocks: Sequence[Block], lines: Sequence[LogLine]) -> None:
        kept.extend(blocks)
        logs.extend(lines)

    simulation = Simulation(scenario, sink, tell, stages, variation=variation)
    _to_the_end(simulation, realtime, progress, step_by_step=step_by_step)
    logs.append(ending(simulation))
    tracks, found = [], tables(kept)
    for drone in scenario.drones:
        own = {
            name: Table(stream.fields, stream.units, stream.kind, *found[stream.topic], stream.raster)
            for name, stream in streams_of(drone).items()
            if stream.topic in found
        }
        tracks.append(Track(drone.name, drone.vehicle, controller_name(drone), own))
    return Run(
        scenario.name, tuple(tracks), tuple(logs), about(scenario, variation), attachments(scenario), simulation.ended
    )


def controller_name(drone: Drone) -> str:
    """What a drone's controller is called: its name, or that of the function"""
    if drone.autopilot is not None:
        return drone.autopilot.kind
    return name_of(drone.controller)


def _chosen(drone: Drone) -> dict[str, object]:
    """What was chosen of its controller by name; nothing for one that is as its name says"""
    own = drone.controller
    if not isinstance(own, Tuned) or not own.options or drone.autopilot:
        return {}
    chosen = {key: _told(value) for key, value in own.options}
    return {"controller_options": chosen}


def _told(value: object) -> object:
    """What a recording says of something chosen: of a policy what it is, of a track its name"""
    return value.about if isinstance(value, Policy) else value.name if isinstance(value, RaceTrack) else value


def all_streams(scenario: Scenario) -> list[Stream]:
    """The streams of all its drones; an estimate that is the truth is not recorded twice"""
    kinds: dict[tuple[int, ...], dict[str, Stream]] = {}  # a thousand drones of one kind have the same names and units
    found = []
    for drone in scenario.drones:
        alike = drone.vehicle, drone.controller, drone.estimator, drone.sensors, drone.autopilot
        key = tuple(map(id, alike))
        if key not in kinds:
            kinds[key] = streams_of(drone)
        for name, stream in kinds[key].items():
            if name != "estimate" or drone.estimator.name != "truth":
                found.append(stream._replace(topic=f"/{drone.name}/{name}"))
    return found


def about(scenario: Scenario, variation: Variation | None = None) -> dict[str, str]:
    """What a recording says of itself: all that is needed to fly the same inputs again"""
    from samara.core.version import __version__

    timeline = timeline_of(scenario)
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
        "settings": json.dumps(dict(scenario.settings), default=_plain),
        "versions": json.dumps({"samara": __version__, "python": platform.python_version(), "numpy": np.__version__}),
        "drones": json.dumps(
            [
                {
                    "name": drone.name,
                    "vehicle": drone.vehicle.name,
                    "controller": controller_name(drone),
                    **_chosen(drone),
                    "estimator": drone.estimator.name,
                }
                for drone in scenario.drones
            ]
        ),
    }


def _plain(value: object) -> object:
    """What JSON has no form for, such as an array or a date of a TOML file."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def attachments(scenario: Scenario) -> Attachments:
    """The files inside a recording: the scenario's text and the tables it names, and each drone's vehicle"""
    files: dict[str, bytes | Vehicle] = {}
    if scenario.text:
        files |= {**scenario.files, "scenario.toml": scenario.text.encode()}
    if not scenario.world.empty:
        files[WORLD_FILE] = world_json(scenario.world).encode()
    embedded = {content for content in files.values() if isinstance(content, bytes)}
    files |= {f"vehicle/{drone.name}.toml": drone.vehicle for drone in scenario.drones}
    for policy in dict.fromkeys(own for own in map(policy_of, scenario.drones) if own is not None):
        files |= {f"policy/{policy.digest}/{name}": data for name, data in policy.files if data not in embedded}
    return Attachments(files)


def policy_of(drone: Drone) -> Policy | None:
    """The policy that flies a drone, where one does that has files"""
    own = drone.controller.chosen.get("file") if isinstance(drone.controller, Tuned) else None
    return own if isinstance(own, Policy) and not drone.autopilot else None


def fingerprint(run: Run) -> str:
    """SHA-256 over the state streams, times and numbers, of all drones in their order"""
    digest = hashlib.sha256()
    for track in run.tracks:
        table = track.tables["state"]
        digest.update(np.ascontiguousarray(table.times_us, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(table.rows, dtype="<f8").tobytes())
    return digest.hexdigest()
