"""Changes of a scenario by arguments of `samara.fly`, or by options of `samara fly`: vehicle, controller, wind, sensors, seed,
duration."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from samara.control.controller_type import suggest_names
from samara.control.policy_file import Policy
from samara.control.registry import NAMES, ControllerSpec, controller_spec
from samara.core.sanitise import mark_user_text, quote_value, suggest_closest
from samara.core.toml import TomlFile, TomlTable, is_toml_path
from samara.physics.types import Vehicle
from samara.scenario.autopilot_sensors import apply_firmware_rate
from samara.scenario.file import (
    document_tables,
    fit_sensor_clock,
    load_scenario,
    read_duration,
    read_seed,
    text_tables,
)
from samara.scenario.file.drones import replace_sensors, replace_vehicle
from samara.scenario.file.environment import WEST, read_wind
from samara.scenario.file.referenced_files import ReferencedFiles
from samara.scenario.scenario import Scenario, ScenarioError
from samara.scenario.timeline import Rates
from samara.sensors.sensor import Sensor
from samara.vehicles.effects import EffectOption
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.loader import vehicle_names
from samara.wind.registry import WINDS
from samara.wind.sources import WindSource

NONE = "none"
VehicleChoice: TypeAlias = str | Path | Vehicle
ControllerChoice: TypeAlias = str | Path | ControllerSpec | Callable[..., Any]
LoadedController: TypeAlias = str | ControllerSpec | Callable[..., Any]
WindTable: TypeAlias = Mapping[str, Any]
WindChoice: TypeAlias = float | str | Sequence[float] | WindTable | Sequence[WindTable] | WindSource
SensorEntry: TypeAlias = str | Path | Mapping[str, Any] | Sensor
SensorChoice: TypeAlias = SensorEntry | Sequence[SensorEntry]


class Changes(NamedTuple):
    """What replaces the values of a scenario, for all of its drones; None changes nothing.

    Args:
        vehicle: name of a shipped vehicle, path of a TOML file, or a `Vehicle`.
        controller: name, folder of a policy, `file.py:function`, `controller_spec(…)`, or a function.
        wind: speed of a steady wind [m/s], from the scenario's direction or the west; velocity of the air in world axes
            [m/s]; "none"; a model and its mean speed, as "dryden:6"; a [wind] table or a list of them; or a wind source.
        sensors: "none", or names, files, tables or `Sensor` objects.
        seed: seed of all random numbers.
        duration: duration of the flight [s].
    """

    vehicle: VehicleChoice | None = None
    controller: ControllerChoice | None = None
    wind: WindChoice | None = None
    sensors: SensorChoice | None = None
    seed: int | None = None
    duration: float | None = None


def change_scenario(
    scenario: str | Path | Scenario,
    changes: Changes,
    settings: Mapping[str, object] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
) -> Scenario:
    """Return a scenario with changes.

    Args:
        scenario: name of a shipped scenario, path of a TOML file, or a `Scenario`.
        changes: the changes, which take precedence over the settings.
        settings: changes of a scenario given by name or path, by key. They are trusted, as in `samara.load_scenario`.
        effects: custom effects that vehicles may have.

    Raises:
        ValueError: the scenario or a change is invalid.
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise ValueError(
            f"settings = {quote_value(settings)}: expected values by key, such as {{'drones.yaw_deg': 90.0}}"
        )
    if not isinstance(scenario, Scenario):
        return _load_changed(scenario, changes, mark_user_text(settings or {}), effects)
    if settings:
        raise ValueError(
            "settings apply to a scenario given by name or path; change a Scenario object with dataclasses.replace"
        )
    return _change_loaded(scenario, changes, effects)


def _load_changed(
    name_or_path: str | Path, changes: Changes, settings: dict[str, object], effects: Sequence[EffectOption]
) -> Scenario:
    """Load a scenario with the changes written into its document."""
    objects: dict[str, object] = {}
    if changes.vehicle is not None:
        objects["drones.vehicle"] = resolve_vehicle(changes.vehicle, effects)
        if not isinstance(changes.vehicle, Vehicle):
            path = Path(changes.vehicle).resolve() if is_toml_path(changes.vehicle) else changes.vehicle
            settings["drones.vehicle"] = mark_user_text(str(path))
    if changes.controller is not None:
        controller = resolve_controller(changes.controller)
        if isinstance(controller, str):
            settings["drones.controller"] = controller
        elif isinstance(controller, Path):
            settings["drones.controller"] = mark_user_text({"type": "policy", "file": str(controller)})
        else:
            objects["drones.controller"] = controller
    if changes.wind is not None:
        if hasattr(changes.wind, "sample"):
            objects["wind"] = changes.wind
        else:
            tables = document_tables(name_or_path, settings, "wind")
            settings["wind"] = mark_user_text(wind_tables(changes.wind, tables))
    if changes.sensors is not None:
        entries = sensor_entries(changes.sensors)
        has_objects = any(isinstance(entry, Sensor) for entry in entries)
        (objects if has_objects else settings)["drones.sensors"] = mark_user_text(entries)
    settings |= number_settings(changes)
    return load_scenario(name_or_path, settings, effects=effects, objects=objects)


