"""docs/explanation/models.md prints the code's equations: every line, evaluated at random points, equals its function."""

import importlib
import inspect
import pkgutil
import re
import sys
from functools import cache
from typing import Any, get_type_hints

import numpy as np
import pytest
import sympy
from figures import models
from support.repository import REPOSITORY, TESTS
from support.sampling import Draw, sample
from tools.latex import Equation, equation, leaves, symbolic_result
from tools.latex_algebra import ordered_factors, ordered_terms

import samara.physics
from samara.core.algebra import Mat3, Quat, Vec3
from samara.core.extras import install_hint
from samara.core.tree import flatten
from samara.physics.air import drag, ground_effect
from samara.physics.effect import Effect
from samara.physics.motion import body
from samara.physics.rotors import motor, rotor

PAGE = REPOSITORY / "docs" / "explanation" / "models.md"
POINTS = 25
MAX_MODEL_LINES = 25  # lines of a model, on average
MAX_ROW_CHARACTERS = 280  # characters of LaTeX in a row; wider ones do not fit on a page

LINES = {line.function.__name__: line for model in models.MODELS for line in models.model_lines(model)}


@cache
def written_equation(name: str) -> Equation:
    return models.line_equation(LINES[name])


def draw_value(hint: Any, draw: Draw, name: str) -> Any:
    """A value of an annotated type; for undeclared arguments, as of private functions, one between ½ and 1½."""
    return two_of_each(draw.number(0.5, 1.5) if hint is Any else sample(hint, draw, name))


def two_of_each(value: Any) -> Any:
    """Two elements for a function of any count: `sampling` draws four, the page prints two."""
    if not isinstance(value, tuple) or isinstance(value, (Vec3, Quat, Mat3)):
        return value
    parts = [two_of_each(element) for element in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts[:2])


def arguments(function: Any, draw: Draw) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return")
    return {name: draw_value(hint, draw, name) for name, hint in hints.items()}


@pytest.mark.parametrize("name", LINES)
def test_what_is_printed_is_what_is_computed(name):
    """The printed expressions, evaluated, against the function at 25 random points of its declared range, to 1e-12 of the
    largest component of its result."""
    function, written = LINES[name].function, written_equation(name)
    draw = Draw("random", np.random.default_rng(sum(name.encode())))
    letters = [
        leaf.written.name if hasattr(leaf, "written") else leaf.name for leaf in leaves(symbolic_result(function))
    ]
    for _ in range(POINTS):
        inputs = arguments(function, draw)
        results = dict(zip(letters, leaves(function(**inputs)), strict=True))
        for left, printed in zip(written.left, written.evaluate(**inputs), strict=True):
            a, b = (
                np.array(flatten(value) if isinstance(value, tuple) else [value], float)
                for value in (printed, results[left])
            )
            assert np.isfinite(b).all()
            np.testing.assert_allclose(a + 0.0 * b, b, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(b).max()))


def test_a_function_that_is_wrong_is_written_wrong():
    """The equation is the code's, not the docstring's: a flipped sign is printed flipped."""

    def wrong(omega_B: body.AngularVelocity, v_B: body.Velocity, a_B: body.Acceleration) -> Vec3:
        """u̇ = a − ω × u"""
        return a_B + body.cross(omega_B, v_B)

    assert equation(body.body_velocity_rate).rows[0][1] == r"a_{B} - \omega_{B} \times v_{B}"
    assert equation(wrong).rows[0][1] != r"a_{B} - \omega_{B} \times v_{B}"


@pytest.mark.parametrize(
    ("function", "known_functions", "expected"),
    [
        (
            rotor.rotor_wrench,
            (),
            [("f_{B}", "T a_{B}"), (r"\tau_{B}", r"r_{B} \times \left(T a_{B}\right) - s Q a_{B}")],
        ),
        (body.angular_momentum, (), [("L_{W}", r"R_{WB} J_{B} \omega_{B}")]),
        (drag.damping_torque, (), [(r"\tau_{B}", r"- c \circ \omega_{B}")]),
        (
            body.angular_acceleration,
            (),
            [(r"\dot{\omega}_{B}", r"J_{B}^{-1} \left(\tau_{B} - \omega_{B} \times J_{B} \omega_{B}\right)")],
        ),
        (rotor.air_velocity, (), [("v_{air,B}", r"R_{WB}^{\top} \left(w_{W} - v_{W}\right)")]),
        (
            ground_effect.image_inflow,
            (),
            [
                (
                    "u/v",
                    r"\frac{R^{2} \max\left(0, \left(r + 2 h n\right) \cdot a\right)}{4 \lvert r + 2 h n \rvert^{3}}",
                )
            ],
        ),
        (
            drag.drag_force,
            (),
            [("f_{i}", r"- d_{1,i} v_i - d_{3} v_i \lvert v \rvert - \left|{v_i}\right| d_{2,i} v_i")],
        ),
        (
            motor.limited_current,
            (motor.motor_current,),
            [("I'", r"\min\left(I_{\mathrm{max}}, \max\left(I, I_{\mathrm{min}}\right)\right)")],
        ),
        (body.attitude_rate, (), [(r"\dot{q}_{WB}", r"q_{WB} \otimes \left(0, \frac{\omega_{B}}{2}\right)")]),
    ],
    ids=lambda function: getattr(function, "__name__", ""),
)
def test_equations_are_written_as_people_write_them(function, known_functions, expected):
    assert equation(function, known_functions=known_functions).rows == expected


