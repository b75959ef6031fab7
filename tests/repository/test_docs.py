"""The documentation is correct: its Python runs, its links resolve, and its version is the package's."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest
from figures import architecture
from support.command_lines import command_lines
from support.repository import REPOSITORY, skip_or_fail
from tools.bench_figures import MARKED

import samara
from samara.control.registry import CONTROLLERS, FIRMWARE, TRAINED
from samara.core.extras import MissingExtraError
from samara.core.integrate import FLIGHT_INTEGRATORS
from samara.core.quantity import FileKey
from samara.estimate.registry import ESTIMATORS
from samara.learn.tasks import SHIPPED
from samara.physics.air.drag import Damping, Drag
from samara.physics.ground.contact import Surface
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors.actuator import Lag, SecondOrder
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.scenario.snapshot import SENSOR_FAULTS
from samara.sensors.registry import SENSOR_TYPES, part_names
from samara.wind.registry import WINDS

CARRYING_ON = [REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "docs" / "explanation" / "architecture.md"]
PAGES = sorted([*REPOSITORY.glob("README*.md"), CARRYING_ON[0], *(REPOSITORY / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def page_name_(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name_)
def test_every_python_block_of_a_page_runs(page, tmp_path, monkeypatch):
    """In order, in one namespace, in an empty folder; every `assert` in the page holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = page.read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block.group(1), str(page), "exec")  # so that errors carry the page's line numbers
        try:
            exec(code, namespace)
        except MissingExtraError as error:
            skip_or_fail(str(error))


def test_pages_have_python_to_run():
    """The fences are found: every page that explains code shows some."""
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/explanation/architecture.md",
        "docs/index.md",
        "docs/reference/vehicle-file.md",
        "docs/howto/import-vehicle.md",
        "docs/explanation/frames.md",
        "docs/explanation/physics.md",
        "docs/howto/compile.md",
        "docs/howto/web-page.md",
        "docs/evidence/documents.md",
        "docs/reference/conventions.md",
        "docs/howto/coming-from.md",
        "docs/howto/trajectories.md",
        "docs/howto/fly-scenarios.md",
        "docs/howto/campaigns.md",
        "docs/howto/recording.md",
        "docs/howto/plots.md",
        "docs/howto/viewer.md",
        "docs/explanation/control.md",
        "docs/explanation/mpc.md",
        "docs/howto/plan-fastest.md",
        "docs/howto/identify.md",
        "docs/reference/sensors.md",
        "docs/howto/autopilots.md",
        "docs/explanation/rotor.md",
        "docs/reference/wind.md",
        "docs/explanation/neighbours.md",
        "docs/explanation/structure.md",
        "docs/reference/estimators.md",
    ):
        assert BLOCK.search((REPOSITORY / name).read_text(encoding="utf-8")), name


def test_the_japanese_readme_has_the_same_commands_and_pictures():
    """README-ja.md is shorter, but its commands, pictures, figures and programs are the README's."""
    pages = [REPOSITORY / name for name in ("README.md", "README-ja.md")]
    english, japanese = (page.read_text(encoding="utf-8") for page in pages)
    pictures = re.compile(r"\]\((docs/images/[^)]+)\)")
    assert pictures.findall(japanese) == pictures.findall(english) != []
    commands = [[command.text for command in command_lines(page)] for page in pages]
    assert commands[0] == commands[1] and "make fly" in commands[0] and len(commands[0]) > 5
    programs = [
        [re.sub(r"\s*#.*", "", block).splitlines() for block in BLOCK.findall(text)] for text in (english, japanese)
    ]
    assert programs[0] == programs[1] and len(programs[0]) == 2
    figures = [[match["key"] for match in MARKED.finditer(text)] for text in (english, japanese)]
    assert figures[1] == figures[0][: len(figures[1])] and len(figures[1]) == 6


def test_the_three_numbers_of_the_readme_stand_on_the_pages_it_names():
    """Whose own tests check them."""
    for name in ("README.md", "README-ja.md"):
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        numbers = re.findall(r"^- \*\*([\d.]+(?: %)?)\*\*.*\]\((docs/evidence/[^)]+)\)", text, re.MULTILINE)
        assert len(numbers) == 3
        for number, page in numbers:
            assert number in (REPOSITORY / page).read_text(encoding="utf-8"), f"{name}: {number} is not on {page}"


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_readme_and_documentation_have_at_most_60000_words():
    """Markers of measured figures and the rules of tables are not words."""
    pages = [REPOSITORY / "README.md", *(page for page in PAGES if "docs" in page.parts)]
    texts = [re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8")) for page in pages]
    assert sum(any(map(str.isalnum, word)) for text in texts for word in text.split()) <= 60_000


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "tests" / "documents" / "requirements.md"], ids=page_name_)
def test_links_lead_to_files_that_exist(page):
    """Relative links and pictures; a link to a heading resolves to one of that name."""
    for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        place, _, heading = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        assert file.exists(), f"{page_name_(page)} links to {target}"
        if heading:
            assert heading in anchors(file), f"{page_name_(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    """Headings as the links to them are spelt: lower case, dashes for spaces, nothing else."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme():
    """Following links only."""
    visited, pending = set(), [REPOSITORY / "README.md"]
    while pending:
        page = pending.pop()
        visited.add(page)
        links = LINK.findall(page.read_text(encoding="utf-8"))
        linked = {(page.parent / target.partition("#")[0]).resolve() for target in links if "://" not in target}
        pending += [other for other in linked - visited if other.suffix == ".md" and other.exists()]
    assert set(PAGES) <= visited


