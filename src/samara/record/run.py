"""A run: the result of a flight, as arrays with names and units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.atomic_files import parse_json
from samara.core.budget import resolve_sibling_path
from samara.core.lazy_import import present
from samara.core.sanitise import quote_value
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import state_at_rest, tilt_angles
from samara.physics.types import State, Vehicle
from samara.record.flight_arrays import FlightArrays, NedFlight, stream_in_ned
from samara.record.image_stream import PixelFormat
from samara.record.metrics.recorded import RecordedMetrics
from samara.record.metrics.summary import Summary, describe_drone, describe_run, summary
from samara.record.recorder import LogLine, Recorder, Stream
from samara.record.recording import RecordingError
from samara.record.streams import RecordedStream, Recording
from samara.scenario.expectations import DroneResult, ExpectationResult, evaluate_expectations
from samara.scenario.flight_events import Occurrence, describe_occurrence, parse_occurrence
from samara.scenario.scenario import Expectations, Scenario
from samara.scenario.world import recorded_world
from samara.vehicles.defaults import cable_ends, is_airborne
from samara.vehicles.effects import EffectOption
from samara.vehicles.loader import parse_vehicle


class Flight(FlightArrays):
    """One drone's part of a run: its arrays, and what follows from them and the vehicle."""

    vehicle: Vehicle
    controller: str

    @property
    def metrics(self) -> RecordedMetrics:
        """Its metrics over all recorded rows."""
        raise NotImplementedError

    @property
    def clipped_command_count(self) -> int:
        """Count of command components of a custom controller that were out of range and clipped."""
        return int(self.metrics.clipped_commands.total)

    @cached_property
    def cable(self) -> Array:
        """Positions of hook and slung load, (m, 2, 3)  [m]; after the release both are the load; without one (0, 2, 3)."""
        if not self.vehicle.has("slung_load"):
            return np.empty((0, 2, 3))
        is_attached = np.full(len(self.time), True)
        if "cable_attached" in self.tables["environment"].fields:
            is_attached = self.environment("cable_attached") > 0.5
        return np.moveaxis(np.array(cable_ends(self._states, self.vehicle, is_attached)), 2, 0)

    @cached_property
    def servo_angle(self) -> Array:
        """δ of every servo that tilts a rotor, in the order of `vehicle.servos`, (m, servos)  [rad]."""
        angles = tilt_angles(self._states, self.vehicle)
        return np.stack(angles, axis=1) if angles else np.empty((len(self.time), 0))

    @cached_property
    def ground(self) -> Ground:
        """The ground plane below the drone at every logged time."""
        return Ground(Vec3(*self.environment("ground.point_W").T), Vec3(*self.environment("ground.normal_W").T))

    @cached_property
    def airborne(self) -> Array:
        """Whether no part of the drone touched the ground, at every logged time, (m,)."""
        return np.broadcast_to(is_airborne(self._states, self.vehicle, self.ground), self.time.shape)

    @property
    def landed(self) -> bool:
        """Whether it flew and ended at rest on its feet, by its status: a crashed drone has not landed.

        False for a flight log, which has no status.
        """
        return self.is_simulated and bool(self.metrics.airborne_samples.total and self.status("landed")[-1:].any())

    @property
    def _states(self) -> State:
        """Every logged state; its components are arrays."""
        return unflatten(state_at_rest(self.vehicle), iter(self.tables["state"].rows.T))


@dataclass(frozen=True, eq=False, repr=False)
class DroneRecord(Flight):
    """One drone's part of a run. Arrays have time first; `tables` holds every recorded stream with names and units.

    If `tables` do not hold every row, `merged_metrics` are the metrics of all rows.
    """

    name: str
    vehicle: Vehicle
    controller: str
    tables: Mapping[str, RecordedStream]
    merged_metrics: RecordedMetrics | None = None

    @cached_property
    def metrics(self) -> RecordedMetrics:
        """Its metrics over all recorded rows."""
        return self.merged_metrics or RecordedMetrics(self)

    def summary(self) -> Summary:
        """The main metrics as numbers with units: tracking, end of the flight, effort."""
        return summary(self)

    def in_ned(self) -> NedFlight:
        """Return the arrays in the frames NED (north, east, down) and FRD (forward, right, down); see `NedFlight`."""
        return NedFlight(self.name, {name: stream_in_ned(table) for name, table in self.tables.items()})

    def __repr__(self) -> str:
        return f"DroneRecord {self.name}: {describe_drone(self)}"


