"""What differs from flight to flight, by name: a drone and a wind with the numbers of one of them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from samara.backends.parameters import parameter
from samara.control.named import as_tuned
from samara.control.tuning import Tuned, tuned
from samara.core.algebra import Vec3
from samara.scenario.scenario import Drone

Array = np.ndarray[Any, Any]
PLACES = ("start_W", "goal_shift")
WIND, CONTROLLER = "wind.", "controller."


def varied_drone(drone: Drone, varied: Mapping[str, Array], flight: int) -> Drone:
    """The drone of one flight"""
    return with_values(drone, {name: values[flight].tolist() for name, values in varied.items()})


def varied_wind(source: Any, varied: Mapping[str, Array], flight: int) -> Any:
    """The wind of one flight"""
    return wind_with(source, {name: values[flight].tolist() for name, values in varied.items()})


def has_winds(varied: Mapping[str, Any]) -> bool:
    """Whether something of the wind differs"""
    return any(name.startswith(WIND) for name in varied)


def wind_with(source: Any, values: Mapping[str, Any]) -> Any:
    """A wind with other numbers"""
    for name, value in values.items():
        if name.startswith(WIND):
            source = _replaced(source, name.removeprefix(WIND).split("."), value, name)
    return source


def _replaced(source: Any, path: list[str], value: Any, name: str) -> Any:
    known = [own.name for own in fields(source)]
    if path[0] not in known:
        raise ValueError(f"vary: {name!r} is not a parameter of this wind; expected one of {', '.join(known)}")
    before = getattr(source, path[0])
    if len(path) > 1:
        return replace(source, **{path[0]: _replaced(before, path[1:], value, name)})
    return replace(source, **{path[0]: Vec3(*value) if isinstance(before, Vec3) else value})


def with_values(drone: Drone, values: Mapping[str, Any]) -> Drone:
    """A drone with other numbers, start and goal; those of the wind are none of its own"""
    for name, value in values.items():
        if name == "start_W":
            drone = replace(drone, start_W=Vec3(*value))
        elif name == "goal_shift":
            drone = replace(drone, task=drone.task.moved(Vec3(*value)))
        elif name.startswith(WIND):
            continue
        elif name == "yaw":
            drone = replace(drone, yaw=value)
        elif name.startswith(CONTROLLER):
            controller = as_tuned(drone.controller)
            if not isinstance(controller, Tuned):
                raise ValueError(f"vary: {name!r} of a controller in Python; expected one that has a name")
            chosen = controller.chosen | {name.removeprefix(CONTROLLER): value}
            drone = replace(drone, controller=tuned(controller.name, **chosen))
        else:
            path = name.removeprefix("vehicle.")
            before = parameter(drone.vehicle, path)  # a sentence about a path that leads nowhere
            number = (
                type(before)(*value)
                if hasattr(before, "_fields")
                else tuple(value)
                if isinstance(value, list)
                else value
            )
            drone = replace(drone, vehicle=drone.vehicle.replace({path: number}))
    return drone
