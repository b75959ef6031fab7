"""The Crazyflie firmware's controllers: in flight with a stand-in module, and with the real module if it is installed."""

import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.children import child as started

import samara
from samara.control.crazyflie_firmware.controller import DroneFirmware, FirmwareError, FirmwareProcess
from samara.control.crazyflie_firmware.conversions import FIELDS
from samara.control.crazyflie_firmware.motors import THRUST_CURVES
from samara.control.crazyflie_firmware.worker import Firmware, UnsuitableModuleError
from samara.control.registry import FIRMWARE, create_controller
from samara.core.algebra import Vec3
from samara.core.extras import MissingExtraError
from samara.plan import trajectory
from samara.scenario.autopilot_sensors import apply_firmware_rate
from samara.scenario.events import Event, at, fail_motor
from samara.scenario.scenario import Drone, Scenario
from samara.sim.simulation import Simulation

STAND_IN = str(Path(__file__).parents[1] / "support" / "stand_in")
REAL = importlib.util.find_spec("cffirmware") is not None
CRAZYFLIE = samara.vehicle("crazyflie")
START_POSITION = Vec3(0.0, 0.0, 1.0)


@pytest.fixture
def stand_in(monkeypatch):
    """Replace the bindings by the stand-in, in this process and in those that it starts."""
    monkeypatch.syspath_prepend(STAND_IN)
    monkeypatch.delitem(sys.modules, "cffirmware", raising=False)
    yield importlib.import_module("cffirmware")
    sys.modules.pop("cffirmware", None)


def hover_scenario(*names: str, duration: float = 1.0, **options) -> Scenario:
    """Drones that hover a metre apart, with references 0.2 m higher"""
    drones = []
    for i, name in enumerate(names):
        position = START_POSITION._replace(y=float(i))
        task = trajectory.hover(position + Vec3(0.0, 0.0, 0.2), duration=60.0)
        drones.append(Drone(f"drone{i}", CRAZYFLIE, task, position, airborne=True, controller=name))
    return apply_firmware_rate(Scenario("hovering", tuple(drones), duration, **options))


# Messages ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(REAL, reason="cffirmware is installed")
@pytest.mark.parametrize("name", FIRMWARE)
def test_missing_bindings_are_reported(name):
    with pytest.raises(
        MissingExtraError, match=f"{name} .* needs cffirmware, built from Bitcraze's crazyflie-firmware"
    ):
        create_controller(name, CRAZYFLIE, period=1e-3)


def test_it_is_called_at_the_rate_of_the_firmware(stand_in):
    with pytest.raises(ValueError, match=r"rates\.control is 250; expected 1000"):
        create_controller("crazyflie_pid", CRAZYFLIE)
    assert hover_scenario("crazyflie_pid").rates.control == 1000.0
    assert hover_scenario("pid").rates.control == 250.0


def test_it_flies_quadrotors_like_its_own(stand_in):
    for name, message in (("hexarotor_x", "crazyflie_lee flies quadrotors; .* has 6 rotors"),):
        with pytest.raises(ValueError, match=message):
            create_controller("crazyflie_lee", samara.vehicle(name), period=1e-3)


def test_a_build_without_indi_is_reported(stand_in):
    with pytest.raises(FirmwareError, match="has no controllerINDI: Bitcraze's bindings leave INDI out"):
        FirmwareProcess("indi")


def test_an_old_build_is_reported(stand_in, monkeypatch):
    monkeypatch.delattr(stand_in, "powerDistributionCap")
    with pytest.raises(UnsuitableModuleError, match=r"no powerDistributionCap; expected .* 2025\.12\.1 or newer"):
        Firmware(stand_in, "pid", FIELDS)
    monkeypatch.undo()
    monkeypatch.setattr(stand_in, "sensorData_t", lambda: object())
    with pytest.raises(UnsuitableModuleError, match=r"no sensors\.gyro\.x"):
        Firmware(stand_in, "pid", FIELDS)


