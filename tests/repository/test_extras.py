"""Extras: the install hint, what pyproject.toml declares, and the other distribution with the same import name."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import samara
from samara.core import extras
from samara.core.extras import MissingExtraError, import_extra, install_hint, warn_of_other_distribution

HAND_WRITTEN = re.compile(r"pip install (-e )?['\"]?(samara(?!-flight)\b|samara-flight\[|\.\[)")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_hint_is_for_a_wheel_or_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 12, 0))
    assert install_hint("gym") == "pip install -e '.[gym]'"
    monkeypatch.setattr(extras, "_PACKAGE", tmp_path / "site-packages" / "samara")
    assert install_hint("gym") == "pip install 'samara-flight[gym]'"
    with pytest.raises(MissingExtraError, match=r"^a game needs Absent: pip install 'samara-flight\[gym\]'$"):
        import_extra("absent_package", "a game", "Absent", "gym")


def test_the_hint_names_a_package_without_wheels(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    assert install_hint("ros2") == (
        "pip install -e '.[ros2]', with a Python older than 3.14; cyclonedds has no wheels for Python 3.14"
    )
    assert install_hint("gym") == "pip install -e '.[gym]'"


def test_the_project_declares_what_the_hints_say(project, repository):
    """The name, the markers of packages without wheels, and every extra that the source names."""
    assert project["name"] == extras.DISTRIBUTION
    declared = project["optional-dependencies"]
    for extra, (package, (major, minor)) in extras.FIRST_PYTHON_WITHOUT_WHEELS.items():
        (requirement,) = [text for text in declared[extra] if text.startswith(package)]
        assert f"python_version < '{major}.{minor}'" in requirement
    calls = re.compile(r"""(?:install_hint\(|(?:missing_extra|import_extra)\([^()]*, )["']([\w-]+)["']\)""")
    source = "\n".join(path.read_text(encoding="utf-8") for path in (repository / "src").rglob("*.py"))
    named = set(calls.findall(source))
    assert {"gym", "jax", "view", "betaflight"} <= named <= set(declared)


WITHOUT_EXTRAS = """
import contextlib, io, sys
absent = (
    "cma cyclonedds duckdb foundation_policy gymnasium imageio_ffmpeg jax mujoco optuna pandas pettingzoo pyarrow pymavlink"
    " pyulog ray rerun rosbags scipy stable_baselines3 viser"
)
sys.modules.update(dict.fromkeys(absent.split()))
import samara
from samara.cli import main
open("m.xml", "w").write("<mujoco><worldbody><body><freejoint/><geom size='.1' mass='1'/></body></worldbody></mujoco>")
open("log.ulg", "wb").write(b"ULog\\x01\\x12\\x35\\x01" + bytes(9))
open("c.toml", "w").write('schema = 1\\nscenario = "hover"\\nflights = 2\\nvary = { mass = { uniform = [0.02, 0.03] } }')
run = samara.fly("hover", settings={"duration": 0.1}, out="run.mcap")
for line in sys.stdin.read().splitlines():
    extra, _, feature = line.partition(": ")
    sys.argv, message = ["samara", *feature.split()], io.StringIO()
    try:
        with contextlib.redirect_stderr(message), contextlib.redirect_stdout(io.StringIO()):
            exec(feature[3:]) if feature.startswith("py ") else main()
    except ImportError as error:
        message.write(f"{error}\\n")
    except SystemExit:
        pass
    print(extra, message.getvalue().strip(), sep=": ")
"""
NEEDS = """\
bags: export ros2 run.mcap
gym: py samara.learn.Env
jax: train hover --method ppo -o policy
jax: py vehicle = samara.vehicle("iris"); samara.compile(vehicle, backend="jax").step(*samara.hover(vehicle), 1e-3)
logs: info log.ulg
mavlink: fly hover --autopilot px4 --connect
mjcf: vehicle import m.xml
pandas: py run.to_pandas()
parquet: export parquet run.mcap
pettingzoo: py samara.learn.ParallelEnv
raptor: fly hover --controller raptor
ray: sweep c.toml --ray local
rerun: export rerun run.mcap
ros2: ros2 hover
sb3: py samara.learn.VecEnv
search: sweep falsify c.toml --method cma
sweep: sweep c.toml
sweep: sweep rare c.toml
video: render run.mcap -o flight.mp4
view: view run.mcap
"""


def test_without_an_extra_one_sentence_names_it(tmp_path):
    """Each feature in an installation without extras. That of `px4-nn` needs a trained policy: `test_px4_nn.py`."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        cwd=tmp_path,
        input=NEEDS,
        env={**os.environ, "COLUMNS": "200", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if not line.endswith(f": {install_hint(line.partition(':')[0])}")]
    assert wrong == [] and len(lines) == NEEDS.count("\n"), done.stdout


def test_no_hint_is_written_by_hand(repository):
    """In the source, its tests and tools: `install_hint` makes them all. On the pages: no other project's name."""
    written = []
    this_file = Path(__file__).name
    for folder in ("src", "tests", "docs", "examples"):
        for path in (repository / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if path.name not in ("extras.py", "test_wheel.py", "test_command_lines.py", this_file):  # they test hints
                written += [(path, match.group()) for match in HAND_WRITTEN.finditer(text)]
    for page in [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        written += [(page, match) for match in re.findall(r"pip install ['\"]?samara(?!-flight)\b.*", text)]
    assert written == []


def test_another_distribution_of_the_same_name_is_reported(tmp_path):
    """Its metadata lie beside the package, so its files are mixed with ours; `import samara` warns in one sentence."""
    site_packages = tmp_path / "site-packages"
    site_packages.mkdir()
    (site_packages / "samara").symlink_to(Path(samara.__file__).parent)
    (site_packages / "samara_flight-0.1.0.dist-info").mkdir()
    program = "import samara"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(site_packages)}
    silent = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert silent.stderr == ""
    (site_packages / "samara-2.1.dist-info").mkdir()
    with pytest.warns(RuntimeWarning, match=r"samara 2\.1 in .* is another project .* environment of its own$"):
        warn_of_other_distribution(site_packages)
    warned = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"RuntimeWarning: the distribution samara 2.1 in {site_packages} is another project" in warned.stderr
    assert "its files are mixed with those of samara-flight: install" in warned.stderr


def test_another_distribution_elsewhere_on_the_path_is_reported(tmp_path, repository):
    """Ours is imported, as from a checkout on PYTHONPATH, but other programs may find the other one."""
    (tmp_path / "samara-2.1.dist-info").mkdir()
    search_path = os.pathsep.join((str(repository / "src"), str(tmp_path), str(tmp_path / "absent")))
    warned = subprocess.run(
        [sys.executable, "-c", "import samara"],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        f"samara 2.1 in {tmp_path} is another project" in warned.stderr and "it may hide samara-flight" in warned.stderr
    )


def test_the_command_reports_a_package_of_another_project(tmp_path, repository):
    """`samara` is found first elsewhere, with a command line whose packages are missing: one sentence and status 1."""
    (tmp_path / "samara").mkdir()
    (tmp_path / "samara" / "__init__.py").touch()
    (tmp_path / "samara" / "cli.py").write_text("import absent_package\n", encoding="utf-8")
    search_path = os.pathsep.join((str(tmp_path), str(repository / "src")))
    done = subprocess.run(
        [sys.executable, "-m", "samara_command"],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and re.fullmatch(
        r"samara: the package `samara` .* is another project .*\n", done.stderr
    )
