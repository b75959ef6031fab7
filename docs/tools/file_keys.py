"""The keys that the readers of scenario, campaign and policy files accept, recorded while they read probe files.

Every reader takes its keys through `samara.core.toml.TomlTable`, which passes the expected value and the default of each.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints
from unittest.mock import patch

import numpy as np

import samara
from samara.campaigns.campaign import parse_campaign
from samara.campaigns.distributions import DISTRIBUTIONS
from samara.control.observation import Bounds
from samara.control.policy_file import dense_tensors, load_policy, mlp_layers, save_policy
from samara.core.coerce import ScalarOrVectorLimits, UnitInterval, VectorLimits, describe_expected
from samara.core.toml import TomlTable, toml_value
from samara.estimate.registry import ESTIMATORS
from samara.physics.air.downwash import Downwash
from samara.physics.ground.impact import Material
from samara.scenario.file import parse_scenario
from samara.scenario.file.environment import SHAPES
from samara.scenario.file.mission import ACTIONS, TASKS
from samara.scenario.timeline import Rates
from samara.vehicles import parse_vehicle, vehicle_toml
from samara.vehicles.effects import OPTIONS
from samara.wind.registry import WINDS

REQUIRED = "required"
NO_DEFAULT = "–"
TYPE_KEYS = {
    "drones[].tasks[]": "type",
    "events[]": "do",
    "wind[]": "model",
    "obstacles[]": "shape",
    "drones[].estimator": "type",
    "layers[]": "type",
}
"""The key that decides which other keys a table has."""


class Key(NamedTuple):
    """A key of a file: what the reader expects, and its default as TOML, `REQUIRED` or `NO_DEFAULT`."""

    expected: str
    default: str


Keys = dict[str, dict[str, Key]]
"""The keys by table; `drones[].tasks[]:circle` is the table of a type."""


OVERRIDES: dict[tuple[str, str], Key] = {
    ("", "name"): Key("letters, digits, - and _", "that of the file"),
    ("", "drones"): Key("a list of tables", REQUIRED),
    ("", "downwash"): Key("true, false or a table", "false"),
    ("", "collisions"): Key("true, false or a table", "false"),
    ("", "wind"): Key("a table or a list of tables", NO_DEFAULT),
    ("", "layers"): Key("a list of 1 to 16 tables", REQUIRED),
    ("drones[]", "name"): Key("letters, digits, - and _", "`drone` and its index"),
    ("drones[]", "effects"): Key("a list of names or a table", NO_DEFAULT),
    ("drones[]", "controller"): Key("a text or a table", '"geometric"'),
    ("drones[]", "estimator"): Key("a text or a table", "`ekf` or `truth`"),
    ("drones[]", "autopilot"): Key("a text or a table", NO_DEFAULT),
    ("drones[]", "sensors"): Key("a list of texts and tables", NO_DEFAULT),
    ("drones[]", "columns"): Key("a whole number from 1 to 10000", "`count`"),
    ("drones[]", "start"): Key("three finite numbers", "the origin, or 1 m above"),
    ("wind[]:dryden", "mean"): Key("three finite numbers", NO_DEFAULT),  # or `speed`
    ("drones[].controller", "track"): Key("a text", NO_DEFAULT),
    ("expect", "landed"): Key("true or false", NO_DEFAULT),
    ("ground", "height_map"): Key("a text", NO_DEFAULT),
    **{("vary.*", name): Key("a list of numbers", NO_DEFAULT) for name in DISTRIBUTIONS},
}
"""Keys of which one question of the reader does not tell everything: several forms, or a default that depends on others."""


def _set_defaults(tables: Keys, table: str, record: Any) -> None:
    """Set the defaults of a table's optional numbers, the fields of a record."""
    for key, entry in tables[table].items():
        tables[table][key] = entry._replace(default=_default(getattr(record, key)))


def _complete(tables: Keys) -> Keys:
    for (table, key), entry in OVERRIDES.items():
        if key in tables.get(table, {}):
            tables[table][key] = entry
    return tables


