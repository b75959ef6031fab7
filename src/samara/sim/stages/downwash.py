"""What drones do to each other in the air: the downwash of all on all, computed once per step and held through it.

    pushed = downwash_on(flown)      # for each group (6, n): f_W [N], then τ_B [N·m]

Groups may be of different vehicles; every drone has a number of its own, and nobody presses on himself. Pairs too far apart
to matter are found by a bound and left out, so that a swarm costs what its neighbours cost.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.llvm.pairwise_sum import Columns, NearSum
from samara.core.algebra import IDENTITY, ZERO, dot, norm
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.air.downwash import Downwash, Exposed, Jet, downwash_wrench, jet_of
from samara.physics.effect import Wrench
from samara.physics.multirotor import at_rest, environment_of
from samara.physics.types import Environment, State, Vehicle
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.schedule import Span
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, Stage, StageSet

EXPOSED, JET = Exposed(ZERO, IDENTITY), Jet(ZERO, ZERO, 1.0, 1.0)
REACH = 4.5  # widths: further out the flux is e⁻⁴⁰ of that on the axis, less than the rounding of it


class Pressing:
    """Drones of one vehicle: their numbers, and their state and environment with a row for every component.

    They feel the jets of others with the numbers of the vehicle's own downwash, unless others are given.
    """

    def __init__(
        self, vehicle: Vehicle, drones: Array, state: Array, environment: Array, downwash: Downwash | None = None
    ) -> None:
        self.drones, self.state = drones, state
        code, size = _jet_code(vehicle), len(state)
        self._exposed, self._machine = Columns(len(flatten(EXPOSED)), drones), code.machine(len(drones))
        self._taken = [(row, state, row) if row < size else (row, environment, row - size) for row in code.reads]
        self.near = _code(vehicle, downwash or vehicle["downwash"])

    @property
    def exposed(self) -> Columns:
        """Where the drones are now, and how they are turned"""
        self._exposed.values[:3], self._exposed.values[3:] = self.state[:3], self.state[6:10]
        return self._exposed

    @property
    def jets(self) -> Array:
        """The jet of every drone, (8, n): rows are those of a `Jet`"""
        held = self._machine.held
        for into, given, row in self._taken:
            held[into] = given[row]
        self._machine.run()
        return self._machine.carry


class DownwashStage(PythonStage):
    """The downwash of all on all who have it, held until the next tick of the wind."""

    rate = "wind"
    reason = "downwash of all on all"
    needs_tables = False

    def __init__(self) -> None:
        self._fleet_groups: list[Group] = []
        self._groups: list[Group] = []
        self._pressing: list[Pressing] = []

    def build(self, setup: DroneSetup) -> StageSet:
        """Python sums over the drones of a fleet; JAX has a stage on arrays of all drones of a flight"""
        return StageSet(python=self.reason, on_arrays=partial(_among_drones, setup))

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """At the ticks of the wind; never where every drone flies a flight of its own"""
        return super().is_due(fleet, span, needed=needed and not fleet.apart)

    def prepare(self, fleet: Fleet) -> None:
        """Who has it"""
        if self._fleet_groups is fleet.groups:
            return
        self._fleet_groups = fleet.groups
        self._groups = [group for group in fleet.groups if group.vehicle.has("downwash")]
        self._pressing = [
            Pressing(group.vehicle, group.indices, group.slots["state"], group.slots["environment"])
            for group in self._groups
        ]

    def update(self, fleet: Fleet) -> None:
        for group, pushed in zip(self._groups, downwash_on(self._pressing), strict=True):
            push = group.environment.pushes[0]
            if not (np.array_equal(pushed[:3], push.f_W) and np.array_equal(pushed[3:], push.tau_B)):
                push.f_W[:], push.tau_B[:] = pushed[:3], pushed[3:]
                fleet.environment_changed = True


def push_of_others(state: State, environment: Environment, *, vehicle: Vehicle) -> tuple[Wrench]:
    """Σ over the jets of all other drones of a flight: the wrench on each drone, on JAX arrays (drones, flights)  [N, N·m]"""
    from samara.compiler.jax.folding_scalar import sum_over_others

    def push(exposed: Exposed, jet: Jet) -> Wrench:
        return downwash_wrench(exposed, jet, vehicle, vehicle["downwash"])

    return (sum_over_others(push, Exposed(state.p_W, state.q_WB), jet_of(state, vehicle, environment)),)


def _among_drones(setup: DroneSetup) -> StageSet:
    if setup.flight.drones == 1 or not setup.vehicle.has("downwash"):
        return StageSet()
    parameters = (("vehicle", setup.vehicle),)
    writes = ("environment.pushes.0",)
    return StageSet((Stage("downwash", "wind", push_of_others, ("state", "environment"), writes, parameters),))


def downwash_on(flown: Sequence[Pressing]) -> list[Array]:
    """Force in world axes and torque in body axes on every drone, from the jets of all others  [N, N·m]"""
    if not flown:
        return []
    jets = Columns(len(flatten(JET)), np.concatenate([own.drones for own in flown]))
    np.concatenate([own.jets for own in flown], axis=1, out=jets.values)
    return [own.near.over(own.exposed, jets) for own in flown]


@lru_cache(maxsize=16)
def _jet_code(vehicle: Vehicle) -> CompiledStep:
    templates = at_rest(vehicle), environment_of(vehicle)
    return CompiledStep(lambda own, held: jet_of(held[0], vehicle, held[1]), JET, templates, as_written=True)


def margins(exposed: Exposed, jet: Jet, reach: float, spread: float) -> tuple[Scalar, Scalar]:
    """s + h > 0 and 2 ((N R)² + h²) + 2 (N k (s + h))² − r² > 0,  N = `REACH`, s along and r across the jet, hubs within h [m]

    Both are positive below the plane of a jet's rotors and nearer to its axis than N widths of it, as (a + b)² ≤ 2a² + 2b².
    """
    away = exposed.p_W - jet.p_W
    s = dot(away, jet.direction_W)
    below = s + reach
    start, widening = REACH * jet.radius, REACH * spread * below
    return below, 2.0 * (start * start + reach * reach + widening * widening) + s * s - dot(away, away)


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle, downwash: Downwash) -> NearSum:
    """What near jets do to a drone: (f_W, τ_B)"""
    reach = max(float(norm(rotor.r_B)) for rotor in vehicle.rotors)

    def felt(exposed: Exposed, jet: Jet) -> Tree:
        wrench: Wrench = downwash_wrench(exposed, jet, vehicle, downwash)
        return wrench.f_W, wrench.tau_B

    return NearSum(felt, lambda mine, theirs: margins(mine, theirs, reach, downwash.spread), EXPOSED, JET)
