"""Measure the peers on this machine: `peers.py NAME` prints the steps per second of one row for bench/run.py; for a flight, the
simulated seconds per second.

Runs in bench/.venv. peers.txt locks every package in it; the direct requirements are crazyflow, rotorpy (with torch,
torchdiffeq and roma for its batch) and crocoddyl. gym-pybullet-drones is not a package:
`make bench GYM_PYBULLET_DRONES=PATH` names a checkout of it and installs its requirements, gym_pybullet_drones.txt.
"""

import json
import sys
from collections.abc import Callable

from timing import best


def crazyflow(worlds: int, steps: int) -> float:
    """Measure steps per second of first-principles dynamics, RK4, commanded rotor speeds, inside one call."""
    import jax
    from crazyflow.control import Control
    from crazyflow.dynamics import Dynamics
    from crazyflow.sim import Sim
    from crazyflow.sim.integration import Integrator

    sim = Sim(
        n_worlds=worlds,
        dynamics=Dynamics.first_principles,
        control=Control.rotor_vel,
        integrator=Integrator.rk4,
        freq=1000,
    )

    def run() -> None:
        sim.step(steps)
        jax.block_until_ready(sim.data.states.pos)

    run()
    return worlds * steps / best(run)


def rotorpy(steps: int) -> float:
    """Measure steps per second of the single multirotor."""
    import numpy as np
    from rotorpy.vehicles.crazyflie_params import quad_params
    from rotorpy.vehicles.multirotor import Multirotor

    vehicle = Multirotor(quad_params, control_abstraction="cmd_motor_speeds")
    start = {
        "x": np.zeros(3),
        "v": np.zeros(3),
        "q": np.array([0.0, 0.0, 0.0, 1.0]),
        "w": np.zeros(3),
        "wind": np.zeros(3),
        "rotor_speeds": np.full(4, 1788.5),
    }

    def run() -> None:
        state = start
        for _ in range(steps):
            state = vehicle.step(state, {"cmd_motor_speeds": np.full(4, 1788.5)}, 1e-3)

    run()
    return steps / best(run)


def rotorpy_batched(drones: int, steps: int) -> float:
    """Measure steps per second of the batched multirotor with all its aerodynamics, RK4, in a steady wind."""
    import torch
    from rotorpy.vehicles.crazyflie_params import quad_params
    from rotorpy.vehicles.multirotor import BatchedMultirotor, BatchedMultirotorParams

    device = torch.device("cpu")
    start = {
        "x": torch.zeros(drones, 3).double(),
        "v": torch.zeros(drones, 3).double(),
        "q": torch.tensor([0.0, 0.0, 0.0, 1.0]).repeat(drones, 1).double(),
        "w": torch.zeros(drones, 3).double(),
        "wind": torch.tensor([3.0, 0.0, 0.0]).repeat(drones, 1).double(),
        "rotor_speeds": torch.full((drones, 4), 1788.5).double(),
    }
    params = BatchedMultirotorParams([quad_params] * drones, drones, device)
    vehicle = BatchedMultirotor(params, drones, start, device, control_abstraction="cmd_motor_speeds", integrator="rk4")
    command = {"cmd_motor_speeds": torch.full((drones, 4), 1788.5).double()}

    def run() -> None:
        state = start
        for _ in range(steps):
            state = vehicle.step(state, command, 1e-3)

    run()
    return drones * steps / best(run, 5)


def gym_pybullet_drones(physics: str, steps: int = 40) -> float:
    """Measure steps per second of one drone, many per call: "dyn" is the explicit model, "pyb" PyBullet's rigid body."""
    import contextlib

    import numpy as np
    from gym_pybullet_drones.envs.CtrlAviary import CtrlAviary
    from gym_pybullet_drones.utils.enums import Physics

    with contextlib.redirect_stdout(sys.stderr):
        env = CtrlAviary(
            physics=Physics(physics), initial_xyzs=np.array([[0.0, 0.0, 10.0]]), pyb_freq=1000, ctrl_freq=1000 // steps
        )
        env.reset()
    command = np.full((1, 4), env.HOVER_RPM)

    def run() -> None:
        env.step(command)

    run()
    return steps / best(run)


def rotorpy_flight(seconds: float = 2.0) -> float:
    """Measure simulated seconds per second of RotorPy's loop: a Crazyflie on a circle, SE(3) controller, 250 Hz."""
    import numpy as np
    from rotorpy.controllers.quadrotor_control import SE3Control
    from rotorpy.environments import Environment
    from rotorpy.trajectories.circular_traj import ThreeDCircularTraj
    from rotorpy.vehicles.crazyflie_params import quad_params
    from rotorpy.vehicles.multirotor import Multirotor

    vehicle, trajectory = (
        Multirotor(quad_params),
        ThreeDCircularTraj(center=np.array([0, 0, 0]), radius=np.array([1, 1, 0])),
    )
    world = Environment(vehicle, SE3Control(quad_params), trajectory, sim_rate=250)
    return seconds / best(lambda: world.run(t_final=seconds), 5)


def gym_pybullet_drones_flight(physics: str, seconds: float = 2.0) -> float:
    """Measure simulated seconds per second of the package's loop: PID controller at 250 Hz, physics at 1 kHz."""
    import contextlib

    import numpy as np
    from gym_pybullet_drones.control.DSLPIDControl import DSLPIDControl
    from gym_pybullet_drones.envs.CtrlAviary import CtrlAviary
    from gym_pybullet_drones.utils.enums import DroneModel, Physics

    with contextlib.redirect_stdout(sys.stderr):
        start = np.array([[0.0, 0.0, 1.0]])
        env = CtrlAviary(physics=Physics(physics), initial_xyzs=start, pyb_freq=1000, ctrl_freq=250)
        controller = DSLPIDControl(drone_model=DroneModel.CF2X)

    def run() -> None:
        observations, _ = env.reset()
        controller.reset()
        for _ in range(int(250 * seconds)):
            rpm, _, _ = controller.computeControlFromState(
                1 / 250, observations[0], target_pos=np.array([0.5, 0.0, 1.0])
            )
            observations = env.step(rpm[None])[0]

    with contextlib.redirect_stdout(sys.stderr):
        return seconds / best(run, 5)


ROWS: dict[str, Callable[[], float]] = {
    "crazyflow_1": lambda: crazyflow(1, 300),
    "crazyflow_16384": lambda: crazyflow(16384, 10),
    "rotorpy_1": lambda: rotorpy(60),
    "rotorpy_flight": rotorpy_flight,
    "rotorpy_batched_1024": lambda: rotorpy_batched(1024, 10),
    "rotorpy_batched_16384": lambda: rotorpy_batched(16384, 3),
}
FROM_CHECKOUT: dict[str, Callable[[], float]] = {
    "gym_pybullet_drones_dyn": lambda: gym_pybullet_drones("dyn"),
    "gym_pybullet_drones_pyb": lambda: gym_pybullet_drones("pyb"),
    "gym_pybullet_drones_flight": lambda: gym_pybullet_drones_flight("pyb"),
}


if __name__ == "__main__":
    print(json.dumps((ROWS | FROM_CHECKOUT)[sys.argv[1]]()))
