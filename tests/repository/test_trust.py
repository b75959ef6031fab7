"""Text becomes trusted only where user input enters; a value from a file stays plain everywhere else."""

import ast
import pickle
import tomllib
from pathlib import Path

import pytest

import samara
from samara.core.coerce import InvalidValueError, coerce_argument
from samara.core.sanitise import UserText, mark_user_text
from samara.scenario.autopilot import Host, Program

SOURCE = Path(samara.__file__).parent
MINTING = {"cli/fly.py", "cli/options.py", "scenario/changes.py", "scenario/load.py"}
"""Modules that may call `UserText` or `mark_user_text`"""
TRUSTING = {"__init__.py", "scenario/__init__.py", "sim/fly.py", "sim/fly_many.py"} | {
    *("campaigns/changes.py", "campaigns/rerun.py", "comparison/controllers.py", "comparison/race.py"),
    *(f"cli/{name}.py" for name in ("compare", "fly", "link", "sweep", "view")),
}
"""Modules that may use `samara.load_scenario` or change a scenario, which trusts what it is given: each a command, or a public
function that takes the same arguments itself."""
TRUSTED_FUNCTIONS = {"change_scenario", "load_controller", "resolve_controller", "load_function"}


def modules():
    """The parsed modules that mention trusted text"""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if (
            "UserText(" in text
            or "mark_user_text(" in text
            or "scenario.load import" in text
            or "scenario.changes import" in text
            or "load_scenario" in text
            or "settings=" in text
        ):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def callee_name(node):
    function = node.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def test_text_becomes_trusted_in_few_places():
    minting, trusting, passing = set(), set(), set()
    for name, tree in modules():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and callee_name(node) in ("UserText", "mark_user_text")
                and name != "core/sanitise.py"
            ):
                minting.add(name)
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                if node.module == "samara.scenario.load" or (node.module == "samara" and "load_scenario" in names):
                    trusting.add(name)
                if node.module == "samara.scenario.changes" and names & TRUSTED_FUNCTIONS:
                    trusting.add(name)
            if isinstance(node, ast.Call) and callee_name(node) in ("fly", "fly_it", "fly_many"):
                passing |= {name} if any(keyword.arg == "settings" for keyword in node.keywords) else set()
    assert minting == MINTING and trusting == TRUSTING
    assert not passing, "public functions trust their settings; code of our own passes them a Scenario"


def test_no_file_holds_a_trusted_text():
    read = tomllib.loads('a = "x"\nb = ["y", { c = "z" }]')
    assert not any(isinstance(value, UserText) for value in (read["a"], *read["b"], read["b"][1]["c"]))
    marked = mark_user_text({"a": "x", "b": ["y", {"c": "z"}, 3, None]})
    assert marked == {"a": "x", "b": ["y", {"c": "z"}, 3, None]}
    assert all(isinstance(value, UserText) for value in (marked["a"], marked["b"][0], marked["b"][1]["c"]))
    for text in (UserText("x"), "x"):  # as a worker on a cluster gets them
        assert type(pickle.loads(pickle.dumps(text))) is type(text)
    for plain in (str(UserText("x")), UserText("x") + "y", UserText("x").strip(), f"{UserText('x')}"):
        assert type(plain) is str  # results computed from trusted text are not trusted


@pytest.mark.parametrize(
    ("hint", "harmless", "harmful"),
    [(Program, "", "/bin/sh"), (Host, "127.0.0.1", "0.0.0.0"), (Host, "::1", "a.example")],
)
def test_a_parameter_says_that_only_the_user_may_give_it(hint, harmless, harmful):
    assert coerce_argument(harmless, hint) == harmless and coerce_argument(UserText(harmful), hint) == harmful
    with pytest.raises(InvalidValueError, match="in a file"):
        coerce_argument(harmful, hint)
    with pytest.raises(InvalidValueError, match="a text"):
        coerce_argument(3, hint)


def test_settings_that_are_too_deep_stay_plain():
    """A list within itself terminates; values deeper than any setting are not trusted."""
    endless = []
    endless.append(endless)
    assert mark_user_text(endless)
    deep = "x"
    for _ in range(200):
        deep = [deep]
    inner = mark_user_text(deep)
    while isinstance(inner, list):
        (inner,) = inner
    assert type(inner) is str
