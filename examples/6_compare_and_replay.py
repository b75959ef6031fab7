"""Compare two flights, and replay the commands of a flight on another vehicle."""

# %%
import samara
from samara.sim import distances, first_difference
from samara.view import report_files

geometric = samara.fly("hover", duration=4.0, out="geometric.mcap", overwrite=True)
pid = samara.fly("hover", controller="pid", duration=4.0, out="pid.mcap", overwrite=True)
print("first difference:", first_difference(geometric, pid))
report_files(["geometric.mcap", "pid.mcap"], "comparison.html")

# %% A replay is bit-identical
assert first_difference(geometric, samara.replay(geometric)) is None

# %% Replay the commands on a vehicle that is 10 % heavier: without feedback it sinks
heavier = geometric.vehicle.replace(mass=1.1 * geometric.vehicle.mass)
heavier_run = samara.replay(geometric, vehicle=heavier)
print(f"{distances(geometric, heavier_run)[0].position_max:.1f} m apart after {geometric.time[-1]:.0f} s")
assert heavier_run.position[-1, 2] < geometric.position[-1, 2] - 0.2
