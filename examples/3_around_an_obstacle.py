"""Model-predictive control: it plans two seconds ahead, around a ball on the path."""

# %%
import matplotlib
import numpy as np

import samara
from samara.control import MPC
from samara.sim import Plant, plant_state, set_plant_state

matplotlib.use("Agg")
import matplotlib.pyplot as plt

vehicle = samara.vehicle("crazyflie")
ball, radius, target = (1.0, 0.05, 1.0), 0.35, (2.0, 0.0, 1.0)
mpc = MPC(vehicle, horizon=40, reference_follow=1.0, obstacles=[(ball, radius)])

# %% One iteration for every command, 100 times a second; the motors and their lag at 1 kHz
plant, controller_state, path = Plant(vehicle), mpc.initial_state, []
set_plant_state(plant, 0, samara.hover(vehicle)[0])
for k in range(500):
    state = plant_state(plant, 0)
    path.append(state.p_W)
    plant.command[:, 0], controller_state = mpc(state, target, vehicle, controller_state)
    plant.advance(10_000 * k, 10_000 * (k + 1))

# %%
path = np.array(path)
min_distance = np.linalg.norm(path - ball, axis=1).min()
print(
    f"{min_distance:.3f} m from the centre of the ball of {radius} m; {np.linalg.norm(path[-1] - target):.3f} m from the target"
)
assert min_distance > radius and np.linalg.norm(path[-1] - target) < 0.1
figure, panels = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
for axes, title, up in zip(panels, ("From above", "From the side: below the ball"), (1, 2), strict=True):
    axes.add_patch(plt.Circle((ball[0], ball[up]), radius, alpha=0.3))
    axes.plot(path[:, 0], path[:, up])
    axes.plot(target[0], target[up], "x")
    axes.set(aspect="equal", xlabel="x east [m]", ylabel=f"{'xyz'[up]} [m]", title=title)
figure.savefig("obstacle.png")
