"""The wheel, as a user gets it: in an empty environment, without this tree."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.repository import skip_or_fail

import samara

MAX_INSTALL_BYTES = 450e6
UNREACHABLE = re.compile(r"connection|name resolution|max retries|timed? ?out|temporary failure", re.IGNORECASE)


def run(*command: str | Path, cwd: Path, timeout: float = 600.0) -> subprocess.CompletedProcess:
    """Run a command in a folder, with nothing of this tree on Python's path."""
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    environment |= {"COLUMNS": "120", "MPLBACKEND": "Agg"}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, repository) -> Path:
    """The wheel of this tree, built with the installed tools."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, repository, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory, repository, wheel) -> Path:
    """A folder with an environment that holds only the wheel and its declared dependencies."""
    folder = tmp_path_factory.mktemp("elsewhere")
    assert repository not in folder.resolve().parents
    created = run(sys.executable, "-m", "venv", "venv", cwd=folder)
    assert created.returncode == 0, created.stderr
    python = folder / "venv" / "bin" / "python"
    constraints = ("--constraint", repository / "constraints.txt")
    installed = run(python, "-m", "pip", "install", "--quiet", "--no-compile", *constraints, wheel, cwd=folder)
    if installed.returncode and UNREACHABLE.search(installed.stderr):
        skip_or_fail("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(wheel, repository):
    """Every file of src/samara, its vehicles and its type marker; no tests, no docs."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = repository / "src"
    expected = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert names == {name for name in expected if "__pycache__" not in name and not name.endswith(".pyc")}
    assert "samara/py.typed" in names
    assert "samara/vehicles/crazyflie.toml" in names
    assert wheel.name.startswith(f"samara_flight-{samara.__version__}-")


@pytest.mark.long
def test_the_installed_wheel_works_without_this_tree(elsewhere):
    """Core dependencies are enough: the command lists the vehicles, the package flies; no JAX, no SymPy are there.

    One test, not several: each worker that runs one would have to install everything again.
    """
    samara_command = elsewhere / "venv" / "bin" / "samara"
    assert run(samara_command, "--version", cwd=elsewhere).stdout == f"samara {samara.__version__}\n"
    listed = run(samara_command, "vehicles", cwd=elsewhere)
    assert listed.returncode == 0, listed.stderr
    for name in samara.vehicle_names():
        assert name in listed.stdout
    flown = run(samara_command, "fly", "--out", "flight", cwd=elsewhere)
    assert flown.returncode == 0, flown.stderr
    assert (elsewhere / "flight" / "run.png").stat().st_size > 10_000
    assert "final position error" in (elsewhere / "flight" / "report.html").read_text(encoding="utf-8")

    program = (
        "import samara, importlib.util, pathlib\n"
        "vehicle = samara.vehicle('iris_documented')\n"
        "state, command = samara.hover(vehicle)\n"
        "for _ in range(100): state = samara.step(state, command, vehicle, 1e-3)\n"
        "print(abs(state.p_W.z - 1.0) < 1e-4, (pathlib.Path(samara.__file__).parent / 'py.typed').exists())\n"
        "print(samara.__file__)\n"
        "print([name for name in ('jax', 'sympy', 'pytest') if importlib.util.find_spec(name)])\n"
    )
    program += "from samara.core.extras import install_hint; print(install_hint('gym'))\n"
    done = run(elsewhere / "venv" / "bin" / "python", "-c", program, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    flown, place, extras, hint = done.stdout.splitlines()
    assert hint == "pip install 'samara-flight[gym]'"
    assert flown == "True True"
    assert Path(place).is_relative_to(elsewhere / "venv")
    assert extras == "[]"
    files = [path for path in (elsewhere / "venv" / "lib").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < MAX_INSTALL_BYTES
