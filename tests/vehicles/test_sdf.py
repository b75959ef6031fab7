"""A Gazebo model behaves as Gazebo's published equations, to 1e-12; invalid files are reported in one sentence."""

from dataclasses import replace
from pathlib import Path

import pytest
from vehicles.gazebo_equations import D, Motor, add, combine_bodies, cross, unit, vector

import samara
from samara.core.algebra import Quat, Vec3
from samara.physics.rotors.actuator import lag_step, saturate_speed
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.sdf import read_sdf

HERON = Path(__file__).parent / "models" / "heron" / "model.sdf"
BASE = HERON.parent.parent / "heron_base" / "model.sdf"
CLOSE = 1e-12

# Contents of the two files, copied by hand as decimals
CONSTANTS = tuple(map(D, ("8.6e-06", "0.0165", "0.013", "0.027", "1010.0", "8.1e-05", "1.3e-06")))
HUBS = (("0.17", "-0.18"), ("-0.17", "0.18"), ("0.17", "0.18"), ("-0.17", "-0.18"))
TURNING = (1, 1, -1, -1)
BODY = (
    D("1.9"),
    vector("0.004", "-0.002", "0.26"),
    [
        vector("0.0209", "0.0001", "-0.0002"),
        vector("0.0001", "0.0223", "0.00005"),
        vector("-0.0002", "0.00005", "0.0391"),
    ],
)
CAMERA = (  # pitched by 90°: its x axis points down, its z axis forward
    D("0.08"),
    vector("0.13", "0.02", "0.24"),
    [vector("5e-5", 0, 0), vector(0, "4e-5", 0), vector(0, 0, "3e-5")],
)
PROPELLERS = [
    (D("0.016"), vector(x, y, "0.31"), [vector("4e-7", 0, 0), vector(0, "2.5e-5", 0), vector(0, 0, "2.54e-5")])
    for x, y in HUBS
]
MASS, CENTRE, INERTIA = combine_bodies([BODY, CAMERA, *PROPELLERS])
MOTORS = [
    Motor(add(propeller[1], tuple(-c for c in CENTRE)), turning, CONSTANTS)
    for propeller, turning in zip(PROPELLERS, TURNING, strict=True)
]

