"""Fly a scenario, look at it, change a number, fly it again."""

# %%
import samara

run = samara.fly("wind")  # the others: samara.scenario_names()
print(run.summary())

# %% Arrays with units: time first
print(f"blown {100.0 * run.error.max():.1f} cm off at most, leaning {run.tilt.max():.3f} rad")
print(f"the wind reached {run.wind[:, 0].max():.1f} {run.units['environment.wind_W.x']}")

# %% Pictures: all at once, or one subject
run.plot("wind.png")
run.plot("attitude", "attitude.png")

# %% Twice the wind
stronger = samara.fly("wind", settings={"wind.speed": 8.0})
assert stronger.tilt.max() > run.tilt.max()
stronger.save("stronger.mcap", overwrite=True)  # samara report stronger.mcap; samara render stronger.mcap -o flight.gif
