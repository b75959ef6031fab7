"""Flights that differ in numbers, by what one trace is for.

The first flight of a case is traced with its numbers as inputs (`samara.compiler.numbered`), from the vehicle through the
controller that is designed for it to the code; the others only have to be played. Before a case is flown its code is compared
with what tracing two of its flights by themselves gives.
"""

from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np

from samara.compiler.llvm.codegen import vector_width
from samara.compiler.numbered import in_lane
from samara.control.registry import as_tuned, controller_named
from samara.core.number import Number
from samara.core.number_tape import Tape
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest
from samara.physics.types import State
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.initial_state import initial_state
from samara.sim.metrics_log import MetricsLog
from samara.sim.simulation import Simulation
from samara.sim.stage import Stage
from samara.sim.vary import NUMBERS, PLACES, varied_drone, wind_with, with_values
from samara.sim.ways import Way, ways_of
from samara.vehicles.trim import at_density

WHERE = (*PLACES, *NUMBERS)  # what differs in the start and the task alone, and in no code
KEPT = 4  # scenarios whose cases are


class Cases:
    """Those of one scenario and names of what differs."""

    def __init__(self, scenario: Scenario, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.scenario, self.shapes = scenario, dict(shapes)
        self._numbers = [name for name in shapes if name not in WHERE]
        self._at_start = [name for name in shapes if not name.startswith("wind.") and name != "goal_shift"]
        self.lock = RLock()  # one thread feeds the tapes and flies what it has fed
        self._ways: list[Way] = []
        self._starts: list[Way] = []

    def found(self, varied: Mapping[str, Array]) -> tuple[list[tuple[Way, Array]], Array]:
        """Each case with its flights, and the flights that are none"""
        known = len(self._ways)
        found, left = ways_of(self._traced, _inputs(varied, self._numbers), self._ways)
        for way, lanes in found:
            if way in self._ways[known:] and not self._is_true(way, varied, lanes[[0, -1]]):
                self._ways.remove(way)
                left = np.concatenate([left, lanes])
        return [(way, lanes) for way, lanes in found if way in self._ways], np.sort(left)

    def fed(self, way: Way, varied: Mapping[str, Array], lanes: Array) -> tuple[Scenario, list[State]]:
        """The scenario in which some flights of a case fly, and the states they start in"""
        chosen = {name: values[lanes] for name, values in varied.items()}
        states = self._states(chosen, len(lanes))
        way.tape.feed(_inputs(chosen, self._numbers))
        drone, wind = way.given
        where = {name: values.tolist() for name, values in chosen.items() if name in WHERE}
        drones = tuple(
            with_values(drone, {name: values[k] for name, values in where.items()}) for k in range(len(lanes))
        )
        return replace(self.scenario, drones=drones, wind=wind), states

    # One trace for all -----------------------------------------------------------------------------------------------

    def _traced(self, numbers: tuple[Number, ...], tape: Tape) -> tuple[Drone, Any]:
        """Drone and wind with numbers; all codes of their flight are traced, and compiled, on the way"""
        values = self._values(numbers, self._numbers)
        drone, wind = with_values(self.scenario.drones[0], values), wind_with(self.scenario.wind, values)
        width = vector_width("float64")
        tape.feed(np.repeat(np.array([own.value for own in numbers])[:, None], width, axis=1))
        state = at_rest(self.scenario.drones[0].vehicle)
        scenario = replace(self.scenario, drones=(drone,) * width, wind=wind)
        flight = Simulation(scenario, seeds=[0] * width, log=MetricsLog(), lifts=True, states=[state] * width)
        flight.python_work(MICROSECONDS)
        return drone, wind

    def _is_true(self, way: Way, varied: Mapping[str, Array], lanes: Array) -> bool:
        """Whether the codes, and the design of the controller, are what single flights are traced to"""
        way.tape.feed(_inputs({name: values[lanes] for name, values in varied.items()}, self._numbers))
        period = self.scenario.rates.periods()["autopilot"] / MICROSECONDS
        for k, lane in enumerate(lanes):
            drone = varied_drone(self.scenario.drones[0], varied, lane)
            for build, given, code in way.tape.codes:
                own = in_lane(given, way.tape, k)
                if isinstance(own[0], Stage) and own[0].name == "controller":
                    tuned, parameters = as_tuned(drone.controller), dict(own[0].parameters)
                    known = drone.vehicle if drone.model is None else drone.model
                    at_home = at_density(known, self.scenario.environment.air_density)
                    designed = controller_named(tuned.name, at_home, period=period, **tuned.chosen)
                    if (parameters["controller"], parameters.get("vehicle", known)) != (designed.call, known):
                        return False
                if code.differs(getattr(build, "__wrapped__", build)(*own)._program, k):
                    return False
        return True

    # Where they start ------------------------------------------------------------------------------------------------

    def _states(self, varied: Mapping[str, Array], n: int) -> list[State]:
        scenario, drone = self.scenario, self.scenario.drones[0]

        def start(numbers: tuple[Number, ...], tape: Tape) -> State:
            own = with_values(drone, self._values(numbers, self._at_start))
            return initial_state(own, scenario.environment_at(own.start_W.z))

        inputs = _inputs(varied, self._at_start)
        found, left = ([], np.arange(n)) if scenario.world.terrain else ways_of(start, inputs, self._starts)
        template = at_rest(drone.vehicle)
        states: list[Any] = [None] * n
        for way, lanes in found:
            for lane, column in zip(lanes.tolist(), way.leaves(inputs[:, lanes]).T.tolist(), strict=True):
                states[lane] = unflatten(template, iter(column))
        own = {name: varied[name] for name in self._at_start}
        for lane in left.tolist():
            flown = varied_drone(drone, own, lane)
            states[lane] = initial_state(flown, scenario.environment_at(flown.start_W.z))
        return states

    def _values(self, numbers: tuple[Number, ...], names: list[str]) -> dict[str, Any]:
        """What differs by name, of numbers in a row"""
        row, values = iter(numbers), {}
        for name in names:
            shape = self.shapes[name]
            own = [next(row) for _ in range(int(np.prod(shape)))]
            values[name] = own if shape else own[0]
        return values


def _inputs(varied: Mapping[str, Array], names: list[str]) -> Array:
    """The numbers of some names, in rows: (numbers, flights)"""
    n = len(next(iter(varied.values())))
    return np.concatenate([np.empty((0, n)), *(varied[name].reshape(n, -1).T for name in names)])


_kept: list[Cases] = []


def cases_of(scenario: Scenario, varied: Mapping[str, Array]) -> Cases:
    """The cases of a scenario and of these names, those that are known already among them"""
    shapes = {name: values.shape[1:] for name, values in varied.items()}
    for own in _kept:
        if list(own.shapes.items()) == list(shapes.items()) and _same(own.scenario, scenario):
            return own
    del _kept[KEPT - 1 :]
    _kept.insert(0, Cases(scenario, shapes))
    return _kept[0]


def _same(a: Scenario, b: Scenario) -> bool:
    try:
        return a is b or bool(a == b)
    except ValueError:  # arrays among what is compared
        return False
