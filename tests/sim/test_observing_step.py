"""A step that observes ground contact, against an observer that checks after every step."""

import numpy as np

import samara
from samara import Environment
from samara.compiler.stepper import Stepper, compile_code
from samara.core.algebra import EAST, Vec3, quat_from_axis_angle
from samara.core.tree import flatten, leaf_names
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import State
from samara.sim.plant import contact_step
from samara.sim.stages.physics import ContactStatus
from samara.vehicles.defaults import clearance, contact_depths

STEPS, LIFTED, RAISED = 500, 250, 400


class Observer:
    """Observes consecutive states of a batch."""

    def __init__(self, vehicle, n):
        self.vehicle = vehicle
        self.touched, self.speed, self.impact_speed = np.ones(n), np.zeros(n), np.zeros(n)

    def observe(self, rows, height):
        """Update contact, speed and impact speed since the last observation."""
        state = State.from_numpy(rows, "wxyz", vehicle=self.vehicle)
        depths = contact_depths(state, self.vehicle, Environment(ground=Ground(Vec3(0.0, 0.0, height))))
        is_touching = np.max(depths, axis=0) > 0.0
        is_impact = is_touching & (self.touched == 0.0)
        self.impact_speed = np.where(is_impact, np.maximum(self.speed, self.impact_speed), self.impact_speed)
        self.touched, self.speed = is_touching.astype(float), np.sqrt((rows[3:6] ** 2).sum(axis=0))


def test_an_observing_step_is_the_step_and_an_observation():
    """The same bits for nine drones that stand, fall, bounce and hover; one drone, then the ground, is raised in flight."""
    vehicle = samara.vehicle("crazyflie")
    environment, stepper = complete_environment(vehicle), Stepper(vehicle)
    plain = compile_code("llvm", stepper.step(environment)).machine(9)
    observing = compile_code("llvm", contact_step(stepper, environment)).machine(9)
    hover, command = samara.hover(vehicle)
    standing_height, size = clearance(vehicle), len(plain.carry)
    states = [hover._replace(p_W=Vec3(0.0, 0.0, 1.0 + standing_height)) for _ in range(6)]
    states += [
        state_at_rest(vehicle, Vec3(0.0, 0.0, standing_height - 1e-4)),
        state_at_rest(vehicle, Vec3(0.0, 0.0, standing_height + 0.03)),
    ]
    states += [state_at_rest(vehicle, Vec3(0.0, 0.0, 0.3), quat_from_axis_angle(EAST, 3.0))]
    start = np.array([flatten(state) for state in states]).T
    plain.carry[:], observing.carry[:size] = start, start
    for machine in (plain, observing):
        machine.held_inputs[:4] = np.array(command)[:, None] * (np.arange(9) < 6)
    row = 5 + leaf_names(environment).index("ground.point_W.z")
    observer = Observer(vehicle, 9)
    assert observing.carry[size:, 0].tolist() == list(ContactStatus())

    for step in range(STEPS):
        for machine in (plain, observing):
            machine.carry[2, 7] += 0.2 * (step == LIFTED)
            machine.held_inputs[row] = 1.0 * (step >= RAISED)
        observer.observe(plain.carry, 1.0 * (step >= RAISED))
        plain.run()
        observer.observe(plain.carry, 1.0 * (step >= RAISED))
        observing.run()
        assert observing.carry[:size].tobytes() == plain.carry.tobytes()
        contact = observing.carry[size:]
        assert contact.tobytes() == np.array([observer.touched, observer.speed, observer.impact_speed]).tobytes()
    assert (observer.impact_speed[[7, 8]] > 0.5).all()
