"""Samara's battery as autopilots see it: its voltage in the units of each protocol, and flights that it ends."""

import json

import numpy as np
import pytest
from support.ardupilot_line import LINE, ground_readings
from support.autopilot_peers import (  # noqa: F401 - a fixture
    ArduPilotPeer,
    BetaflightPeer,
    GroundPeer,
    Px4Peer,
    one_at_a_time,
)

import samara
from samara.link.ardupilot import ardupilot_parameters, state_line
from samara.link.ground_station import battery_fields
from samara.link.px4 import px4_parameters
from samara.link.sensor_snapshot import PowerModuleReading
from samara.physics.rotors.battery import open_circuit_voltage
from samara.record.run import check_expectations
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import assign_autopilot, cell_count
from samara.scenario.file import ScenarioError, load_scenario
from samara.sim.plant import Plant
from samara.sim.python_controllers import BATTERY_PERIOD_US, PowerModule

SHORT = {"duration": 11.0, "drones.effects.battery.capacity": 160.0, "events": []}  # C: a flight of some seconds
CLOSE = {
    "drones.effects.battery.capacity": 220.0,
    "events[0].height": 1.0,
    "events[1].when": "height > 0.8",
    "events[1].p_W": [1.6, 1.2, 1.0],
    "events[1].speed": 1.0,
}
NEAR = (1.5, 2.0, -1.0)  # NED, of the peers


def low_battery(autopilot_name):
    """Return the shipped scenario with a battery for some seconds, and the autopilot's parameters."""
    scenario = assign_autopilot(load_scenario("low_battery", SHORT), Autopilot(autopilot_name))
    return scenario, dict(scenario.drones[0].autopilot.parameters)


def require_home(run, scenario):
    """It flew away, returned on the last of its charge, and stands at its start, as the scenario expects."""
    assert run.problem == ""
    assert [
        expectation.text for expectation in check_expectations(run, scenario.expect) if not expectation.satisfied
    ] == []
    assert np.hypot(run.position[:, 0], run.position[:, 1]).max() > 1.5
    assert 0.0 < run.charge[-1] < scenario.drones[0].battery_failsafe.land_below
    assert run.tables["derived"]["voltage"].min() < 10.8  # the sag of a small battery


# Reports ------------------------------------------------------------------------------------------------------------


def test_the_voltage_is_kirchhoffs():
    """V = OCV(SOC) − V1 − R0 I, of a battery half empty with its motors at work; ten times a second."""
    plant = Plant(samara.vehicle("iris"), physics_us=1000)
    battery = plant.vehicle["battery"][0]
    names = list(plant.fields)
    plant.state[names.index("battery.charge")] = 0.5
    plant.state[names.index("battery.polarisation")] = 0.07
    plant.command[:] = 0.4
    module = PowerModule(plant)
    supply = module.read(0)
    assert supply.current > 5.0 and supply.cells == 3 and supply.charge == 0.5
    expected = open_circuit_voltage(0.5, battery) - 0.07 - battery.resistance * supply.current
    assert supply.voltage == pytest.approx(expected, rel=1e-12)
    assert module.read(BATTERY_PERIOD_US - 1) is None and module.read(BATTERY_PERIOD_US) is not None
    assert PowerModule(Plant(samara.vehicle("hakoniwa"), physics_us=1000)).read(0) is None  # its supply never empties


@pytest.mark.parametrize(("volts", "cells"), [(4.2, 1), (12.6, 3), (25.2, 6), (60.0, 10)])
def test_cells_are_counted_by_the_voltage_of_a_full_battery(volts, cells):
    battery = samara.vehicle("iris")["battery"][0]
    assert cell_count(battery._replace(table_voltage=(0.5 * volts, 0.9 * volts, volts))) == cells


