"""Random multirotors that no controller was tuned for, and their common mission."""

import math
from typing import NamedTuple

import numpy as np
from studies.homogeneous_batch import LANES, PERIOD, Flight
from studies.homogeneous_batch import fly_homogeneous_batch as fly_homogeneous_batch

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.plan.trajectory import land, take_off
from samara.vehicles.build import ContactShape
from samara.vehicles.defaults import clearance

G = 9.80665

# The sampler -------------------------------------------------------------------------------------------------------


def random_vehicle(rng: np.random.Generator, number: int = 0) -> Vehicle:
    """Draw 20 g to 10 kg, 4, 6 or 8 rotors on a regular X frame, thrust-to-weight 1.6 to 6, motor lags of 10 to 80 ms."""
    mass = 0.02 * 500.0 ** rng.uniform()
    count = int(rng.choice([4, 6, 8]))
    thrust_to_weight, lag = rng.uniform(1.6, 6.0), rng.uniform(0.010, 0.080)
    arm = 0.05 * (mass / 0.03) ** (1.0 / 3.0) * rng.uniform(0.8, 1.25)
    jx, jy = mass * arm**2 * rng.uniform(0.2, 0.6, 2)
    jz = min(jx * rng.uniform(1.2, 2.0), 0.999 * (jx + jy))  # no body has Jz > Jx + Jy
    jz = max(jz, 1.001 * abs(jx - jy))
    lever = rng.uniform(0.005, 0.03)  # kM/kF [m]
    max_speed = 2500.0 * (0.03 / mass) ** (1.0 / 3.0)  # [rad/s]: the tips of all sizes are equally fast
    k_thrust = thrust_to_weight * mass * G / (count * max_speed**2)
    motor = Lag(0.1 * max_speed, max_speed, lag, lag)
    rotors = []
    for i in range(count):
        azimuth = 2.0 * math.pi * (i + 0.5) / count
        hub_B = Vec3(arm * math.cos(azimuth), arm * math.sin(azimuth), 0.0)
        rotors.append(Rotor(hub_B, Vec3(0.0, 0.0, 1.0), (-1.0) ** (i + 1), k_thrust, lever * k_thrust, motor=motor))
    feet = [Vec3(0.6 * arm * x, 0.6 * arm * y, -0.4 * arm) for x, y in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
    return samara.build_vehicle(
        f"random {number}",
        mass=mass,
        inertia=(jx, jy, jz),
        rotors=rotors,
        contact=ContactShape(feet),
        effects={"gravity": {"acceleration": G}},
    )


def random_vehicles(count: int, seed: int) -> list[Vehicle]:
    """Draw `count` vehicles; the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [random_vehicle(rng, i) for i in range(count)]


# The mission --------------------------------------------------------------------------------------------------------

HEIGHT, STEP = 1.5, 2.0  # [m]
STEP_AT, LAND_AT, END = 6.0, 16.0, 26.0  # [s]
FORWARD = Vec3(1.0, 0.0, 0.0)


def mission(vehicle: Vehicle, direction: Vec3 = FORWARD) -> np.ndarray:
    """Up to 1.5 m, hover, a jump of the reference by 2 m, ten seconds to settle, and down; (ticks, components)."""
    standing = Vec3(0.0, 0.0, clearance(vehicle))
    ascent = take_off(standing, height=HEIGHT)
    target = standing._replace(z=HEIGHT) + direction * STEP
    descent = land(target, height=0.0)
    rows = []
    end = END + 2.0 * STEP * max(direction.z, 0.0)  # from higher up it takes longer
    for start, stop, trajectory in ((0.0, LAND_AT, ascent), (LAND_AT, end, descent)):
        time = np.arange(start, stop - 0.5 * PERIOD, PERIOD) - start
        rows.append(np.array(flatten(trajectory.evaluate(time))))
    references = np.concatenate(rows, axis=1)
    time = PERIOD * np.arange(references.shape[1])
    is_stepped = (time >= STEP_AT) & (time < LAND_AT)
    references[:3] += np.outer(np.array(direction) * STEP, is_stepped)
    return references.T


class MissionResult(NamedTuple):
    """For each vehicle: hover error [m], overshoot [1], settling time to 2 % of the step [s], lateral deviation [m], landed."""

    hover: np.ndarray
    overshoot: np.ndarray
    settling_time: np.ndarray
    deviation: np.ndarray
    landed: np.ndarray


def evaluate_mission(vehicles: list[Vehicle], flight: Flight, direction: Vec3 = FORWARD) -> MissionResult:
    step_direction = np.array(direction)
    time = PERIOD * np.arange(1, len(flight.p_W) + 1)
    is_hover, is_step = (time > STEP_AT - 0.5) & (time <= STEP_AT), (time > STEP_AT) & (time <= LAND_AT)
    start = np.array([0.0, 0.0, HEIGHT])
    hover = np.linalg.norm(flight.p_W[is_hover] - start[None, :, None], axis=1).max(axis=0)
    displacement = flight.p_W[is_step] - start[None, :, None]
    progress = np.einsum("tin,i->tn", displacement, step_direction)
    deviation = np.linalg.norm(displacement - progress[:, None] * step_direction[None, :, None], axis=1).max(axis=0)
    is_outside = np.linalg.norm(displacement - STEP * step_direction[None, :, None], axis=1) > 0.02 * STEP
    settling_tick = len(is_outside) - np.argmax(is_outside[::-1], axis=0)  # the tick after the last one outside
    standing = np.array([clearance(vehicle) for vehicle in vehicles])
    landed = (
        (np.abs(flight.p_W[-1, 2] - standing) < 0.01)
        & (flight.speed[-1] < 0.1)
        & (flight.angular_speed[-1] < 0.3)
        & (flight.up.min(axis=0) > 0.3)
        & (flight.up[-1] > 0.99)
    )
    return MissionResult(hover, progress.max(axis=0) / STEP - 1.0, settling_tick * PERIOD, deviation, landed)


def fly_all(vehicles: list[Vehicle], name: str, direction: Vec3 = FORWARD) -> MissionResult:
    """Fly the mission with each vehicle; vehicles with as many rotors form a batch."""
    result = [np.zeros(len(vehicles)) for _ in MissionResult._fields]
    for count in sorted({len(vehicle.rotors) for vehicle in vehicles}):
        indices = [i for i, vehicle in enumerate(vehicles) if len(vehicle.rotors) == count]
        indices += indices[-1:] * (-len(indices) % LANES)  # fill the last SIMD vector: no scalar code is generated
        batch = [vehicles[i] for i in indices]
        references = np.stack([mission(vehicle, direction) for vehicle in batch], axis=2)
        batch_verdict = evaluate_mission(batch, fly_homogeneous_batch(batch, name, references), direction)
        for values, batch_values in zip(result, batch_verdict, strict=True):
            values[indices] = batch_values
    return MissionResult(*result)
