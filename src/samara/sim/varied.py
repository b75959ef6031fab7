"""Parameters that vary between flights, by name: a drone and a wind with the values of one flight.

`Variation` determines the inputs of a flight's programs from the scenario and the names of the varied parameters alone, so a
flight has the same bits alone and in any batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace

import numpy as np

from samara.control.registry import ControllerSpec, coerce_controller_spec, controller_spec
from samara.core.algebra import Vec3
from samara.core.quantity import Tree
from samara.core.sanitise import quote_value
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.scenario.scenario import Drone, Scenario, ScenarioError
from samara.sim.setup import Variation
from samara.vehicles.parameters import parameter, with_parameters

POSITION_PARAMETERS = ("start_W", "goal_shift")
SCALAR_START_PARAMETERS = ("yaw", "initial_charge")
WIND_PREFIX, CONTROLLER_PREFIX = "wind.", "controller."


def require_one_drone(scenario: Scenario) -> None:
    """Check that parameters may vary between the flights of a scenario.

    Raises:
        ScenarioError: it has several drones.
    """
    if len(scenario.drones) > 1:
        raise ScenarioError(f"{scenario.name}: {len(scenario.drones)} drones: expected one drone where parameters vary")


def varied_drone(drone: Drone, varied: Mapping[str, Array], flight: int) -> Drone:
    """Return the drone of one flight."""
    return apply_values(drone, {name: values[flight].tolist() for name, values in varied.items()})


def varied_wind(source: Tree, varied: Mapping[str, Array], flight: int) -> Tree:
    """Return the wind of one flight."""
    return apply_wind_values(source, {name: values[flight].tolist() for name, values in varied.items()})


def varied_scenario(scenario: Scenario, values: Mapping[str, Tree]) -> tuple[Scenario, Variation]:
    """Return the scenario of one flight with these values, and the variation that determines its programs."""
    require_one_drone(scenario)
    varied = {name: vary_values(name, [value], 1) for name, value in values.items()}
    wind = varied_wind(scenario.wind, varied, 0)
    flown_scenario = replace(scenario, drones=(varied_drone(scenario.drones[0], varied, 0),), wind=wind)
    vehicle = scenario.drones[0].vehicle
    base = {name.removeprefix("vehicle."): () for name in vehicle_names(varied)}
    base_values = tuple((path, tuple(map(float, flatten(parameter(vehicle, path))))) for path in base)
    return flown_scenario, Variation((), reference_flights(scenario, varied), base_values=base_values)


def recorded_references(vehicle: Vehicle, base_values: Mapping[str, Sequence[float]]) -> list[Vehicle]:
    """Return the references of a recorded vehicle, whose varied parameters had different values in the scenario."""
    for path, leaves in base_values.items():
        value = unflatten(parameter(vehicle, path), iter(leaves))
        vehicle = with_parameters(vehicle, [path], [value])
    return reference_vehicles(vehicle, list(base_values))


def vary_values(name: str, value: Tree, n: int) -> Array:
    """Check the values of a varied parameter, one for each of n flights.

    Raises:
        ValueError: they have another shape, or are not finite.
    """
    try:
        values = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"vary: {name!r} = {quote_value(value)}: expected numbers") from None
    if not values.ndim or len(values) != n or not np.isfinite(values).all():
        raise ValueError(
            f"vary: {name!r} has values of shape {values.shape}; expected finite numbers, one for each of {n} flights"
        )
    if name in POSITION_PARAMETERS and values.shape != (n, 3):
        raise ValueError(
            f"vary: {name!r} has values of shape {values.shape}; expected three numbers for each of {n} flights"
        )
    if name.removeprefix("vehicle.") == "mass" and not (values > 0.0).all():
        raise ValueError(f"vary: {name!r} = {values.min():g}: expected a positive mass [kg]")
    return values


PROBE_STEPS = (0.0, 1e-3, -1e-3)  # relative changes of parameters that show which leaves depend on them


def reference_flights(scenario: Scenario, names: Iterable[str]) -> tuple[tuple[Drone, Tree], ...]:
    """Return the scenario's drone and wind, and those of flights in which all varied parameters differ a little.

    Every leaf of a stage in which these differ is an input of its program (`samara.compiler.batch_parameters`).
    """
    drone, wind = scenario.drones[0], scenario.wind
    values = {name: value for name in names if (value := _base_value(scenario, name)) is not None}
    vehicles = reference_vehicles(drone.vehicle, vehicle_names(values))
    references = []
    for vehicle, step in zip(vehicles, PROBE_STEPS, strict=True):
        probe, probe_wind = replace(drone, vehicle=vehicle), wind
        for name in values.keys() - set(vehicle_names(values)) if step else ():
            with suppress(
                ValueError, TypeError
            ):  # a value out of the parameter's range: only leaves that differ are inputs
                perturbed = {name: _perturb(values[name], step)}
                probe, probe_wind = apply_values(probe, perturbed), apply_wind_values(probe_wind, perturbed)
        references.append((probe, probe_wind))
    return tuple(references)


def vehicle_names(names: Iterable[str]) -> list[str]:
    """Select the names of vehicle parameters."""
    return [
        name
        for name in names
        if name not in (*POSITION_PARAMETERS, *SCALAR_START_PARAMETERS)
        and not name.startswith((WIND_PREFIX, CONTROLLER_PREFIX))
    ]


def reference_vehicles(vehicle: Vehicle, names: Sequence[str]) -> list[Vehicle]:
    """Return a vehicle, and others in which the named parameters differ slightly."""
    references = []
    for step in PROBE_STEPS:
        probe = vehicle
        for k, name in enumerate(names if step else ()):
            with suppress(ValueError, TypeError):
                perturbed = _perturb(parameter(vehicle, name.removeprefix("vehicle.")), step * (1.0 + 0.1 * k))
                probe = _set_parameter(probe, name, perturbed)
        references.append(probe)
    return references


def _base_value(scenario: Scenario, name: str) -> Tree:
    """Return the value of a parameter in the scenario; None if it has no value or is not a parameter of a stage."""
    if name in (*POSITION_PARAMETERS, *SCALAR_START_PARAMETERS):
        return None
    if name.startswith(WIND_PREFIX):
        return wind_parameter(scenario.wind, name)
    if name.startswith(CONTROLLER_PREFIX):
        controller = coerce_controller_spec(scenario.drones[0].controller)
        return (
            controller.option_values.get(name.removeprefix(CONTROLLER_PREFIX))
            if isinstance(controller, ControllerSpec)
            else None
        )
    return parameter(scenario.drones[0].vehicle, name.removeprefix("vehicle."))


def _perturb(value: Tree, step: float) -> Tree:
    leaves = [leaf * (1.0 + step) if leaf else step for leaf in flatten(value)]
    return leaves if len(set(leaves)) > 1 else leaves[0]


def has_wind_parameters(varied: Mapping[str, Tree]) -> bool:
    """Whether parameters of the wind vary."""
    return any(name.startswith(WIND_PREFIX) for name in varied)


def apply_wind_values(source: Tree, values: Mapping[str, Tree]) -> Tree:
    """Return a wind with the values of its varied parameters."""
    for name, value in values.items():
        if name.startswith(WIND_PREFIX):
            source = _replace_value(source, name.removeprefix(WIND_PREFIX).split("."), value, name)
    return source


def _replace_value(source: Tree, path: list[str], value: Tree, name: str) -> Tree:
    """Return a record or a tuple with a value replaced at the end of a path."""
    parts, field = _parts(source), path[0]
    if field not in parts:
        raise _unknown_parameter_error(source, parts, name)
    if len(path) > 1:
        value = _replace_value(parts[field], path[1:], value, name)
    elif isinstance(parts[field], Vec3):
        value = _fill_components(parts[field], value, f"vary: {name!r}")
    if is_dataclass(source) and not isinstance(source, type):
        return replace(source, **{field: value})
    components = (parts | {field: value}).values()
    return tuple(components) if type(source) is tuple else type(source)(*components)


def wind_parameter(source: Tree, name: str) -> Tree:
    """Return the value of a wind at a path: a scalar or a vector."""
    for field in name.removeprefix(WIND_PREFIX).split("."):
        parts = _parts(source)
        if field not in parts:
            raise _unknown_parameter_error(source, parts, name)
        source = parts[field]
    return source


def _unknown_parameter_error(source: Tree, parts: Mapping[str, Tree], name: str) -> ValueError:
    expected = f"expected one of {', '.join(parts)}" if parts else f"{type(source).__name__} has no numbers"
    return ValueError(f"vary: {name!r} is not a parameter of this wind; {expected}")


def _parts(source: Tree) -> dict[str, Tree]:
    """Return the parts of a record by name, of a tuple by index."""
    if isinstance(source, tuple):
        return dict(zip(getattr(source, "_fields", map(str, range(len(source)))), source, strict=True))
    return {field.name: getattr(source, field.name) for field in fields(source)} if is_dataclass(source) else {}


def _fill_components(template: Tree, value: Tree, name: str) -> Tree:
    """Return a named tuple of the values, or of one value if all components are equal."""
    if isinstance(value, (list, tuple)):
        return type(template)(*value)
    if len(set(template)) != 1:
        names = ", ".join(template._fields)
        raise ValueError(f"{name} is {len(template)} numbers, {names}, which differ; expected the path of one")
    return type(template)(*[value] * len(template))


def apply_values(drone: Drone, values: Mapping[str, Tree]) -> Drone:
    """Return a drone with the values of its varied parameters, its start and its goal; values of the wind are ignored."""
    for name, value in values.items():
        if name == "start_W":
            drone = replace(drone, start_W=Vec3(*value))
        elif name == "goal_shift":
            drone = replace(drone, task=drone.task.shift(Vec3(*value)))
        elif name.startswith(WIND_PREFIX):
            continue
        elif name in SCALAR_START_PARAMETERS:
            drone = replace(drone, **{name: value})
        elif name.startswith(CONTROLLER_PREFIX):
            controller = coerce_controller_spec(drone.controller)
            if not isinstance(controller, ControllerSpec):
                raise ValueError(f"vary: {name!r} of a controller in Python; expected one that has a name")
            chosen = controller.option_values | {name.removeprefix(CONTROLLER_PREFIX): value}
            drone = replace(drone, controller=controller_spec(controller.name, **chosen))
        else:
            drone = replace(drone, vehicle=_set_parameter(drone.vehicle, name, value))
    return drone


def _set_parameter(vehicle: Vehicle, name: str, value: Tree) -> Vehicle:
    path = name.removeprefix("vehicle.")
    current = parameter(vehicle, path)  # raises an error that explains an unknown path
    if hasattr(current, "_fields"):
        value = _fill_components(current, value, f"vary: {name!r}")
    elif isinstance(value, (list, tuple)) and not isinstance(current, tuple):
        raise ValueError(f"vary: {name!r} = {quote_value(value)}: expected one number for each flight")
    return vehicle.replace({path: tuple(value) if isinstance(value, list) else value})
