"""The path flown so far, in a bounded number of points: when there is no room for more, every second one is dropped."""

import numpy as np

from samara.core.types import Array

POINTS = 24_000  # of all drones together
MOST, LEAST = 1500, 60  # of one drone
FIRST_INTERVAL = 0.05  # [s]


class Trail:
    """Positions of n drones at growing intervals."""

    def __init__(self, drones: int) -> None:
        self.capacity = int(np.clip(POINTS // max(drones, 1), LEAST, MOST))
        self._places = np.empty((self.capacity, drones, 3), dtype=np.float32)
        self.clear()

    def clear(self) -> None:
        """Forgets everything"""
        self.count, self.interval, self._next = 0, FIRST_INTERVAL, -np.inf

    def is_due(self, time: float) -> bool:
        """Whether a position at this time would be kept"""
        return bool(time >= self._next)

    def add(self, time: float, p_W: Array) -> None:
        """One more position of every drone, (n, 3), when it is due"""
        if not self.is_due(time):
            return
        if self.count == self.capacity:
            self.count = (self.capacity + 1) // 2
            self._places[: self.count] = self._places[::2].copy()
            self.interval *= 2.0
        self._places[self.count] = p_W
        self.count += 1
        self._next = time + self.interval - 1e-9

    def points(self) -> Array:
        """(points, n, 3), a copy"""
        return self._places[: self.count].copy()
