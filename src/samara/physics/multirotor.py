"""The one equation of motion of a multirotor: `derivative` is the fold of the vehicle's effects, and nothing else.

What is not in the list costs nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from samara.core.algebra import IDENTITY, ZERO, Attitude, Quat, Vec3
from samara.core.integrate import integrator_named
from samara.core.quantity import Scalar
from samara.core.tree import leaf_names, require_finite
from samara.physics.effect import Wrench, add_wrenches
from samara.physics.motion.body import angular_acceleration, attitude_rate, translational_acceleration
from samara.physics.rotors.propulsion import ROTORS
from samara.physics.rotors.tilt import servo_command, tilted_axis
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


def empty_command(vehicle: Vehicle) -> Command:
    """0 for each rotor, or a wrench of 0"""
    return (0.0,) * vehicle.command_size


def require_command_size(command: Command, vehicle: Vehicle) -> None:
    """A ValueError about a command of another size than the vehicle takes"""
    if len(command) != vehicle.command_size:
        kind, size = vehicle.structure.actuation.name, vehicle.command_size
        raise ValueError(f"command has {len(command)} numbers; vehicle {vehicle.name!r} ({kind}) takes {size}")


def environment_of(vehicle: Vehicle, environment: Environment = CALM) -> Environment:
    """The environment with a power of 1 for each motor, ready to be changed

    A vehicle whose rotors feel the wind at their hubs has one for each, and one that can be pushed has a push of 0.
    """
    return environment._replace(
        hub_wind_W=tuple(environment.wind_W for _ in vehicle.rotors) if vehicle.reads("hub_wind_W") else (),
        pushes=(Wrench(),) if vehicle.reads("pushes") else (),
        motor_power=tuple(1.0 for _ in vehicle.rotors),
    )


def tilt_angles(state: State, vehicle: Vehicle) -> tuple[Scalar, ...]:
    """δ of every servo; none without any  [rad]"""
    angles: tuple[Scalar, ...] = state.effects[vehicle.index("tilt")] if vehicle.has("tilt") else ()
    return angles


def with_angles(state: State, angles: Sequence[Scalar], vehicle: Vehicle) -> State:
    """The state with its servos elsewhere"""
    if not vehicle.has("tilt"):
        return state
    at = vehicle.index("tilt")
    return state._replace(effects=(*state.effects[:at], tuple(angles), *state.effects[at + 1 :]))


def tilted(state: State, vehicle: Vehicle) -> Vehicle:
    """The vehicle with the axes of its rotors as the servos have turned them; itself without any

    What is given here is the vehicle as it was built: one whose axes are turned already would turn twice.
    """
    if not vehicle.has("tilt"):
        return vehicle
    rotors = list(vehicle.rotors)
    for i, angle in zip(vehicle.servos, tilt_angles(state, vehicle), strict=True):
        own = rotors[i]
        rotors[i] = own._replace(axis_B=tilted_axis(own.axis_B, own.servo.hinge_B, angle))
    return replace(vehicle, rotors=tuple(rotors))


def wrench_of_rotors(state: State, vehicle: Vehicle) -> Wrench:
    """What the rotors do to the body at their speeds and angles, in calm air  [N, N·m]"""
    return ROTORS.wrench((), state, (), tilted(state, vehicle), CALM)


def steady_command(state: State, vehicle: Vehicle, environment: Environment = CALM) -> Command:
    """The command that keeps the rotor speeds of the state, and after those the one that keeps the angles of its servos"""
    command: Command = vehicle.structure.actuation.steady_command(state, vehicle, environment)
    if not vehicle.has("tilt"):
        return command
    angles = tilt_angles(state, vehicle)
    if vehicle.structure.actuation.name == "speed":
        return (*command, *angles)
    servos = (vehicle.rotors[i].servo for i in vehicle.servos)
    return (*command, *(servo_command(angle, servo) for angle, servo in zip(angles, servos, strict=True)))


def step(
    state: State,
    command: Command,
    vehicle: Vehicle,
    dt: Scalar,
    method: str = "rk4",
    environment: Environment = CALM,
) -> State:
    """x(t + dt) from ẋ = derivative(x, command, vehicle, environment), command and environment held  [s]

    Methods: euler, semi_implicit, midpoint, rk4, rk23, rk45; the last two choose their own steps within dt.
    """
    own = integrator_named(method, what="method")
    require_command_size(command, vehicle)
    command = tuple(command)
    require_finite(command, "command")
    require_finite(state, "state")
    advanced: State = own.advance(lambda s: derivative(s, command, vehicle, environment), state, dt)
    require_finite(advanced, "state")
    return advanced
