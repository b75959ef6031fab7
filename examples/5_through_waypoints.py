"""Plan the fastest trajectory through waypoints that a vehicle can fly, plot it and fly it."""

# %%
import math

import samara
from samara.core import Vec3
from samara.plan import PlanLimits, plan_fastest
from samara.scenario import Drone, Scenario
from samara.view import draw_plan

points = [(0, 0, 1), (2, 0, 1.5), (2, 1.5, 2)]
vehicle = samara.vehicle("crazyflie")
limits = PlanLimits(thrust=0.85, tilt=math.radians(45))

# %%
plan = plan_fastest(points, vehicle, limits=limits)
print(f"{plan.trajectory.duration:.2f} s; limited by {plan.tightest_limit}")
draw_plan(plan.trajectory, vehicle, limits, "plan.png")

# %% Fly the plan: the vehicle can follow it
drone = Drone("drone", vehicle, plan.trajectory, start_W=Vec3(0.0, 0.0, 1.0), airborne=True)
run = samara.fly(Scenario("waypoints", (drone,), duration=math.ceil(plan.trajectory.duration) + 1.0))
print(f"largest position error {100.0 * run.error.max():.1f} cm")
run.plot("flown.png")
assert run.error.max() < 0.5