def test_an_import_error_is_reported(tmp_path, monkeypatch):
    (tmp_path / "cffirmware.py").write_text("raise ImportError('libpython is another')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FirmwareError, match="cannot be loaded: libpython is another"):
        FirmwareProcess("pid")


# Signal chain --------------------------------------------------------------------------------------------------------


def test_all_inputs_arrive_and_the_step_counts_from_one(stand_in):
    firmware = Firmware(stand_in, "pid", FIELDS)
    inputs = tuple(float(k + 1) for k in range(len(FIELDS)))
    firmware.tick(inputs, 3.7)
    firmware.tick(inputs, 3.7)
    assert stand_in.calls == [1, 2]
    for field, value in zip(FIELDS, inputs, strict=True):
        struct, *members = field.split(".")
        member = firmware.structs[struct]
        for name in members:
            member = getattr(member, name)
        assert member == value, field
    assert vars(firmware.structs["setpoint"].mode) == {
        "x": 1,
        "y": 1,
        "z": 1,
        "roll": 0,
        "pitch": 0,
        "yaw": 1,
        "quat": 0,
    }
    assert firmware.propellers == "legacy propellers"


def test_the_supply_is_smoothed_over_a_tenth_of_a_second(stand_in, monkeypatch):
    """V ← V + 0.01 (V_measured − V) each millisecond; the thrust is constant, so the PWM is proportional to 1/V"""
    monkeypatch.setattr(stand_in, "controllerPid", lambda control, *arguments: setattr(control, "thrustSi", 0.28))
    monkeypatch.setattr(stand_in, "control_t", lambda: _control(stand_in))
    firmware = Firmware(stand_in, "pid", FIELDS)
    inputs = (0.0,) * len(FIELDS)
    first = firmware.tick(inputs, 4.0)[0]
    pwm_later = [firmware.tick(inputs, 3.2)[0] for _ in range(100)]
    volts = 3.2 + 0.8 * 0.99 ** np.arange(1, 101)
    np.testing.assert_allclose(pwm_later, first * 4.0 / volts, atol=2.0)


def _control(module):
    return module.SimpleNamespace(
        controlMode=module.controlModeForceTorque, thrustSi=0.0, torqueX=0.0, torqueY=0.0, torqueZ=0.0
    )


# In flight -----------------------------------------------------------------------------------------------------------


def test_a_flight_tracks_its_reference_and_replays_bit_for_bit(stand_in, tmp_path):
    """Along every axis and about the vertical: every sign of the conversions in both directions matters"""
    task = trajectory.hover((0.2, -0.2, 1.1), yaw=0.5, duration=60.0)
    scenario = hover_scenario("crazyflie_pid", duration=0.4)
    scenario = replace(scenario, drones=(replace(scenario.drones[0], task=task),))
    run = samara.fly(scenario, out=tmp_path / "run.mcap")
    assert ((run.position[-1] - np.array(START_POSITION)) * [1.0, -1.0, 1.0] > 1e-3).all() and not run.crashed
    assert 0.02 < run.euler[-1, 2] < 0.5
    assert run.drone_records[0].controller == "crazyflie_pid"
    sys.modules.pop("cffirmware")
    sys.path.remove(STAND_IN)  # a replay does not need it
    again = samara.replay(tmp_path / "run.mcap")
    np.testing.assert_array_equal(
        again.drone_records[0].tables["state"].rows, run.drone_records[0].tables["state"].rows
    )


def test_two_drones_have_a_firmware_each(stand_in):
    """The globals of the two are separate: together they fly the same bits as each alone"""
    pair = samara.fly(hover_scenario("crazyflie_pid", "crazyflie_pid", duration=0.05))
    single = samara.fly(hover_scenario("crazyflie_pid", duration=0.05))
    rows = [track.tables["state"].rows for track in pair.drone_records]
    np.testing.assert_array_equal(rows[0], single.drone_records[0].tables["state"].rows)
    np.testing.assert_array_equal(rows[1][:, 2], rows[0][:, 2])


def test_a_low_battery_is_compensated_until_full_pwm(stand_in):
    """The firmware measures the vehicle's voltage: at two charges it flies the same with different commands

    Of 1.4 mm to 0.05 mm: the voltage sags as the rotors speed up, and the firmware's measurement lags by 0.1 s.
    """
    vehicle = samara.switch_on(CRAZYFLIE, "battery", capacity=864.0, resistance=0.1)
    runs = []
    for charge in (1.0, 0.3, 0.0):
        scenario = hover_scenario("crazyflie_pid", duration=0.1)
        drone = replace(scenario.drones[0], vehicle=vehicle, initial_charge=charge)
        runs.append(samara.fly(replace(scenario, drones=(drone,))))
    full, low, empty = (float(run.position[-1][2]) for run in runs)
    assert full == pytest.approx(low, abs=5e-5) and empty < low - 1e-3
    assert runs[1].command[-1].min() > 1.1 * runs[0].command[-1].max()
    assert runs[2].command[-1].min() == 1.0


def test_a_motor_failure_does_not_restart_the_firmware(stand_in):
    event = Event(at(0.1), fail_motor(0))
    simulation = Simulation(hover_scenario("crazyflie_pid", duration=0.15, events=(event,)))
    firmwares: list[DroneFirmware] = []
    while simulation.advance():
        (group,) = simulation.groups
        firmwares += [firmware for firmware in group.controller.continuing_states.values() if firmware not in firmwares]
    assert len(firmwares) == 1 and not simulation.groups[0].setup.healthy[0]


def test_a_killed_firmware_is_reported(stand_in, monkeypatch):
    process = FirmwareProcess("pid")
    os.kill(process._process.pid, 9)
    with pytest.raises(FirmwareError, match=r"crazyflie_pid: the firmware's process ended by signal 9$"):
        process.tick((0.0,) * len(FIELDS), 3.7)


def test_the_count_of_processes_is_limited(stand_in, monkeypatch):
    monkeypatch.setattr("samara.control.crazyflie_firmware.controller.MAX_PROCESSES", 0)
    with pytest.raises(FirmwareError, match="expected at most 0 at once"):
        FirmwareProcess("pid")


def test_its_process_ends_with_the_flight(stand_in):
    simulation = Simulation(hover_scenario("crazyflie_pid", duration=0.01))
    simulation.advance()
    (firmware,) = simulation.groups[0].controller.continuing_states.values()
    process = firmware.firmware._process
    assert process.poll() is None
    simulation.run()
    assert process.poll() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can be asked to end a child")
def test_its_process_ends_with_a_parent_that_is_killed():
    program = (
        f"import sys; sys.path.insert(0, {STAND_IN!r})\n"
        "from samara.control.crazyflie_firmware.controller import FirmwareProcess\n"
        "firmware = FirmwareProcess('pid')\n"
        "print(firmware._process.pid, flush=True)\n"
        "import time; time.sleep(600)\n"
    )
    with started([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 120.0
        while _is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


# The real module -----------------------------------------------------------------------------------------------------


real = pytest.mark.skipif(not REAL, reason="needs cffirmware, built from Bitcraze's crazyflie-firmware")
FIRMWARE_MASS = 0.029  # [kg] of a Crazyflie in the firmware


@real
@pytest.mark.parametrize("name", FIRMWARE)
def test_the_real_firmware_holds_a_position(name):
    if name == "crazyflie_indi" and not hasattr(importlib.import_module("cffirmware"), "controllerINDI"):
        pytest.skip("this cffirmware is built without INDI, as Bitcraze's is")
    run = samara.fly(hover_scenario(name, duration=6.0))
    assert not run.crashed and run.error[-1] < 0.03


@real
@pytest.mark.parametrize(("name", "stiffness"), [("crazyflie_lee", 7.0), ("crazyflie_brescianini", 1.0 / 0.3**2)])
def test_the_real_firmware_sinks_by_the_error_of_its_mass(name, stiffness):
    """m_f (g_f + k e) = m g: e is right only if power distribution, PWM and thrust curves are right to one per cent"""
    run = samara.fly(hover_scenario(name, duration=6.0))
    expected_offset = (CRAZYFLIE.mass * CRAZYFLIE["gravity"].acceleration / FIRMWARE_MASS - 9.81) / stiffness
    assert 1.2 - run.position[-1][2] == pytest.approx(expected_offset, rel=0.03)


@real
def test_the_real_firmware_has_a_known_thrust_curve():
    process = FirmwareProcess("pid")
    assert process.propellers in THRUST_CURVES and process.curve.max_thrust == pytest.approx(
        THRUST_CURVES[process.propellers].max_thrust
    )
    process.close()
