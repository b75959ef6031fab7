"""The flight of the batch measurements: a Crazyflie from the ground, round a triangle and back, 20 s in turbulence."""

from typing import Any

import numpy as np

import samara
from samara.core.algebra import Vec3
from samara.estimate.ekf import ekf
from samara.physics.types import Vehicle
from samara.plan.reference import StraightLeg
from samara.plan.trajectory import legs
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors.registry import part
from samara.wind.turbulence import Dryden

LEGS = (
    StraightLeg("up", Vec3(0.0, 0.0, 1.0), 2.5, 0.5),
    StraightLeg("out", Vec3(1.5, 0.0, 1.5), 3.5, 0.5),
    StraightLeg("across", Vec3(1.5, 1.5, 1.0), 3.5, 0.5),
    StraightLeg("back", Vec3(0.0, 0.0, 1.0), 3.5, 0.5),
    StraightLeg("down", Vec3(0.0, 0.0, -1.0), 5.0, 3.0),
)


def plain_crazyflie() -> Vehicle:
    """The Crazyflie with thrust, lag, drag and contact that the targets refer to, without effects identified later."""
    return samara.vehicle("crazyflie").without_effect("airspeed_moment", "damping", "rotor_momentum")


def there_and_back(duration: float = 20.0, *, filtered: bool = False, vehicle: Vehicle | None = None) -> Scenario:
    """Build the scenario: up, round a triangle and down to the ground, with the plain Crazyflie or another vehicle."""
    sensors = (part("bmi088").sensor(), part("vicon").sensor()) if filtered else ()
    estimation: dict[str, Any] = {"estimator": ekf(sensors, 4e-3), "sensors": sensors} if filtered else {}
    drone = Drone("drone", vehicle or plain_crazyflie(), legs(Vec3(0.0, 0.0, 0.0), LEGS), **estimation)
    rates = Rates(log=50.0, sensor=250.0)
    return Scenario("there and back", (drone,), duration, rates=rates, wind=Dryden(Vec3(1.5, 0.5, 0.0)))


def ten_parameters(scenario: Scenario, n: int) -> dict[str, Any]:
    """Draw ten parameters for each of `n` flights, within ±5 % or ±0.1 m."""
    vehicle, rng = scenario.drones[0].vehicle, np.random.default_rng(1)
    rotor = vehicle.rotors[0]

    def scatter(value: Any) -> Any:
        return np.multiply.outer(rng.uniform(0.95, 1.05, n), value)

    return {
        "mass": scatter(vehicle.mass),
        "inertia_B.xx": scatter(vehicle.inertia_B.xx),
        "rotors.k_thrust": scatter(rotor.k_thrust),
        "rotors.k_torque": scatter(rotor.k_torque),
        "rotors.motor.time_constant_up": scatter(rotor.motor.time_constant_up),
        "drag.linear": scatter(np.array(vehicle["drag"].linear)),
        "controller.position": scatter(3.0),
        "wind.sigma_aloft": scatter(1.5),
        "start_W": rng.uniform(-0.1, 0.1, (n, 3)) * [1.0, 1.0, 0.0],
        "goal_shift": rng.uniform(-0.1, 0.1, (n, 3)),
    }
