"""The downwash of all drones on each other, computed once per wind tick and constant until the next.

    wrenches = downwash_wrenches(groups)      # for each group (6, n): f_W [N], then τ_B [N·m]

Groups may have different vehicles; every drone has a unique index and exerts no downwash on itself. Pairs that are too distant
to matter are excluded by a bound, so that the cost of a swarm grows with the count of neighbours.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.llvm.pairwise_sum import DroneColumns, NeighbourSum
from samara.core.algebra import IDENTITY, ZERO, dot, norm
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.air.downwash import Downwash, DownwashReceiver, Jet, downwash_wrench, rotor_jet
from samara.physics.effect import Wrench
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import Environment, State, Vehicle
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.schedule import Span
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, Stage, StageSet

EXPOSED, JET = DownwashReceiver(ZERO, IDENTITY), Jet(ZERO, ZERO, 1.0, 1.0)
MAX_JET_WIDTHS = 4.5  # widths of a jet: further out the flux is e⁻⁴⁰ of that on the axis, less than its rounding error


class DownwashGroup:
    """Drones of one vehicle: their indices, and their state and environment with one row per component.

    The jets of other drones act on them with the parameters of the vehicle's downwash, or of `downwash` if given.
    """

    def __init__(
        self, vehicle: Vehicle, drones: Array, state: Array, environment: Array, downwash: Downwash | None = None
    ) -> None:
        self.drones, self.state = drones, state
        code, size = _jet_code(vehicle), len(state)
        self._exposed_columns, self._machine = DroneColumns(len(flatten(EXPOSED)), drones), code.machine(len(drones))
        self._inputs = [
            (row, state, row) if row < size else (row, environment, row - size) for row in code.used_held_inputs
        ]
        self.near_sum = _near_sum(vehicle, downwash or vehicle["downwash"])

    @property
    def exposed_columns(self) -> DroneColumns:
        """The present positions and attitudes of the drones."""
        self._exposed_columns.values[:3], self._exposed_columns.values[3:] = self.state[:3], self.state[6:10]
        return self._exposed_columns

    @property
    def jets(self) -> Array:
        """The jet of every drone, (8, n): rows are those of a `Jet`."""
        inputs = self._machine.held_inputs
        for input_row, source, row in self._inputs:
            inputs[input_row] = source[row]
        self._machine.run()
        return self._machine.carry


class DownwashStage(PythonStage):
    """The downwash between all drones whose vehicle models it, constant until the next tick of the wind."""

    rate = "wind"
    reason = "downwash between drones"
    needs_tables = False

    def __init__(self) -> None:
        self._fleet_groups: list[Group] = []
        self._groups: list[Group] = []
        self._downwash_groups: list[DownwashGroup] = []

    def build(self, setup: DroneSetup) -> StageSet:
        """Return the reason why Python sums over the fleet, and the stage for JAX on arrays of all drones of a flight."""
        return StageSet(python_reason=self.reason, array_stages=partial(_build_array_stages, setup))

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """Mark the ticks of the wind; none if every drone is a separate flight."""
        return super().is_due(fleet, span, needed=needed and not fleet.separate_flights)

    def prepare(self, fleet: Fleet) -> None:
        """Collect the groups whose vehicles model downwash."""
        if self._fleet_groups is fleet.groups:
            return
        self._fleet_groups = fleet.groups
        self._groups = [group for group in fleet.groups if group.vehicle.has("downwash")]
        self._downwash_groups = [
            DownwashGroup(group.vehicle, group.indices, group.slots["state"], group.slots["environment"])
            for group in self._groups
        ]

    def update(self, fleet: Fleet) -> None:
        for group, wrenches in zip(self._groups, downwash_wrenches(self._downwash_groups), strict=True):
            external_wrench = group.environment.external_wrenches[0]
            if not (
                np.array_equal(wrenches[:3], external_wrench.f_W)
                and np.array_equal(wrenches[3:], external_wrench.tau_B)
            ):
                external_wrench.f_W[:], external_wrench.tau_B[:] = wrenches[:3], wrenches[3:]
                fleet.environment_changed = True


def neighbour_downwash(state: State, environment: Environment, *, vehicle: Vehicle) -> tuple[Wrench]:
    """Σ over the jets of all other drones of a flight: the wrench on each drone, on JAX arrays (drones, flights) [N, N·m]."""
    from samara.compiler.jax.folding_scalar import sum_over_others

    def jet_wrench(exposed: DownwashReceiver, jet: Jet) -> Wrench:
        return downwash_wrench(exposed, jet, vehicle, vehicle["downwash"])

    return (
        sum_over_others(jet_wrench, DownwashReceiver(state.p_W, state.q_WB), rotor_jet(state, vehicle, environment)),
    )


def _build_array_stages(setup: DroneSetup) -> StageSet:
    if setup.flight.drones == 1 or not setup.vehicle.has("downwash"):
        return StageSet()
    parameters = (("vehicle", setup.vehicle),)
    writes = ("environment.external_wrenches.0",)
    return StageSet((Stage("downwash", "wind", neighbour_downwash, ("state", "environment"), writes, parameters),))


def downwash_wrenches(groups: Sequence[DownwashGroup]) -> list[Array]:
    """Return the force in world axes and the torque in body axes on every drone, from the jets of all others [N, N·m]."""
    if not groups:
        return []
    jets = DroneColumns(len(flatten(JET)), np.concatenate([group.drones for group in groups]))
    np.concatenate([group.jets for group in groups], axis=1, out=jets.values)
    return [group.near_sum.compute(group.exposed_columns, jets) for group in groups]


@lru_cache(maxsize=16)
def _jet_code(vehicle: Vehicle) -> CompiledStep:
    templates = state_at_rest(vehicle), complete_environment(vehicle)
    return CompiledStep(lambda carry, constants: rotor_jet(constants[0], vehicle, constants[1]), JET, templates)


def margins(exposed: DownwashReceiver, jet: Jet, hub_radius: float, spread: float) -> tuple[Scalar, Scalar]:
    """s + h > 0 and 2 ((N R)² + h²) + 2 (N k (s + h))² − r² > 0.

    N is `MAX_JET_WIDTHS`, s the distance along and r that across the jet, and all hubs are within h [m].

    Both are positive below the plane of a jet's rotors and within N widths of its axis, as (a + b)² ≤ 2a² + 2b².
    """
    offset_W = exposed.p_W - jet.p_W
    s = dot(offset_W, jet.direction_W)
    distance_below = s + hub_radius
    start_width, widening = MAX_JET_WIDTHS * jet.radius, MAX_JET_WIDTHS * spread * distance_below
    return distance_below, 2.0 * (
        start_width * start_width + hub_radius * hub_radius + widening * widening
    ) + s * s - dot(offset_W, offset_W)


@lru_cache(maxsize=16)
def _near_sum(vehicle: Vehicle, downwash: Downwash) -> NeighbourSum:
    """Compile the sum of the wrenches of near jets on a drone: (f_W, τ_B)."""
    hub_radius = max(float(norm(rotor.r_B)) for rotor in vehicle.rotors)

    def jet_wrench(exposed: DownwashReceiver, jet: Jet) -> Tree:
        wrench: Wrench = downwash_wrench(exposed, jet, vehicle, downwash)
        return wrench.f_W, wrench.tau_B

    return NeighbourSum(
        jet_wrench, lambda exposed, jet: margins(exposed, jet, hub_radius, downwash.spread), EXPOSED, JET
    )
