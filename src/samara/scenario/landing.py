"""What counts as landed and as crashed."""

import math

LANDED_SPEED, LANDED_RATE = 0.1, 0.3  # [m/s], [rad/s]: on its feet and slower than this, it has landed
CRASH_SPEED, CRASH_TILT = 3.0, math.radians(60.0)  # [m/s], [rad]: touching the ground faster, or leaning further
