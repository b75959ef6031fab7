"""The campaign of `campaign.py` and `gpu_campaign.py`: a Crazyflie on a round trip in turbulence, ten parameters varied."""

from pathlib import Path

from samara.campaigns.campaign import Campaign, load_campaign

SCENARIO = """
schema = 1
name = "there_and_back"
duration = {duration}
rates = {{ log = 50.0, sensor = 250.0 }}
wind = [{{ model = "dryden", mean = [1.5, 0.5, 0.0] }}]

[[drones]]
vehicle = "crazyflie"
controller = "geometric"

[[drones.tasks]]
type = "waypoints"
points = [[0, 0, 1], [1.5, 0, 1.5], [1.5, 1.5, 1], [0, 0, 1]]
speed = 0.5
hold_time = 1.0

[expect]
max_error = {max_error}
"""
CAMPAIGN = """
schema = 1
scenario = "there_and_back.toml"
flights = {flights}
seed = 7

[vary]
mass = {{ normal = [1.0, 0.03], relative = true }}
"inertia_B.xx" = {{ uniform = [0.95, 1.05], relative = true }}
"inertia_B.zz" = {{ uniform = [0.95, 1.05], relative = true }}
"rotors.k_thrust" = {{ uniform = [0.95, 1.05], relative = true }}
"rotors.k_torque" = {{ uniform = [0.95, 1.05], relative = true }}
"rotors.motor.time_constant_up" = {{ uniform = [0.95, 1.05], relative = true }}
"wind.sigma_aloft" = {{ uniform = [1.4, 1.6] }}
"start_W.x" = {{ uniform = [-0.1, 0.1] }}
"start_W.y" = {{ uniform = [-0.1, 0.1] }}
{tenth}
"""


def write_campaign(folder: Path, flights: int, *, tenth: str, max_error: float, duration: float = 20.0) -> Campaign:
    """Write the campaign and its scenario into a folder and load it; `tenth` is the line of the tenth varied parameter."""
    scenario = SCENARIO.format(duration=duration, max_error=max_error)
    (folder / "there_and_back.toml").write_text(scenario, encoding="utf-8")
    (folder / "campaign.toml").write_text(CAMPAIGN.format(flights=flights, tenth=tenth), encoding="utf-8")
    return load_campaign(folder / "campaign.toml")
