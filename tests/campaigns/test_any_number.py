"""Any parameter of a campaign's scenario can vary: every row equals the flight of `samara.fly` with its values."""

from pathlib import Path

import numpy as np
import pytest

import samara
from samara.campaigns.batch import CampaignFlights, row_scenario
from samara.campaigns.campaign import CampaignError, parse_campaign
from samara.campaigns.samples import RowRange
from samara.sim.varied import varied_scenario

SCENARIO = """
schema = 1
name = "short"
duration = 0.3

[[wind]]
model = "turbulence"
speed = 2.0
sigma = 0.5
tau = 1.0

[[drones]]
name = "drone"
vehicle = "iris"
start = [0, 0, 2]
airborne = true

[[drones.tasks]]
type = "hover"
duration = 1.0

[[events]]
at = 0.1
do = "fail_motor"
motor = 2
"""
BLOCK = RowRange(0, 0, 3)
IN_LANES = {
    "mass": "{ uniform = [1.4, 1.7] }",
    "battery.capacity": "{ uniform = [0.05, 0.1], relative = true }",
    "battery.0.resistance": "{ uniform = [0.02, 0.06] }",
    "battery.table_voltage.4": "{ uniform = [12.4, 12.8] }",
    "rotors.1.k_thrust": "{ uniform = [0.9, 1.1], relative = true }",
    "initial_charge": "{ uniform = [0.1, 1.0] }",
    "wind.mean_W.x": "{ uniform = [0, 4] }",
    "wind.sigma": "{ log_uniform = [0.1, 1.0] }",
    "controller.position": "{ uniform = [2, 4] }",
    "start_W.x": "{ uniform = [-1, 1] }",
    "yaw": "{ normal = [0, 1] }",
}
OF_THE_FILE = {
    "scenario.events.0.at": "{ choice = [0.1, 0.2, 0.05] }",
    "scenario.drones.start.2": "{ uniform = [1.0, 3.0] }",
    "scenario.wind.0.tau": "{ uniform = [0.5, 3.0] }",
    "scenario.drones.initial_charge": "{ uniform = [0.1, 1.0] }",
}


def campaign(folder, vary, scenario=SCENARIO):
    (folder / "short.toml").write_text(scenario)
    text = 'schema = 1\nscenario = "short.toml"\nflights = 3\nseed = 2\n[vary]\n'
    return parse_campaign(text + "\n".join(f'"{name}" = {how}' for name, how in vary.items()), "c.toml", folder)


def check_rows_against_single_flights(campaign_, rows=(0, 1, 2)):
    """Check that rows have their sampled values and end where `samara.fly` ends with them; return the last row's scenario"""
    campaign_flights = CampaignFlights.prepare(campaign_)
    columns = campaign_flights.columns(np.arange(3), BLOCK)
    assert set(columns["error"]) == {""} and len(set(columns["final_x"])) == 3
    for row in rows:
        scenario, vary, values = row_scenario(campaign_flights, row, BLOCK)
        assert values == {name: columns[name][row] for name in campaign_.names}
        end = samara.fly(scenario, vary=vary).drone_records[0].tables["state"].rows[-1][:3]
        assert end.tolist() == [columns[f"final_{axis}"][row] for axis in "xyz"]
    return varied_scenario(scenario, vary)[0] if vary else scenario, values


def test_numbers_of_every_kind_at_once(tmp_path):
    scenario, values = check_rows_against_single_flights(campaign(tmp_path, IN_LANES), rows=(1,))
    drone, wind = scenario.drones[0], scenario.wind
    battery, rotors = drone.vehicle["battery"][0], drone.vehicle.rotors
    assert list(values.values()) == [
        *(drone.vehicle.mass, battery.capacity, battery.resistance, battery.table_voltage[4], rotors[1].k_thrust),
        *(
            drone.initial_charge,
            wind.mean_W.x,
            wind.sigma.y,
            drone.controller.option_values["position"],
            drone.start_W.x,
            drone.yaw,
        ),
    ]
    assert rotors[1].k_thrust != rotors[0].k_thrust == rotors[2].k_thrust


def test_numbers_of_the_file(tmp_path):
    scenario, values = check_rows_against_single_flights(campaign(tmp_path, OF_THE_FILE))
    drone = scenario.drones[0]
    assert list(values.values()) == pytest.approx(
        [scenario.events[0].trigger.time_us * 1e-6, drone.start_W.z, scenario.wind.tau.x, drone.initial_charge],
        rel=1e-12,
    )


def test_a_sensors_number(tmp_path):
    scenario = SCENARIO.replace("airborne = true", 'airborne = true\nsensors = ["bmi088", "vicon"]')
    check_rows_against_single_flights(
        campaign(tmp_path, {"scenario.drones.sensors.0.gyroscope.turn_on_bias": "{ uniform = [0, 0.05] }"}, scenario)
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("battery.colour", "has no parameter 'battery.colour'; expected one of mass, inertia_B, rotors"),
        ("battery.1.capacity", "has no parameter 'battery.1.capacity'"),
        ("battery.table_voltage", "is 5 numbers; expected the path of one"),
        ("scenario.events.1.at", r"cannot set 'events.1.at': there is no 'events\[1\]'"),
        ("scenario.drones.start.3", "cannot set 'drones.start.3'"),
    ],
)
def test_an_unknown_name_is_one_sentence(name, sentence, tmp_path):
    with pytest.raises(CampaignError, match=sentence):
        CampaignFlights.prepare(campaign(tmp_path, {name: "{ uniform = [1, 2] }"}))


@pytest.mark.parametrize(("text", "found"), [("duration = 1\ndrones = []", "scenario"), ("body.mass = 1", "vehicle")])
def test_another_file_is_not_a_campaign(text, found):
    with pytest.raises(CampaignError, match=f"^mine.toml is a {found}, not a campaign; expected "):
        parse_campaign(text, "mine.toml", Path())