@contextmanager
def record_keys(origin: str = "probe.toml") -> Iterator[Keys]:
    """Record every key that the reader of the file `origin` asks a table for, in the order of the questions."""
    tables: Keys = {}
    originals = {name: getattr(TomlTable, name) for name in ("__init__", "__contains__", "take", "integer", "call")}

    def initialise(self: Any, entries: Any, file: Any, path: str = "") -> None:
        originals["__init__"](self, entries, file, path)
        table = re.sub(r"\[\d+\]", "[]", path)
        variant = self.entries.get(TYPE_KEYS.get(table, ""), "")
        name = f"{table}:{variant}" if variant else table
        self.recorded = tables.setdefault(name, {}) if file.origin == origin else {}
        self.optional_keys = set()

    def contains(self: Any, key: str) -> bool:
        self.optional_keys.add(key)
        self.recorded.setdefault(key, Key("", NO_DEFAULT))
        return bool(originals["__contains__"](self, key))

    def take(self: Any, key: str, expected: str, default: Any = None) -> Any:
        previous = self.recorded.get(key)
        text = _default(default) if default is not None else NO_DEFAULT if key in self.optional_keys else REQUIRED
        if previous is None or not previous.expected or (previous.default == NO_DEFAULT and text != REQUIRED):
            self.recorded[key] = Key(expected, text)
        return originals["take"](self, key, expected, default)

    def integer(self: Any, key: str, default: int, *, low: int, high: int) -> int:
        value = originals["integer"](self, key, default, low=low, high=high)
        required = low > default
        self.recorded[key] = Key(f"a whole number from {low} to {high}", REQUIRED if required else str(default))
        return int(value)

    def call(self: Any, function: Callable[..., Any], **fixed: Any) -> Any:
        hints = get_type_hints(function, include_extras=True)
        for name, parameter in signature(function).parameters.items():
            if name not in fixed:
                default = REQUIRED if parameter.default is Parameter.empty else _default(parameter.default)
                self.recorded.setdefault(name, Key(describe(hints.get(name)), default))
        return originals["call"](self, function, **fixed)

    with (
        patch.object(TomlTable, "__init__", initialise),
        patch.object(TomlTable, "__contains__", contains),
        patch.object(TomlTable, "take", take),
        patch.object(TomlTable, "integer", integer),
        patch.object(TomlTable, "call", call),
    ):
        yield tables


def _default(value: Any) -> str:
    if value is None or (isinstance(value, (str, tuple, list)) and len(value) == 0):
        return NO_DEFAULT
    if isinstance(value, float):
        return f"{value:g}"
    return f"[{', '.join(f'{x:g}' for x in value)}]" if isinstance(value, tuple) else toml_value(value)


def describe(hint: Any) -> str:
    """Describe the values of a parameter, with unit and range."""
    if get_origin(hint) is Annotated:
        base, mark = get_args(hint)[:2]
        if isinstance(mark, (UnitInterval, VectorLimits, ScalarOrVectorLimits)):
            count = "three numbers" if isinstance(mark, VectorLimits) else "a number"
            return f"{count} from {mark.low:g} to {mark.high:g} {mark.unit}".rstrip()
        return describe(base)
    members = [describe(member) for member in get_args(hint) if member is not type(None)]
    if members and get_origin(hint) is not list and "Sequence" not in str(get_origin(hint)):
        return " or ".join(members)
    return describe_expected(hint)


# Probes -------------------------------------------------------------------------------------------------------------

