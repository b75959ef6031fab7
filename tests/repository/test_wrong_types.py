"""Arguments of a wrong type or size: one sentence with the name, and nothing infinite inside."""

import math

import pytest

import samara
from samara.control import MPC
from samara.documents import drone_physics

CRAFT = samara.vehicle("crazyflie_documented")


@pytest.mark.parametrize(
    "p_W", [(0, 0, math.inf), (0, 0, math.nan), (0, 0), None, 5, "abc", (0, 0, 10**400), ("a", 0, 0)]
)
def test_a_place_is_three_finite_numbers(p_W):
    with pytest.raises(ValueError, match=r"^p_W is .*; expected three finite numbers"):
        samara.hover(CRAFT, p_W=p_W)


def test_a_vehicle_is_no_name():
    for call in (samara.hover, MPC):
        with pytest.raises(ValueError, match=r"^vehicle = 'iris': expected a Vehicle"):
            call("iris")


@pytest.mark.parametrize(
    "wrong", [{"horizon": 10**9}, {"dt": "x"}, {"max_tilt": "x"}, {"max_tilt": math.nan}, {"tolerance": "x"}]
)
def test_options_of_the_solver_are_numbers(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} = .*: expected"):
        MPC(CRAFT, **wrong)


def test_what_the_solver_is_asked_is_looked_at():
    solver, state = MPC(CRAFT, horizon=5), samara.hover(CRAFT)[0]
    for target in ("x", None, (1, 2), (1, 2, "a"), 5, [1, 2, 3, 4], {}):
        with pytest.raises(ValueError, match=r"^the target is .*; expected a point"):
            solver.solve(state, target)
    for wrong in ({"yaw": "x"}, {"time": "x"}, {"shift": None}, {"iterations": -1}, {"iterations": "x"}, {"push_W": 5}):
        with pytest.raises(ValueError, match=rf"^{next(iter(wrong))} .*expected"):
            solver.solve(state, (0, 0, 1), **wrong)


@pytest.mark.parametrize("wrong", ["x", None, True, {}, b"1", (1, "a", 2), (1, None, 2)])
def test_hakoniwa_functions_take_numbers(wrong):
    with pytest.raises(ValueError, match=r"expected"):
        drone_physics.euler_rate_from_body_angular_velocity(wrong, (0.1, 0.2, 0.3))
