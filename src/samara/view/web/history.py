"""What the plots show: height, tilt, tracking error and rotor speeds over time, of a live flight or of recorded runs."""

import threading
from collections import deque
from collections.abc import Sequence

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.types import Array
from samara.physics.quantities import position_error, tilt_deg
from samara.record.run import Run, Track
from samara.view.web.snapshot import most_rotors

WINDOW = 20.0  # [s] of a live flight
ROWS = 300
HEIGHT, TILT, ERROR, FIRST_ROTOR = range(4)  # the columns


def measured(p_W: Array, q_WB: Array, reference_W: Array, rotor_speed: Array, ground: float) -> Array:
    """Height over the ground [m], angle between body z and the vertical [°], distance from the reference [m], rotor
    speeds [rad/s], along the last axis"""
    p, q, reference = (np.moveaxis(values, -1, 0) for values in (p_W, q_WB, reference_W))
    error = position_error(Vec3(*p), Vec3(*reference))
    first = np.stack([p_W[..., 2] - ground, tilt_deg(Quat(*q)), error], axis=-1)
    return np.concatenate([first, rotor_speed], axis=-1)


class History:
    """The last seconds of a flight, of all its drones. The simulation's thread adds to it, the drawer's reads it."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, Array]] = deque()
        self._using = threading.Lock()

    def clear(self) -> None:
        """Forgets everything"""
        with self._using:
            self._rows.clear()

    def is_due(self, time: float) -> bool:
        """Whether a moment at this time would be kept"""
        return not self._rows or time >= self._rows[-1][0] + WINDOW / ROWS - 1e-9

    def add(self, time: float, values: Array) -> None:
        """One more moment, when it is due: (drones, columns) as `measured` has them"""
        if not self.is_due(time):
            return
        with self._using:
            self._rows.append((time, values))
            while self._rows[0][0] < time - WINDOW:
                self._rows.popleft()

    def of(self, drone: int, until: float) -> tuple[Array, Array]:
        """Times [s] and values (times, columns) of one drone"""
        with self._using:
            rows = list(self._rows)
        return np.array([time for time, _ in rows]), np.array([values[drone] for _, values in rows])


class Recorded:
    """Whole flights, of all drones of some runs."""

    def __init__(self, runs: Sequence[Run], ground: float) -> None:
        tracks = [track for run in runs for track in run.tracks]
        rotors = most_rotors([track.vehicle for track in tracks])
        self._curves = [_curves(track, rotors, ground) for track in tracks]

    def of(self, drone: int, until: float) -> tuple[Array, Array]:
        """Times [s] and values (times, columns) of one drone, up to a time"""
        times, values = self._curves[drone]
        count = max(int(np.searchsorted(times, until, side="right")), 1)
        return times[:count], values[:count]


def _curves(track: Track, rotors: int, ground: float) -> tuple[Array, Array]:
    rows = np.unique(np.linspace(0, len(track.time) - 1, ROWS).round().astype(int))
    speeds = np.zeros((len(rows), rotors))
    speeds[:, : len(track.vehicle.rotors)] = track.rotor_speed[rows]
    p_W = track.position[rows]
    reference_W = track.reference_position[rows] if "reference" in track.tables else p_W
    return track.time[rows], measured(p_W, track.attitude[rows], reference_W, speeds, ground)