SCENARIO = """
duration = 1.0
downwash = { spread = 0.113, drag = 1.17, body_area = 0.0 }
collisions = { restitution = 0.3, friction = 0.4 }

[rates]
physics = 1000
control = 250
estimator = 250
wind = 50
scenario = 50
log = 100
sensor = 250

[environment]
altitude = 488.0
air_density = 1.1
ground_normal = [0, 0, 1]
ground_height = 0.0

[[wind]]
model = "constant"
wind_W = [1, 0, 0]
[[wind]]
model = "dryden"
mean = { model = "log_law", speed = 3.0, reference_height = 10, roughness = 0.03 }

[[drones]]
vehicle = "iris"
controller = { type = "geometric", position = 2.0 }
autopilot = { type = "px4", parameters = { MPC_XY_VEL_MAX = 5.0 } }
battery_failsafe = { return_below = 0.2, land_below = 0.1 }
effects = ["ground_effect"]
motor_map = [0, 1, 2, 3]
initial_charge = 0.9
estimator = "ekf"
sensors = ["bmi088", "neo-m9n", "bmp388", { part = "bmm150", name = "compass", r_B = [0, 0, 0], rotation_deg = [0, 0, 0] }]

[expect]
final_position = [0, 0, 1]
max_tilt_deg = 90
max_error = 10
min_height = -1
landed = false
"""
SMALL = 'duration = 1.0\n[[drones]]\nvehicle = "iris"\nairborne = true\n'
TASK_PROBES = {
    "hover": "at = [0, 0, 1]",
    "waypoints": "points = [[0, 0, 2]]\nspeed = 1.0",
    "line": "to = [0, 0, 2]\nspeed = 1.0",
    "take_off": "height = 2.0",
    "land": "",
    "circle": "centre = [0, 0, 1]\nradius = 1.0\nspeed = 1.0",
    "helix": "centre = [0, 0, 1]\nradius = 1.0\nspeed = 1.0\nheight_per_turn = 1.0\nturns = 1",
    "figure8": "centre = [0, 0, 1]\nhalf_length = 1.0\nspeed = 1.0",
    "lissajous": "centre = [0, 0, 1]\namplitude = [1, 1, 0]\nfrequency = [1, 2, 0]\nspeed = 1.0",
    "race": "gates = [[0, 0, 1], [2, 0, 1]]\nspeed = 1.0",
}
EVENT_PROBES = {
    "go_to": "p_W = [0, 0, 1]",
    "take_off": "height = 1.0",
    "wind_step": "wind_W = [1, 0, 0]",
    "gust": "amplitude_W = [1, 0, 0]\nduration = 1.0",
    "fail_motor": "motor = 0",
    "degrade_motor": "motor = 0\neffectiveness = 0.5",
    "restore_motor": "motor = 0",
    "fail_cell": "cells = 3",
    "fail_sensor": 'sensor = "gps"',
    "restore_sensor": 'sensor = "gps"',
    "add_payload": "mass = 0.1",
    "follow": 'task = { type = "hover", at = [0, 0, 1] }',
}
WIND_PROBES = {
    "none": "",
    "constant": "wind_W = [1, 0, 0]",
    "step": "after_W = [1, 0, 0]\nat = 1.0",
    "gust": "amplitude_W = [1, 0, 0]\nstart = 0.0\nduration = 1.0",
    "turbulence": "mean_W = [1, 0, 0]\nsigma = 0.5\ntau = 1.0",
    "dryden": "mean = [1, 0, 0]",
    "von_karman": "mean = [1, 0, 0]",
    "power_law": "wind_W = [1, 0, 0]\nreference_height = 10.0",
    "log_law": "wind_W = [1, 0, 0]\nreference_height = 10.0\nroughness = 0.03",
    "field": 'file = "field.npz"',
    "replay": 'file = "wind.csv"',
}
OBSTACLE_PROBES = {
    "plane": "point = [0, 0, -1]",
    "sphere": "centre = [9, 0, 0]\nradius = 1.0",
    "capsule": "start = [9, 0, 0]\nend = [9, 0, 1]\nradius = 0.1",
    "box": "centre = [9, 0, 0]\nsize = [1, 1, 1]",
    "height_map": "heights = [[-1.0, -1.0], [-1.0, -1.0]]\nspacing = 1.0",
}
ESTIMATOR_PROBES = dict.fromkeys(("truth", "noisy", "ekf", "complementary"), "") | {"delayed": ", delay = 0.02"}
SENSORS = 'sensors = ["bmi088", "neo-m9n", "bmp388", "bmm150"]\n'
CAMPAIGN = """
schema = 1
scenario = "hover"
flights = 4
[settings]
duration = 1.0
[degraded]
max_error = 0.1
[record]
[stop]
half_width = 0.01
[samples]
file = "cases.csv"
[[correlated]]
names = ["drag.linear.x", "drag.linear.y"]
mean = [0.1, 0.1]
covariance = [[0.01, 0.0], [0.0, 0.01]]
[vary]
mass = { normal = [1.0, 0.05], relative = true }
"""


@cache
def scenario_keys() -> Keys:
    """Return the keys of a scenario file."""
    probes = [SCENARIO]
    probes += [f'{SMALL}[[drones.tasks]]\ntype = "{name}"\n{TASK_PROBES[name]}\n' for name in TASKS]
    probes += [
        f'{SMALL}[[events]]\nat = 0.5\ndo = "{name}"\n{EVENT_PROBES.get(name, "")}\n' for name in (*ACTIONS, "follow")
    ]
    probes += [f'{SMALL}[[wind]]\nmodel = "{name}"\n{WIND_PROBES[name]}\n' for name in WINDS]
    probes += [f'{SMALL}[[obstacles]]\nshape = "{name}"\n{OBSTACLE_PROBES[name]}\n' for name in SHAPES]
    probes += [f'{SMALL}{SENSORS}estimator = {{ type = "{name}"{ESTIMATOR_PROBES[name]} }}\n' for name in ESTIMATORS]
    probes.append(f'{SMALL}[ground]\nheight_map = "hill.csv"\nspacing = 1.0\n')
    probes.append(f"{SMALL}[light]\n[[gates]]\ncentre = [9, 0, 2]\nopening = [1, 1]\nframe = [2, 2]\n")
    with tempfile.TemporaryDirectory() as name, record_keys() as tables:
        folder = Path(name)
        np.savez(folder / "field.npz", x=[0.0, 1.0], y=[0.0, 1.0], z=[0.0, 1.0], wind=np.zeros((2, 2, 2, 3)))
        (folder / "wind.csv").write_text("time,wind_x,wind_y,wind_z\n0.0,1,0,0\n2.0,3,0,0\n", encoding="utf-8")
        (folder / "hill.csv").write_text("0,0\n0,0\n", encoding="utf-8")
        for probe in probes:
            parse_scenario(probe, "probe.toml", folder=folder)
    _set_defaults(tables, "rates", Rates())
    _set_defaults(tables, "downwash", Downwash())
    _set_defaults(tables, "collisions", Material())
    del tables["drones[].autopilot.parameters"], tables["ground"]["file"]  # free names; `height_map` names the file
    for table in tables.values():
        table.pop("data", None)  # an argument from code
    return _complete(tables)


