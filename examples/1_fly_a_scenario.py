"""Fly a scenario, look at the result, change a setting, and fly it again."""

# %%
import samara

run = samara.fly("wind")  # samara.scenario_names() lists all scenarios
print(run.summary())

# %% Arrays with units; time is the first axis
print(f"largest position error {100.0 * run.error.max():.1f} cm, largest tilt {run.tilt.max():.3f} rad")
print(f"the wind reached {run.wind[:, 0].max():.1f} {run.units['environment.wind_W.x']}")

# %% Plots: all quantities, or one
run.plot("wind.png")
run.plot("attitude", "attitude.png")

# %% Twice the wind
stronger = samara.fly("wind", settings={"wind.speed": 8.0})
assert stronger.tilt.max() > run.tilt.max()
stronger.save("stronger.mcap", overwrite=True)  # samara report stronger.mcap; samara render stronger.mcap -o flight.gif