@pytest.mark.parametrize("page", CARRYING_ON, ids=page_name_)
def test_every_file_that_is_named_to_those_who_carry_on_is_there(page):
    """`src/samara/control/registry.py`, `control/mpc/derivatives.py`, `tree.py`: as a path or within the folder of its
    sentence."""
    named = set(re.findall(r"`([\w./]+/[\w./-]+|\w+\.py)`", FENCED.sub("", page.read_text(encoding="utf-8"))))
    roots = [REPOSITORY, REPOSITORY / "src" / "samara"]
    assert len(named) > 5
    for name in named:
        exists = any((root / name).exists() for root in roots)
        inside = "/" not in name and any(any((REPOSITORY / folder).rglob(name)) for folder in ("src", "tests"))
        assert exists or inside or name.startswith("out/"), f"{page_name_(page)} names {name}"


def test_every_table_that_an_entry_goes_to_is_where_it_is_said_to_be():
    """`OPTIONS` in `src/samara/vehicles/effects.py`, and so on: a name that the file defines."""
    named = re.findall(
        r"`([A-Z]+)` (?:in|of) `([\w/]+\.py)`", " ".join(CARRYING_ON[0].read_text(encoding="utf-8").split())
    )
    assert {"effects.py", "registry.py"} <= {Path(path).name for _, path in named}
    for name, path in named:
        (file,) = (REPOSITORY / "src").rglob(path.removeprefix("src/"))
        assert re.search(rf"^{name}\b.* = ", file.read_text(encoding="utf-8"), re.MULTILINE), f"{path} has no {name}"


def test_the_architecture_page_has_every_folder_in_the_order_of_the_layers():
    """Its table is the order that the import test enforces; the picture has the same order in words."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", CARRYING_ON[1].read_text(encoding="utf-8"), re.MULTILINE)
    assert [re.findall(r"\w+", row) for row in rows] == architecture.layers()
    picture = (REPOSITORY / "docs" / "images" / "architecture.png").read_bytes()
    assert " < ".join(map(" ".join, architecture.layers())).encode() in picture


def test_every_page_is_in_the_navigation_of_the_site():
    """Once, under one subject; mkdocs.yml names no page that is not there."""
    navigation = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"^ +- (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(named) == sorted(
        path.relative_to(REPOSITORY / "docs").as_posix() for path in PAGES if "docs" in path.parts
    )


def test_changelog_and_citation_carry_the_version():
    """One version, written in three places, the same in all."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[?(\d+\.\d+\.\d+)", changelog, re.MULTILINE).group(1) == samara.__version__
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE).group(1) == samara.__version__


@pytest.mark.parametrize(
    ("names", "page"),
    [
        pytest.param((*SENSOR_TYPES, *part_names(), *SENSOR_FAULTS), "reference/sensors", id="sensors"),
        pytest.param(ESTIMATORS, "reference/estimators", id="estimators"),
        pytest.param(CONTROLLERS, "explanation/control", id="controllers"),
        pytest.param((*CONTROLLERS, *TRAINED, *FIRMWARE), "reference/controllers", id="controllers of scenarios"),
        pytest.param(FIRMWARE, "evidence/crazyflie-firmware", id="controllers of the firmware"),
        pytest.param(WINDS, "reference/wind", id="winds"),
        pytest.param(FLIGHT_INTEGRATORS, "reference/scenario-file", id="integrators"),
        pytest.param(SHIPPED, "reference/tasks", id="tasks"),
    ],
)
def test_every_registered_component_is_described(names, page):
    """In a table or a sentence of the page of its subject"""
    text = (REPOSITORY / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_vehicle_is_described():
    """docs/reference/vehicles.md names each shipped vehicle, and README shows the command that lists them."""
    page = (REPOSITORY / "docs" / "reference" / "vehicles.md").read_text(encoding="utf-8")
    assert [name for name in samara.vehicle_names() if f"`{name}`" not in page] == []
    assert "samara vehicles" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_every_key_of_a_vehicle_file_is_described():
    """docs/reference/vehicle-file.md has a row with the unit for every field of a file, with the units it also accepts."""
    page = (REPOSITORY / "docs" / "reference" / "vehicle-file.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|`(\w+)`\|([^|]*)\|", page, re.MULTILINE)
    records = (Lag, DcMotor, Ideal, Thevenin, Drag, Damping, SecondOrder, Gravity, Surface, Rotor)
    missing = []
    for record in records:
        for field, hint in get_type_hints(record, include_extras=True).items():
            notes = getattr(hint, "__metadata__", ())
            unit = getattr(notes[0], "unit", None) if notes else None
            key = next((note.name for note in notes if isinstance(note, FileKey)), field)
            if unit and field != "r_B" and not any(name == key and unit in text.split(" or ") for name, text in rows):
                missing.append(f"{record.__name__}.{field} [{unit}]")
    assert missing == []


def test_every_physics_file_is_described():
    """The physics page has a row for every file that has no model on the models page, and for no other."""
    page, models = (
        (REPOSITORY / "docs" / "explanation" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("physics", "models")
    )
    folder = REPOSITORY / "src/samara/physics"
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if path.name != "__init__.py"]
    rows = set(re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE))
    assert len(files) > 30
    assert rows == {file for file in files if f"physics/{file}" not in models}


@pytest.mark.parametrize("name", ["constraints.txt", "bench/peers.txt", "bench/gym_pybullet_drones.txt"])
def test_the_locks_are_plain_pins(name):
    """name==version, one per line, each once: no address, no path, no comment about its origin."""
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) > 3
    pin = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)==[A-Za-z0-9][A-Za-z0-9_.!-]*")
    assert [line for line in lines if not pin.fullmatch(line)] == []
    names = [re.sub("[-_.]+", "-", pin.fullmatch(line)[1]).lower() for line in lines]
    assert len(set(names)) == len(names)