POINTS = [  # speeds of the four rotors, v_W, q_WB (not normalised), ω_B, wind_W
    ((770, 770, 770, 770), (0, 0, 0), (1, 0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ((700, 720, 740, 760), (5, 0, 0), (1, 0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ((900, 850, 800, 750), (3, -2, 1), (10, 1, -2, 3), ("0.5", "-0.3", "0.7"), (0, 0, 0)),
    ((650, 640, 630, 620), (-8, 4, -3), (4, 1, 1, 0), (2, 1, -3), ("1.5", "-0.5", "0.25")),
    ((1010, 1010, 0, 0), (0, 12, 0), (9, 0, 0, 5), (0, 0, 4), (0, -6, 0)),
    ((1, 2, 3, 4), (20, 20, 20), (1, 2, 3, 4), (10, -10, 10), (-5, 5, -5)),
    ((812, "790.5", "801.25", 779), ("0.01", "-0.02", "0.03"), (50, 1, 2, 0), ("0.01", "0.02", "-0.03"), (0, 0, 0)),
    ((500, 900, 500, 900), (0, 0, -7), (1, 1, 0, 0), (6, 0, 0), (2, 2, 2)),
    ((760, 760, 770, 770), (15, 0, 2), (3, 0, 1, 0), (0, "1.2", 0), (-4, 3, 0)),
    ((333, 444, 555, 666), ("-6.6", "7.7", "8.8"), (1, -1, 1, -1), (-1, -2, -3), ("0.1", "0.2", "0.3")),
]


def is_close(vector_found, expected):
    """Whether every component is within 1e-12 of the length of the expected vector."""
    length = float(sum(x * x for x in expected)) ** 0.5
    return max(abs(a - float(b)) for a, b in zip(vector_found, expected, strict=True)) <= CLOSE * max(length, 1e-9)


def vector_sum(vectors):
    return tuple(sum(term[k] for term in vectors) for k in range(3))


def flight_point(point, vehicle):
    """The point as Samara's state and environment, and as decimals."""
    speeds, v, q, omega, wind = (vector(*components) for components in point)
    q = unit(q)
    state = samara.hover(vehicle)[0]._replace(
        v_W=Vec3(*map(float, v)),
        q_WB=Quat(*map(float, q)),
        omega_B=Vec3(*map(float, omega)),
        rotor_speed=tuple(map(float, speeds)),
    )
    return state, samara.Environment(wind_W=Vec3(*map(float, wind))), (speeds, v, q, omega, wind)


def check_point(point, vehicle, motors):
    state, air, (speeds, *motion) = flight_point(point, vehicle)
    parts = samara.wrench_breakdown(state, (0.5,) * 4, vehicle, air)
    wrenches = [motor.wrench(speed, *motion) for motor, speed in zip(motors, speeds, strict=True)]
    thrusts, torques, drags, rollings = zip(*wrenches, strict=True)
    total_thrust = float(sum(motor.k * speed * speed for motor, speed in zip(motors, speeds, strict=True)))
    assert abs(parts["rotors"].f_B.z - float(vector_sum(thrusts)[2])) <= CLOSE * total_thrust
    moments = [add(cross(m.hub, f), q) for m, f, q in zip(motors, thrusts, torques, strict=True)]
    deviation = max(abs(a - float(b)) for a, b in zip(parts["rotors"].tau_B, vector_sum(moments), strict=True))
    assert deviation <= CLOSE * 0.25 * total_thrust  # arms of 0.25 m
    assert is_close(parts["rotor_drag"].f_B, vector_sum(drags))
    levers = [cross(m.hub, f) for m, f in zip(motors, drags, strict=True)]
    assert is_close(parts["rotor_drag"].tau_B, vector_sum(levers))
    size = max(float(abs(x)) for moment in rollings for x in moment)
    deviation = max(abs(a - float(b)) for a, b in zip(parts["rolling_moment"].tau_B, vector_sum(rollings), strict=True))
    assert deviation <= CLOSE * max(size, 1e-9)


@pytest.mark.parametrize("point", POINTS)
def test_ten_operating_points_are_those_of_gazebo(point):
    """Thrust, drag torque, rotor drag and rolling moment of gz-sim's MulticopterMotorModel in decimal arithmetic"""
    check_point(point, build_imported(read_sdf(HERON)), MOTORS)


@pytest.mark.parametrize("point", POINTS)
def test_gazebo_classic_has_thrust_that_fades_and_a_moment_with_the_sign_of_turning(tmp_path, point):
    """The same aircraft with PX4's motor model for Classic: 1 − |V_c|/25 of the thrust, and the moment by direction"""
    check_point(
        point, build_imported(read_sdf(classic_model(tmp_path))), [rebuild_motor(motor, fade=D(25)) for motor in MOTORS]
    )


def rebuild_motor(motor, fade):
    return Motor(motor.hub, motor.turning, CONSTANTS, fade)


def classic_model(folder):
    """Write the same file in Classic's dialect, with its base beside it."""
    text = HERON.read_text().replace("gz-sim-multicopter-motor-model-system", "libgazebo_motor_model.so")
    text = text.replace("gz::sim::systems::MulticopterMotorModel", "motor").replace("actuator_number", "motorNumber")
    return write_model(folder, text)


def write_model(folder, text, base=None):
    """Write a model beside heron_base in its own folder."""
    for name, content in (("heron", text), ("heron_base", base or BASE.read_text())):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "model.sdf").write_text(content)
    return folder / "heron" / "model.sdf"


@pytest.mark.parametrize("point", POINTS)
def test_the_lag_is_gazebos_filter(point):
    """Ω after 1 ms and after 20 ms of a command, up, down and beyond the highest speed, by the exponential of the filter"""
    vehicle = build_imported(read_sdf(HERON))
    speeds = point[0]
    for rotor, motor, speed, commanded in zip(vehicle.rotors, MOTORS, speeds, (0, 400, 801, 1500), strict=True):
        for dt in ("0.001", "0.02"):
            expected = motor.filtered(D(speed), D(commanded), D(dt))
            target = saturate_speed(float(commanded), rotor.motor)
            speed_after = lag_step(float(speed), target, float(dt), rotor.motor)
            assert abs(speed_after - float(expected)) <= CLOSE * 1010.0
    state, air, (decimals, *_) = flight_point(point, vehicle)
    command = (0.0, 0.4, 0.8, 1.0)
    rates = samara.derivative(state, command, vehicle, air).rotor_speed
    for rate, motor, speed, u in zip(rates, MOTORS, decimals, command, strict=True):
        target = D(u) * motor.top
        expected = (target - speed) / (motor.up if target > speed else motor.down)
        assert abs(rate - float(expected)) <= CLOSE * 1010.0 / 0.013


def test_links_are_one_body_about_their_common_centre_of_mass():
    vehicle = build_imported(read_sdf(HERON))
    assert vehicle.mass == pytest.approx(float(MASS), rel=1e-14)
    assert list(vehicle.inertia_B) == pytest.approx([float(x) for row in INERTIA for x in row], rel=1e-13, abs=1e-17)
    for rotor, motor, turning in zip(vehicle.rotors, MOTORS, TURNING, strict=True):
        assert list(rotor.r_B) == pytest.approx([float(x) for x in motor.hub], rel=1e-13)
        assert (rotor.spin, rotor.radius, rotor.inertia, tuple(rotor.axis_B)) == (
            turning,
            0.127,
            2.54e-5,
            (0.0, 0.0, 1.0),
        )
    skid = float(D("0.25") - D("0.21") - CENTRE[2])
    assert {round(point.z, 12) for point in vehicle["contact"].points_B} == {round(skid, 12)}
    assert len(vehicle["contact"].points_B) == 4


def test_sources_name_file_and_field():
    sources = dict(build_imported(read_sdf(HERON)).structure.sources)
    assert sources["rotors[2].k_thrust"] == "heron/model.sdf: motorConstant of rotor_2"
    assert sources["rolling_moment.coefficient"] == "heron/model.sdf: rollingMomentCoefficient of rotor_0"


def test_what_the_plugin_leaves_out_is_gazebos_default(tmp_path):
    text = HERON.read_text().replace("<motorConstant>8.6e-06</motorConstant>", "")
    vehicle = build_imported(read_sdf(write_model(tmp_path, text)))
    assert vehicle.rotors[0].k_thrust == 8.54858e-06
    assert "Gazebo's default" in dict(vehicle.structure.sources)["rotors[0].k_thrust"]


def test_a_nested_model_brings_its_mass_under_its_own_name(tmp_path):
    text = HERON.read_text().replace("  </model>", NESTED + "  </model>")
    vehicle, original = build_imported(read_sdf(write_model(tmp_path, text))), build_imported(read_sdf(HERON))
    assert vehicle.mass == pytest.approx(original.mass + 0.3, rel=1e-14)
    max_shift = 0.3 * 0.5 / vehicle.mass  # half a metre from the centre, less the present offset
    shift = original.rotors[0].r_B.x - vehicle.rotors[0].r_B.x
    assert shift == pytest.approx(0.3 * (0.5 - float(CENTRE[0])) / vehicle.mass, rel=1e-12) and shift < max_shift


NESTED = """<model name="pod"><pose>0.5 0 0.25 0 0 1</pose><link name="base_link"><inertial><mass>0.3</mass><inertia>
<ixx>1e-4</ixx><iyy>1e-4</iyy><izz>1e-4</izz></inertia></inertial></link></model>"""

WRONG = {
    "a number that is none": (
        ("<mass>1.9<", "<mass>nan<"),
        r"base.*link 'base_link'/inertial/mass = 'nan': expected a finite",
    ),
    "a moment that is none": (("<ixx>0.0209<", "<ixx>inf<"), r"inertia/ixx = 'inf': expected a finite number"),
    "no mass": (("<mass>1.9<", "<mass>-1.9<"), "has the mass -1.9 kg: expected a number that is not negative"),
    "no body": (("<izz>0.0391<", "<izz>0.9<"), "expected principal moments that satisfy the triangle inequality"),
    "no frame": (('relative_to="nose"', 'relative_to="tail"'), "refers to 'tail': expected an existing frame"),
    "a circle": (('attached_to="base_link"', 'attached_to="camera"'), "has a pose relative to itself"),
    "two of one name": (('<link name="camera"', '<link name="rotor_0"'), "which another has already"),
    "seven numbers": (("0.01 0.02 -0.04 0 90 0", "0 0 0 0 0 0 1"), "pose = '0 0 0 0 0 0 1': expected 6 finite numbers"),
    "a rotor across": (("<xyz>0 0 1</xyz>", "<xyz>1 0 0</xyz>"), "across its z axis, along which thrust acts"),
    "auto": (("<inertial>\n", '<inertial auto="true">\n'), "is auto, which only Gazebo computes"),
}


@pytest.mark.parametrize("change, sentence", WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_an_airframe_is_one_sentence(tmp_path, change, sentence):
    base = BASE.read_text()
    assert change[0] in base
    with pytest.raises(VehicleError, match=sentence) as error:
        build_imported(read_sdf(write_model(tmp_path, HERON.read_text(), base.replace(*change))))
    assert "\n" not in str(error.value)


REFUSED = {
    "no rotors": (
        ('multicopter-motor-model-system" name="gz::sim::systems::MulticopterMotorModel', 'camera" name="camera'),
        "expected a plugin MulticopterMotorModel",
    ),
    "a link that is not there": (
        ("<linkName>rotor_3<", "<linkName>rotor_9<"),
        "link 'rotor_9': expected one of base_link, camera",
    ),
    "a joint that is not there": (
        ("<jointName>rotor_3_joint<", "<jointName>x<"),
        "jointName = 'x' of 'rotor_3': expected",
    ),
    "a number twice": (
        ("<actuator_number>3<", "<actuator_number>2<"),
        "motor numbers are 0, 1, 2, 2: expected each from 0 to 3",
    ),
    "no direction": (("<turningDirection>cw<", "<turningDirection>up<"), "turningDirection = 'up': expected ccw or cw"),
    "another motor": (("<motorType>velocity<", "<motorType>force<"), "motorType = 'force': expected velocity"),
    "from the network": (
        ("model://heron_base", "https://fuel.example/heron_base"),
        "expected model://NAME, a model beside this",
    ),
    "from the root": (("model://heron_base", "/etc"), "a model beside this file and nowhere else"),
    "from above": (("model://heron_base", "model://../../heron_base"), "a model beside this file and nowhere else"),
    "not there": (
        ("model://heron_base", "model://stork_base"),
        "there is no such model: expected its folder beside this",
    ),
    "itself": (('merge="true"><uri>model://heron_base', "><uri>model://heron"), "is nested too deeply"),
    "itself, merged": (("model://heron_base", "model://heron"), "which another has already"),
    "drag of its own": (
        ("<rotorDragCoefficient>8.1e-05", "<rotorDragCoefficient>8.2e-05", 1),
        "rotorDragCoefficient is 8.2e-05, 8.1e-05, 8.1e-05, 8.1e-05: expected one number for all",
    ),
    "another root": (('<sdf version="1.9">', "<robot>"), "root: expected <sdf>"),
    "no lag": (
        ("<timeConstantUp>0.013", "<timeConstantUp>0"),
        "motor.time_constant_up = 0.0 s: expected a positive number",
    ),
}


@pytest.mark.parametrize("change, sentence", REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_its_motors_is_one_sentence(tmp_path, change, sentence):
    text = HERON.read_text()
    assert change[0] in text
    text = text.replace(*change)
    text = text.replace("</sdf>", "</robot>") if "<robot>" in text else text
    with pytest.raises(VehicleError, match=sentence):
        build_imported(read_sdf(write_model(tmp_path, text)))


def test_models_that_are_not_there_may_be_left_out(tmp_path):
    text = HERON.read_text().replace("  </model>", "<include><uri>model://gps</uri></include>  </model>")
    path = write_model(tmp_path, text)
    with pytest.raises(VehicleError, match="'model://gps': there is no such model"):
        read_sdf(path)
    read = read_sdf(path, leave_out=True)
    assert read.notes == ("include 'model://gps' does not exist and was left out, with its mass",)
    assert replace(read, notes=()) == read_sdf(HERON)