class CheckedExpectation(NamedTuple):
    """One expectation of a scenario in words, and whether it is satisfied."""

    text: str
    satisfied: bool


@dataclass(frozen=True, eq=False, repr=False)
class Run(Flight):
    """A flight of one or more drones. `run["name"]` is a drone's record; the attributes of the first drone are the run's."""

    scenario: str
    drone_records: tuple[DroneRecord, ...]
    logs: tuple[LogLine, ...]
    metadata: Mapping[str, str]
    attachments: Mapping[str, bytes]
    problem: str = ""
    vehicle: Vehicle = field(init=False)
    controller: str = field(init=False)
    tables: Mapping[str, RecordedStream] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("vehicle", "controller", "tables"):
            object.__setattr__(self, name, getattr(self.drone_records[0], name))

    def __getitem__(self, name: str) -> DroneRecord:
        for drone_record in self.drone_records:
            if drone_record.name == name:
                return drone_record
        raise KeyError(
            f"no drone {name!r}; there are {', '.join(drone_record.name for drone_record in self.drone_records)}"
        )

    @property
    def metrics(self) -> RecordedMetrics:
        """Metrics of the first drone over all recorded rows."""
        return self.drone_records[0].metrics

    def summary(self) -> Summary:
        """The main metrics of the first drone as numbers with units: tracking, end of the flight, effort."""
        return self.drone_records[0].summary()

    def in_ned(self) -> NedFlight:
        """Return the first drone's arrays in the frames NED (north, east, down) and FRD (forward, right, down).

        `run["name"].in_ned()` returns those of another drone.
        """
        return self.drone_records[0].in_ned()

    @property
    def crashed(self) -> tuple[str, ...]:
        """Names of the drones that hit the ground too hard, or lay on it."""
        return tuple(drone_record.name for drone_record in self.drone_records if drone_record.status("crashed").any())

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """The occurrences of all drones in the order of time; `run.describe(occurrence)` describes one."""
        occurrences = [
            parse_occurrence(time_us, drone, row)
            for drone, drone_record in enumerate(self.drone_records)
            if "occurrence" in drone_record.tables
            for time_us, row in zip(
                drone_record.tables["occurrence"].times_us.tolist(),
                drone_record.tables["occurrence"].rows.tolist(),
                strict=True,
            )
        ]
        return tuple(sorted(occurrences, key=lambda occurrence: occurrence.time_us))

    def describe(self, occurrence: Occurrence) -> str:
        """Describe an occurrence in a sentence."""
        return describe_occurrence(
            occurrence,
            [drone_record.name for drone_record in self.drone_records],
            recorded_world(self.attachments).obstacles,
        )

    def save(self, path: str | Path, *, stream: str = "state", overwrite: bool = False) -> Path:
        """Write the run to a file; return its path.

        Args:
            path: `.mcap` holds the whole run, and `samara.load_run` loads it; `.csv` and `.parquet` hold one stream as a table.
            stream: the stream of a table, as in `to_pandas`. If there are several drones, the first column has their names.
            overwrite: replace an existing file.
        """
        path = Path(path)
        if path.suffix not in (".mcap", ".csv", ".parquet"):
            raise RecordingError(f"{path}: suffix {path.suffix!r}: expected .mcap, .csv or .parquet")
        if path.suffix == ".mcap":
            self._save_recording(path, overwrite)
        else:
            self._save_table(path, stream, overwrite)
        return path

    def _save_table(self, path: Path, stream: str, overwrite: bool) -> None:
        from samara.record.export import write_csv, write_parquet

        tables = {drone_record.name: drone_record.stream(stream) for drone_record in self.drone_records}
        if len({table.fields for table in tables.values()}) > 1:
            raise RecordingError(f"{path}: the drones' streams {stream!r} have different fields; expected .mcap")
        if path.exists() and not overwrite:
            raise RecordingError(f"{path}: exists; expected a new file, or overwrite=True")
        if path.suffix == ".csv":
            write_csv(tables, path)
        else:
            write_parquet(tables, path, self.metadata)

    def _save_recording(self, path: Path, overwrite: bool) -> None:
        streams = [
            Stream(f"/{drone_record.name}/{name}", table.fields, table.units, table.schema_name, table.lossless_raster)
            for drone_record in self.drone_records
            for name, table in drone_record.tables.items()
        ]
        from samara.record.foxglove import scene_message

        reference_paths = {
            drone_record.name: drone_record.reference_position
            for drone_record in self.drone_records
            if "reference" in drone_record.tables and np.isfinite(drone_record.reference_position).all()
        }
        vehicles = {drone_record.name: drone_record.vehicle for drone_record in self.drone_records}
        scene = scene_message(vehicles, recorded_world(self.attachments), reference_paths)
        with Recorder(path, streams, self.metadata, self.attachments, overwrite=overwrite, scene=scene) as recorder:
            for second in range(int(self.drone_records[0].time[-1]) + 2):
                recorder.write(*self._chunk_data(second))
            if recorder.problem:
                raise OSError(recorder.problem)

    def _chunk_data(self, second: int) -> tuple[dict[str, tuple[Array, Array]], list[LogLine]]:
        """Return the blocks and log lines of one second: a chunk of the file."""
        low, high = second * 1_000_000, (second + 1) * 1_000_000
        blocks = {}
        for drone_record in self.drone_records:
            for name, table in drone_record.tables.items():
                first, last = np.searchsorted(table.times_us, (low, high))
                if last > first:
                    blocks[f"/{drone_record.name}/{name}"] = table.times_us[first:last], table.rows[first:last]
        return blocks, [line for line in self.logs if low <= line.time_us < high]

    def plot(self, subject: str | Path | None = None, path: str | Path | None = None) -> Any:
        """Plot the overview, or one subject such as "attitude"; write a file (.png, .svg, .pdf) if a path is given.

        `plot("run.png")` writes the overview to a file. Without a path the result is a Matplotlib figure.
        """
        return present("Run.plot", self, subject, path)

    def __repr__(self) -> str:
        return describe_run(self)

    def _repr_html_(self) -> str:
        return str(present("Run.html", self))


