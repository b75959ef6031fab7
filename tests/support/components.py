"""The smallest table of every registered component, from what the registries know: a new component is there by itself."""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple

from samara.control.registry import CONTROLLERS
from samara.core.integrate import IN_FLIGHT
from samara.estimate.registry import ESTIMATORS
from samara.sensors.registry import SENSOR_TYPES, part, part_names
from samara.vehicles.effects import OPTIONS
from samara.wind.registry import WINDS

CHOSEN: dict[str, dict[str, Any]] = {
    "ceiling_effect": {"point_W": [0.0, 0.0, 3.0]},
    "rotor_fit": {"blade": "gws_10x4.7"},
    "slung_load": {"mass": 0.005, "length": 0.5},
    "propwash": {"gusts": 0.0},
    "thrust_curve": {"linear": 0.2},
}
"""Parameters that are not chosen from their ranges"""
BESIDE: dict[str, dict[str, Any]] = {
    "flapping": {"rotor_air": True},
    "thrust_scale": {"battery": True},
    "battery_monitor": {"battery": True},
}
"""The effects that a component needs"""
IMAGES = {"width": 4, "height": 3, "columns": 3, "channels": 2}
REPLAY = "time,wind_x,wind_y,wind_z\n0,1,0,0\n1,2,0,0\n"
FIELD = "x,y,z,wind_x,wind_y,wind_z\n" + "".join(
    f"{x},{y},{z},{1 + z},0,0\n" for x in (-9, 9) for y in (-9, 9) for z in (-9, 9)
)
FUSED = ["bmi088", "vicon"]
"""Sensors that every filter can use"""


class Component(NamedTuple):
    """A registered component, and the settings of a scenario that has it."""

    registry: str
    name: str
    settings: dict[str, Any]

    @property
    def identifier(self) -> str:
        return f"{self.registry}-{self.name}"


class Bundle(NamedTuple):
    """Components that fly together, to compile less often: one scenario, and the settings for all of them."""

    components: tuple[Component, ...]
    settings: dict[str, Any]

    @property
    def identifier(self) -> str:
        return "+".join(own.name for own in self.components)


def effect_numbers(name: str) -> dict[str, Any]:
    """The parameters of an effect that have to be given"""
    option = OPTIONS[name]
    return CHOSEN.get(name, {}) if name in CHOSEN or option.completes else option.example


def sensor_table(name: str) -> dict[str, Any]:
    """The first shipped part of a type of sensor, as `sensors` of a scenario names it; an image has a few pixels"""
    parts = [own for own in part_names() if part(own).kind == name]
    assert parts, f"sensor type {name!r} has no part in src/samara/sensors/parts"
    fields = part(parts[0]).numbers._fields
    return {"part": parts[0], **{key: value for key, value in IMAGES.items() if key in fields}}


def wind_table(name: str) -> dict[str, Any]:
    """The parameters of a wind source that have to be given, in place of a wind vector its speed and direction"""
    table: dict[str, Any] = {"kind": name}
    maker: Any = WINDS[name]
    parameters = signature(maker).parameters
    if "data" in parameters:
        return {**table, "file": f"{name}.csv"}
    if hasattr(maker, "from_direction"):
        table |= {"speed": 2.0, "from_deg": 200.0}
        parameters = signature(maker.from_direction).parameters
    given = {"speed", "direction_from"}
    needed = [key for key, own in parameters.items() if own.default is Parameter.empty and key not in given]
    return table | dict.fromkeys(needed, 0.05)


def components() -> list[Component]:
    """Every sensor, estimator, controller, effect, wind source and integrator of a flight"""
    found = []
    for name in SENSOR_TYPES:
        effects = {"drones.effects": BESIDE[name]} if name in BESIDE else {}
        found.append(Component("sensor", name, {"drones.sensors": [sensor_table(name)], **effects}))
    for name, own in ESTIMATORS.items():
        required = {
            key: 0.02
            for options in own.options
            for key in options.record._fields
            if key not in options.record._field_defaults
        }
        sensors = {"drones.sensors": FUSED} if own.fuses else {}
        found.append(Component("estimator", name, {**sensors, "drones.estimator": {"kind": name, **required}}))
    found += [Component("controller", name, {"drones.controller": name}) for name in CONTROLLERS]
    for name in OPTIONS:
        table = {**BESIDE.get(name, {}), name: effect_numbers(name) or True}
        found.append(Component("effect", name, {"drones.effects": table}))
    found += [Component("wind", name, {"wind": [wind_table(name)]}) for name in WINDS]
    found += [Component("integrator", name, {"integrator": name}) for name in IN_FLIGHT]
    return found


def bundles(chosen: Sequence[Component], fits: Callable[[dict[str, Any]], bool]) -> list[Bundle]:
    """Each component in the first bundle with which its settings agree and that still loads"""
    found: list[Bundle] = []
    for component in chosen:
        for k, bundle in enumerate(found):
            together = _merged(bundle.settings, component.settings)
            if together is not None and fits(together):
                found[k] = Bundle((*bundle.components, component), together)
                break
        else:
            found.append(Bundle((component,), component.settings))
    return found


def _merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any] | None:
    """Lists one after the other and tables with the entries of both; None where both say something else of one setting"""
    together = {**b, **a}
    for key in a.keys() & b.keys():
        if isinstance(a[key], list):
            together[key] = a[key] + [own for own in b[key] if own not in a[key]]
        elif isinstance(a[key], dict) and all(a[key].get(name, own) == own for name, own in b[key].items()):
            together[key] = {**a[key], **b[key]}
        else:
            return None
    return together
