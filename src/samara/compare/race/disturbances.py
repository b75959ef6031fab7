"""What is drawn for the seeds of a race: numbers that depend on the seed and the track alone, the same at every level that uses
them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.random import key_of, uniforms_of, words
from samara.core.types import Array
from samara.world.gates import Course, Gate
from samara.world.track import Track, require_level

SOURCE = "race"


class Drawn(NamedTuple):
    """For n seeds: factors to mass and inertia, where drones start and the steady wind, each three rows of n [m, m/s], and the
    course with n numbers for each of a pose's"""

    mass: Array
    inertia: Array
    start_W: Vec3
    wind_W: Vec3
    course: Course


def drawn(track: Track, level: int, seeds: Sequence[int]) -> Drawn:
    """1 + m (2u − 1) and so on, u evenly from 0 to 1; what a level leaves alone is as the track has it"""
    require_level(level)
    one, two = track.disturbed, track.uncertain
    count = 7 + 4 * len(track.gates) + 3 * len(track.poles)
    keys = np.array([key_of(int(seed), SOURCE) for seed in seeds], dtype=np.uint64).T
    numbers = iter(uniforms_of(words((keys[0], keys[1]), 0, 0, count)))

    def either_way(size: float, used: bool) -> Array:
        own = next(numbers)
        return size * (2.0 * own - 1.0) if used else np.zeros(len(seeds))

    disturbed, uncertain = level >= 1, level >= 2
    mass, inertia = (1.0 + either_way(own, disturbed) for own in (one.mass, one.inertia))
    x, y, up = next(numbers), next(numbers), next(numbers)
    aside = Vec3(one.start.x * (2.0 * x - 1.0), one.start.y * (2.0 * y - 1.0), one.start.z * up)
    start_W = Vec3(*(a + (b if disturbed else 0.0 * b) for a, b in zip(track.start_W, aside, strict=True)))
    speed, angle = one.wind * next(numbers) * float(disturbed), 2.0 * math.pi * next(numbers)
    wind_W = Vec3(speed * np.cos(angle), speed * np.sin(angle), 0.0 * speed)
    gates = tuple(
        Gate(
            Vec3(*(a + either_way(size, uncertain) for a, size in zip(gate.p_W, two.gates, strict=True))),
            gate.yaw + either_way(two.yaw, uncertain),
        )
        for gate in track.gates
    )
    poles = tuple(
        Vec3(*(a + either_way(size, uncertain) for a, size in zip(pole, two.poles, strict=True)))
        for pole in track.poles
    )
    return Drawn(mass, inertia, start_W, wind_W, Course(gates, poles))
