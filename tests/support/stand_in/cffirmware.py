"""A stand-in for the Crazyflie firmware's bindings: their names and structs, none of their code, and a short controller.

It uses the firmware's units, has process-wide global state, and has no INDI, like Bitcraze's bindings.
"""

import math
from types import SimpleNamespace

MASS, ARM, TORQUE_RATIO, MOST = 0.0293, 0.046 / math.sqrt(2.0), 0.007350862856566459, 0.12
INERTIA = (16.6e-6, 16.6e-6, 29.3e-6)
modeDisable, modeAbs, modeVelocity = 0, 1, 2
controlModeLegacy, controlModeForceTorque, controlModeForce = 0, 1, 2
calls: list[int] = []  # the steps of this process


def _xyz() -> SimpleNamespace:
    return SimpleNamespace(x=0.0, y=0.0, z=0.0)


def _rpy() -> SimpleNamespace:
    return SimpleNamespace(roll=0.0, pitch=0.0, yaw=0.0)


def state_t() -> SimpleNamespace:
    quaternion = SimpleNamespace(w=0.0, x=0.0, y=0.0, z=0.0)
    return SimpleNamespace(attitude=_rpy(), attitudeQuaternion=quaternion, position=_xyz(), velocity=_xyz(), acc=_xyz())


def sensorData_t() -> SimpleNamespace:
    return SimpleNamespace(gyro=_xyz(), acc=_xyz())


def setpoint_t() -> SimpleNamespace:
    mode = SimpleNamespace(x=0, y=0, z=0, roll=0, pitch=0, yaw=0, quat=0)
    moved = {name: _xyz() for name in ("position", "velocity", "acceleration", "jerk")}
    return SimpleNamespace(**moved, attitude=_rpy(), attitudeRate=_rpy(), mode=mode)


def control_t() -> SimpleNamespace:
    return SimpleNamespace(controlMode=0, thrustSi=0.0, torqueX=0.0, torqueY=0.0, torqueZ=0.0)


def motors_thrust_uncapped_t() -> SimpleNamespace:
    return SimpleNamespace(motors=SimpleNamespace(m1=0, m2=0, m3=0, m4=0))


motors_thrust_pwm_t = motors_thrust_uncapped_t


def controllerPidInit() -> None:
    calls.clear()


def controllerPid(control, setpoint, sensors, state, step) -> None:  # type: ignore[no-untyped-def]
    """Compute a thrust and a tilt from the errors of position and velocity; a torque from those of angles and rates."""
    calls.append(step)
    if any(getattr(setpoint.mode, axis) != modeAbs for axis in ("x", "y", "z", "yaw")):
        return
    gain_factor, acceleration = 1.0 + 1e-3 * min(len(calls), 500), []
    for axis in ("x", "y", "z"):
        position_error, velocity_error = (
            getattr(getattr(setpoint, name), axis) - getattr(getattr(state, name), axis)
            for name in ("position", "velocity")
        )
        acceleration.append(
            getattr(setpoint.acceleration, axis) + (4.0 * position_error + 3.0 * velocity_error) * gain_factor
        )
    yaw = math.radians(state.attitude.yaw)
    forward = acceleration[0] * math.cos(yaw) + acceleration[1] * math.sin(yaw)
    left = acceleration[1] * math.cos(yaw) - acceleration[0] * math.sin(yaw)
    desired_angles = (
        -math.degrees(left / 9.81),
        -math.degrees(forward / 9.81),
        setpoint.attitude.yaw,
    )  # pitch up to brake
    rates = (sensors.gyro.x, -sensors.gyro.y, sensors.gyro.z)
    angles = (state.attitude.roll, state.attitude.pitch, state.attitude.yaw)
    torque = [
        J * (40.0 * math.radians((a - k + 180.0) % 360.0 - 180.0) - 14.0 * math.radians(w))
        for J, a, k, w in zip(INERTIA, desired_angles, angles, rates, strict=True)
    ]
    control.controlMode = controlModeForceTorque
    control.thrustSi = MASS * (9.81 + acceleration[2])
    control.torqueX, control.torqueY, control.torqueZ = torque[0], -torque[1], torque[2]


def powerDistribution(control, uncapped) -> None:  # type: ignore[no-untyped-def]
    """A quarter of the thrust, and of each torque over its arm."""
    roll, pitch = 0.25 * control.torqueX / ARM, 0.25 * control.torqueY / ARM
    thrust, yaw = 0.25 * control.thrustSi, 0.25 * control.torqueZ / TORQUE_RATIO
    forces = (
        thrust - roll - pitch - yaw,
        thrust - roll + pitch + yaw,
        thrust + roll + pitch - yaw,
        thrust + roll - pitch + yaw,
    )
    for name, force in zip(("m1", "m2", "m3", "m4"), forces, strict=True):
        setattr(uncapped.motors, name, int(max(force, 0.0) / MOST * 65535))


def powerDistributionCap(uncapped, pwm) -> bool:  # type: ignore[no-untyped-def]
    """Reduce all motors by the excess of the largest over 65535."""
    thrusts = vars(uncapped.motors)
    excess = max(0, max(thrusts.values()) - 65535)
    for name, thrust in thrusts.items():
        setattr(pwm.motors, name, max(0, thrust - excess))
    return excess > 0


def powerDistributionGetMaxThrust() -> float:
    return 4.0 * MOST
