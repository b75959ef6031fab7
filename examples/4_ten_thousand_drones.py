"""Ten thousand drones, each with a controller, in one compiled function."""

# %%
import time

import numpy as np

import samara
from samara.control import geometric
from samara.core import flatten
from samara.plan import Reference

n, steps, dt = 10_000, 3000, 1e-3
vehicle = samara.vehicle("crazyflie")
state, _ = samara.hover(vehicle)

# %% Every drone has a different mass and initial state; all have the same target
rng = np.random.default_rng(0)
vehicles = vehicle.replace(mass=rng.uniform(0.024, 0.034, n))
sim = samara.compile(vehicle, backend="llvm", controller=geometric(vehicle), vary=("mass",))
offsets = samara.Vec3(*rng.normal(0.0, 1.0, (3, n)))
fleet = state._replace(p_W=samara.Vec3(0.0, 0.0, 5.0) + offsets, v_W=samara.Vec3(*rng.normal(0.0, 1.0, (3, n))))
references = np.tile(flatten(Reference(samara.Vec3(0.0, 0.0, 5.0))), (steps, 1))
sim.rollout(fleet, reference=references[:10], dt=dt, vehicle=vehicles)  # compile before measuring

# %%
begin = time.perf_counter()
rollout = sim.rollout(fleet, reference=references, dt=dt, vehicle=vehicles, record_every=steps)
seconds = time.perf_counter() - begin
print(f"{n} drones, {steps} steps: {seconds:.2f} s, {1e-6 * n * steps / seconds:.1f} million steps per second")

# %%
distances = [np.linalg.norm(np.stack(p_W) - [[0.0], [0.0], [5.0]], axis=0) for p_W in (fleet.p_W, rollout.final.p_W)]
print(f"mean distance to the target: {distances[0].mean():.2f} m before, {distances[1].mean():.2f} m after")
assert distances[1].mean() < 0.5 * distances[0].mean()
