"""Where text becomes trusted: only where a user's words enter. A value from a file stays plain on every other way."""

import ast
import pickle
import tomllib
from pathlib import Path

import pytest

import samara
from samara.core.coerce import UnfitError, argument
from samara.core.sanitise import Typed, typed
from samara.scenario.autopilot import Host, Program

SOURCE = Path(samara.__file__).parent
MINTING = {"cli/fly.py", "cli/options.py", "scenario/load.py"}
"""Modules that may call `Typed` or `typed`"""
TRUSTING = {"__init__.py", "sim/fly.py", "sim/fly_many.py"}
"""Modules that may use `samara.load_scenario`, which trusts its settings: each a public function that takes settings itself"""


def modules():
    """Those that have a word for it at all, parsed"""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "yped(" in text or "scenario.load import" in text or "load_scenario" in text or "settings=" in text:
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def called(node):
    function = node.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def test_text_becomes_trusted_in_few_places():
    minting, trusting, passing = set(), set(), set()
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called(node) in ("Typed", "typed") and name != "core/sanitise.py":
                minting.add(name)
            if isinstance(node, ast.ImportFrom):
                names = {own.name for own in node.names}
                if node.module == "samara.scenario.load" or (node.module == "samara" and "load_scenario" in names):
                    trusting.add(name)
            if isinstance(node, ast.Call) and called(node) in ("fly", "fly_it", "fly_many"):
                passing |= {name} if any(own.arg == "settings" for own in node.keywords) else set()
    assert minting == MINTING and trusting == TRUSTING
    assert not passing, "public functions trust their settings; code of our own passes them a Scenario"


def test_no_file_holds_a_trusted_text():
    read = tomllib.loads('a = "x"\nb = ["y", { c = "z" }]')
    assert not any(isinstance(own, Typed) for own in (read["a"], *read["b"], read["b"][1]["c"]))
    marked = typed({"a": "x", "b": ["y", {"c": "z"}, 3, None]})
    assert marked == {"a": "x", "b": ["y", {"c": "z"}, 3, None]}
    assert all(isinstance(own, Typed) for own in (marked["a"], marked["b"][0], marked["b"][1]["c"]))
    for text in (Typed("x"), "x"):  # as a worker on a cluster gets them
        assert type(pickle.loads(pickle.dumps(text))) is type(text)
    for plain in (str(Typed("x")), Typed("x") + "y", Typed("x").strip(), f"{Typed('x')}"):
        assert type(plain) is str  # what is computed of trusted text is not trusted


@pytest.mark.parametrize(
    ("hint", "harmless", "harmful"),
    [(Program, "", "/bin/sh"), (Host, "127.0.0.1", "0.0.0.0"), (Host, "::1", "a.example")],
)
def test_a_parameter_says_that_only_the_user_may_give_it(hint, harmless, harmful):
    assert argument(harmless, hint) == harmless and argument(Typed(harmful), hint) == harmful
    with pytest.raises(UnfitError, match="in a file"):
        argument(harmful, hint)
    with pytest.raises(UnfitError, match="a text"):
        argument(3, hint)


def test_settings_that_are_too_deep_stay_plain():
    """A list within itself ends; what is deeper than any setting is not trusted."""
    endless = []
    endless.append(endless)
    assert typed(endless)
    deep = "x"
    for _ in range(200):
        deep = [deep]
    inner = typed(deep)
    while isinstance(inner, list):
        (inner,) = inner
    assert type(inner) is str
