"""PX4's built-in simulator, as it reports to a display; pymavlink is the sender."""

import math
import socket

import numpy as np
import pytest
from support.autopilot_peers import one_at_a_time  # noqa: F401 - a fixture
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.core.algebra import Vec3, rotate
from samara.link.px4_sih import SharedOrigin, SihReceiver, wait_for_any
from samara.vehicles.defaults import clearance

pymavlink = pytest.importorskip("pymavlink.dialects.v20.common", reason="the sender is pymavlink")

LATITUDE, LONGITUDE = 47.397742, 8.545594
LEVEL_NORTH = (1.0, 0.0, 0.0, 0.0)


class Sender:
    """SIH as PX4 streams it: messages of pymavlink, one per datagram."""

    def __init__(self, instance=0):
        self.mav = pymavlink.MAVLink(None, srcSystem=1 + instance, srcComponent=1)
        self.wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.wire.connect(("127.0.0.1", 19410 + instance))

    def state(self, time_us, north=0.0, east=0.0, up=0.0, q=LEVEL_NORTH, rates=(0, 0, 0), v=(0, 0, 0), home=None):
        """Convert metres to degrees with the radii of curvature of the WGS-84 ellipsoid at home."""
        a, e2, latitude = 6378137.0, 0.00669437999014, math.radians(LATITUDE)
        w = 1.0 - e2 * math.sin(latitude) ** 2
        lat = LATITUDE + math.degrees(north * w**1.5 / (a * (1.0 - e2)))
        lon = LONGITUDE + math.degrees(east * math.sqrt(w) / (a * math.cos(latitude)))
        position = (round(1e7 * lat), round(1e7 * lon), round(488_000 + 1000 * up)) if home is None else home
        self.send(pymavlink.MAVLink_hil_state_quaternion_message(time_us, q, *rates, *position, *v, 0, 0, 0, 0, 0))

    def outputs(self, *outputs, mode=129):
        controls = [*outputs, *[math.nan] * (16 - len(outputs))]
        self.send(pymavlink.MAVLink_hil_actuator_controls_message(0, controls, mode, 0))

    def send(self, message):
        self.wire.send(message.pack(self.mav))


@pytest.fixture
def create_sender():
    """Factory of senders by instance; they are closed after the test."""
    senders = []

    def make(instance=0):
        senders.append(Sender(instance))
        return senders[-1]

    yield make
    for sender in senders:
        sender.wire.close()


@pytest.fixture
def sender(create_sender):
    return create_sender()


@pytest.fixture
def receiver():
    sih_receiver = SihReceiver()
    yield sih_receiver
    sih_receiver.close()


def receive_state(receiver):
    wait_for_any([receiver], 10.0)
    receiver.receive()
    return receiver.latest


def test_the_state_arrives_in_enu_and_flu(receiver, sender):
    sender.state(1_000_000)
    first = receive_state(receiver)
    assert first.body.p_W == pytest.approx((0, 0, 0), abs=1e-9) and first.time_us == 1_000_000
    half = math.sqrt(0.5)
    east_rolled_right = (half * math.cos(0.1), half * math.sin(0.1), half * math.sin(0.1), half * math.cos(0.1))
    sender.state(
        1_040_000, north=30.0, east=-20.0, up=5.0, q=east_rolled_right, rates=(0.1, 0.2, 0.3), v=(100, -200, -50)
    )
    state = receive_state(receiver).body
    assert state.p_W == pytest.approx((-20.0, 30.0, 5.0), abs=0.012)  # a unit of 1e-7° is 1.1 cm
    assert state.v_W == pytest.approx((-2.0, 1.0, 0.5))
    assert state.omega_B == pytest.approx((0.1, -0.2, -0.3), rel=1e-6)
    # forward is east; right, south, goes down by a roll of 0.2 rad: left points north and up
    assert rotate(state.q_WB, Vec3(1, 0, 0)) == pytest.approx((1, 0, 0), abs=1e-6)
    left = rotate(state.q_WB, Vec3(0, 1, 0))
    assert left == pytest.approx((0.0, math.cos(0.2), math.sin(0.2)), abs=1e-6)


