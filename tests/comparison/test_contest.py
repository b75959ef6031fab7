"""Compare controllers: the same flight for each, and a wind that is too strong is rejected."""

import numpy as np
import pytest
from support.command import call

import samara
from samara.comparison.controllers import compare_on_trajectory, controller_labels, require_thrust
from samara.control.geometric import geometric
from samara.control.registry import controller_spec


@pytest.fixture(scope="module")
def entries():
    return compare_on_trajectory(
        samara.vehicle("iris_documented"), ("geometric", "pid"), trajectory_name="circle", winds=(0.0, 4.0)
    )


def test_everyone_flies_the_same(entries):
    assert [(entry.controller, entry.wind) for entry in entries] == [
        ("geometric", "0 m/s"),
        ("pid", "0 m/s"),
        ("geometric", "4 m/s"),
        ("pid", "4 m/s"),
    ]
    first = entries[0].run.reference_position
    for entry in entries:
        assert (entry.run.reference_position == first).all()
        assert not entry.crashed
        assert entry.rmse <= entry.max_error < 0.2
        assert np.isfinite(entry.effort) and 0.0 < entry.microseconds < 1e4


def test_integral_action_leaves_no_offset_in_the_wind(entries):
    """At the end it hovers in 4 m/s: PID has no offset, the geometric controller without an integral has one."""
    by_name = {entry.controller: entry.run.error[-1] for entry in entries if entry.wind == "4 m/s"}
    assert by_name["pid"] < 0.5 * by_name["geometric"]


def test_more_wind_than_thrust_is_refused():
    """The Crazyflie engine's drag of 0.1 N s/m at 10 m/s is 1 N, more than four rotors of 0.18 N provide."""
    with pytest.raises(ValueError, match=r"at 2 m/s against a wind of 8 m/s needs 1\.04 N; its rotors give 0\.72 N"):
        require_thrust(samara.vehicle("crazyflie_documented"), 8.0, 2.0)
    with pytest.raises(ValueError, match="no trajectory 'spiral'; expected one of figure8, "):
        compare_on_trajectory(samara.vehicle("iris_documented"), ("geometric",), trajectory_name="spiral")


def test_samara_compare(monkeypatch, capsys, tmp_path):
    status, out, err = call(
        monkeypatch, capsys, "compare", "--trajectory", "circle", "--controller", "geometric", "--out", str(tmp_path)
    )
    assert (status, err) == (0, "")
    assert "geometric" in out
    assert "| geometric | 0 m/s |" in (tmp_path / "compare.md").read_text(encoding="utf-8")
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = call(monkeypatch, capsys, "compare", "--controller", "magic")
    assert status == 2
    assert err.startswith("samara: no controller 'magic'; expected one of geometric, ")


OWN = """
from samara.control.geometric import geometric

controllers = {}


def mine(state, reference, vehicle, controller_state):
    if vehicle not in controllers:
        controllers[vehicle] = geometric(vehicle)
    return controllers[vehicle](state, reference, vehicle, controller_state)


GAIN = 3.0
"""


def test_functions_of_ones_own_fly_beside_the_named(entries, tmp_path):
    """The geometric controller as a function and by its name: equal flights, and distinct labels."""
    vehicle = samara.vehicle("iris_documented")
    controller = geometric(vehicle)

    def mine(state, reference, vehicle, controller_state):
        return controller(state, reference, vehicle, controller_state)

    results = compare_on_trajectory(
        vehicle, (mine, controller_spec("geometric", speed=5.0)), trajectory_name="circle", winds=(4.0,)
    )
    assert [entry.controller for entry in results] == ["mine", "geometric speed=5"]
    named = next(entry for entry in entries if (entry.controller, entry.wind) == ("geometric", "4 m/s"))
    for entry in results:
        assert entry.rmse == pytest.approx(named.rmse, rel=1e-9)
    assert controller_labels((mine, mine, "pid")) == ["mine 1", "mine 2", "pid"]


def test_samara_compare_takes_the_function_of_a_file(monkeypatch, capsys, tmp_path):
    file, out_path = tmp_path / "own.py", str(tmp_path / "out")
    file.write_text(OWN)
    status, out, err = call(
        monkeypatch, capsys, "compare", "--trajectory", "circle", "--controller", f"{file}:mine", "--out", out_path
    )
    assert (status, err) == (0, "") and "mine" in out
    assert "| mine | 0 m/s |" in (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_this_name")
    for word, sentence in (
        (f"{file}:yours", f"{file} has no function 'yours'; it has mine"),
        (f"{file}:GAIN", f"{file} has no function 'GAIN'; it has mine"),
        (f"{tmp_path}/none.py:mine", f"there is no file {tmp_path}/none.py; expected file.py:function"),
        (f"{broken}:mine", f"{broken} does not run (ModuleNotFoundError: No module named 'nothing_of_this_name')"),
    ):
        status, _, err = call(monkeypatch, capsys, "compare", "--controller", word)
        assert status == 2 and " ".join(err.split()) == f"samara: controller {word}: {sentence}"
