"""A flight in blocks of a twentieth of a second: means over them, what changes within seconds, and whether anything moves."""

from dataclasses import dataclass, replace

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate_inverse
from samara.core.types import Array
from samara.identify.per_flight_offsets import rotor_speeds
from samara.identify.predicted_wrench import acting
from samara.identify.resampled_log import Samples, runs
from samara.physics.types import Vehicle

SHORT, LONG = 0.05, 3.0  # [s]
LAGS = (0.4, 1.0, 2.5)  # of the start's
MOVING = 0.1  # of what the rotors do, that must be seen in the motion before inertia and lag are asked for


@dataclass(frozen=True)
class Blocks:
    """A flight's blocks of SHORT seconds: the samples they begin at, how many samples each has, and the stretches they are
    in"""

    samples: Samples
    first: Array
    length: int
    stretches: tuple[slice, ...]
    turning: Array
    reference: float
    moves: Array

    @staticmethod
    def of(samples: Samples, volts: float, vehicle: Vehicle) -> "Blocks":
        length = max(round(SHORT / samples.period), 1)
        first: list[Array] = []
        stretches, at = [], 0
        for own in sorted(runs(samples.usable), key=lambda own: own.start):
            begins = np.arange(own.start, own.stop - length, length)
            if len(begins) * SHORT >= 0.5 * LONG:
                first.append(begins)
                stretches.append(slice(at, at + len(begins)))
                at += len(begins)
        if not first:
            raise ValueError(f"{samples.name}: is nowhere usable for {0.5 * LONG:g} s at a time; expected a flight")
        begin = np.concatenate(first)
        omega = samples.body[10:13]
        turning = (omega[:, begin + length] - omega[:, begin]) / (length * samples.period)
        whole = Blocks(samples, begin, length, tuple(stretches), turning, volts, np.ones(4, dtype=bool))
        return replace(whole, moves=whole.share_that_moves(vehicle) >= MOVING)

    def mean(self, rows: Array) -> Array:
        """The mean over each block, by the trapezoid rule"""
        total = np.cumsum(0.5 * (rows[:, 1:] + rows[:, :-1]), axis=1)
        total = np.concatenate([np.zeros((len(rows), 1)), total], axis=1)
        return np.asarray((total[:, self.first + self.length] - total[:, self.first]) / self.length)

    def speed(self) -> Array:
        """RMS of what its velocity along the body's axes changes by within LONG, (3,)  [m/s]"""
        v_B = rotate_inverse(Quat(*self.samples.body[6:10]), Vec3(*self.samples.body[3:6]))
        return np.sqrt((self.band(self.mean(np.stack(v_B))) ** 2).mean(axis=1))

    def share_that_moves(self, vehicle: Vehicle) -> Array:
        """The share of what the rotors do that is seen in the motion, corr² at the best of some lags: thrust, and three
        torques"""
        samples, motor = self.samples, vehicle.rotors[0].motor
        still = samples.body.copy()
        still[3:6] = still[10:] = 0.0
        moved = self.band(np.concatenate([self.mean(samples.specific_force[2:]), self.turning]))
        best = np.zeros(4)
        for factor in LAGS if samples.rotor_speed is None else LAGS[:1]:
            speeds = rotor_speeds(samples, factor * motor.rise, factor * motor.fall, 0.0)
            acts = acting(vehicle, still, speeds, samples.commanded)
            done = self.band(self.mean(np.concatenate([acts.f_B[2:], acts.tau_B])))
            both = (done * moved).sum(axis=1) ** 2
            size = (done**2).sum(axis=1) * (moved**2).sum(axis=1)
            best = np.maximum(best, both / np.maximum(size, 1e-300))
        return best

    def band(self, rows: Array) -> Array:
        """Less the mean over LONG, within each stretch"""
        half = max(round(0.5 * LONG / (self.length * self.samples.period)), 1)
        out = np.empty_like(rows)
        for own in self.stretches:
            x = rows[:, own]
            n = x.shape[1]
            total = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)], axis=1)
            low, high = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
            out[:, own] = x - (total[:, high] - total[:, low]) / (high - low)
        return out

    def banded(self, rows: Array) -> Array:
        """The six rows of force and torque less their means over LONG; thrust as it is"""
        found = self.band(rows)
        found[2] = rows[2]
        return found
