"""A stand-in for the Crazyflie firmware's bindings: their names and structs, none of their code, and a controller of a page.

It flies in the firmware's units, forgets nothing (its globals are those of a process), and has no INDI, as Bitcraze's has none.
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
    """A thrust and a level to lean to, from the errors of place and velocity; a torque from those of angles and rates"""
    calls.append(step)
    if any(getattr(setpoint.mode, axis) != modeAbs for axis in ("x", "y", "z", "yaw")):
        return
    lag, wanted = 1.0 + 1e-3 * min(len(calls), 500), []
    for axis in ("x", "y", "z"):
        place, speed = (
            getattr(getattr(setpoint, name), axis) - getattr(getattr(state, name), axis)
            for name in ("position", "velocity")
        )
        wanted.append(getattr(setpoint.acceleration, axis) + (4.0 * place + 3.0 * speed) * lag)
    yaw = math.radians(state.attitude.yaw)
    ahead = wanted[0] * math.cos(yaw) + wanted[1] * math.sin(yaw)
    left = wanted[1] * math.cos(yaw) - wanted[0] * math.sin(yaw)
    asked = (-math.degrees(left / 9.81), -math.degrees(ahead / 9.81), setpoint.attitude.yaw)  # pitch up to brake
    turned = (sensors.gyro.x, -sensors.gyro.y, sensors.gyro.z)
    known = (state.attitude.roll, state.attitude.pitch, state.attitude.yaw)
    torque = [
        J * (40.0 * math.radians((a - k + 180.0) % 360.0 - 180.0) - 14.0 * math.radians(w))
        for J, a, k, w in zip(INERTIA, asked, known, turned, strict=True)
    ]
    control.controlMode = controlModeForceTorque
    control.thrustSi = MASS * (9.81 + wanted[2])
    control.torqueX, control.torqueY, control.torqueZ = torque[0], -torque[1], torque[2]


def powerDistribution(control, wanted) -> None:  # type: ignore[no-untyped-def]
    """A quarter of the thrust, and of each torque over its arm"""
    roll, pitch = 0.25 * control.torqueX / ARM, 0.25 * control.torqueY / ARM
    lift, yaw = 0.25 * control.thrustSi, 0.25 * control.torqueZ / TORQUE_RATIO
    forces = (
        lift - roll - pitch - yaw,
        lift - roll + pitch + yaw,
        lift + roll + pitch - yaw,
        lift + roll - pitch + yaw,
    )
    for name, force in zip(("m1", "m2", "m3", "m4"), forces, strict=True):
        setattr(wanted.motors, name, int(max(force, 0.0) / MOST * 65535))


def powerDistributionCap(wanted, pwm) -> bool:  # type: ignore[no-untyped-def]
    """All of them less by what the greatest is beyond 65535"""
    numbers = vars(wanted.motors)
    beyond = max(0, max(numbers.values()) - 65535)
    for name, own in numbers.items():
        setattr(pwm.motors, name, max(0, own - beyond))
    return beyond > 0


def powerDistributionGetMaxThrust() -> float:
    return 4.0 * MOST
