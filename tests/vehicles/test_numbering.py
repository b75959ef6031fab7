"""Rotor numbers: Samara's table against each system's own mixer, against the shipped vehicles, and against the figures."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from figures import conventions as pictures
from matplotlib.figure import Figure
from PIL import Image

import samara
from samara.scenario.actuators import ActuatorCommand, MotorMap, propulsor_duties
from samara.vehicles.rotor_numbering import CCW, CW, NUMBERINGS, rotor_order

EVERY = [(frame, system) for frame in NUMBERINGS for system in NUMBERINGS[frame]]
PAIRS = [(frame, *pair) for frame in NUMBERINGS for pair in itertools.permutations(NUMBERINGS[frame], 2)]

# Contents of the systems' own files, each in its own form and order.
PX4 = {  # x forward, y right, KM: + is counter-clockwise
    "quad_x": [(1, 1, +1), (-1, -1, +1), (1, -1, -1), (-1, 1, -1)],
    "hexa_x": [(0, 1, -1), (0, -1, +1), (0.866025, -0.5, -1), (-0.866025, 0.5, +1), (0.866025, 0.5, +1), (-0.866025, -0.5, -1)],
    "octo_x": [
        (0.9238795, 0.3826834, -1),
        (-0.9238795, -0.3826834, -1),
        (0.3826834, 0.9238795, +1),
        (-0.9238795, 0.3826834, +1),
        (0.9238795, -0.3826834, +1),
        (-0.3826834, -0.9238795, +1),
        (0.3826834, -0.9238795, -1),
        (-0.3826834, 0.9238795, -1),
    ],
}  # fmt: skip
ARDUPILOT = {  # degrees clockwise from forward, and the word
    "quad_x": [(45, "CCW"), (-135, "CCW"), (-45, "CW"), (135, "CW")],
    "hexa_x": [(90, "CW"), (-90, "CCW"), (-30, "CW"), (150, "CCW"), (30, "CCW"), (-150, "CW")],
    "octo_x": [(22.5, "CW"), (-157.5, "CW"), (67.5, "CCW"), (157.5, "CCW"), (-22.5, "CCW"),
               (-112.5, "CCW"), (-67.5, "CW"), (112.5, "CW")],
}  # fmt: skip
BETAFLIGHT = {  # share of roll (left is +), pitch (back is +) and yaw (counter-clockwise is +)
    "quad_x": [(-1, 1, -1), (-1, -1, 1), (1, 1, 1), (1, -1, -1)],
    "hexa_x": [(-0.5, 0.866025, 1), (-0.5, -0.866025, 1), (0.5, 0.866025, -1), (0.5, -0.866025, -1), (-1, 0, -1), (1, 0, 1)],
    "octo_x": [
        (1, -0.414178, 1),
        (-0.414178, -1, 1),
        (-1, 0.414178, 1),
        (0.414178, 1, 1),
        (0.414178, -1, -1),
        (-1, -0.414178, -1),
        (-0.414178, 1, -1),
        (1, 0.414178, -1),
    ],
}  # fmt: skip
CRAZYFLIE = [(-1, -1, -1), (-1, 1, 1), (1, 1, -1), (1, -1, 1)]  # signs of τx, τy, τz in the firmware, x forward, y left


def table(frame, system):
    """(n, 3): forward, left, spin, from Samara's table."""
    return np.array(
        [
            (math.cos(math.radians(place.azimuth_deg)), math.sin(math.radians(place.azimuth_deg)), place.spin)
            for place in NUMBERINGS[frame][system].rotors
        ]
    )


def normalise_positions(rows):
    """Scale forward and left to unit length."""
    rows = np.array(rows, dtype=float)
    return np.column_stack([rows[:, :2] / np.linalg.norm(rows[:, :2], axis=1, keepdims=True), rows[:, 2]])


# The table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", NUMBERINGS)
def test_the_table_is_what_each_systems_own_files_say(frame):
    """PX4 gives positions, ArduPilot angles, Betaflight contributions to roll, pitch and yaw: all agree with the table."""
    px4 = normalise_positions([(x, -y, spin) for x, y, spin in PX4[frame]])
    ardupilot = [
        (math.cos(math.radians(a)), -math.sin(math.radians(a)), 1 if word == "CCW" else -1)
        for a, word in ARDUPILOT[frame]
    ]
    betaflight = normalise_positions([(-pitch, roll, yaw) for roll, pitch, yaw in BETAFLIGHT[frame]])
    assert table(frame, "px4") == pytest.approx(px4, abs=1e-6)
    assert table(frame, "ardupilot") == pytest.approx(np.array(ardupilot), abs=1e-12)
    assert table(frame, "betaflight") == pytest.approx(betaflight, abs=1e-4)