def check_expectations(run: Run, expect: Expectations) -> list[CheckedExpectation]:
    """Evaluate each expectation of a scenario for a run, in words."""
    has_several_drones = len(run.drone_records) > 1
    evaluated = expectation_outcomes(run, expect)
    return [
        CheckedExpectation(_describe_outcome(outcome, expect, has_several_drones), bool(outcome.satisfied))
        for outcome in evaluated
    ]


def expectation_outcomes(run: Run, expect: Expectations) -> list[ExpectationResult]:
    """Evaluate each expectation of a scenario for a run."""
    return list(evaluate_expectations(expect, [_drone_result(drone_record) for drone_record in run.drone_records]))


def _drone_result(drone_record: DroneRecord) -> DroneResult:
    return DroneResult(
        drone_record.name,
        drone_record.metrics.final_position.value,
        bool(drone_record.status("landed")[-1:].any()),
        bool(drone_record.status("crashed").any()),
        drone_record.metrics.metric,
    )


def _describe_outcome(outcome: ExpectationResult, expect: Expectations, has_several_drones: bool) -> str:
    field, suffix = outcome.field, f" of {outcome.drone}" if has_several_drones else ""
    if field == "no_crash":
        return "no crash" if not expect.crashed else f"no crash except of {', '.join(expect.crashed)}"
    if field == "crashed":
        return f"{outcome.drone} crashes"
    if field == "final_position":
        position = ", ".join(f"{x:g}" for x in expect.final_position or ())
        return f"ends within {expect.position_tolerance:g} m of ({position}): {outcome.value:.3f} m"
    if field == "landed":
        return "landed at the end" if expect.landed else "in the air at the end"
    if field == "max_tilt_deg":
        return f"tilt{suffix} at most {expect.max_tilt_deg:g}°: {outcome.value:.1f}°"
    if field == "max_error":
        return f"error{suffix} at most {expect.max_error:g} m: {outcome.value:.3f} m"
    return f"height{suffix} at least {expect.min_height:g} m: {outcome.value:.2f} m"


