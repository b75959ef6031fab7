"""The air around a drone: its density, the wind at its position and at its hubs, and the gusts of its rotors' wakes.

Sources that are common to all drones, also inside a sum, use the normals of drone 0. Density changes by 2e-5 of itself between
two ticks of the wind's clock at a climb of 10 m/s. A wake's gust is a process of deviation 1 for each rotor, scaled by the
rotor's present motion, so that a drone that leaves its wake is in calm air immediately.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from samara.core.algebra import ZERO, Quat, Vec3, cross, rotate
from samara.core.quantity import Scalar, Tree
from samara.core.random import gauss_markov
from samara.core.random import normals as standard_normals
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.air.atmosphere import density_at_height
from samara.physics.air.propwash import Propwash, gust_deviation, gust_time
from samara.physics.multirotor import complete_environment, tilt_rotors
from samara.physics.rotors.blade_element import hub_flow
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.events import FlightSettings
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, RandomInputs, Stage, StageFactory, StageSet
from samara.wind.sources import WindSource, WindSum, evaluate_wind, is_local, is_traced

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet


HUB_WIND_SLOT = "environment.hub_wind_W"


def sample_wind(
    time: Scalar,
    dt: Scalar,
    p_W: Vec3,
    v_W: Vec3,
    wind_state: Tree,
    disturbance_W: Vec3,
    normals: tuple[Scalar, ...] = (),
    *,
    source: WindSource,
) -> tuple[Tree, Vec3]:
    """w(t, p, v) + disturbance  [m/s], and the source's state after it; dt = ∞ at the first sample."""
    wind_W, wind_state = evaluate_wind(source, time, dt, normals, wind_state, p_W, v_W)
    return wind_state, wind_W + disturbance_W


def wind_at_hubs(
    time: Scalar,
    p_W: Vec3,
    v_W: Vec3,
    q_WB: Quat,
    omega_B: Vec3,
    disturbance_W: Vec3,
    wind_state: Tree,
    *,
    source: WindSource,
    vehicle: Vehicle,
) -> tuple[tuple[Vec3, ...]]:
    """w(p + R r) at each hub [m/s] at the instant of the last sample, with dt = 0, so that gusts do not change."""
    no_normals, winds = (0.0,) * source.normals_needed, []
    for r_B in (rotor.r_B for rotor in vehicle.rotors):
        hub_W, hub_v_W = p_W + rotate(q_WB, r_B), v_W + rotate(q_WB, cross(omega_B, r_B))
        winds.append(evaluate_wind(source, time, 0.0, no_normals, wind_state, hub_W, hub_v_W)[0] + disturbance_W)
    return (tuple(winds),)


def copy_wind_to_hubs(wind_W: Vec3, *, rotors: int) -> tuple[tuple[Vec3, ...]]:
    """w at each hub = w at the drone  [m/s]."""
    return (tuple(wind_W for _ in range(rotors)),)


def add_wake(hub_wind_W: tuple[Vec3, ...], wake_W: tuple[Vec3, ...]) -> tuple[tuple[Vec3, ...]]:
    """w_hub + w_wake at each rotor [m/s]."""
    return (tuple(wind + wake for wind, wake in zip(hub_wind_W, wake_W, strict=True)),)


def hub_wind_stages(setup: DroneSetup) -> tuple[Stage, ...]:
    """Build the stage that writes the wind at the hubs, for a vehicle that reads it."""
    if not setup.vehicle.reads("hub_wind_W"):
        return ()
    return (Stage("hub wind", "wind", add_wake, ("hub_wind", "wake"), (HUB_WIND_SLOT,)),)


def independent_normals(source: WindSource) -> tuple[bool, ...]:
    """Mark the normals of a source that each drone draws independently."""
    if isinstance(source, WindSum):
        return tuple(draw for part in source.sources for draw in independent_normals(part))
    return (is_local(source),) * source.normals_needed