def test_the_crazyflie_is_what_its_firmware_mixes():
    """A thrust at (x, y) rolls with y and pitches with −x; its reaction yaws against its spin."""
    firmware = normalise_positions([(-pitch, roll, -yaw) for roll, pitch, yaw in CRAZYFLIE])
    assert table("quad_x", "crazyflie") == pytest.approx(firmware, abs=1e-12)


@pytest.mark.parametrize(("frame", "system"), EVERY)
def test_going_round_the_body_spins_alternate_and_angles_are_equal(frame, system):
    rows = sorted(NUMBERINGS[frame][system].rotors, key=lambda place: place.azimuth_deg)
    spins = [place.spin for place in rows]
    assert all(a == -b for a, b in itertools.pairwise([*spins, spins[0]]))
    assert np.diff([place.azimuth_deg for place in rows]) == pytest.approx(np.full(len(rows) - 1, 360.0 / len(rows)))


@pytest.mark.parametrize(
    ("name", "frame", "system"),
    [
        ("iris", "quad_x", "px4"),
        ("hakoniwa", "quad_x", "px4"),
        ("crazyflie_documented", "quad_x", "crazyflie_engine"),
        ("crazyflie", "quad_x", "crazyflie"),
        ("hexarotor_x", "hexa_x", "samara"),
        ("octorotor_x", "octo_x", "samara"),
    ],
)
def test_our_vehicles_are_numbered_as_the_table_says(name, frame, system):
    """Same corner and same spin, rotor by rotor; the Iris is wider than long, so its corners count, not its angles."""
    rows = table(frame, system)
    rotors = samara.vehicle(name).rotors
    assert [rotor.spin for rotor in rotors] == rows[:, 2].tolist()
    positions = np.array([rotor.r_B[:2] for rotor in rotors])
    if name == "iris":
        assert np.sign(positions).tolist() == np.sign(rows[:, :2]).tolist()
    else:
        assert positions / np.linalg.norm(positions, axis=1, keepdims=True) == pytest.approx(rows[:, :2], abs=1e-12)


# From one to another -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frame", "from_", "to"), PAIRS)
def test_orders_are_permutations_that_keep_every_place(frame, from_, to):
    """One to one, there and back, and through a third system."""
    order = rotor_order(from_, to, frame, ignore_spin=True)
    assert sorted(order) == list(range(len(order)))
    source, target = table(frame, from_), table(frame, to)
    assert target[list(order), :2] == pytest.approx(source[:, :2], abs=1e-15)
    back = rotor_order(to, from_, frame, ignore_spin=True)
    assert [back[i] for i in order] == list(range(len(order)))
    from_px4 = rotor_order("px4", to, frame, ignore_spin=True)
    assert tuple(from_px4[i] for i in rotor_order(from_, "px4", frame, ignore_spin=True)) == order


@pytest.mark.parametrize(("frame", "from_", "to"), PAIRS)
def test_orders_keep_the_spin_or_are_refused(frame, from_, to):
    """Either all spins agree or none does: the two variants of a frame are mirror images of each other."""
    order = list(rotor_order(from_, to, frame, ignore_spin=True))
    agree = table(frame, from_)[:, 2] == table(frame, to)[order, 2]
    if agree.all():
        assert rotor_order(from_, to, frame) == tuple(order)
    else:
        assert not agree.any()
        with pytest.raises(ValueError, match=rf"turns (counter-)?clockwise in '{from_}' and the other way in '{to}'"):
            rotor_order(from_, to, frame)


def test_quads_agree_on_spin_but_for_props_out_and_octorotors_do_not():
    """FR and BL counter-clockwise everywhere; Betaflight's octorotor spins against PX4's, ArduPilot's and Samara's."""
    counter_clockwise = {
        (frame, system): {place.name for place in NUMBERINGS[frame][system].rotors if place.spin == CCW}
        for frame, system in EVERY
    }
    for system in NUMBERINGS["quad_x"]:
        expected = {"FL", "BR"} if system == "betaflight_props_out" else {"FR", "BL"}
        assert counter_clockwise["quad_x", system] == expected
    for system in ("ardupilot", "samara"):
        assert counter_clockwise["octo_x", "px4"] == counter_clockwise["octo_x", system]
    assert not counter_clockwise["octo_x", "px4"] & counter_clockwise["octo_x", "betaflight"]


