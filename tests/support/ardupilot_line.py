"""A line of ArduPilot's JSON protocol, and the readings of a vehicle at rest on the ground."""

import math

from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.link.sensor_snapshot import Readings
from samara.physics.types import State

LINE = (
    b'\n{"timestamp":0.001,"imu":{"gyro":[0.0001,-0.0005,0.0004],"accel_body":[0.0025,-0.0026,-9.7938]},'
    b'"position":[0.0,0.0,0.0],"quaternion":[1.0,0.0,0.0,0.0],"velocity":[0.0,0.0,0.0]}\n'
)


def ground_readings(time_us=0):
    north = quat_from_euler(0.0, 0.0, math.pi / 2)
    return Readings(time_us, Vec3(0.0, 0.0, 9.80665), ZERO, None, None, None, State(ZERO, ZERO, north, ZERO))
