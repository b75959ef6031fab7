"""The command line: output, and one sentence with exit status 2 for bad input."""

import errno
import math
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points

import pytest
from support.command import call

import samara
from samara import cli
from samara.core.atomic_files import atomic_write


def test_version(monkeypatch, capsys):
    assert call(monkeypatch, capsys, "--version") == (0, f"samara {samara.__version__}\n", "")
    assert re.fullmatch(r"\d+\.\d+\.\d+", samara.__version__)


def test_the_command_is_installed(monkeypatch, repository):
    """The entry point `samara` of pyproject.toml runs the command line."""
    assert entry_points(group="console_scripts", name="samara")
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ran = []
    monkeypatch.setattr(cli, "main", lambda: ran.append(True))
    monkeypatch.setattr("signal.signal", lambda *_: None)  # the handlers of the tests stay
    EntryPoint("samara", project["scripts"]["samara"], "console_scripts").load()()
    assert ran == [True]


def test_vehicles_lists_all_with_numbers_that_add_up(monkeypatch, capsys):
    """rpm is 60/2π of rad/s, and n kF Ω² carries the weight of the mass column."""
    status, out, err = call(monkeypatch, capsys, "vehicles", columns=200)
    assert (status, err) == (0, "")
    rows = {
        cells[0]: cells
        for cells in (line.split() for line in out.splitlines())
        if cells and cells[0] in samara.vehicle_names()
    }
    assert set(rows) == set(samara.vehicle_names())
    for name, (_, mass, unit, rotors, speed, turns, ratio, command, *_) in rows.items():
        vehicle = samara.vehicle(name)
        kilograms = float(mass) * {"g": 1e-3, "kg": 1.0}[unit]
        assert kilograms == pytest.approx(vehicle.mass, rel=1e-3)
        assert int(rotors) == len(vehicle.rotors)
        assert command == vehicle.structure.actuation.name
        if vehicle.rotors:
            assert float(turns) == pytest.approx(float(speed) * 60 / (2 * math.pi), rel=5e-4)
            thrust = sum(rotor.k_thrust * rotor.axis_B.z for rotor in vehicle.rotors) * float(speed) ** 2
            assert thrust == pytest.approx(kilograms * vehicle["gravity"].acceleration, rel=2e-3)
            assert 1.5 < float(ratio) < 4.0
        else:
            assert (speed, turns, ratio) == ("-", "-", "-")


def test_vehicles_says_where_numbers_come_from(monkeypatch, capsys):
    _, out, _ = call(monkeypatch, capsys, "vehicles", columns=110)
    out = " ".join(out.split())
    assert "Crazyflie 2.x as the Crazyflie engine document describes it; source: Crazyflie engine document" in out
    assert "source: Crazyflie firmware physical constants, after Foerster 2015" in out


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("command", ["vehicles", "scenarios", "controllers", "tasks"])
def test_tables_fit_the_terminal(command, columns, monkeypatch, capsys):
    """No line is wider than the terminal, and nothing is cut short."""
    _, out, _ = call(monkeypatch, capsys, command, columns=columns)
    assert max(len(line) for line in out.splitlines()) <= columns
    assert "…" not in out
    assert {"vehicles": "rigid_body_quadrotor", "scenarios": "obstacle_course"}.get(command, "") in out


def test_a_file_of_ones_own_is_listed(monkeypatch, capsys, tmp_path):
    """Square brackets are text, not markup; different rotors show the slowest and the fastest."""
    iris = samara.vehicle("iris_documented")
    shifted = tuple(r._replace(r_B=r.r_B._replace(x=r.r_B.x + 0.03)) for r in iris.rotors)
    samara.save_vehicle(samara.vehicle("iris_documented", rotors=shifted), tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text().replace('name = "iris_documented"', 'name = "iris[red]"')
    (tmp_path / "mine.toml").write_text(text)
    status, out, err = call(monkeypatch, capsys, "vehicles", str(tmp_path / "mine.toml"))
    assert (status, err) == (0, "")
    assert "iris[red]" in out
    assert "crazyflie_documented" not in out
    slowest, fastest = (float(speed) for speed in re.findall(r"\b\d{3}\.\d\b", out))
    assert slowest < samara.hover(iris)[0].rotor_speed[0] < fastest


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("vehicles", "irish"), "samara: no vehicle 'irish'; expected a .toml file or one of crazyflie, "),
        (("vehicles", "absent.toml"), "samara: absent.toml: cannot be read "),
    ],
)
def test_bad_input_is_one_sentence_and_status_two(arguments, complaint, monkeypatch, capsys):
    status, out, err = call(monkeypatch, capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(complaint)
    assert err.count("\n") == 1


def test_a_broken_file_prints_no_half_table(monkeypatch, capsys, tmp_path):
    """All files are read before the first line is printed."""
    (tmp_path / "bad.toml").write_text("schema = 2\n")
    status, out, err = call(monkeypatch, capsys, "vehicles", "iris_documented", str(tmp_path / "bad.toml"))
    assert (status, out) == (2, "")
    assert err == "samara: bad.toml: schema = 2: expected 1; a newer Samara wrote it\n"


def test_unknown_commands_and_no_command(monkeypatch, capsys):
    """A misspelt command is status 2 and points to the help; without a command, `samara` says what to do first."""
    status, _, err = call(monkeypatch, capsys, "veicles")
    assert status == 2
    assert "--help" in err
    status, out, err = call(monkeypatch, capsys)
    assert (status, err) == (0, "") and "samara vehicle new racer" in out and "samara --help" in out


def test_the_version_loads_nothing_heavy():
    """`--version` is fast: no solver, no plotting, no backend is imported."""
    program = (
        "import sys; sys.argv = ['samara', '--version']\n"
        "from samara.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('casadi', 'scipy', 'matplotlib', 'jax', 'sympy', 'llvmlite') if m in sys.modules])\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == [f"samara {samara.__version__}", "[]"]


def test_a_full_disk_names_the_file_and_leaves_nothing_behind(tmp_path):
    def no_space() -> None:
        with atomic_write(tmp_path / "report.md"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*report\.md'"):
        no_space()
    assert not list(tmp_path.iterdir())


def test_check_lists_the_stages_and_marks_those_in_python_with_the_reason(monkeypatch, capsys):
    status, out, _ = call(monkeypatch, capsys, "check", "hover", "stack")
    assert "scenario hover, 1 drone, 1 event, 16 s" in out and "scenario stack, 3 drones, 1 event, 12 s" in out
    assert status == 0
    hover, stack = out.split("stack: scenario")
    rates = samara.load_scenario("hover").rates
    lines = [line.split(maxsplit=3) for line in hover.splitlines()[1:]]
    assert ["controller", f"{rates.control:g}", "Hz"] in lines
    assert ["physics", f"{rates.physics:g}", "Hz"] in lines and ["contact", f"{rates.scenario:g}", "Hz"] in lines
    assert "in Python" not in hover
    python_stages = [line.split(maxsplit=3) for line in stack.splitlines() if "in Python" in line]
    assert python_stages == [["downwash", "50", "Hz", "in Python: downwash between drones"]]
