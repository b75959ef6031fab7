"""Our battery in an autopilot's eyes: the voltage of its equations, in the units of each protocol, and flights that it ends."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from autopilot_peers import ArduPilotPeer, GroundPeer, Px4Peer, one_at_a_time  # noqa: F401 - a fixture
from test_link_ardupilot import LINE, standing

import samara
from samara.link.ardupilot import ardupilot_parameters, state_line
from samara.link.autopilot import Autopilot
from samara.link.ground_station import battery_fields
from samara.link.prepare import flown_by
from samara.link.px4_parameters import px4_parameters
from samara.link.readings import Supply
from samara.link.supply import EVERY_US, PowerModule, cells_of
from samara.physics.battery import open_circuit_voltage
from samara.sim.plant import Plant
from samara.sim.scenario_file import parse_scenario

AWAY = """
name = "away"
duration = 9
[[drones]]
name = "drone"
vehicle = "iris"
yaw_deg = 90.0
"""
SMALL = 160.0  # [C]: a flight of some seconds
LOW, LANDS = 0.6, 0.38


def away(kind):
    """Three metres from home on a battery for some seconds."""
    own = parse_scenario(AWAY, "away.toml")
    craft = own.drones[0].vehicle.replace({"battery.capacity": SMALL})
    return flown_by(replace(own, drones=(replace(own.drones[0], vehicle=craft),)), Autopilot(kind))


def require_home(run):
    """It went away, came back on the last of its charge, and stands where it began"""
    assert run.problem == ""
    beside = np.hypot(run.position[:, 0], run.position[:, 1])
    assert beside.max() > 1.5 and beside[-1] < 0.3
    assert run.logs[-1].message == "landed"
    charge = run.charge[-1]
    assert 0.05 < charge < LOW
    assert run.tables["outputs"]["voltage"].min() < 11.4


# What is told -------------------------------------------------------------------------------------------------------


def test_the_voltage_is_kirchhoffs():
    """V = OCV(SOC) − V1 − R0 I, of a battery half empty with its motors at work; ten times a second."""
    plant = Plant(samara.vehicle("iris"), physics_us=1000)
    battery = plant.vehicle["battery"][0]
    names = list(plant.fields)
    plant.state[names.index("battery.charge")] = 0.5
    plant.state[names.index("battery.polarisation")] = 0.07
    plant.command[:] = 0.4
    module = PowerModule(plant)
    told = module.read(0)
    assert told.current > 5.0 and told.cells == 3 and told.charge == 0.5
    expected = open_circuit_voltage(0.5, battery) - 0.07 - battery.resistance * told.current
    assert told.voltage == pytest.approx(expected, rel=1e-12)
    assert module.read(EVERY_US - 1) is None and module.read(EVERY_US) is not None
    assert PowerModule(Plant(samara.vehicle("hakoniwa"), physics_us=1000)).read(0) is None  # its supply never empties


@pytest.mark.parametrize(("volts", "cells"), [(4.2, 1), (12.6, 3), (25.2, 6), (60.0, 10)])
def test_cells_are_counted_by_the_voltage_of_a_full_battery(volts, cells):
    battery = samara.vehicle("iris")["battery"][0]
    assert cells_of(battery._replace(table_voltage=(0.5 * volts, 0.9 * volts, volts))) == cells


def test_px4_gets_millivolts_of_each_cell_centiamperes_and_percent():
    """pymavlink reads back what was sent: three cells, and 65535 behind the last."""
    from pymavlink.dialects.v20 import common

    from samara.link.mavlink import Speaker

    packet = Speaker(1, 180).frame("BATTERY_STATUS", *battery_fields(Supply(11.7, 12.34, 0.567, 3, 12600.0)))
    told = common.MAVLink(None).parse_buffer(packet)[0]
    assert (told.get_srcSystem(), told.get_srcComponent()) == (1, 180)
    assert told.voltages == [3900] * 3 + [65535] * 7
    assert (told.current_battery, told.battery_remaining) == (1234, 57)
    assert told.current_consumed == round(0.433 * 3500) and told.temperature == 32767


def test_each_is_told_to_use_it_and_to_come_home_by_it():
    ours, ideal = samara.vehicle("iris"), samara.vehicle("hakoniwa")
    assert {"SIM_BAT_ENABLE": 0, "COM_LOW_BAT_ACT": 3}.items() <= px4_parameters(ours).items()
    assert "SIM_BAT_ENABLE" not in px4_parameters(ideal)
    numbers = ardupilot_parameters(ours, 0.5)
    assert (numbers["BATT_MONITOR"], numbers["BATT_CAPACITY"], numbers["BATT_LOW_MAH"]) == (4, 3500, 700)
    assert "BATT_MONITOR" not in ardupilot_parameters(ideal, 0.5)


def test_ardupilots_line_has_its_battery_at_the_end():
    supply = Supply(11.712349, 12.3, 0.5, 3, 12600.0)
    told = state_line(standing(), 0.001, supply=supply)
    assert told.endswith(b',"battery":{"voltage":11.7123,"current":12.3}}\n')
    line = json.loads(told)
    assert line["battery"] == {"voltage": 11.7123, "current": 12.3}
    assert json.loads(LINE).keys() == line.keys() - {"battery"}


# Home ---------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_px4_comes_home_on_our_battery():
    """The peer's failsafe is PX4's: it hears BATTERY_STATUS beside the simulator's connection, and nothing else of charge."""
    own = away("px4")
    peer, ground = Px4Peer(px4_parameters(own.drones[0].vehicle), target=(3.0, 0.0, -1.0)), GroundPeer()

    def failsafe(message):
        if message.battery_remaining <= 100 * LOW:
            down = 0.5 if message.battery_remaining <= 100 * LANDS else -1.0
            peer.hold.target = np.array([0.0, 0.0, down])

    ground.on_battery = failsafe
    run = samara.fly(own)
    peer.stop()
    ground.stop()
    require_home(run)
    assert len(ground.batteries) > 9  # one a second at least
    assert {(own.get_srcSystem(), own.get_srcComponent()) for own in ground.batteries} == {(1, 180)}
    remaining = [own.battery_remaining for own in ground.batteries]
    assert remaining == sorted(remaining, reverse=True) and remaining[-1] == pytest.approx(100 * run.charge[-1], abs=3)


@pytest.mark.long
def test_ardupilot_comes_home_on_our_battery():
    """By the voltage in its JSON, under load and sagging."""
    own = away("ardupilot")
    peer = ArduPilotPeer(target=(3.0, 0.0, -1.0), gains=(0.05, 0.05, 0.1))
    hold, low = peer.hold, []

    def failsafe(line):
        low.append(line["battery"]["voltage"])
        if len(low) > 200 and low[-1] < 11.3:
            hold.target = np.array([0.0, 0.0, 0.5])

    peer.on_line = failsafe
    run = samara.fly(own)
    peer.stop()
    require_home(run)
    told = np.array(
        [[line["timestamp"], line["battery"]["voltage"], line["battery"]["current"]] for line in peer.lines]
    )
    recorded = run.tables["outputs"]
    at = np.searchsorted(recorded.times_us, 1e6 * told[::100, 0] - 1000.0)
    at = np.minimum(at, len(recorded.times_us) - 1)
    assert told[::100, 1] == pytest.approx(recorded["voltage"][at], abs=0.3)
    assert told[:, 2].max() > 5.0 and math.isfinite(told.sum())