def test_px4_gets_millivolts_of_each_cell_centiamperes_and_percent():
    """pymavlink restores the fields: three cells, and 65535 after the last."""
    from pymavlink.dialects.v20 import common

    from samara.link.mavlink import FrameEncoder

    packet = FrameEncoder(1, 180).frame(
        "BATTERY_STATUS", *battery_fields(PowerModuleReading(11.7, 12.34, 0.567, 3, 12600.0))
    )
    message = common.MAVLink(None).parse_buffer(packet)[0]
    assert (message.get_srcSystem(), message.get_srcComponent()) == (1, 180)
    assert message.voltages == [3900] * 3 + [65535] * 7
    assert (message.current_battery, message.battery_remaining) == (1234, 57)
    assert message.current_consumed == round(0.433 * 3500) and message.temperature == 32767


def test_each_autopilot_uses_it_and_returns_home_by_it():
    with_battery, ideal = samara.vehicle("iris"), samara.vehicle("hakoniwa")
    expected = {"SIM_BAT_ENABLE": 0, "COM_LOW_BAT_ACT": 3, "BAT_CRIT_THR": 0.2, "BAT_EMERGEN_THR": 0.1}
    assert expected.items() <= px4_parameters(with_battery).items()
    assert "SIM_BAT_ENABLE" not in px4_parameters(ideal)
    parameters = ardupilot_parameters(with_battery, 0.5)
    assert (parameters["BATT_MONITOR"], parameters["BATT_CAPACITY"], parameters["BATT_LOW_MAH"]) == (4, 3500, 700)
    assert "BATT_MONITOR" not in ardupilot_parameters(ideal, 0.5)


def test_one_setting_is_the_failsafe_of_each():
    """Half of 1620 C is 225 mA h, and three tenths 135; `parameters` take precedence."""
    scenario = load_scenario("low_battery")
    px4 = dict(
        assign_autopilot(scenario, Autopilot("px4", parameters=(("BAT_CRIT_THR", 0.45),)))
        .drones[0]
        .autopilot.parameters
    )
    assert px4.pop("EKF2_GPS_DELAY") == px4.pop("SENS_GPS0_DELAY") == 100.0
    assert px4 == {"BAT_LOW_THR": 0.55, "BAT_CRIT_THR": 0.45, "BAT_EMERGEN_THR": 0.3}
    ardupilot = dict(assign_autopilot(scenario, Autopilot("ardupilot")).drones[0].autopilot.parameters)
    assert ardupilot == {"BATT_LOW_MAH": 225, "BATT_CRT_MAH": 135}
    assert assign_autopilot(scenario, Autopilot("betaflight")).drones[0].autopilot.parameters == ()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"drones.battery_failsafe": {"return_below": 0.2, "land_below": 0.3}},
            "low_battery.toml: drones[0].battery_failsafe: land_below = 0.3 and return_below = 0.2: expected 0 < land_below",
        ),
        (
            {"drones.battery_failsafe": {"hover_below": 0.2}},
            "battery_failsafe.hover_below = 0.2: expected only the keys return_below, land_below here",
        ),
        (
            {"drones.vehicle": "hakoniwa", "drones.effects": []},
            "drones[0].battery_failsafe: vehicle 'hakoniwa' has no battery that discharges; expected a vehicle with one",
        ),
    ],
)
def test_an_invalid_failsafe_is_refused(changes, sentence):
    with pytest.raises(ScenarioError) as error:
        load_scenario("low_battery", changes)
    assert sentence in str(error.value)


def test_ardupilots_line_has_its_battery_at_the_end():
    supply = PowerModuleReading(11.712349, 12.3, 0.5, 3, 12600.0)
    data = state_line(ground_readings(), 0.001, supply=supply)
    assert data.endswith(b',"battery":{"voltage":11.7123,"current":12.3}}\n')
    line = json.loads(data)
    assert line["battery"] == {"voltage": 11.7123, "current": 12.3}
    assert json.loads(LINE).keys() == line.keys() - {"battery"}


# Home ---------------------------------------------------------------------------------------------------------------