def _change_loaded(scenario: Scenario, changes: Changes, effects: Sequence[EffectOption]) -> Scenario:
    """Return a loaded scenario with its parts replaced."""
    file = TomlFile(scenario.name, ScenarioError)
    numbers = TomlTable(number_settings(changes), file)
    if "seed" in numbers:
        scenario = replace(scenario, seed=read_seed(numbers))
    if "duration" in numbers:
        scenario = replace(scenario, duration=read_duration(numbers))
    if changes.controller is not None:
        controller = load_controller(changes.controller)
        drones = tuple(replace(drone, controller=controller) for drone in scenario.drones)
        scenario = apply_firmware_rate(replace(scenario, drones=drones))
    if changes.vehicle is not None:
        vehicle = resolve_vehicle(changes.vehicle, effects)
        drones = tuple(replace_vehicle(drone, vehicle, scenario.rates) for drone in scenario.drones)
        scenario = replace(scenario, drones=drones)
    if changes.sensors is not None:
        entries = mark_user_text(sensor_entries(changes.sensors))
        drones = tuple(replace_sensors(drone, entries, scenario.rates, scenario.home) for drone in scenario.drones)
        is_fixed = any("sensor" in table for table in _file_tables(scenario, "rates"))
        rates = scenario.rates if is_fixed else replace(scenario.rates, sensor=Rates().sensor)
        scenario = replace(scenario, drones=drones, rates=fit_sensor_clock(rates, drones, is_fixed))
    if changes.wind is not None:
        choice = changes.wind
        if not hasattr(choice, "sample"):
            choice = mark_user_text(wind_tables(choice, _file_tables(scenario, "wind")))
        wind, per_rotor = read_wind(
            TomlTable({"wind": choice}, file),
            ReferencedFiles(Path(), None, ()),
            scenario.environment,
            scenario.drones,
        )
        scenario = replace(scenario, wind=wind, wind_per_rotor=per_rotor)
    return scenario


def _file_tables(scenario: Scenario, key: str) -> list[dict[str, Any]]:
    """Return the tables of a key in the file of a loaded scenario; [] for a scenario without a file."""
    return text_tables(scenario.text, f"{scenario.name}.toml", scenario.settings, key) if scenario.text else []


def number_settings(changes: Changes) -> dict[str, object]:
    """Return seed and duration as settings; NumPy's numbers become Python's."""
    settings: dict[str, object] = {}
    if changes.seed is not None:
        is_integer = isinstance(changes.seed, Integral) and not isinstance(changes.seed, bool)
        settings["seed"] = int(changes.seed) if is_integer else changes.seed
    if changes.duration is not None:
        is_number = isinstance(changes.duration, Real) and not isinstance(changes.duration, bool)
        settings["duration"] = float(changes.duration) if is_number else changes.duration
    return settings


def resolve_vehicle(choice: VehicleChoice, effects: Sequence[EffectOption] = ()) -> Vehicle:
    """Return a vehicle given by its shipped name, the path of its file, or as it is."""
    if isinstance(choice, Vehicle):
        return choice
    if not isinstance(choice, str | Path):
        raise ValueError(
            f"vehicle = {quote_value(choice)}: expected a shipped name, the path of a .toml file or a Vehicle"
        )
    return load_vehicle(choice, effects=effects)


def resolve_controller(choice: ControllerChoice) -> LoadedController | Path:
    """Return a controller's name, the absolute path of a policy's folder, a `ControllerSpec` or a function.

    The file of `file.py:function` is executed.
    """
    if isinstance(choice, ControllerSpec):
        return controller_spec(choice.name, **choice.option_values)
    if not isinstance(choice, str | Path):
        if callable(choice):
            return choice
        raise ValueError(f"controller = {quote_value(choice)}: expected a name, a policy folder or a function")
    word = str(choice)
    if ".py:" in word:
        return load_function(word)
    if word in NAMES and word != "policy":
        return word
    if Path(word).is_dir():
        return Path(word).resolve()
    raise ValueError(
        f"no controller {word!r}; expected one of {', '.join(NAMES)}, a policy's folder, or a function as file.py:function"
        f"{suggest_closest(word, NAMES)}"
    )


