"""Ten thousand drones with a controller each, in one compiled function."""

# %%
import time

import numpy as np

import samara
from samara.control.geometric import geometric
from samara.core.tree import flatten
from samara.plan import Reference

n, steps, dt = 10_000, 3000, 1e-3
vehicle = samara.vehicle("crazyflie")
state, _ = samara.hover(vehicle)

# %% Each has a mass of its own, and is thrown from somewhere else; all are called to one place
rng = np.random.default_rng(0)
own = vehicle.replace(mass=rng.uniform(0.024, 0.034, n))
sim = samara.compile(vehicle, backend="llvm", controller=geometric(vehicle), vary=("mass",))
thrown = samara.Vec3(*rng.normal(0.0, 1.0, (3, n)))
fleet = state._replace(p_W=samara.Vec3(0.0, 0.0, 5.0) + thrown, v_W=samara.Vec3(*rng.normal(0.0, 1.0, (3, n))))
there = np.tile(flatten(Reference(samara.Vec3(0.0, 0.0, 5.0))), (steps, 1))
sim.rollout(fleet, reference=there[:10], dt=dt, vehicle=own)  # compiled here

# %%
before = time.perf_counter()
flown = sim.rollout(fleet, reference=there, dt=dt, vehicle=own, record_every=steps)
took = time.perf_counter() - before
print(f"{n} drones, {steps} steps: {took:.2f} s, {1e-6 * n * steps / took:.1f} million steps a second")

# %%
away = [np.linalg.norm(np.stack(p_W) - [[0.0], [0.0], [5.0]], axis=0) for p_W in (fleet.p_W, flown.final.p_W)]
print(f"on average {away[0].mean():.2f} m away before, {away[1].mean():.2f} m after")
assert away[1].mean() < 0.5 * away[0].mean()
