"""Samara: multirotor physics, simulation and control; every equation written once, for every backend."""

from samara.physics.effect import Effect, Wrench
from samara.physics.multirotor import (
    CALM,
    Environment,
    State,
    Vehicle,
    derivative,
    wrench,
    wrench_breakdown,
)
from samara.simulate import step
from samara.trim import hover, thrust_to_weight
from samara.vehicles.build import VehicleError, build_vehicle
from samara.vehicles.loader import vehicle, vehicle_names
from samara.vehicles.writer import save_vehicle

__version__ = "0.1.0"

__all__ = [
    "CALM",
    "Effect",
    "Environment",
    "State",
    "Vehicle",
    "VehicleError",
    "Wrench",
    "build_vehicle",
    "derivative",
    "hover",
    "save_vehicle",
    "step",
    "thrust_to_weight",
    "vehicle",
    "vehicle_names",
    "wrench",
    "wrench_breakdown",
]
