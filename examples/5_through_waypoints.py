"""The fastest way through waypoints that a vehicle can fly, drawn and flown."""

# %%
import math

import samara
from samara.core.algebra import Vec3
from samara.plan import Limits, fastest
from samara.scenario.scenario import Drone, Scenario
from samara.view.plot.plan import draw_plan

points = [(0, 0, 1), (2, 0, 1.5), (2, 1.5, 2)]
vehicle = samara.vehicle("crazyflie")
limits = Limits(thrust=0.85, tilt=math.radians(45))

# %%
plan = fastest(points, vehicle, limits=limits)
print(f"{plan.trajectory.duration:.2f} s; held back by {plan.tightest}")
draw_plan(plan.trajectory, vehicle, limits, "plan.png")

# %% Flown: the controller follows what the vehicle is able to do
drone = Drone("drone", vehicle, plan.trajectory, start_W=Vec3(0.0, 0.0, 1.0), airborne=True)
run = samara.fly(Scenario("waypoints", (drone,), duration=math.ceil(plan.trajectory.duration) + 1.0))
print(f"{100.0 * run.error.max():.1f} cm off at most")
run.plot("flown.png")
assert run.error.max() < 0.5
