"""Samara: multirotor physics, simulation and control; every equation written once, for every backend."""

from samara.algebra import Quat, Vec3
from samara.backends.scan import scan
from samara.backends.simulator import compile
from samara.physics.effect import Effect, Wrench
from samara.physics.multirotor import (
    CALM,
    Command,
    Environment,
    State,
    Vehicle,
    derivative,
    wrench,
    wrench_breakdown,
)
from samara.simulate import step
from samara.trim import hover, thrust_to_weight
from samara.vehicles.build import build_vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.loader import vehicle, vehicle_names
from samara.vehicles.writer import save_vehicle

__version__ = "0.1.0"

__all__ = [
    "CALM",
    "Command",
    "Effect",
    "Environment",
    "Quat",
    "State",
    "Vec3",
    "Vehicle",
    "VehicleError",
    "Wrench",
    "build_vehicle",
    "compile",
    "derivative",
    "hover",
    "save_vehicle",
    "scan",
    "step",
    "thrust_to_weight",
    "vehicle",
    "vehicle_names",
    "wrench",
    "wrench_breakdown",
]
