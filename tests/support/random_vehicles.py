"""Multirotors nobody has tuned a controller for, and the flight that all of them are sent on."""

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
    """20 g to 10 kg, 4, 6 or 8 rotors on a regular X frame, lifting 1.6 to 6 times their weight, motors of 10 to 80 ms"""
    mass = 0.02 * 500.0 ** rng.uniform()
    count = int(rng.choice([4, 6, 8]))
    lifts, lag = rng.uniform(1.6, 6.0), rng.uniform(0.010, 0.080)
    arm = 0.05 * (mass / 0.03) ** (1.0 / 3.0) * rng.uniform(0.8, 1.25)
    jx, jy = mass * arm**2 * rng.uniform(0.2, 0.6, 2)
    jz = min(jx * rng.uniform(1.2, 2.0), 0.999 * (jx + jy))  # no body has Jz > Jx + Jy
    jz = max(jz, 1.001 * abs(jx - jy))
    lever = rng.uniform(0.005, 0.03)  # kM/kF [m]
    fastest = 2500.0 * (0.03 / mass) ** (1.0 / 3.0)  # [rad/s]: the tips of all sizes are equally fast
    k_thrust = lifts * mass * G / (count * fastest**2)
    motor = Lag(0.1 * fastest, fastest, lag, lag)
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
    """So many of them; the same for the same seed"""
    rng = np.random.default_rng(seed)
    return [random_vehicle(rng, i) for i in range(count)]


# The flight that all of them are sent on ----------------------------------------------------------------------------

HEIGHT, STEP = 1.5, 2.0  # [m]
STEP_AT, LAND_AT, END = 6.0, 16.0, 26.0  # [s]
FORWARD = Vec3(1.0, 0.0, 0.0)


def mission(vehicle: Vehicle, direction: Vec3 = FORWARD) -> np.ndarray:
    """Up to 1.5 m, hover, a jump of the reference by 2 m, ten seconds to get there, and down; (ticks, components)"""
    standing = Vec3(0.0, 0.0, clearance(vehicle))
    up = take_off(standing, height=HEIGHT)
    there = standing._replace(z=HEIGHT) + direction * STEP
    down = land(there, height=0.0)
    rows = []
    end = END + 2.0 * STEP * max(direction.z, 0.0)  # from higher up it takes longer
    for start, stop, trajectory in ((0.0, LAND_AT, up), (LAND_AT, end, down)):
        time = np.arange(start, stop - 0.5 * PERIOD, PERIOD) - start
        rows.append(np.array(flatten(trajectory.at(time))))
    whole = np.concatenate(rows, axis=1)
    time = PERIOD * np.arange(whole.shape[1])
    jumped = (time >= STEP_AT) & (time < LAND_AT)
    whole[:3] += np.outer(np.array(direction) * STEP, jumped)
    return whole.T


class Verdict(NamedTuple):
    """Of each vehicle: how far it hovered from its place [m], overshot [1], when it stayed within 2 % of the step [s], how far
    beside its way it came [m], and whether it landed"""

    hover: np.ndarray
    overshoot: np.ndarray
    settled: np.ndarray
    aside: np.ndarray
    landed: np.ndarray


def verdict(vehicles: list[Vehicle], flight: Flight, direction: Vec3 = FORWARD) -> Verdict:
    along = np.array(direction)
    time = PERIOD * np.arange(1, len(flight.p_W) + 1)
    before, after = (time > STEP_AT - 0.5) & (time <= STEP_AT), (time > STEP_AT) & (time <= LAND_AT)
    start = np.array([0.0, 0.0, HEIGHT])
    hover = np.linalg.norm(flight.p_W[before] - start[None, :, None], axis=1).max(axis=0)
    moved = flight.p_W[after] - start[None, :, None]
    way = np.einsum("tin,i->tn", moved, along)
    aside = np.linalg.norm(moved - way[:, None] * along[None, :, None], axis=1).max(axis=0)
    away = np.linalg.norm(moved - STEP * along[None, :, None], axis=1) > 0.02 * STEP
    last = len(away) - np.argmax(away[::-1], axis=0)  # the tick after the last one outside
    standing = np.array([clearance(vehicle) for vehicle in vehicles])
    landed = (
        (np.abs(flight.p_W[-1, 2] - standing) < 0.01)
        & (flight.speed[-1] < 0.1)
        & (flight.turning[-1] < 0.3)
        & (flight.up.min(axis=0) > 0.3)
        & (flight.up[-1] > 0.99)
    )
    return Verdict(hover, way.max(axis=0) / STEP - 1.0, last * PERIOD, aside, landed)


def fly_all(vehicles: list[Vehicle], name: str, direction: Vec3 = FORWARD) -> Verdict:
    """The mission for each vehicle, those with as many rotors together"""
    result = [np.zeros(len(vehicles)) for _ in Verdict._fields]
    for count in sorted({len(vehicle.rotors) for vehicle in vehicles}):
        which = [i for i, vehicle in enumerate(vehicles) if len(vehicle.rotors) == count]
        which += which[-1:] * (-len(which) % LANES)  # no code is made for what is left over
        alike = [vehicles[i] for i in which]
        references = np.stack([mission(vehicle, direction) for vehicle in alike], axis=2)
        flown = verdict(alike, fly_homogeneous_batch(alike, name, references), direction)
        for whole, part in zip(result, flown, strict=True):
            whole[which] = part
    return Verdict(*result)