def test_our_controller_comes_home_on_its_battery():
    scenario = load_scenario("low_battery", {"duration": 16.0, **CLOSE})
    run = samara.fly(scenario)
    require_home(run, scenario)
    times_by_message = {line.message: line.time_us / 1e6 for line in run.logs}
    assert {"return (drone)", "land (drone)", "disarm (drone)"} <= times_by_message.keys()
    failsafe, times = (
        scenario.drones[0].battery_failsafe,
        [times_by_message["return (drone)"], times_by_message["land (drone)"]],
    )
    charges = np.interp(times, run.time, run.charge)
    assert charges == pytest.approx([failsafe.return_below, failsafe.land_below], abs=3e-3)


@pytest.mark.long
def test_px4_comes_home_on_our_battery():
    """The peer's failsafe is PX4's: it receives BATTERY_STATUS beside the simulator's connection, and no other charge."""
    scenario, parameters = low_battery("px4")
    peer, ground = Px4Peer(px4_parameters(scenario.drones[0].vehicle), target=NEAR), GroundPeer()

    def failsafe(message):
        if message.battery_remaining < 100 * parameters["BAT_CRIT_THR"]:
            down = 0.5 if message.battery_remaining < 100 * parameters["BAT_EMERGEN_THR"] else NEAR[2]
            peer.hold.target = np.array([0.0, 0.0, down])

    ground.on_battery = failsafe
    run = samara.fly(scenario)
    peer.stop()
    ground.stop()
    require_home(run, scenario)
    assert len(ground.batteries) > 11  # at least one per second
    assert {(message.get_srcSystem(), message.get_srcComponent()) for message in ground.batteries} == {(1, 180)}
    remaining = [message.battery_remaining for message in ground.batteries]
    assert remaining == sorted(remaining, reverse=True) and remaining[-1] == pytest.approx(100 * run.charge[-1], abs=3)


@pytest.mark.long
def test_ardupilot_comes_home_on_our_battery():
    """The peer's failsafe is ArduPilot's: it integrates the current in its JSON."""
    scenario, parameters = low_battery("ardupilot")
    capacity = ardupilot_parameters(scenario.drones[0].vehicle, 0.5)["BATT_CAPACITY"]
    peer = ArduPilotPeer(target=NEAR, gains=(0.05, 0.05, 0.1))
    hold, consumed, last = peer.hold, [0.0], [0.0]

    def failsafe(line):
        consumed[0] += line["battery"]["current"] * (line["timestamp"] - last[0]) / 3.6
        last[0] = line["timestamp"]
        if capacity - consumed[0] < parameters["BATT_LOW_MAH"]:
            down = 0.5 if capacity - consumed[0] < parameters["BATT_CRT_MAH"] else NEAR[2]
            hold.target = np.array([0.0, 0.0, down])

    peer.on_line = failsafe
    run = samara.fly(scenario)
    peer.stop()
    require_home(run, scenario)
    assert 1.0 - consumed[0] / capacity == pytest.approx(run.charge[-1], abs=0.06)  # ten readings a second
    reported = np.array([[line["timestamp"], line["battery"]["voltage"]] for line in peer.lines])
    recorded = run.tables["derived"]
    rows = np.searchsorted(recorded.times_us, 1e6 * reported[::100, 0] - 1000.0)
    rows = np.minimum(rows, len(recorded.times_us) - 1)
    assert reported[::100, 1] == pytest.approx(recorded["voltage"][rows], abs=0.3)


@pytest.mark.long
def test_betaflights_pilot_comes_home_on_our_battery():
    """Betaflight receives no battery: its pilot uses the voltage, as Samara's controllers do, and lowers the sticks."""
    scenario = assign_autopilot(
        load_scenario("low_battery", {"duration": 16.0, **CLOSE}),
        Autopilot("betaflight"),
    )
    peer = BetaflightPeer(gains=(0.04, 0.04, 0.1))
    run = samara.fly(scenario)
    peer.stop()
    require_home(run, scenario)
    assert not peer.armed
