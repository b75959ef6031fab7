"""ArduPilot's frame files against the equations of SIM_Frame and SIM_Motor, evaluated once more in decimal arithmetic."""

import math
from decimal import Decimal, getcontext

import pytest

from samara.core.algebra import IDENTITY, Vec3
from samara.physics.multirotor import state_at_rest, wrench_breakdown
from samara.physics.rotors.propulsion import bus_current, supply_voltage
from samara.physics.types import CALM
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.ardupilot import ardupilot_frame
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.throttle import hover_throttle, thrust_fraction
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.trim import hover
from samara.vehicles.writer import vehicle_toml

getcontext().prec = 40

HEAVY = """# a made-up hexacopter
{
    "mass" : 7.4,              # kg, all of it
    "diagonal_size" : 0.96,
    "refSpd" : 17.5, "refAngle" : 24.0,
    "refVoltage" : 22.9, "refCurrent" : 38.5, "refAlt" : 410, "refTempC" : 18,
    "refBatRes" : 0.017, "maxVoltage" : 25.2, "battCapacityAh" : 16,
    "propExpo" : 0.62, "refRotRate" : 150, "hoverThrOut" : 0.43,
    "pwmMin" : 1000, "pwmMax" : 1950, "spin_min" : 0.1, "spin_max" : 0.95, "slew_max" : 0,
    "disc_area" : 0.98, "mdrag_coef" : 0.12, "num_motors" : 6,
    "moment_inertia" : [0.21, 0.22, 0.38]
}
"""
GRAVITY, RHO_0, PI = Decimal("9.80665"), Decimal("1.225"), Decimal(math.pi)