@pytest.mark.parametrize("system", ["px4", "ardupilot", "betaflight", "crazyflie"])
def test_a_command_in_another_order_flies_the_same(system):
    """Wired by `rotor_order`, `crazyflie_documented` has the same wrench as the same body numbered `system`."""
    crazyflie = samara.vehicle("crazyflie_documented")
    order = rotor_order(system, "crazyflie_engine")
    renumbered = replace(crazyflie, rotors=tuple(crazyflie.rotors[i] for i in order))
    channels = (0.31, 0.47, 0.59, 0.73)
    duties = propulsor_duties(ActuatorCommand(channels), MotorMap(order))
    wrenches = []
    for vehicle, command in ((renumbered, channels), (crazyflie, duties)):
        state, _ = samara.hover(vehicle)
        for _ in range(3):
            state = samara.step(state, command, vehicle, dt=5e-3)
        wrenches.append(samara.wrench(state, command, vehicle))
    assert np.array(wrenches[0].f_B) == pytest.approx(np.array(wrenches[1].f_B), rel=1e-12)
    assert np.array(wrenches[0].tau_B) == pytest.approx(np.array(wrenches[1].tau_B), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("px4", "betafligth"), "rotor numbering 'betafligth': expected one of px4, ardupilot, betaflight"),
        (("crazyflie", "px4", "hexa_x"), "rotor numbering 'crazyflie': expected one of px4, .* for hexa_x"),
        (("px4", "betaflight", "quad"), "frame 'quad': expected one of quad_x, hexa_x, octo_x"),
    ],
)
def test_a_name_nobody_knows_is_refused_with_those_that_are(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        rotor_order(*arguments)


@pytest.mark.parametrize(("frame", "system"), EVERY)
def test_the_documentation_prints_the_table(repository, frame, system):
    """docs/reference/conventions.md has a row for each, under the heading of its frame."""
    page = (repository / "docs" / "reference" / "conventions.md").read_text(encoding="utf-8")
    under = page.partition(f"| {frame.replace('_x', ' X')} | rotors |")[2].partition("\n\n")[0]
    numbering = NUMBERINGS[frame][system]
    rotors = ", ".join(
        f"{numbering.first_number + i} {place.name} {'↺' if place.spin == CCW else '↻'}"
        for i, place in enumerate(numbering.rotors)
    )
    assert f"| {numbering.title} | {rotors} |" in under


# The pictures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frame", "system"), EVERY)
def test_a_panel_shows_each_number_in_its_place(frame, system):
    """Left of the body is left on the page, forward is up."""
    numbering = NUMBERINGS[frame][system]
    axes = Figure().add_subplot()
    pictures.numbering_panel(axes, frame, numbering.title, numbering)
    shown = {int(text.get_text()): text.get_position() for text in axes.texts if text.get_text().isdigit()}
    assert sorted(shown) == list(range(numbering.first_number, numbering.first_number + len(numbering.rotors)))
    for i, place in enumerate(numbering.rotors):
        x, y = shown[numbering.first_number + i]
        assert math.degrees(math.atan2(-x, y)) == pytest.approx(place.azimuth_deg, abs=1e-9)


@pytest.mark.parametrize("spin", [CCW, CW])
def test_the_arrow_of_a_rotor_goes_round_the_way_it_spins(spin):
    """The area it sweeps about the hub, Σ (x dy − y dx) = φ r², is positive counter-clockwise."""
    x, y = (pictures.spin_arc(3.0, -2.0, 0.5, spin) - (3.0, -2.0)).T
    swept = float(np.sum(x[:-1] * np.diff(y) - y[:-1] * np.diff(x)))
    assert swept == pytest.approx(spin * math.radians(290.0) * 0.5**2, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "frames"), [("numbering-quad.png", ("quad_x",)), ("numbering-hexa-octo.png", ("hexa_x", "octo_x"))]
)
def test_the_picture_in_the_documentation_is_of_todays_table(repository, name, frames):
    """The file carries its numbers in words; `PYTHONPATH=docs python -m figures.conventions docs/images` draws it anew."""
    with Image.open(repository / "docs" / "images" / name) as picture:
        assert picture.text["Description"] == pictures.describe_numberings(frames)


def test_the_words_on_the_picture_of_the_angles():
    """+roll the same in both; +pitch and +yaw turn over with the axes."""
    assert [[pictures.describe_rotation(row, column) for column in range(3)] for row in range(2)] == [
        ["right side down", "nose down", "counter-clockwise"],
        ["right side down", "nose up", "clockwise"],
    ]


def test_all_pictures_are_drawn(tmp_path):
    pictures.draw_conventions(tmp_path)
    for name in ("numbering-quad.png", "numbering-hexa-octo.png", "frames.png", "angles.png"):
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 300
            assert np.count_nonzero(picture.convert("L").histogram()) > 50  # shades: not a blank page
