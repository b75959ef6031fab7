"""The flight of which many are flown: a Crazyflie from the ground, round a triangle and back, twenty seconds in turbulence."""

from typing import Any

import numpy as np

import samara
from samara.core.algebra import Vec3
from samara.estimate.ekf import ekf
from samara.physics.types import Vehicle
from samara.plan.reference import Leg
from samara.plan.trajectory import legs
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors.registry import part
from samara.wind.turbulence import Dryden

WAY = (
    Leg("up", Vec3(0.0, 0.0, 1.0), 2.5, 0.5),
    Leg("out", Vec3(1.5, 0.0, 1.5), 3.5, 0.5),
    Leg("across", Vec3(1.5, 1.5, 1.0), 3.5, 0.5),
    Leg("back", Vec3(0.0, 0.0, 1.0), 3.5, 0.5),
    Leg("down", Vec3(0.0, 0.0, -1.0), 5.0, 3.0),
)


def plain_crazyflie() -> Vehicle:
    """The Crazyflie of thrust, lag, drag and contact that the bars are for, without what its identification added since"""
    return samara.vehicle("crazyflie").without_effect("airspeed_moment", "damping", "rotor_momentum")


def there_and_back(duration: float = 20.0, *, filtered: bool = False, vehicle: Vehicle | None = None) -> Scenario:
    """Up, round a triangle, and down onto the ground; with the plain Crazyflie, or another vehicle"""
    sensors = (part("bmi088").sensor(), part("vicon").sensor()) if filtered else ()
    known: dict[str, Any] = {"estimator": ekf(sensors, 4e-3), "sensors": sensors} if filtered else {}
    drone = Drone("drone", vehicle or plain_crazyflie(), legs(Vec3(0.0, 0.0, 0.0), WAY), **known)
    rates = Rates(log=50.0, sensor=250.0)
    return Scenario("there and back", (drone,), duration, rates=rates, wind=Dryden(Vec3(1.5, 0.5, 0.0)))


def ten_numbers(scenario: Scenario, n: int) -> dict[str, Any]:
    """What may differ from flight to flight: ten things, each by up to five per cent, or ten centimetres"""
    vehicle, draw = scenario.drones[0].vehicle, np.random.default_rng(1)
    rotor = vehicle.rotors[0]

    def about(value: Any) -> Any:
        return np.multiply.outer(draw.uniform(0.95, 1.05, n), value)

    return {
        "mass": about(vehicle.mass),
        "inertia_B.xx": about(vehicle.inertia_B.xx),
        "rotors.k_thrust": about(rotor.k_thrust),
        "rotors.k_torque": about(rotor.k_torque),
        "rotors.motor.rise": about(rotor.motor.rise),
        "drag.linear": about(np.array(vehicle["drag"].linear)),
        "controller.position": about(3.0),
        "wind.sigma_aloft": about(1.5),
        "start_W": draw.uniform(-0.1, 0.1, (n, 3)) * [1.0, 1.0, 0.0],
        "goal_shift": draw.uniform(-0.1, 0.1, (n, 3)),
    }
