"""PX4 in a mode that follows the reference: setpoints over MAVLink, and Samara's policy in its module mc_raptor."""

import io
import math
import tarfile
import time
from pathlib import Path

import pytest
from support.autopilot_peers import GroundPeer, Px4Peer, one_at_a_time  # noqa: F401 - a fixture

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.link.deploy.px4_raptor import controller_archive
from samara.link.px4 import px4_parameters
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Readings
from samara.physics.frames import geodetic_from_enu
from samara.physics.types import Reference, State
from samara.scenario.autopilot import Autopilot
from samara.scenario.events import Order
from samara.sensors.site import HOME

UP = Vec3(0.0, 0.0, 3.0)


def exchange_until(link, ground, is_done):
    """Exchange at 3 m, with a moving and turning reference 2 m east and 1 m north of the origin, nose to the north-west."""
    state = State(UP, ZERO, quat_from_euler(0.0, 0.0, math.pi / 2), ZERO)
    reference = Reference(
        Vec3(2.0, 1.0, 3.0), Vec3(0.3, 0.2, 0.1), Vec3(0.4, 0.5, 0.6), yaw=0.75 * math.pi, yaw_rate=0.7
    )
    for k in range(4000):
        link.exchange(Readings(10_000 * k, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, state, reference))
        if is_done():
            return
        time.sleep(0.002)
    raise AssertionError("the condition never became true")


@pytest.mark.parametrize(("mode", "number"), [("offboard", 6 << 16), ("raptor", 4 << 16 | 11 << 24)])
def test_after_take_off_comes_the_mode_and_the_reference_is_sent_relative_to_px4s_origin(mode, number):
    """PX4's origin is two metres east of Samara's and half a metre higher: setpoints are relative to it, in NED."""
    px4_origin = geodetic_from_enu(Vec3(2.0, 0.0, 0.5), HOME.origin)
    degrees = [round(1e7 * math.degrees(x)) for x in (px4_origin.latitude, px4_origin.longitude)]
    ground, peer = GroundPeer(refusals=1, origin=(*degrees, round(1e3 * px4_origin.altitude))), Px4Peer(boot_us=0)
    link = open_link(
        Autopilot("px4", wait=10.0, mode=mode),
        samara.vehicle("iris_documented"),
        lambda level, text: None,
        (),
        "universal",
    )
    try:
        for order in (Order("take_off", UP), Order("reach", Vec3(9.0, 9.0, 3.0)), Order("go_to", Vec3(9.0, 0.0, 3.0))):
            link.send_order(order)
        exchange_until(link, ground, lambda: not link.ground.pending_orders and len(ground.setpoints) > 3)
    finally:
        link.close()
        peer.stop()
        ground.stop()
    assert ground.mode == number and ground.armed and ground.height == 3.0
    assert not [message for message in ground.orders if message.command == 192]  # positions come from the reference
    setpoint = ground.setpoints[-1]
    assert (setpoint.x, setpoint.y, setpoint.z) == pytest.approx(
        (1.0, 0.0, -2.5), abs=0.012
    )  # 1e-7 degrees are a centimetre
    assert (setpoint.vx, setpoint.vy, setpoint.vz, setpoint.afx, setpoint.afy, setpoint.afz) == pytest.approx(
        (0.2, 0.3, -0.1, 0.5, 0.4, -0.6)
    )
    assert math.remainder(setpoint.yaw + 0.25 * math.pi, 2 * math.pi) == pytest.approx(0.0, abs=1e-6)
    assert setpoint.yaw_rate == pytest.approx(-0.7) and setpoint.type_mask == 0 and setpoint.coordinate_frame == 1


def test_for_a_policy_motors_are_in_px4s_order_and_the_thrust_curve_is_linear():
    """A Crazyflie's are front right, back right, back left, front left; PX4's quadrotor X has another order."""
    vehicle = samara.vehicle("crazyflie")
    parameters = px4_parameters(vehicle, 400.0, mode="raptor")
    corners = [(1, 1), (-1, -1), (1, -1), (-1, 1)]  # front right, back left, front left, back right: x ahead, y right
    assert [
        (math.copysign(1, parameters[f"CA_ROTOR{k}_PX"]), math.copysign(1, parameters[f"CA_ROTOR{k}_PY"]))
        for k in range(4)
    ] == corners
    assert [parameters[f"CA_ROTOR{k}_KM"] > 0.0 for k in range(4)] == [True, True, False, False]
    assert (parameters["THR_MDL_FAC"], parameters["MC_RAPTOR_ENABLE"]) == (0, 1)
    assert (
        parameters["IMU_GYRO_RATEMAX"] == parameters["IMU_INTEG_RATE"] == 400.0
    )  # it acts at every fourth update: 10 ms
    u = samara.hover(vehicle)[1]
    assert parameters["MPC_THR_HOVER"] == pytest.approx(sum(u) / 4)


class ConstantMotorsPeer(Px4Peer):
    """Sends 0.1, 0.2, 0.3 and 0.4 for its first four motors."""

    def motors(self, truth):
        return 0.1 * (1.0 + self.mixer[:, 0] * 0.0 + range(4))


def test_the_outputs_of_a_policy_reach_the_rotors_that_px4_means():
    vehicle = samara.vehicle("crazyflie")
    peer = ConstantMotorsPeer(px4_parameters(vehicle), boot_us=0)
    link = open_link(Autopilot("px4", wait=10.0, mode="raptor"), vehicle, lambda level, text: None, (), "universal")
    try:
        outputs = []
        exchange_until(link, None, lambda: outputs.append(list(link._outputs)) or any(outputs[-1]))
    finally:
        link.close()
        peer.stop()
    assert outputs[-1] == pytest.approx([0.1, 0.4, 0.2, 0.3])  # front right, back right, back left, front left


def test_the_policy_is_on_the_card_of_a_process_started_by_samara_and_by_a_person():
    vehicle = samara.vehicle("iris")
    data = controller_archive("universal", vehicle)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert "actor/meta" in archive.getnames()
    link = open_link(Autopilot("px4", mode="raptor", instance=3), vehicle, lambda level, text: None, (), "universal")
    try:
        script = Path(link.watch.start_command().removeprefix("sh "))
        assert (script.parent / "raptor" / "policy.tar").read_bytes() == data
        assert "export PX4_PARAM_MC_RAPTOR_ENABLE=1\n" in script.read_text()
    finally:
        link.close()
    assert not script.parent.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "acro"}, "autopilot.mode is 'acro'; expected one of offboard, raptor"),
        (
            {"type": "ardupilot", "mode": "offboard"},
            "autopilot.mode is 'offboard' and its type ardupilot; expected px4",
        ),
        ({"mode": "raptor", "rate": 250.0}, "autopilot.rate is 250 Hz; expected a multiple of 100 for raptor"),
    ],
)
def test_an_invalid_mode_is_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        Autopilot(**options)


def test_a_controller_that_is_not_a_policy_is_one_sentence():
    with pytest.raises(ValueError, match="is 'raptor' and the controller is geometric; expected a policy"):
        controller_archive("geometric", samara.vehicle("iris"))
