"""RotorPy's parameter files: the same wrench as its equations, and no line of them is executed."""

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.physics.effect import add_wrenches
from samara.physics.multirotor import derivative, state_at_rest, wrench_breakdown
from samara.physics.types import CALM
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.rotorpy_file import rotorpy_file

OWN = '''"""Numbers of nobody's quadrotor"""
import numpy as np

arm = 0.17  # metres
half = np.sqrt(2)/2

quad_params = {
    'mass': 0.72, 'Ixx': 3.1e-3, 'Iyy': 3.4e-3, 'Izz': 5.9e-3, 'Ixy': 1.0e-5, 'Iyz': -2e-5, 'Ixz': 0.0,
    'num_rotors': 4,
    'rotor_pos': {
        'r1': arm*np.array([ half,  half, 0.1]),
        'r2': arm*np.array([ half, -half, 0.1]),
        'r3': arm*np.array([-half, -half, 0.1]),
        'r4': arm*np.array([-half,  half, 0.1]),
    },
    'rotor_directions': np.array([1, -1, 1, -1]),
    'rI': np.array([0, 0, 0]),
    'c_Dx': 0.011, 'c_Dy': 0.011, 'c_Dz': 0.011,
    'k_eta': 6.1e-6, 'k_m': 1.1e-7, 'k_d': 1.3e-4, 'k_z': 2.4e-4, 'k_h': 0.0, 'k_flap': 0.0,
    'tau_m': 0.031, 'rotor_speed_min': 0, 'rotor_speed_max': 1.5*1000,
    'motor_noise_std': 10,
}
'''


def rotorpy_wrench(omega, speeds, v):
    """compute_body_wrench of RotorPy's multirotor.py, reimplemented from its equations."""
    half = np.sqrt(2.0) / 2.0
    r = 0.17 * np.array([[half, half, 0.1], [half, -half, 0.1], [-half, -half, 0.1], [-half, half, 0.1]])
    force, moment = -0.011 * np.linalg.norm(v) * v, np.zeros(3)
    for hub, speed, direction in zip(r, speeds, (1, -1, 1, -1), strict=True):
        local = v + np.cross(omega, hub)
        rotor_force = np.array([0.0, 0.0, 6.1e-6 * speed**2]) - speed * np.array([1.3e-4, 1.3e-4, 2.4e-4]) * local
        force = force + rotor_force
        moment = moment + np.cross(hub, rotor_force) + np.array([0.0, 0.0, direction * 1.1e-7 * speed**2])
    return force, moment


@pytest.mark.parametrize("seed", range(5))
def test_force_moment_and_lag_are_rotorpys(seed):
    imported = build_imported(rotorpy_file(OWN, "own_params.py"))
    imported = imported.without_effect("contact")
    rng = np.random.default_rng(seed)
    v, omega, speeds = rng.normal(0, 5, 3), rng.normal(0, 2, 3), rng.uniform(200, 1400, 4)
    state = state_at_rest(imported)._replace(
        p_W=Vec3(0.0, 0.0, 50.0),
        v_W=Vec3(*v.tolist()),
        omega_B=Vec3(*omega.tolist()),
        rotor_speed=tuple(speeds.tolist()),
    )
    command = (700.0, 2000.0, 900.0, 0.0)
    parts = wrench_breakdown(state, command, imported, CALM)
    assert [*parts] == ["gravity", "rotors", "drag", "rotor_drag"]
    total = add_wrenches(add_wrenches(parts["rotors"], parts["drag"]), parts["rotor_drag"])
    force, moment = rotorpy_wrench(omega, speeds, v)
    assert np.allclose(total.f_B, force, rtol=1e-12, atol=1e-12)
    assert np.allclose(total.tau_B, moment, rtol=1e-12, atol=1e-13)
    rates = derivative(state, command, imported, CALM).rotor_speed
    assert np.allclose(rates, (np.clip(command, 0.0, 1500.0) - speeds) / 0.031, rtol=1e-12)
    assert imported["gravity"].acceleration == 9.81 and imported.inertia_B.yz == -2e-5


def test_drag_that_differs_between_the_axes_is_rotorpys_along_them():
    imported = build_imported(rotorpy_file(OWN.replace("'c_Dz': 0.011", "'c_Dz': 0.02"), "own_params.py"))
    assert imported["drag"].isotropic == 0.011 and imported["drag"].quadratic == Vec3(0.0, 0.0, 0.02 - 0.011)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "'mass': 0.72",
            "'mass': __import__('os').system('touch pwned')",
            "expected numbers; no code of a file is executed",
        ),
        ("arm = 0.17", "arm = open('/etc/passwd').read()", "no code of a file is executed"),
        ("arm = 0.17", "for i in range(10**9): pass\narm = 0.17", "no code of a file is executed"),
        ("arm = 0.17", "def arm(): pass", "no code of a file is executed"),
        ("arm = 0.17", "arm = (lambda: 1)()", "no code of a file is executed"),
        ("arm = 0.17", "arm = 9.0**9**9**9", "line 4"),
        ("arm = 0.17", "arm = 1/0", "line 4"),
        ("arm = 0.17", "arm = [0.1]*10**9", "no code of a file is executed"),
        ("arm = 0.17", "arm = np.fromfile('/dev/zero')", "no code of a file is executed"),
        ("arm = 0.17", "arm = np.array.__class__", "no code of a file is executed"),
        ("arm = 0.17", "arm = " + "(" * 5000 + "1" + ")" * 5000, "is not Python that assigns numbers"),
        ("arm = 0.17", "arm = " + "-" * 50000 + "1", "is not Python|line 4"),
        ("arm = 0.17", "arm = length", "no code of a file is executed"),
        ("'mass': 0.72,", "", "mass is missing"),
        ("'mass': 0.72", "'mass': np.array([1, 2])", "mass = .*: expected a finite number"),
        ("'mass': 0.72", "'mass': 1e999", "mass = inf: expected a finite number"),
        ("'mass': 0.72", "'mass': 'heavy'", "mass = 'heavy': expected a finite number"),
        ("np.array([1, -1, 1, -1])", "np.array([1, -1])", "rotor_directions = .*: expected 1 or -1 for each of 4"),
        ("'num_rotors': 4", "'num_rotors': 5", "num_rotors = 5.0: expected 4"),
        ("arm*np.array([ half,  half, 0.1])", "np.array([half])", "rotor_pos, r1 = .*: expected three numbers"),
        ("quad_params = {", "quad_params = 3\nrest = {", ""),
        ("'rotor_pos'", "'rotors'", "has 0 dicts with 'rotor_pos'"),
    ],
)
def test_code_and_nonsense_are_one_sentence(old, new, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = OWN.replace(old, new)
    assert text != OWN
    if not sentence:
        build_imported(rotorpy_file(text, "own.py"))  # whatever the dict is called
        return
    with pytest.raises(VehicleError, match=sentence) as error:
        rotorpy_file(text, "own.py")
    assert "\n" not in str(error.value) and str(error.value).startswith("own.py") and len(str(error.value)) < 250
    assert not list(tmp_path.iterdir())


def test_what_has_no_counterpart_is_named():
    read = rotorpy_file(OWN.replace("'k_flap': 0.0", "'k_flap': 1e-6"), "own.py")
    assert read.notes == ("left out, without a counterpart: k_flap = 1e-06",)
