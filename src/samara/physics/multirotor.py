"""The one equation of motion of a multirotor: `derivative` is the fold of the vehicle's effects, and nothing else.

What is not in the list costs nothing.
"""

from samara.core.algebra import IDENTITY, ZERO, Attitude, Quat, Vec3
from samara.core.tree import leaf_names
from samara.physics.effect import Wrench, add_wrenches
from samara.physics.motion.body import angular_acceleration, attitude_rate, translational_acceleration
from samara.physics.tilting import tilted
from samara.physics.types import CALM, Command, Environment, Position, State, Vehicle, initial_effects


def wrench_breakdown(
    state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM
) -> dict[str, Wrench]:
    """Each effect's wrench by its name  [N, N·m]"""
    return _breakdown(state, command, tilted(state, vehicle), environment)


def _breakdown(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> dict[str, Wrench]:
    return {
        effect.name: effect.wrench(own, state, command, vehicle, environment)
        for effect, own in zip(vehicle.structure.effects, state.effects, strict=True)
    }


def wrench(state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM) -> Wrench:
    """Σ over the effects: all that acts on the body at its centre of mass  [N, N·m]"""
    return _wrench(state, command, tilted(state, vehicle), environment)


def _wrench(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    total = Wrench()
    for part in _breakdown(state, command, vehicle, environment).values():
        total = add_wrenches(total, part)
    return total


def derivative(state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM) -> State:
    """ṗ = v,  m v̇ = R f_B + f_W,  q̇ = ½ q ⊗ (0, ω),  J ω̇ = τ − ω × Jω,  Ω̇ by the actuation, and every effect's own rate

    All of it for the rotors as their servos have tilted them.
    """
    vehicle = tilted(state, vehicle)
    total = _wrench(state, command, vehicle, environment)
    return State(
        p_W=state.v_W,
        v_W=translational_acceleration(state.q_WB, total.f_B, total.f_W, mass=vehicle.mass),
        q_WB=attitude_rate(state.q_WB, state.omega_B),
        omega_B=angular_acceleration(state.omega_B, total.tau_B, inertia_B=vehicle.inertia_B),
        rotor_speed=vehicle.structure.actuation.rotor_acceleration(state, command, vehicle, environment),
        effects=tuple(
            effect.derivative(own, state, command, vehicle, environment)
            for effect, own in zip(vehicle.structure.effects, state.effects, strict=True)
        ),
    )


def at_rest(vehicle: Vehicle, p_W: Position = ZERO, q_WB: Attitude = IDENTITY) -> State:
    """v = 0, ω = 0, Ω = 0 at a place and attitude"""
    return State(Vec3(*p_W), ZERO, Quat(*q_WB), ZERO, tuple(0.0 for _ in vehicle.rotors), initial_effects(vehicle))


def state_names(vehicle: Vehicle) -> tuple[str, ...]:
    """The name of every number of a vehicle's state, an effect's after the effect: 'p_W.x', 'battery.charge', 'contact[0].x'.

    What there is one of, such as a battery, is not counted.
    """
    taken = set(State._fields)
    names = leaf_names(at_rest(vehicle)._replace(effects=()))
    for effect, own in zip(vehicle.structure.effects, initial_effects(vehicle), strict=True):
        name = effect.name
        while name in taken:
            name += "_"
        taken.add(name)
        names += leaf_names(own[0] if type(own) is tuple and len(own) == 1 else own, name)
    return tuple(names)
