"""Wake stage: gusts on each rotor in its own wake, updated at the wind's ticks and constant between them.

Each rotor has a Gauss–Markov process of unit deviation, scaled by the rotor's present motion: a drone that leaves its wake is
in calm air at once, and one that returns meets correlated gusts.
"""

from samara.core.algebra import Vec3, rotate
from samara.core.quantity import Scalar
from samara.core.random import gauss_markov
from samara.physics.air.propwash import Propwash, gust_deviation, gust_time
from samara.physics.multirotor import environment_of, tilted
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor_air import hub_flow
from samara.physics.types import Environment, State, Vehicle
from samara.sim.setup import DroneSetup
from samara.sim.stage import RandomInputs, Stage, StageFactory, StageSet
from samara.sim.stages.wind import hub_wind_stages


def has_wake_gusts(vehicle: Vehicle) -> bool:
    """Whether a vehicle models the gusts of its rotors' wakes"""
    return vehicle.has("propwash") and vehicle["propwash"].gusts > 0.0 and bool(environment_of(vehicle).hub_wind_W)


def wake_gusts(
    wake_state: tuple[Scalar, ...],
    dt: Scalar,
    state: State,
    environment: Environment,
    normals: tuple[Scalar, ...],
    *,
    vehicle: Vehicle,
) -> tuple[tuple[Scalar, ...], tuple[Vec3, ...]]:
    """xᵢ' = e^{−dt/τᵢ} xᵢ + √(1 − e^{−2dt/τᵢ}) nᵢ,  wᵢ = σᵢ xᵢ' R aᵢ: the processes' state, and the gust at each hub  [m/s]"""
    wash: Propwash = vehicle["propwash"]
    density = environment.air_density
    wake_states, gusts_W = [], []
    vehicle = tilted(state, vehicle)
    calm_hubs = environment._replace(hub_wind_W=())  # no feedback of gusts on the next ones
    loads = rotor_loads(state, vehicle, calm_hubs)
    for x, normal, load, rotor in zip(wake_state, normals, loads, vehicle.rotors, strict=True):
        flow = hub_flow(state.q_WB, state.v_W, state.omega_B, environment.wind_W, rotor)
        sigma = gust_deviation(load, flow, density, radius=rotor.radius, gusts=wash.gusts)
        x = gauss_markov(x, normal, dt, sigma=1.0, tau=gust_time(load, density, radius=rotor.radius))
        wake_states.append(x)
        gusts_W.append(rotate(state.q_WB, rotor.axis_B) * (sigma * x))
    return tuple(wake_states), tuple(gusts_W)


def _build(setup: DroneSetup) -> StageSet:
    if not has_wake_gusts(setup.vehicle):
        return StageSet()
    count = len(setup.vehicle.rotors)
    reads, writes = ("wake_state", "dt", "state", "environment"), ("wake_state", "wake")
    normals = RandomInputs("propwash", count)
    stage = Stage("wake", "wind", wake_gusts, reads, writes, (("vehicle", setup.vehicle),), normals)
    return StageSet((stage, *hub_wind_stages(setup)), {"wake_state": (0.0,) * count})


WAKE = StageFactory("wake", "wind", _build)