def test_a_guard_is_left_out_and_a_case_is_kept():
    """V/ΩR without the guard at Ω = 0; the case of a climb or descent as a case."""
    assert equation(rotor.inflow_factor).rows[0][1] == r"\frac{1}{1 + \frac{8 V_{\mathrm{ax}}^{2}}{\Omega^{2} R^{2}}}"
    signed = equation(rotor.inflow_factor_signed, known_functions=[rotor.inflow_factor]).rows[0][1]
    assert signed == r"\begin{cases} 2 - f_{\mu} & \text{if } V_{\mathrm{ax}} > 0 \\ f_{\mu} & \text{else} \end{cases}"


@pytest.mark.parametrize("name", LINES)
def test_the_order_people_write_in_changes_no_value(name):
    """Factors and terms, reordered for printing, multiply and add to the same value."""
    written = written_equation(name)
    for expression in (*written.right, *(part for _, part in written.parts)):
        for node in sympy.preorder_traversal(expression):
            if node.is_Mul:
                assert sympy.expand(sympy.Mul(*ordered_factors(node)) - node) == 0
            if node.is_Add:
                assert sympy.Add(*ordered_terms(node)) == node


def test_two_arguments_do_not_share_a_letter():
    def shared(mass: rotor.Factor, m: rotor.Factor) -> rotor.Scalar:
        return mass * m

    with pytest.raises(ValueError, match="m and mass have the same letter m; expected different letters in LETTERS"):
        equation(shared)


def test_without_sympy_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    monkeypatch.delitem(sys.modules, "tools.latex_algebra")
    with pytest.raises(ImportError, match=f"printing equations needs SymPy: {re.escape(install_hint('symbolic'))}"):
        importlib.import_module("tools.latex_algebra")


# The page ----------------------------------------------------------------------------------------------------------


UPDATE = "run `PYTHONPATH=docs python -m figures.models docs/explanation/models.md` and read the difference"
COUNTED = re.compile(r"(?<=` )[+-]\d+|(?<=which has )\d+")


def test_the_page_is_what_the_code_computes(monkeypatch):
    """All but the costs, which take longer to count."""
    monkeypatch.setattr(models, "instructions", lambda vehicle: 0)
    assert COUNTED.sub("0", PAGE.read_text(encoding="utf-8")) == COUNTED.sub("0", models.page()), UPDATE


@pytest.mark.long
def test_the_costs_on_the_page_are_counted():
    assert PAGE.read_text(encoding="utf-8") == models.page(), UPDATE


def physics_files() -> dict[str, Any]:
    """The modules of the phenomena, each in the folder of its subject, and those that combine them"""
    packages = pkgutil.walk_packages(samara.physics.__path__, "samara.physics.")
    modules = {
        package.name.removeprefix("samara.physics."): importlib.import_module(package.name) for package in packages
    }
    return {
        name.replace(".", "/"): module
        for name, module in modules.items()
        if "." in name or name in ("effect", "multirotor")
    }


def test_every_effect_has_a_model_and_a_cost():
    """Effects are collected from the physics modules: a new one must be entered."""
    entered = {id(effect) for model in models.MODELS for effect, _ in model.effects}
    effects = {
        f"{name}.{constant}": value
        for name, file in physics_files().items()
        for constant, value in vars(file).items()
        if isinstance(value, Effect)
    }
    assert len(effects) > 15
    assert [name for name, value in effects.items() if id(value) not in entered] == []


def test_every_file_of_the_physics_is_named():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in physics_files() if f"physics/{name}.py" not in text] == []


def test_most_functions_of_the_physics_are_written_or_said():
    """The other functions invert, repeat or only combine documented ones; they are counted, not hidden."""
    shown = models.known_functions() | {function for model in models.MODELS for function in model.described}
    public = [
        member
        for file in physics_files().values()
        for name, member in inspect.getmembers(file, inspect.isfunction)
        if member.__module__ == file.__name__ and not name.startswith("_")
    ]
    assert len(shown & set(public)) > 0.6 * len(public)


def test_every_test_the_page_names_exists():
    text = PAGE.read_text(encoding="utf-8")
    defined = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 20
    assert named - defined == set()


def test_no_row_is_wider_than_a_page_and_the_page_is_not_longer_than_a_reader():
    widest = {name: max(len(right) for _, right in written_equation(name).rows) for name in LINES}
    assert {name: width for name, width in widest.items() if width > MAX_ROW_CHARACTERS} == {}
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= MAX_MODEL_LINES * len(models.MODELS)