def build_wind(setup: DroneSetup) -> StageSet:
    """Build the stages of one drone's wind, if its source can be traced."""
    source, vehicle = setup.flight.wind, setup.vehicle
    hubs = tuple(ZERO for _ in vehicle.rotors) if vehicle.reads("hub_wind_W") else ()
    slots: dict[str, Tree] = {"wind_disturbance": ZERO, "hub_wind": hubs, "wake": hubs}
    if not is_traced(source):
        return StageSet(slots=slots, python_reason=f"{type(source).__name__} is a wind source in Python")
    slots["wind_state"] = source.initial()
    independent = independent_normals(source)
    normals = RandomInputs("wind", len(independent), tuple(not draw for draw in independent)) if independent else None
    reads: tuple[str, ...] = ("time", "dt", "state.p_W", "state.v_W", "wind_state", "wind_disturbance")
    parameters: tuple[tuple[str, Tree], ...]
    writes = ("wind_state", "environment.wind_W")
    stages = [Stage("wind", "wind", sample_wind, reads, writes, (("source", source),), normals, initial_dt=math.inf)]
    if hubs and setup.flight.wind_per_rotor and is_local(source):
        reads = ("time", "state.p_W", "state.v_W", "state.q_WB", "state.omega_B", "wind_disturbance", "wind_state")
        parameters = (("source", source), ("vehicle", vehicle))
        stages.append(Stage("wind at hubs", "wind", wind_at_hubs, reads, ("hub_wind",), parameters))
    elif hubs:
        parameters = (("rotors", len(vehicle.rotors)),)
        stages.append(
            Stage("wind at hubs", "wind", copy_wind_to_hubs, ("environment.wind_W",), ("hub_wind",), parameters)
        )
    return StageSet((*stages, *hub_wind_stages(setup)), slots)


def is_extension(source: WindSource, previous: WindSource) -> bool:
    """Whether a wind is the previous one plus further sources; the previous one then continues with its state and period."""
    return isinstance(source, WindSum) and source.sources[0] is previous


class WindStage(PythonStage):
    """The wind of all drones; Python samples a source that cannot be traced."""

    rate = "wind"
    reason = "wind source in Python"

    def __init__(self) -> None:
        self._source_state: Tree = None  # of a Python source; None before its first sample

    def build(self, setup: DroneSetup) -> StageSet:
        """Build the stages of one drone's wind, if its source can be traced."""
        return build_wind(setup)

    def react(self, fleet: "Fleet", previous_setting: FlightSettings) -> None:
        """Switch to a new wind immediately; a source that was only extended continues with its state."""
        source = fleet.setting.wind
        if source is previous_setting.wind:
            return
        is_extended = is_extension(source, previous_setting.wind)
        added = (
            tuple(part.initial() for part in source.sources[1:]) if isinstance(source, WindSum) and is_extended else ()
        )
        states = [group.slots.get("wind_state") for group in fleet.groups]
        fleet.link_flight()
        if not is_traced(source):
            self._source_state = (
                (self._source_state, *added) if is_extended and self._source_state is not None else None
            )
            self.update(fleet)
            return
        for group, wind_state in zip(fleet.groups, states, strict=True):
            initial = flatten(added if is_extended and wind_state is not None else source.initial())
            columns = np.repeat(np.array(initial, dtype=float).reshape(-1, 1), len(group), axis=1)
            if is_extended and wind_state is not None:
                columns = np.concatenate([wind_state, columns])
            else:
                group.has_run.discard("wind")
            group.slots["wind_state"] = np.ascontiguousarray(columns)
            fleet.run_entry(group, self.name)
            group.has_run.add("wind")
        fleet.environment_changed = True

    def update(self, fleet: "Fleet") -> None:
        source, drones, tick = fleet.setting.wind, len(fleet.scenario.drones), fleet.tick("wind")
        disturbance_W, independent = fleet.setting.wind_disturbance_W, independent_normals(source)
        is_first = self._source_state is None
        position_and_velocity, wind_normals = (ZERO, ZERO), np.zeros((0, 1))
        if is_local(source):
            position_and_velocity = Vec3(*fleet.p_W), Vec3(*fleet.v_W)
        if independent:
            drone_numbers: Tree = np.arange(drones) if is_local(source) else np.zeros(1, dtype=int)
            wind_normals = standard_normals(fleet.scenario.seed, "wind", drone_numbers, tick, len(independent)).T
        source_normals = tuple(
            row if is_independent else float(row[0])
            for row, is_independent in zip(wind_normals, independent, strict=True)
        )
        state = source.initial() if is_first else self._source_state
        dt = math.inf if is_first else fleet.periods["wind"] / 1e6
        self._source_state, wind_W = sample_wind(
            fleet.time, dt, *position_and_velocity, state, disturbance_W, source_normals, source=source
        )
        winds = np.stack([np.broadcast_to(x, (drones,)) for x in wind_W])
        for group in fleet.groups:
            previous_environment = group.slots["environment"].copy()
            group.environment.wind_W[:] = winds[:, group.indices]
            if len(group.slots["hub_wind"]):
                group.slots["hub_wind"][:] = self._hub_wind(fleet, group, winds[:, group.indices])
                group.environment.hub_wind_W[:] = group.slots["hub_wind"] + group.slots["wake"]
            if not np.array_equal(previous_environment, group.slots["environment"]):
                fleet.environment_changed = True

    def _hub_wind(self, fleet: "Fleet", group: Tree, wind_W: Array) -> Array:
        source, rotors = fleet.setting.wind, len(group.vehicle.rotors)
        if not (fleet.scenario.wind_per_rotor and is_local(source)):
            return np.tile(wind_W, (rotors, 1))
        leaves = [leaf[group.indices] if np.ndim(leaf) else leaf for leaf in flatten(self._source_state)]
        state, motion = unflatten(self._source_state, iter(leaves)), group.state
        vectors = Vec3(*motion.p_W), Vec3(*motion.v_W), Quat(*motion.q_WB), Vec3(*motion.omega_B)
        parameters = {"source": source, "vehicle": group.vehicle}
        winds = wind_at_hubs(fleet.time, *vectors, fleet.setting.wind_disturbance_W, state, **parameters)
        return np.stack([np.broadcast_to(x, (len(group),)) for x in flatten(winds)])


