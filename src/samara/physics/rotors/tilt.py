"""Rotors tilted by servos: the axis of each turns about a hinge in the body, as on the tail of a tricopter.

The angles are the state of one effect. The equation of motion turns the axes before it computes anything else
(`tilt_rotors`), so loads, drag and moments of a tilted rotor are those of a rotor built with that axis. The hub is on the
hinge and does not move.

A command has one number per rotor, then one per servo: from −1 at its lower limit to 1 at its upper limit, or radians for
vehicles commanded by rotor speed.
"""

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Vec3, cross
from samara.core.ops import clamp, cos, sin
from samara.core.quantity import Quantity, Scalar, TimeConstant, Tree, Unit
from samara.physics.effect import Effect, Role, Wrench

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

Angle: TypeAlias = Annotated[Scalar, Quantity("rad", -1.0, 1.0)]
AngularRate: TypeAlias = Annotated[Scalar, Quantity("rad/s", -20.0, 20.0)]
Momentum: TypeAlias = Annotated[Scalar, Quantity("N m s", -0.1, 0.1)]
ServoCommand: TypeAlias = Annotated[Scalar, Quantity("1", -1.0, 1.0)]
Axis: TypeAlias = Annotated[Vec3, Unit()]


class Servo(NamedTuple):
    """The servo of a rotor: right-handed about the hinge, which is normal to the rotor's axis, between two angles.

    It follows its command with a lag and a rate limit.
    """

    hinge_B: Annotated[Vec3, Unit()]
    low: Annotated[Scalar, Quantity("rad", -1.0, -0.1)]
    high: Annotated[Scalar, Quantity("rad", 0.1, 1.0)]
    rate: Annotated[Scalar, Quantity("rad/s", 1.0, 20.0)]
    lag: TimeConstant


def tilted_axis(axis_B: Axis, hinge_B: Axis, angle: Angle) -> Vec3:
    """a cos δ + (h × a) sin δ: an axis turned about a hinge normal to it"""
    return axis_B * cos(angle) + cross(hinge_B, axis_B) * sin(angle)


def servo_target(command: ServoCommand, servo: Servo) -> Scalar:
    """δ = ½ (δ_max + δ_min) + ½ u (δ_max − δ_min), u limited to [−1, 1]  [rad]"""
    return 0.5 * (servo.high + servo.low) + 0.5 * clamp(command, -1.0, 1.0) * (servo.high - servo.low)


def servo_command(angle: Angle, servo: Servo) -> Scalar:
    """u = (2δ − δ_max − δ_min)/(δ_max − δ_min): the inverse of `servo_target` within the limits"""
    return (2.0 * angle - servo.high - servo.low) / (servo.high - servo.low)


def servo_rate(angle: Angle, target: Angle, servo: Servo) -> Scalar:
    """δ̇ = (δ_cmd − δ)/τ, limited to the servo's rate  [rad/s]"""
    return clamp((target - angle) / servo.lag, -servo.rate, servo.rate)


def tilting_torque(momentum: Momentum, rate: AngularRate, axis_B: Axis, hinge_B: Axis) -> Vec3:
    """τ = −ḣ = −s J Ω δ̇ (h × a): reaction of tilting a rotor's angular momentum  [N·m]"""
    return cross(hinge_B, axis_B) * (-momentum * rate)


# Effect ------------------------------------------------------------------------------------------------------------


def _target_angles(command: "Command", vehicle: "Vehicle") -> list[Scalar]:
    """Return the commanded servo angles [rad], from the elements of a command after those of the rotors."""
    servos = [vehicle.rotors[i].servo for i in vehicle.servos]
    servo_commands = command[len(vehicle.rotors) :]
    if vehicle.structure.actuation.name == "speed":
        return [clamp(angle, servo.low, servo.high) for angle, servo in zip(servo_commands, servos, strict=True)]
    return [servo_target(u, servo) for u, servo in zip(servo_commands, servos, strict=True)]


def _initial_angles(vehicle: "Vehicle") -> tuple[Scalar, ...]:
    return tuple(clamp(0.0, vehicle.rotors[i].servo.low, vehicle.rotors[i].servo.high) for i in vehicle.servos)


def _servo_rates(
    angles: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[Scalar, ...]:
    return tuple(
        servo_rate(angle, target, vehicle.rotors[i].servo)
        for i, angle, target in zip(vehicle.servos, angles, _target_angles(command, vehicle), strict=True)
    )


def _steady_angles(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[Scalar, ...]:
    return tuple(_target_angles(command, vehicle))


def _reaction_wrench(
    angles: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    """The torque of the rotors about their tilted axes; `vehicle` has them tilted already."""
    tau_B = ZERO
    for i, rate in zip(vehicle.servos, _servo_rates(angles, state, command, vehicle, environment), strict=True):
        rotor = vehicle.rotors[i]
        momentum = rotor.spin * rotor.inertia * state.rotor_speed[i]
        tau_B = tau_B + tilting_torque(momentum, rate, rotor.axis_B, rotor.servo.hinge_B)
    return Wrench(tau_B=tau_B)


TILT = Effect(
    "tilt",
    initial=_initial_angles,
    derivative=_servo_rates,
    wrench=_reaction_wrench,
    steady_state=_steady_angles,
    role=Role.MOMENTUM,
    state_unit="rad",
    state_description="the angles of the servos",
)
