"""Two flights side by side, and one flight's commands on another vehicle."""

# %%
import samara
from samara.record.diff import distances, first_difference
from samara.view.report.report import report_files

settings = {"duration": 4.0}
one = samara.fly("hover", settings=settings, out="geometric.mcap", overwrite=True)
two = samara.fly("hover", controller="pid", settings=settings, out="pid.mcap", overwrite=True)
print("first difference:", first_difference(one, two))
report_files(["geometric.mcap", "pid.mcap"], "comparison.html")

# %% The same again, bit for bit
assert first_difference(one, samara.replay(one)) is None

# %% The same commands on a vehicle that is 10 % heavier: nobody steers it, so it sinks
heavier = one.vehicle.replace(mass=1.1 * one.vehicle.mass)
sunk = samara.replay(one, vehicle=heavier)
print(f"{distances(one, sunk)[0].position_max:.1f} m apart after {one.time[-1]:.0f} s")
assert sunk.position[-1, 2] < one.position[-1, 2] - 0.2
