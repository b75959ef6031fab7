"""Run single stages: entries of a flight's sequence on drones at rest, tick by tick, with either executor."""

from types import SimpleNamespace

import numpy as np

from samara.compiler.compiled_step import STRICT
from samara.core.algebra import Quat, Vec3
from samara.core.tree import flatten
from samara.estimate.ideal import TRUTH
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import complete_environment
from samara.physics.types import CALM
from samara.scenario.snapshot import Faults
from samara.scenario.timeline import CLOCK_ORDER, MICROSECONDS, Timeline
from samara.scenario.world import World
from samara.sim.executors.llvm import Cursor, GroupProgram, run_programs
from samara.sim.executors.python import PythonProgram
from samara.sim.group import Group
from samara.sim.schedule import Schedule
from samara.sim.setup import DroneSetup, FlightSetup
from samara.sim.stage import PythonStage, StageFactory, StageSet
from samara.sim.stages.controller import build_controller
from samara.sim.stages.ground import find_ground, standing_surfaces
from samara.sim.stages.physics import build_physics
from samara.wind.sources import NoWind

EXECUTORS = {"llvm": GroupProgram, "python": PythonProgram}
MAX_DURATION_US = 10**12
# The slots that a flight always has, without the stages that fill them.
BASIC_SLOTS = StageFactory(
    "slots",
    "",
    lambda setup: StageSet(slots={**build_physics(setup).slots, **build_controller(setup).slots}),
)


class StageRun:
    """Entries of a sequence on drones of one vehicle; every clock has the same period. `group` has their slots."""

    def __init__(
        self,
        *entries,
        vehicle,
        state,
        command=None,
        drones=(0,),
        seed=0,
        period_us=4000,
        wind=None,
        sensors=(),
        estimator=TRUTH,
        wind_per_rotor=False,
        environment=CALM,
        executor="llvm",
        slots=None,
    ):
        """`drones` are their indices in the flight, which seed their random numbers; `slots` adds to those of the entries."""
        periods = {"physics": period_us, **dict.fromkeys(CLOCK_ORDER, period_us)}
        self.period_us, self.tick = period_us, -1
        flight = FlightSetup(
            *(environment, 0.0, wind or NoWind(), World(), periods), backend="llvm", wind_per_rotor=wind_per_rotor
        )
        setup = DroneSetup(vehicle, None, (True,) * len(vehicle.rotors), estimator, tuple(sensors), None, (), flight)
        extra = () if slots is None else (StageFactory("more slots", "", lambda setup: StageSet(slots=slots)),)
        entries = (BASIC_SLOTS, *extra, *entries)
        numbers, n = np.array(drones), len(drones)
        self.group = group = Group([setup], tuple(range(n)), (seed,) * n, numbers, tuple(map(str, drones)), 1)
        group.link(entries, [setup])
        group.slots["state"][:] = np.array(flatten(state), dtype=float)[:, None]
        group.slots["environment"][:] = np.array(flatten(complete_environment(vehicle, environment)), dtype=float)[
            :, None
        ]
        group.start()
        if command is not None:
            group.slots["command"][:] = np.array(command)[:, None]
        self.fleet = SimpleNamespace(
            stages=entries,
            groups=[group],
            periods=periods,
            schedule=Schedule(Timeline(MAX_DURATION_US, tuple(periods.items()))),
            log=None,
            precision=STRICT,
            time_us=0,
            separate_flights=True,
            setting=SimpleNamespace(drones=[SimpleNamespace(faults=Faults()) for _ in drones]),
            tick=lambda clock: self.tick,
        )
        self._program = EXECUTORS[executor](self.fleet, group)

    def advance(self):
        """Run all entries at the next tick, the first at time 0; return its time [s]."""
        self.tick += 1
        fleet, entries = self.fleet, self.fleet.stages
        fleet.time_us = self.tick * self.period_us
        span = fleet.schedule.span(fleet.time_us, fleet.time_us, include_start=True)
        self._program.set_clocks()
        run_programs([self._program], span, Cursor(0, 0), Cursor(0, len(entries)))
        for entry in entries:
            if isinstance(entry, PythonStage) and entry.is_due(fleet, span, needed=entry in self._program.python)[0]:
                entry.update(fleet)
        self.group.mark_entries_run(len(entries))
        return fleet.time_us / MICROSECONDS

    def record(self, ticks, *paths):
        """Run `ticks` ticks; return the rows of each path after every one, (ticks, rows, drones)."""
        rows = [[] for _ in paths]
        for _ in range(ticks):
            self.advance()
            for values, path in zip(rows, paths, strict=True):
                values.append(self.group.rows(path).copy())
        return [np.array(values) for values in rows]


def simulate_stage(entry, seconds, *paths, period_us=4000, **setup):
    """Run one entry for a time; return the rows of each path after every tick, (ticks, rows, drones)."""
    return StageRun(entry, period_us=period_us, **setup).record(round(seconds * MICROSECONDS / period_us) + 1, *paths)


def put_ground_below(plant, world, ground):
    """Write the plane below each drone of a plant into its environment, as the ground stage does."""
    surface, tops = standing_surfaces(world, ground)
    first = plant.environment_row("ground.point_W.x")
    rows = plant.environment[first : first + 6]
    (plane,) = find_ground(
        *(Vec3(*plant.state[:3]), Quat(*plant.state[6:10]), Ground(Vec3(*rows[:3]), Vec3(*rows[3:]))),
        **{"vehicle": plant.vehicle, "ground": surface, "tops": tops},
    )
    rows[:] = np.stack([np.broadcast_to(leaf, (plant.n,)) for leaf in flatten(plane)])
