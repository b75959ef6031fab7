"""Arms of a vehicle: typical ones where a file does not know them, and whether a physics step can follow them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from samara.core.algebra import ZERO, cross, dot, norm
from samara.core.quantity import Quantity
from samara.core.types import Array
from samara.physics.effect import Wrench
from samara.physics.structure.arms import Arms, ArmState, arm_modes, arm_of, bending_spring, modal_mass, twisting_spring
from samara.physics.types import Vehicle
from samara.vehicles.defaults.ground import DEFAULT_STEP, stable_step

FREQUENCY = Quantity("Hz", 1.0, 200.0)
TYPICAL_FREQUENCY = (
    60.0  # [Hz], along the rotor's axis with the root held: an arm of a quadrotor with 10 inch propellers
)
TIP_SHARE, ARM_SHARE = 0.04, 0.02  # of the vehicle's mass: 60 g of motor and propeller and 30 g of tube at 1.5 kg
TIP_RADIUS = 0.1  # of the arm's length: radius of gyration of motor and propeller about the arm
TWIST_OF_TUBE = 1.0 / 1.3  # GJ/EI = 1/(1 + ν) of any tube of one material, ν = 0.3

_STRAIGHT = ArmState(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def arms_numbers(vehicle: Vehicle, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """EI from a frequency [Hz] where it is not given, GJ from EI; masses as shares of the vehicle's"""
    known = {"tip_mass": TIP_SHARE * vehicle.mass, "arm_mass": ARM_SHARE * vehicle.mass, **given}
    omega = 2.0 * math.pi * known.pop("frequency", TYPICAL_FREQUENCY)
    levers = [norm(cross(rotor.r_B, rotor.axis_B)) for rotor in vehicle.rotors]
    length = known.get("length") or max(levers, default=0.0) or 1.0  # the check refuses hubs without an arm
    mass = modal_mass(Arms(known["tip_mass"], known["arm_mass"], 1.0, 1.0, 1.0, 1.0))
    along = known.get("axial_stiffness", omega * omega * mass * length**3 / 3.0)
    return {
        "tip_inertia": known["tip_mass"] * (TIP_RADIUS * length) ** 2,
        "axial_stiffness": along,
        "plane_stiffness": along,
        "twist_stiffness": TWIST_OF_TUBE * along,
        **known,
    }


def free_modes(vehicle: Vehicle) -> tuple[Array, Array, Array]:
    """M, C, K of body (6) and arms (3 each), straight and at rest: M ẍ + C ẋ + K x = 0"""
    arms: Arms = vehicle["arms"]
    size = 6 + 3 * len(vehicle.rotors)
    mass, damping, spring = (np.zeros((size, size)) for _ in range(3))
    mass[:3, :3] = vehicle.mass * np.eye(3)
    mass[3:6, 3:6] = np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    for i, rotor in enumerate(vehicle.rotors):
        arm = arm_of(rotor, arms)
        springs = (
            bending_spring(arms.axial_stiffness, arm.length),
            bending_spring(arms.plane_stiffness, arm.length),
            twisting_spring(arms.twist_stiffness, arm.length),
        )
        for j, (mode, k) in enumerate(zip(arm_modes(_STRAIGHT, ZERO, Wrench(), arm, arms), springs, strict=True)):
            at = 6 + 3 * i + j
            mass[at, :6] = mass[:6, at] = [*mode.push_B, *mode.turn_B]
            mass[at, at], spring[at, at] = mode.mass, k
            damping[at, at] = 2.0 * arms.damping_ratio * math.sqrt(k * mode.mass)
    return mass, damping, spring


def largest_arm_step(vehicle: Vehicle) -> float:
    """The largest step that RK4 is stable with, over the modes of the free vehicle  [s]"""
    mass, damping, spring = free_modes(vehicle)
    size = len(mass)
    rates = np.block([[np.zeros((size, size)), np.eye(size)], [-np.linalg.solve(mass, np.hstack([spring, damping]))]])
    roots = np.linalg.eigvals(rates)
    return stable_step([complex(root) for root in roots if abs(root) > 1e-3 * np.abs(roots).max()])


def check_arms(vehicle: Vehicle) -> str | None:
    """A sentence about arms that are not there, heavier than the vehicle, or too stiff for the default step"""
    if not vehicle.rotors:
        return "arms is on and rotors has 0 entries: expected at least one"
    arms: Arms = vehicle["arms"]
    for i, rotor in enumerate(vehicle.rotors):
        if norm(rotor.r_B - rotor.axis_B * dot(rotor.r_B, rotor.axis_B)) <= 1e-6:
            return f"rotors[{i}].r_B = {tuple(rotor.r_B)} m: expected a hub beside its own axis through the centre, on an arm"
    total = len(vehicle.rotors) * (arms.tip_mass + arms.arm_mass)
    if total >= vehicle.mass:
        return (
            f"arms.tip_mass + arm_mass = {arms.tip_mass + arms.arm_mass:.6g} kg on {len(vehicle.rotors)} arms: expected "
            f"less than the vehicle's {vehicle.mass:.6g} kg in all"
        )
    if np.linalg.eigvalsh(free_modes(vehicle)[0]).min() <= 0.0:
        return (
            f"arms.tip_mass = {arms.tip_mass:.6g} kg, arm_mass = {arms.arm_mass:.6g} kg: expected arms with less inertia than "
            "the vehicle, body.inertia is that of all of it"
        )
    step = largest_arm_step(vehicle)
    if step < DEFAULT_STEP:
        softer = (step / DEFAULT_STEP) ** 2
        return (
            f"arms.axial_stiffness = {arms.axial_stiffness:.6g}, plane_stiffness = {arms.plane_stiffness:.6g}, "
            f"twist_stiffness = {arms.twist_stiffness:.6g} N m^2: expected arms that the default step {DEFAULT_STEP:g} s can "
            f"follow, these need dt <= {step:.3g} s; {softer:.2g} times the stiffest would do"
        )
    return None
