"""PX4 in a mode that follows the reference: setpoints on the wire, and a policy of ours in its module mc_raptor."""

import io
import math
import tarfile
import time
from pathlib import Path

import pytest
from support.autopilot_peers import GroundPeer, Px4Peer, one_at_a_time  # noqa: F401 - a fixture

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.link.deploy.px4_raptor import archive_of
from samara.link.px4 import px4_parameters
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Readings
from samara.physics.frames import geodetic_from_enu
from samara.physics.types import Reference, State
from samara.scenario.autopilot import Autopilot
from samara.scenario.events import Order
from samara.sensors.site import HOME

UP = Vec3(0.0, 0.0, 3.0)


def exchanged(link, ground, until):
    """At 3 m, asked to be 2 m east and 1 m north of the origin, nose to the north-west, moving and turning"""
    state = State(UP, ZERO, quat_from_euler(0.0, 0.0, math.pi / 2), ZERO)
    wanted = Reference(Vec3(2.0, 1.0, 3.0), Vec3(0.3, 0.2, 0.1), Vec3(0.4, 0.5, 0.6), yaw=0.75 * math.pi, yaw_rate=0.7)
    for k in range(4000):
        link.exchange(Readings(10_000 * k, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, state, wanted))
        if until():
            return
        time.sleep(0.002)
    raise AssertionError("it never came to that")


@pytest.mark.parametrize(("mode", "number"), [("offboard", 6 << 16), ("raptor", 4 << 16 | 11 << 24)])
def test_after_take_off_comes_the_mode_and_the_reference_is_sent_from_where_px4_has_its_origin(mode, number):
    """Two metres east of ours and half a metre higher is PX4's origin: what is sent is the way from there, in NED"""
    place = geodetic_from_enu(Vec3(2.0, 0.0, 0.5), HOME.origin)
    degrees = [round(1e7 * math.degrees(x)) for x in (place.latitude, place.longitude)]
    ground, peer = GroundPeer(refusals=1, origin=(*degrees, round(1e3 * place.altitude))), Px4Peer(boot_us=0)
    link = open_link(
        Autopilot("px4", wait=10.0, mode=mode),
        samara.vehicle("iris_documented"),
        lambda level, text: None,
        (),
        "universal",
    )
    try:
        for order in (Order("take_off", UP), Order("reach", Vec3(9.0, 9.0, 3.0)), Order("go_to", Vec3(9.0, 0.0, 3.0))):
            link.obey(order)
        exchanged(link, ground, lambda: not link.ground.waiting and len(ground.setpoints) > 3)
    finally:
        link.close()
        peer.stop()
        ground.stop()
    assert ground.mode == number and ground.armed and ground.height == 3.0
    assert not [own for own in ground.orders if own.command == 192]  # to go somewhere is the reference's
    own = ground.setpoints[-1]
    assert (own.x, own.y, own.z) == pytest.approx((1.0, 0.0, -2.5), abs=0.012)  # 1e-7 degrees are a centimetre
    assert (own.vx, own.vy, own.vz, own.afx, own.afy, own.afz) == pytest.approx((0.2, 0.3, -0.1, 0.5, 0.4, -0.6))
    assert math.remainder(own.yaw + 0.25 * math.pi, 2 * math.pi) == pytest.approx(0.0, abs=1e-6)
    assert own.yaw_rate == pytest.approx(-0.7) and own.type_mask == 0 and own.coordinate_frame == 1


def test_for_a_policy_motors_are_in_px4s_order_and_no_curve_bends_its_commands():
    """A Crazyflie's are front right, back right, back left, front left; PX4's quadrotor in X has another order"""
    vehicle = samara.vehicle("crazyflie")
    told = px4_parameters(vehicle, 400.0, mode="raptor")
    corners = [(1, 1), (-1, -1), (1, -1), (-1, 1)]  # front right, back left, front left, back right: x ahead, y right
    assert [
        (math.copysign(1, told[f"CA_ROTOR{k}_PX"]), math.copysign(1, told[f"CA_ROTOR{k}_PY"])) for k in range(4)
    ] == corners
    assert [told[f"CA_ROTOR{k}_KM"] > 0.0 for k in range(4)] == [True, True, False, False]
    assert (told["THR_MDL_FAC"], told["MC_RAPTOR_ENABLE"]) == (0, 1)
    assert told["IMU_GYRO_RATEMAX"] == told["IMU_INTEG_RATE"] == 400.0  # it goes on every fourth turn: 10 ms
    u = samara.hover(vehicle)[1]
    assert told["MPC_THR_HOVER"] == pytest.approx(sum(u) / 4)


class Shifting(Px4Peer):
    """Says 0.1, 0.2, 0.3 and 0.4 of its first four motors"""

    def motors(self, truth):
        return 0.1 * (1.0 + self.mixer[:, 0] * 0.0 + range(4))


def test_the_outputs_of_a_policy_reach_the_rotors_that_px4_means():
    vehicle = samara.vehicle("crazyflie")
    peer = Shifting(px4_parameters(vehicle), boot_us=0)
    link = open_link(Autopilot("px4", wait=10.0, mode="raptor"), vehicle, lambda level, text: None, (), "universal")
    try:
        said = []
        exchanged(link, None, lambda: said.append(list(link._outputs)) or any(said[-1]))
    finally:
        link.close()
        peer.stop()
    assert said[-1] == pytest.approx([0.1, 0.4, 0.2, 0.3])  # front right, back right, back left, front left


def test_the_policy_is_on_the_card_of_one_that_is_started_here_and_of_one_that_a_person_starts():
    vehicle = samara.vehicle("iris")
    data = archive_of("universal", vehicle)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert "actor/meta" in archive.getnames()
    link = open_link(Autopilot("px4", mode="raptor", instance=3), vehicle, lambda level, text: None, (), "universal")
    try:
        script = Path(link.watch.how_to_start().removeprefix("sh "))
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
            {"kind": "ardupilot", "mode": "offboard"},
            "autopilot.mode is 'offboard' and its kind ardupilot; expected px4",
        ),
        ({"mode": "raptor", "rate": 250.0}, "autopilot.rate is 250 Hz; expected a multiple of 100 for raptor"),
    ],
)
def test_a_mode_that_is_none_is_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        Autopilot(**options)


def test_a_controller_that_is_no_policy_is_one_sentence():
    with pytest.raises(ValueError, match="is 'raptor' and the controller is geometric; expected a policy"):
        archive_of("geometric", samara.vehicle("iris"))