def load_controller(choice: ControllerChoice) -> LoadedController:
    """Return a controller as a `Drone` has it: a name, a `ControllerSpec` or a function."""
    controller = resolve_controller(choice)
    return controller_spec("policy", file=controller) if isinstance(controller, Path) else controller


def trained_vehicle(policy: Policy, folder: str | Path = "") -> str:
    """Return the vehicle that a policy was trained on, if it is shipped: an untrusted policy cannot name files."""
    name = folder or policy.folder or "the policy"
    if not policy.vehicle:
        raise ValueError(f"{name}: flies any vehicle; expected --vehicle, to choose one")
    if policy.vehicle not in vehicle_names():
        raise ValueError(
            f"{name}: was trained on {quote_value(policy.vehicle)}, which does not come with Samara; expected --vehicle "
            "with its .toml file"
        )
    return str(policy.vehicle)


def load_function(word: str) -> Callable[..., Any]:
    """Import `function` from the file of `file.py:function`."""
    path, _, name = word.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"controller {word}: there is no file {path}; expected file.py:function")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # always true for a file whose name ends in .py
    module = module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))  # as in `python file.py`
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"controller {word}: {path} does not run ({type(error).__name__}: {error})") from None
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        defined = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise ValueError(f"controller {word}: {path} has no function {name!r}; it has {', '.join(defined) or 'none'}")
    return function


def wind_tables(choice: Any, present: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return a wind as the [[wind]] tables of a scenario; direction, and speed if needed, are those of its `present` tables."""
    direction = next((table["from_deg"] for table in present if "from_deg" in table), WEST)
    if isinstance(choice, str):
        model, _, text = choice.partition(":")
        if model in WINDS or text:
            return [_model_table(choice, model, text, direction, present)]
        choice = _parse_speed(choice, model)
    if isinstance(choice, Real) and not isinstance(choice, bool):
        return [{"model": "constant", "speed": float(choice), "from_deg": direction}]
    if isinstance(choice, Mapping):
        return [dict(choice)]
    entries = list(choice) if hasattr(choice, "__iter__") and not isinstance(choice, str) else []
    if entries and all(isinstance(entry, Mapping) for entry in entries):
        return [dict(entry) for entry in entries]
    if len(entries) == 3 and all(isinstance(entry, Real) and not isinstance(entry, bool) for entry in entries):
        return [{"model": "constant", "wind_W": [float(entry) for entry in entries]}]
    raise ValueError(
        f"wind = {quote_value(choice)}: expected a speed [m/s], three components, a model such as 'dryden:6', 'none', "
        "a [wind] table or a wind source"
    )


def _model_table(
    word: str, model: str, text: str, direction: float, present: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the table of a wind model with its mean speed, by default that of the scenario's wind."""
    if model not in WINDS:
        raise ValueError(f"wind = {word!r}: no wind model {model!r}; {suggest_names(model, WINDS)}")
    if not hasattr(WINDS[model], "from_direction"):
        if text:
            raise ValueError(f"wind = {word!r}: {model} has no mean speed; expected {model!r}, or a [wind] table")
        return {"model": model}
    speed = _parse_speed(word, text) if text else next((x["speed"] for x in present if "speed" in x), None)
    if speed is None:
        raise ValueError(f"wind = {word!r}: the scenario has no wind speed; expected one, such as '{model}:6' [m/s]")
    return {"model": model, "speed": speed, "from_deg": direction}


def _parse_speed(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"wind = {word!r}: expected a speed [m/s], such as 4, or one of the models {', '.join(WINDS)}, with a speed "
            "as in dryden:6"
        ) from None


def sensor_entries(choice: Any) -> list[object]:
    """Return sensors as the list of a scenario: names, tables and objects; "none" is an empty list."""
    if isinstance(choice, str):
        choice = [] if choice == NONE else [word.strip() for word in choice.split(",") if word.strip()]
    entries = [choice] if isinstance(choice, Path | Mapping | Sensor) else choice
    if not isinstance(entries, list | tuple):
        raise ValueError(f"sensors = {quote_value(choice)}: expected names, tables or sensors, or 'none'")
    return [_sensor_entry(entry) for entry in entries]


def _sensor_entry(entry: object) -> object:
    """Return an entry of the list of sensors; paths of files become absolute."""
    if isinstance(entry, Mapping):
        return {**entry, "part": _sensor_entry(entry["part"])} if "part" in entry else dict(entry)
    if isinstance(entry, str | Path):
        return str(Path(entry).resolve()) if is_toml_path(entry) else str(entry)
    return entry