def test_outputs_and_arming_go_with_the_next_state(receiver, sender):
    sender.outputs(0.1, 0.2, 0.3, 1.5)
    sender.state(40_000)
    state = receive_state(receiver)
    assert state.armed and state.outputs == pytest.approx((0.1, 0.2, 0.3, 1.0, *[0.0] * 12))
    sender.outputs(0.0, 0.0, 0.0, 0.0, mode=1)
    sender.state(80_000)
    assert not receive_state(receiver).armed


def test_an_invalid_state_is_rejected_and_counted(receiver, sender):
    sender.state(1, home=(0, 0, 0))  # before its simulator has begun
    sender.state(2, q=(math.nan, 0.0, 0.0, 0.0))
    sender.state(3, q=(0.5, 0.0, 0.0, 0.0))
    sender.state(4, rates=(math.inf, 0.0, 0.0))
    sender.state(5, home=(910_000_000, 1, 0))
    sender.wire.send(b"not MAVLink")
    sender.wire.send(b"")
    assert receive_state(receiver) is None and receiver.rejected == 5
    assert receiver.silence == math.inf
    sender.state(6)
    assert receive_state(receiver).time_us == 6 and receiver.silence < 60.0


def test_a_restart_of_px4_is_noticed(receiver, sender):
    for time_us in (5_000_000, 5_040_000, 20_000):
        sender.state(time_us)
    receive_state(receiver)
    assert receiver.restarts == 1 and receiver.latest.time_us == 20_000


def test_instances_have_separate_ports_and_one_origin(create_sender):
    origin = SharedOrigin()
    receivers = [SihReceiver(k, origin) for k in range(2)]
    try:
        create_sender(0).state(1000)
        assert receive_state(receivers[0]).body.p_W == (0.0, 0.0, 0.0)
        create_sender(1).state(1000, north=7.0)
        assert receive_state(receivers[1]).body.p_W.y == pytest.approx(7.0, abs=0.012)
        with pytest.raises(ValueError, match=r"UDP 127\.0\.0\.1:19410 cannot be used .*Hawkeye"):
            SihReceiver(0)
    finally:
        for receiver in receivers:
            receiver.close()


def test_the_page_shows_it_on_the_ground_and_turns_rotors_as_in_hover(sender):
    """At one half, SIH's hover, the drawn rotors turn as fast as those of the drawn vehicle in hover."""
    pytest.importorskip("viser", reason="the page needs viser")
    from samara.view.web.sih import SihView

    vehicle = samara.vehicle("iris_documented")
    view = SihView(vehicle, port=0)
    try:
        assert (
            view._connection_status() == "waiting for PX4 on UDP 19410; start it with: PX4_SIM_MODEL=sihsim_quadx px4"
        )
        sender.outputs(0.5, 0.5, 0.5, 0.5)
        sender.state(2_000_000)
        state = receive_state(view.receivers[0])
        frame = view._frame((state,))
        assert frame.time == 2.0 and frame.p_W == pytest.approx(np.array([[0.0, 0.0, clearance(vehicle)]]))
        hover_state, _ = samara.hover(vehicle)
        assert frame.rotor_speed[0] == pytest.approx(hover_state.rotor_speed, rel=1e-6)
        assert frame.thrust.sum() == pytest.approx(vehicle.mass * 9.80665, rel=1e-3)
        view._record_motion()
        assert view._connection_status() == "live" and view.logs[-1].message == "PX4 0 is received on UDP 19410"
        view.drawer.close()  # draw in this thread instead
        view._draw(view._display_state(fresh=True))
        assert "armed" in view._status.content and "position error" not in view.page.instruments.content
    finally:
        view.shut_down()
    SihReceiver(0).close()  # the port is free again


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--px4-sih", "hover"],
            "expected no scenario, recording, --set, --controller, --wind, --sensors, --seed, --duration or --speed with it",
        ),
        (["--instances", "2"], "--instances applies only to --px4-sih"),
        (["--px4-sih", "--instances", "0"], "--instances 0: expected a whole number from 1 to 10"),
        (["--px4-sih", "--vehicle", "rigid_body_quadrotor"], "has 0 rotors; px4 is wired for"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(words, sentence):
    result = CliRunner().invoke(app, ["view", "--no-browser", "--port", "0", *words])
    assert sentence in str(result.exception) + result.output