@cache
def campaign_keys() -> Keys:
    """Return the keys of a campaign file; those of `[vary]` are free names, each a table."""
    with record_keys() as tables:
        parse_campaign(CAMPAIGN, "probe.toml", Path("."))
    tables["vary.*"] = tables.pop("vary.mass")
    for free in ("vary", "settings", "degraded"):  # tables of free names
        del tables[free]
    return _complete(tables)


@cache
def policy_keys() -> Keys:
    """Return the keys of policy.toml."""
    weights = [(np.zeros((4, 22)), np.zeros(4))]
    with tempfile.TemporaryDirectory() as folder:
        save_policy(
            folder,
            samara.vehicle("crazyflie"),
            mlp_layers((), 4),
            dense_tensors(weights),
            task="hover",
            bounds=Bounds(1.0, 1.0),
        )
        with record_keys(f"{folder}/policy.toml") as tables:
            load_policy(folder)
    for free in ("evaluation", "versions"):  # tables of free names
        del tables[free]
    tables["layers[]"] = tables.pop("layers[]:dense")
    tables["observation"]["velocity_bound"] = tables["observation"]["position_bound"]  # both or none
    return _complete(tables)


SERVO = """
[rotors.servo]
hinge_B = { value = [1, 0, 0], unit = "1" }
low = { value = -35, unit = "deg" }
high = { value = 35, unit = "deg" }
rate = { value = 460, unit = "deg/s" }
lag = { value = 0.04, unit = "s" }
"""
PAYLOAD = """
[payload]
mass = { value = 0.1, unit = "kg" }
position = { value = [0, 0, -0.1], unit = "m" }
"""
ARM = """arm = { value = 0.3, unit = "m" }
azimuth = { value = 30, unit = "deg" }
tilt = { value = 1, unit = "deg" }"""
EFFECT_ARGUMENTS: dict[str, dict[str, Any]] = {
    "slung_load": {"mass": 0.1, "length": 1.0},
    "airspeed_moment": {"roll": 0.1, "pitch": 0.1},
    "rolling_moment": {"coefficient": 1e-7},
    "thrust_fade": {"airspeed": 30.0},
    "thrust_curve": {"linear": 0.1},
    "rotor_drag": {"coefficient": 1e-6},
    "ceiling_effect": {"point_W": samara.Vec3(0.0, 0.0, 3.0)},
    "rotor_fit": {"blade": "apc_10x4.7"},
    "body": {"radius": 0.1},
    "actuator": {"natural_frequency": 100.0, "damping_ratio": 1.0, "rate_limit": 10.0},
    "damping": {"linear": samara.Vec3(0.01, 0.01, 0.01)},
    "drag": {"linear": samara.Vec3(0.1, 0.1, 0.1)},
}
"""What an effect cannot be switched on without."""
NEEDS_AIR = ("flapping", "propwash")
WITH_BATTERY = ("thrust_scale",)


@cache
def vehicle_keys() -> Keys:
    """Return the keys of a vehicle file, by table; those of `[[rotors]]` include what `[rotor]` may hold."""
    texts = [vehicle_toml(samara.vehicle(name)) for name in samara.vehicle_names()]
    for name in OPTIONS:
        base = samara.vehicle("iris" if name in WITH_BATTERY else "hexarotor_x")
        airy = samara.switch_on(base, "rotor_air") if name in NEEDS_AIR else base
        texts.append(vehicle_toml(samara.switch_on(airy, name, **EFFECT_ARGUMENTS.get(name, {}))))
    plain = vehicle_toml(samara.vehicle("hexarotor_x"))
    texts += [plain + SERVO, plain + PAYLOAD]
    placed = re.sub(r"^axis *=.*$", "", plain, flags=re.MULTILINE)
    texts.append(re.sub(r"^position *=.*$", ARM, placed, count=1, flags=re.MULTILINE))
    with record_keys() as tables:
        for text in texts:
            parse_vehicle(text, "probe.toml")
    return tables


FILES: dict[str, Callable[[], Keys]] = {"scenario": scenario_keys, "campaign": campaign_keys, "policy": policy_keys}