def air_density(height: Scalar, *, home_density: float, home_altitude: float) -> tuple[Scalar]:
    """ρ(h₀ + z)  [kg/m³], by the standard atmosphere."""
    return (density_at_height(height, home_density=home_density, home_altitude=home_altitude),)


def _build_density(setup: DroneSetup) -> StageSet:
    flight = setup.flight
    parameters = (("home_density", flight.environment.air_density), ("home_altitude", flight.home_altitude))
    return StageSet(
        (Stage("density", "wind", air_density, ("state.p_W.z",), ("environment.air_density",), parameters),)
    )


DENSITY = StageFactory("density", "wind", _build_density)


def has_wake_gusts(vehicle: Vehicle) -> bool:
    """Whether a vehicle models the gusts of its rotors' wakes."""
    return (
        vehicle.has("propwash") and vehicle["propwash"].gusts > 0.0 and bool(complete_environment(vehicle).hub_wind_W)
    )


def wake_gusts(
    wake_state: tuple[Scalar, ...],
    dt: Scalar,
    state: State,
    environment: Environment,
    normals: tuple[Scalar, ...],
    *,
    vehicle: Vehicle,
) -> tuple[tuple[Scalar, ...], tuple[Vec3, ...]]:
    """xᵢ' = e^{−dt/τᵢ} xᵢ + √(1 − e^{−2dt/τᵢ}) nᵢ,  wᵢ = σᵢ xᵢ' R aᵢ: the processes' state, and the gust at each hub  [m/s]."""
    propwash: Propwash = vehicle["propwash"]
    density = environment.air_density
    wake_states, gusts_W = [], []
    vehicle = tilt_rotors(state, vehicle)
    calm_hubs = environment._replace(hub_wind_W=())  # no feedback of gusts on the next ones
    loads = rotor_loads(state, vehicle, calm_hubs)
    for x, normal, load, rotor in zip(wake_state, normals, loads, vehicle.rotors, strict=True):
        flow = hub_flow(state.q_WB, state.v_W, state.omega_B, environment.wind_W, rotor)
        sigma = gust_deviation(load, flow, density, radius=rotor.radius, gusts=propwash.gusts)
        x = gauss_markov(x, normal, dt, sigma=1.0, tau=gust_time(load, density, radius=rotor.radius))
        wake_states.append(x)
        gusts_W.append(rotate(state.q_WB, rotor.axis_B) * (sigma * x))
    return tuple(wake_states), tuple(gusts_W)


def _build_wake(setup: DroneSetup) -> StageSet:
    if not has_wake_gusts(setup.vehicle):
        return StageSet()
    count = len(setup.vehicle.rotors)
    reads, writes = ("wake_state", "dt", "state", "environment"), ("wake_state", "wake")
    normals = RandomInputs("propwash", count)
    stage = Stage("wake", "wind", wake_gusts, reads, writes, (("vehicle", setup.vehicle),), normals)
    return StageSet((stage, *hub_wind_stages(setup)), {"wake_state": (0.0,) * count})


WAKE = StageFactory("wake", "wind", _build_wake)