def sine_and_cosine(degrees):
    """Sine and cosine by their series, independent of Samara and of libm."""
    x = Decimal(degrees) * PI / 180
    term, sine, cosine = Decimal(1), Decimal(0), Decimal(0)
    for n in range(1, 60):
        if n % 2:
            cosine += term * (-1) ** ((n - 1) // 2)
        else:
            sine += term * (-1) ** ((n - 2) // 2)
        term = term * x / n
    return sine, cosine


def density(altitude):
    """ISA 1976: ρ = ρ₀ (T/T₀)^(g/LR − 1), of the geopotential altitude"""
    h = Decimal("6356766") * Decimal(altitude) / (Decimal("6356766") + Decimal(altitude))
    ratio = 1 - Decimal("0.0065") * h / Decimal("288.15")
    exponent = GRAVITY / (Decimal("0.0065") * Decimal("287.05287")) - 1
    at_sea = Decimal("101325") / (Decimal("287.05287") * Decimal("288.15"))
    return at_sea * ratio**exponent


class Frame:
    """SIM_Frame::update_parameters and Motor::calculate_forces, reimplemented in 40 digits."""

    def __init__(self, mass, h, expo, alt, speed, angle, area, mdrag, motors, diagonal, volts, amps, v_max):
        sine, cosine = sine_and_cosine(angle)
        rho, weight = density(alt), Decimal(mass) * GRAVITY
        drag = weight * sine / cosine
        momentum = cosine * Decimal(mdrag) * Decimal(speed) * cosine * (weight / cosine * rho * Decimal(area)).sqrt()
        self.area_cd = (drag - momentum) / (Decimal("0.5") * rho * Decimal(speed) ** 2)
        power = Decimal(volts) * Decimal(amps)
        outflow = 2 * power / weight
        self.prop_area = weight / (Decimal("0.5") * rho * outflow**2) / motors
        self.fastest = outflow / Decimal(h).sqrt()
        self.expo, self.mdrag, self.true_area, self.v_max = (
            Decimal(expo),
            Decimal(mdrag),
            Decimal(area) / motors,
            Decimal(v_max),
        )
        self.diagonal, self.motors, self.power_factor, self.weight = Decimal(diagonal), motors, power / weight, weight

    def thrust(self, command, rho=RHO_0, volts=None):
        """Motor::calc_thrust, of one motor in still air"""
        command = Decimal(command)
        out = (Decimal(volts) / self.v_max if volts else 1) * self.fastest
        curve = (1 - self.expo) * command + self.expo * command**2
        return Decimal("0.5") * rho * self.prop_area * out**2 * curve

    def hover_command(self, rho=RHO_0):
        low, high = Decimal(0), Decimal(1)
        for _ in range(130):
            middle = (low + high) / 2
            low, high = (middle, high) if self.thrust(middle, rho) * self.motors < self.weight else (low, middle)
        return low


OWN = Frame("7.4", "0.43", "0.62", "410", "17.5", "24", "0.98", "0.12", 6, "0.96", "22.9", "38.5", "25.2")


def vehicle():
    return build_imported(ardupilot_frame(HEAVY, "heavy.json"))


def turning(imported, speed_fraction):
    """State with every rotor at a fraction of its highest speed, level and at rest."""
    speeds = tuple(speed_fraction * rotor.motor.speed_max for rotor in imported.rotors)
    return state_at_rest(imported)._replace(rotor_speed=speeds, q_WB=IDENTITY)


def test_full_thrust_hover_throttle_and_what_voltage_leaves_are_the_simulators():
    imported = vehicle()
    full = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in imported.rotors)
    assert full == pytest.approx(float(6 * OWN.thrust(1)), rel=1e-12)
    hover_point = hover_throttle(imported)
    assert hover_point.throttle == pytest.approx(
        float(OWN.hover_command()), rel=1e-9
    )  # the trim is within 1e-12 of the weight
    assert hover_point.thrust == pytest.approx(float(OWN.weight / (6 * OWN.thrust(1))), rel=1e-9)
    assert hover_point.expo == pytest.approx(0.62, rel=1e-8)
    voltage_fraction = 20.0 / 25.2
    assert full * voltage_fraction**2 == pytest.approx(float(6 * OWN.thrust(1, volts="20")), rel=1e-12)


def test_the_throttle_curve_is_the_simulators_within_three_hundredths_of_full_thrust():
    motor = vehicle().rotors[0].motor
    idle = motor.speed_min / motor.speed_max
    for command in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        motor_thrust, simulator_thrust = (
            (idle + (1.0 - idle) * command) ** 2,
            float(OWN.thrust(command) / OWN.thrust(1)),
        )
        assert thrust_fraction(command, 0.62) == pytest.approx(simulator_thrust, abs=1e-14)
        assert motor_thrust == pytest.approx(simulator_thrust, abs=0.035 if command < 0.1 else 0.025)


@pytest.mark.parametrize("v", [(3.0, 0.0, 0.0), (-8.0, 5.0, 0.0), (12.0, -2.0, 4.0)])
def test_drag_of_body_and_rotors_is_the_simulators(v):
    imported = vehicle()
    state = turning(imported, 0.7)._replace(v_W=Vec3(*v))
    parts = wrench_breakdown(state, tuple(0.5 for _ in imported.rotors), imported, CALM)
    for axis in range(3):
        speed = Decimal(v[axis])
        assert parts["drag"].f_B[axis] == pytest.approx(
            float(-OWN.area_cd * Decimal("0.5") * RHO_0 * speed * abs(speed)), rel=1e-12
        )
    thrust = [
        Decimal(rotor.k_thrust) * (Decimal("0.7") * Decimal(rotor.motor.speed_max)) ** 2 for rotor in imported.rotors
    ]
    factor = sum(OWN.mdrag * (RHO_0 * OWN.true_area * rotor_thrust).sqrt() for rotor_thrust in thrust)
    rotor_drag = parts["rotor_drag"].f_B
    lift = parts["rotors"].f_B.z - float(sum(thrust))  # loss of thrust in climb
    assert rotor_drag.x == pytest.approx(float(-factor * Decimal(v[0])), rel=1e-12, abs=1e-12)
    assert rotor_drag.y == pytest.approx(float(-factor * Decimal(v[1])), rel=1e-12, abs=1e-12)
    assert rotor_drag.z + lift == pytest.approx(float(-factor * Decimal(v[2])), rel=1e-12, abs=1e-11)


def test_yaw_torque_and_power_are_the_simulators_at_hover_and_its_damping_everywhere():
    yaws = "".join(f'"motor{i + 1}_yaw" : {(1, -1)[i % 2]}, ' for i in range(6))
    imported = build_imported(
        ardupilot_frame(HEAVY.replace('"moment_inertia"', yaws + '"moment_inertia"'), "heavy.json")
    )
    command = OWN.hover_command(density("0"))
    ratio = Decimal("0.05") * OWN.diagonal * command
    assert imported.rotors[0].k_torque / imported.rotors[0].k_thrust == pytest.approx(float(ratio), rel=1e-7)
    state, steady = hover(imported)
    volts, amps = supply_voltage(state, steady, imported, CALM), bus_current(state, steady, imported, CALM)
    assert volts * amps == pytest.approx(22.9 * 38.5, rel=1e-9)
    assert volts == pytest.approx(25.2 - 0.017 * amps, rel=2e-3)  # R₁ is a thousandth of the resistance
    rate = math.radians(400.0) / 150.0
    assert tuple(imported["damping"].linear) == pytest.approx((0.21 * rate, 0.22 * rate, 0.38 * rate), rel=1e-14)


def test_what_momentum_drag_leaves_nothing_of_is_held_as_the_simulator_holds_it():
    slow = HEAVY.replace('"mdrag_coef" : 0.12', '"mdrag_coef" : 2.5')
    imported = build_imported(ardupilot_frame(slow, "slow.json"))
    sine, cosine = sine_and_cosine("24")
    rho = density("410")
    momentum = cosine**2 * Decimal("2.5") * Decimal("17.5") * (OWN.weight / cosine * rho * Decimal("0.98")).sqrt()
    limited = Decimal("2.5") * (OWN.weight * sine / cosine) / momentum
    assert not imported.has("drag")
    k_thrust = Decimal(imported.rotors[0].k_thrust)
    assert imported["rotor_drag"].coefficient == pytest.approx(
        float(limited * (RHO_0 * OWN.true_area * k_thrust).sqrt()), rel=1e-12
    )


def test_places_axes_and_turns_by_frame_and_by_the_files_own():
    imported = vehicle()
    assert [rotor.spin for rotor in imported.rotors] == [-1, 1, -1, 1, 1, -1]  # hexa x: motor 1 is right, clockwise
    assert tuple(imported.rotors[0].r_B) == pytest.approx((0.0, -0.48, 0.0), abs=1e-12)
    with_motor = HEAVY.replace(
        '"moment_inertia"',
        '"motor2_position" : [0.1, -0.5, -0.04], "motor2_vector" : [0.0, 0.3, -0.4], "motor2_yaw" : -0.8, "moment_inertia"',
    )
    second = build_imported(ardupilot_frame(with_motor, "own.json")).rotors[1]
    assert tuple(second.r_B) == (0.1, 0.5, 0.04) and second.spin == -1
    assert tuple(second.axis_B) == pytest.approx((0.0, -0.6, 0.8), abs=1e-15)
    ratio = 0.8 * 0.05 * 0.96 * float(OWN.hover_command())
    assert second.k_torque / second.k_thrust == pytest.approx(ratio, rel=1e-7)
    typical = 0.475 * imported.rotors[1].radius / math.pi  # (C_P/C_T) D/2π
    assert imported.rotors[1].k_torque / imported.rotors[1].k_thrust == pytest.approx(typical, rel=1e-12)
    eight = HEAVY.replace('"num_motors" : 6', '"num_motors" : 8')
    pairs = build_imported(ardupilot_frame(eight, "x8.json", "x8")).rotors
    assert pairs[5].r_B.x == pairs[0].r_B.x and pairs[5].r_B.z < pairs[0].r_B.z and pairs[5].spin == -pairs[0].spin
    assert "x8" in ardupilot_frame(eight, "x8.json").notes[0]


def test_a_file_of_three_lines_is_a_vehicle_with_the_simulators_defaults_and_reads_back():
    read = ardupilot_frame('{ "mass" : 1.9,\n "hoverThrOut" : 0.3 }', "small.json")
    imported = build_imported(read)
    assert "refSpd" in read.notes[1] and imported["battery"][0].capacity == 3.6e6  # 0 Ah is unlimited
    assert parse_vehicle(vehicle_toml(imported), "again") == imported
    assert "by default" in dict(imported.structure.sources)["battery[0].resistance"]
    assert dict(imported.structure.relative_uncertainties)["rotors[0].k_thrust"] == pytest.approx(0.2)


def test_the_uncertainty_of_the_efficiency_is_that_of_the_assumed_propeller():
    """η = (Q/T) W Ω_h / P with Ω_h ∝ C_T^(−1/2), C_T ± 20 %; and C_P/C_T ± 26 % if the file does not state the torque"""
    yaws = "".join(f'"motor{i + 1}_yaw" : {(1, -1)[i % 2]}, ' for i in range(6))
    stated = ardupilot_frame(HEAVY.replace('"moment_inertia"', yaws + '"moment_inertia"'), "heavy.json")
    spreads = [
        dict(build_imported(frame).structure.relative_uncertainties)
        for frame in (ardupilot_frame(HEAVY, "heavy.json"), stated)
    ]
    assert spreads[0]["rotors[0].motor.efficiency"] == pytest.approx(math.hypot(0.1, 0.26))
    assert spreads[1]["rotors[0].motor.efficiency"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mass 3", "has no brace"),
        ('{ "mass" : 1, ', "is not JSON"),
        ('{ "mass" : ' + "[" * 100_000, "is not JSON"),
        ('{ "hoverThrOut" : 0.3 }', "mass is missing"),
        ('{ "mass" : NaN, "hoverThrOut" : 0.3 }', "mass = nan: expected a finite number"),
        ('{ "mass" : 1e999, "hoverThrOut" : 0.3 }', "mass = inf: expected a finite number"),
        ('{ "mass" : "heavy", "hoverThrOut" : 0.3 }', "mass = 'heavy': expected a finite number"),
        ('{ "mass" : true, "hoverThrOut" : 0.3 }', "mass = True: expected a finite number"),
        ('{ "mass" : -1, "hoverThrOut" : 0.3 }', "mass = -1: expected a positive number"),
        ('{ "mass" : 1, "hoverThrOut" : 1.3 }', "hoverThrOut = 1.3: expected a number from 0 to 1"),
        ('{ "mass" : 1, "hoverThrOut" : 0.3, "refAngle" : 90 }', "refAngle = 90: expected"),
        ('{ "mass" : 1, "hoverThrOut" : 0.3, "refSpd" : 1e-300 }', "overflow or divide by zero"),
        ('{ "mass" : 1, "hoverThrOut" : 0.3, "num_motors" : 5 }', "motor1_position or motor1_yaw is missing"),
        ('{ "mass" : 1, "hoverThrOut" : 0.3, "num_motors" : 1e9 }', "num_motors = 1e.09: expected a whole number"),
        ('{ "mass" : 1, "hoverThrOut" : 0.3, "moment_inertia" : [1, 2] }', "expected three numbers"),
        ('{ "mass" : 1, "hoverThrOut" : 0.3, "moment_inertia" : [1, 2, NaN] }', "moment_inertia = nan"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, sentence):
    with pytest.raises(VehicleError, match=sentence) as error:
        build_imported(ardupilot_frame(text, "bad.json"))
    assert "\n" not in str(error.value) and str(error.value).startswith("bad.json") and len(str(error.value)) < 250


def test_a_frame_that_nobody_knows_or_that_does_not_fit_is_refused():
    with pytest.raises(VehicleError, match="layout 'boat': expected one of quad_x"):
        ardupilot_frame(HEAVY, "own.json", "boat")
    with pytest.raises(VehicleError, match="num_motors = 6, and quad_x has 4"):
        ardupilot_frame(HEAVY, "own.json", "quad-x")