def run_from_recording(
    recording: Recording, effects: Sequence[EffectOption] = (), vehicles: Mapping[str, Vehicle] | None = None
) -> Run:
    """Return the run that a recording holds; the files of drones in `vehicles` are not parsed again."""
    vehicles_by_text: dict[str, Vehicle] = {}
    try:
        drones = parse_json(recording.metadata["drones"])
        drone_records = []
        tables_by_drone: dict[str, dict[str, RecordedStream]] = {
            drone_metadata["name"]: {} for drone_metadata in drones
        }
        for topic, table in recording.streams.items():
            _, _, relative_topic = topic.partition("/")
            drone, _, stream = relative_topic.partition("/")
            if drone in tables_by_drone and ("/" not in stream or isinstance(table.raster, PixelFormat)):
                tables_by_drone[drone][stream] = table
        for drone_metadata in drones:
            name = drone_metadata["name"]
            vehicle = (vehicles or {}).get(name)
            if vehicle is None:
                text = recording.attachments[f"vehicle/{name}.toml"].decode()
                if text not in vehicles_by_text:
                    vehicles_by_text[text] = parse_vehicle(text, f"{name}.toml", effects=effects)
                vehicle = vehicles_by_text[text]
            drone_records.append(DroneRecord(name, vehicle, drone_metadata["controller"], tables_by_drone[name]))
    except (KeyError, ValueError, TypeError) as error:
        raise RecordingError(
            f"{recording.path}: holds no flight ({type(error).__name__}: {error}); expected a run of `samara fly`"
        ) from None
    if not drone_records or any(
        "state" not in drone_record.tables or not len(drone_record.time) for drone_record in drone_records
    ):
        raise RecordingError(f"{recording.path}: holds no state of any drone; expected at least one")
    return Run(
        recording.metadata.get("scenario", recording.path.stem),
        tuple(drone_records),
        recording.logs,
        recording.metadata,
        recording.attachments,
        recording.problem,
    )


def embedded_scenario(run: Run) -> Scenario | None:
    """Return the scenario that a recording contains; None if there is none, or if it names files that are missing."""
    from samara.scenario.file import parse_scenario

    text, settings = scenario_text(run)
    try:
        effects = tuple(
            {
                option.name: option
                for drone_record in run.drone_records
                for option in drone_record.vehicle.structure.effect_options
            }.values()
        )
        return (
            parse_scenario(text, "scenario.toml", settings, recorded_files=run.attachments, effects=effects)
            if text
            else None
        )
    except (ValueError, OSError):
        return None


def scenario_text(run: Run) -> tuple[str, dict[str, object]]:
    """Return the text of the scenario, and the settings that changed it."""
    text = run.attachments.get("scenario.toml", b"").decode("utf-8", "replace")
    return text, metadata_table(run.metadata, "settings")


def metadata_value(metadata: Mapping[str, str], key: str) -> object:
    """Parse the JSON metadata under a key; return an empty table if that fails."""
    try:
        return parse_json(metadata.get(key, "{}"))
    except ValueError:
        return {}


def metadata_table(metadata: Mapping[str, str], key: str) -> dict[str, object]:
    """Parse the JSON table under a key; return an empty one for any other value."""
    value = metadata_value(metadata, key)
    return value if isinstance(value, dict) else {}


def recorded_policies(run: Run) -> dict[str, dict[str, str]]:
    """Return the task, vehicle, folder and SHA-256 of the policy that flew each drone, by drone."""
    policies = {}
    drones = parse_json(run.metadata.get("drones", "[]"))
    for drone in drones if isinstance(drones, list) else []:
        options = drone.get("controller_options", {}) if isinstance(drone, dict) else {}
        policy = options.get("file") if isinstance(options, dict) else None
        if isinstance(policy, dict) and all(isinstance(policy.get(key), str) for key in ("folder", "sha256")):
            policies[str(drone.get("name"))] = policy
    return policies


def report_changed_policies(run: Run, recording_folder: Path) -> list[str]:
    """Report each policy folder that holds another policy now, of those below `recording_folder`."""
    from samara.control.policy_file import DESCRIPTION_FILE, PolicyError, load_policy  # rarely needed

    sentences = []
    by_folder = {policy["folder"]: policy["sha256"] for policy in recorded_policies(run).values()}
    for folder, digest in by_folder.items():
        try:
            path = resolve_sibling_path(recording_folder, folder)
        except ValueError:
            continue
        if not (path / DESCRIPTION_FILE).is_file():
            continue
        try:
            current_digest = load_policy(path).digest
        except PolicyError as error:
            sentences.append(f"the policy of {quote_value(folder)} has changed since: {error}")
            continue
        if current_digest != digest:
            sentences.append(
                f"the policy of {quote_value(folder)} has changed since: {digest[:8]} flew, and {current_digest[:8]} "
                "is there now; the replay uses the recorded commands of the first"
            )
    return sentences
