"""Controllers side by side: the same flight for each, and a wind that is too strong is refused."""

import numpy as np
import pytest
from support.command import call

import samara
from samara.compare.controllers import contest, labels, require_thrust
from samara.control.geometric import geometric
from samara.control.registry import tuned


@pytest.fixture(scope="module")
def entries():
    return contest(samara.vehicle("iris_documented"), ("geometric", "pid"), trajectory_name="circle", winds=(0.0, 4.0))


def test_everyone_flies_the_same(entries):
    assert [(own.controller, own.wind) for own in entries] == [
        ("geometric", 0.0),
        ("pid", 0.0),
        ("geometric", 4.0),
        ("pid", 4.0),
    ]
    first = entries[0].run.reference_position
    for own in entries:
        assert (own.run.reference_position == first).all()
        assert not own.crashed
        assert own.rmse <= own.max_error < 0.2
        assert np.isfinite(own.effort) and 0.0 < own.microseconds < 1e4


def test_integral_action_leaves_no_offset_in_the_wind(entries):
    """At the end it hovers in 4 m/s: PID is home, the geometric controller without an integral is blown aside."""
    by_name = {own.controller: own.run.error[-1] for own in entries if own.wind == 4.0}
    assert by_name["pid"] < 0.5 * by_name["geometric"]


def test_more_wind_than_thrust_is_refused():
    """The Crazyflie engine's drag of 0.1 N s/m at 10 m/s is 1 N, more than four rotors of 0.18 N give."""
    with pytest.raises(ValueError, match=r"at 2 m/s against a wind of 8 m/s needs 1\.04 N; its rotors give 0\.72 N"):
        require_thrust(samara.vehicle("crazyflie_documented"), 8.0, 2.0)
    with pytest.raises(ValueError, match="no trajectory 'spiral'; expected one of figure8, "):
        contest(samara.vehicle("iris_documented"), ("geometric",), trajectory_name="spiral")


def test_samara_compare(monkeypatch, capsys, tmp_path):
    status, out, err = call(
        monkeypatch, capsys, "compare", "--trajectory", "circle", "--controllers", "geometric", "--out", str(tmp_path)
    )
    assert (status, err) == (0, "")
    assert "geometric" in out
    assert "| geometric | 0 |" in (tmp_path / "compare.md").read_text(encoding="utf-8")
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = call(monkeypatch, capsys, "compare", "--controllers", "magic")
    assert status == 2
    assert err.startswith("samara: no controller 'magic'; expected some of geometric, ")


OWN = """
from samara.control.geometric import geometric

made = {}


def mine(state, reference, vehicle, memory):
    if vehicle not in made:
        made[vehicle] = geometric(vehicle)
    return made[vehicle](state, reference, vehicle, memory)


GAIN = 3.0
"""


def test_functions_of_ones_own_fly_beside_the_named(entries, tmp_path):
    """The geometric controller as a function and by its name: one flight, and names that tell them apart."""
    vehicle = samara.vehicle("iris_documented")
    own = geometric(vehicle)

    def mine(state, reference, vehicle, memory):
        return own(state, reference, vehicle, memory)

    found = contest(vehicle, (mine, tuned("geometric", speed=5.0)), trajectory_name="circle", winds=(4.0,))
    assert [each.controller for each in found] == ["mine", "geometric speed=5"]
    named = next(each for each in entries if (each.controller, each.wind) == ("geometric", 4.0))
    for each in found:
        assert each.rmse == pytest.approx(named.rmse, rel=1e-9)
    assert labels((mine, mine, "pid")) == ["mine 1", "mine 2", "pid"]


def test_samara_compare_takes_the_function_of_a_file(monkeypatch, capsys, tmp_path):
    file, out_path = tmp_path / "own.py", str(tmp_path / "out")
    file.write_text(OWN)
    status, out, err = call(
        monkeypatch, capsys, "compare", "--trajectory", "circle", "--controllers", f"{file}:mine", "--out", out_path
    )
    assert (status, err) == (0, "") and "mine" in out
    assert "| mine | 0 |" in (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_this_name")
    for word, sentence in (
        (f"{file}:yours", f"{file} has no function 'yours'; it has mine"),
        (f"{file}:GAIN", f"{file} has no function 'GAIN'; it has mine"),
        (f"{tmp_path}/none.py:mine", f"there is no file {tmp_path}/none.py; expected file.py:function"),
        (f"{broken}:mine", f"{broken} does not run (ModuleNotFoundError: No module named 'nothing_of_this_name')"),
    ):
        status, _, err = call(monkeypatch, capsys, "compare", "--controllers", word)
        assert status == 2 and " ".join(err.split()) == f"samara: --controllers {word}: {sentence}"
