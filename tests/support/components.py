"""The minimal table of every registered component, derived from the registries, so that new components are included."""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple

from samara.control.registry import CONTROLLERS
from samara.core.integrate import FLIGHT_INTEGRATORS
from samara.estimate.registry import ESTIMATORS
from samara.sensors.registry import SENSOR_TYPES, part, part_names
from samara.vehicles.effects import OPTIONS
from samara.wind.registry import WINDS

FIXED_PARAMETERS: dict[str, dict[str, Any]] = {
    "ceiling_effect": {"point_W": [0.0, 0.0, 3.0]},
    "rotor_fit": {"blade": "gws_10x4.7"},
    "slung_load": {"mass": 0.005, "length": 0.5},
    "propwash": {"gusts": 0.0},
    "thrust_curve": {"linear": 0.2},
}
"""Parameters that are not taken from their ranges."""
REQUIRED_EFFECTS: dict[str, dict[str, Any]] = {
    "flapping": {"rotor_air": True},
    "thrust_scale": {"battery": True},
    "battery_monitor": {"battery": True},
}
"""The effects that a component needs."""
IMAGES = {"width": 4, "height": 3, "columns": 3, "channels": 2}
REPLAY = "time,wind_x,wind_y,wind_z\n0,1,0,0\n1,2,0,0\n"
FIELD = "x,y,z,wind_x,wind_y,wind_z\n" + "".join(
    f"{x},{y},{z},{1 + z},0,0\n" for x in (-9, 9) for y in (-9, 9) for z in (-9, 9)
)
FUSED_SENSORS = ["bmi088", "vicon"]
"""Sensors that every filter can use."""


class Component(NamedTuple):
    """A registered component, and the settings of a scenario that uses it."""

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
        return "+".join(component.name for component in self.components)


def effect_numbers(name: str) -> dict[str, Any]:
    """Return the required parameters of an effect."""
    option = OPTIONS[name]
    return FIXED_PARAMETERS.get(name, {}) if name in FIXED_PARAMETERS or option.has_completion else option.example


def sensor_table(name: str) -> dict[str, Any]:
    """Return the first shipped part of a sensor type, as in `sensors` of a scenario; images have a few pixels."""
    parts = [part_name for part_name in part_names() if part(part_name).type_name == name]
    assert parts, f"sensor type {name!r} has no part in src/samara/sensors/parts"
    fields = part(parts[0]).parameters._fields
    sizes = IMAGES | ({"channels": 1} if name == "camera" else {})  # colours, not beams
    return {"part": parts[0], **{key: value for key, value in sizes.items() if key in fields}}


def wind_table(name: str) -> dict[str, Any]:
    """Return the required parameters of a wind source; speed and direction instead of a wind vector."""
    table: dict[str, Any] = {"model": name}
    factory: Any = WINDS[name]
    parameters = signature(factory).parameters
    if "data" in parameters:
        return {**table, "file": f"{name}.csv"}
    if hasattr(factory, "from_direction"):
        table |= {"speed": 2.0, "from_deg": 200.0}
        parameters = signature(factory.from_direction).parameters
    provided = {"speed", "direction_from"}
    required = [
        key for key, parameter in parameters.items() if parameter.default is Parameter.empty and key not in provided
    ]
    return table | dict.fromkeys(required, 0.05)


def components() -> list[Component]:
    """Return every sensor, estimator, controller, effect, wind source and integrator of a flight."""
    result = []
    for name in SENSOR_TYPES:
        effects = {"drones.effects": REQUIRED_EFFECTS[name]} if name in REQUIRED_EFFECTS else {}
        result.append(Component("sensor", name, {"drones.sensors": [sensor_table(name)], **effects}))
    for name, estimator_type in ESTIMATORS.items():
        required = {
            key: 0.02
            for options in estimator_type.options
            for key in options.record._fields
            if key not in options.record._field_defaults
        }
        sensors = {"drones.sensors": FUSED_SENSORS} if estimator_type.uses_sensors else {}
        result.append(Component("estimator", name, {**sensors, "drones.estimator": {"type": name, **required}}))
    result += [Component("controller", name, {"drones.controller": name}) for name in CONTROLLERS]
    for name in OPTIONS:
        table = {**REQUIRED_EFFECTS.get(name, {}), name: effect_numbers(name) or True}
        result.append(Component("effect", name, {"drones.effects": table}))
    result += [Component("wind", name, {"wind": [wind_table(name)]}) for name in WINDS]
    result += [Component("integrator", name, {"integrator": name}) for name in FLIGHT_INTEGRATORS]
    return result


def bundles(candidates: Sequence[Component], fits: Callable[[dict[str, Any]], bool]) -> list[Bundle]:
    """Put each component in the first bundle whose settings are compatible and that still loads."""
    result: list[Bundle] = []
    for component in candidates:
        for k, bundle in enumerate(result):
            merged = _merge_settings(bundle.settings, component.settings)
            if merged is not None and fits(merged):
                result[k] = Bundle((*bundle.components, component), merged)
                break
        else:
            result.append(Bundle((component,), component.settings))
    return result


def _merge_settings(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any] | None:
    """Concatenate lists and merge tables; return None if the settings conflict."""
    merged = {**b, **a}
    for key in a.keys() & b.keys():
        if isinstance(a[key], list):
            merged[key] = a[key] + [value for value in b[key] if value not in a[key]]
        elif isinstance(a[key], dict) and all(a[key].get(name, value) == value for name, value in b[key].items()):
            merged[key] = {**a[key], **b[key]}
        else:
            return None
    return merged
