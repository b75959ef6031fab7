"""Workflows, recipe and addresses follow pyproject.toml, the one place of each fact."""

import re
import subprocess
import tomllib

import pytest
from support.repository import REPOSITORY

from samara.core.extras import FIRST_PYTHON_WITHOUT_WHEELS

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def test_continuous_integration_runs_on_every_python_that_is_supported():
    """The classifiers are the versions of both matrices; the oldest is the one required, and that of the job `oldest`."""
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    matrices = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert [re.findall(r"3\.\d+", matrix) for matrix in matrices] == [supported, supported]
    assert PROJECT["requires-python"] == f">={supported[0]}"
    assert re.search(rf'oldest:\n(.*\n)+? +python-version: "{re.escape(supported[0])}"\n', workflow)
    assert "- run: bash .ci/run\n" in workflow
    assert "system: [macos-latest, windows-latest]" in workflow


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_to_a_commit_with_its_version(path):
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    recipe = (REPOSITORY / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE).group(1)
    expected = [f"python {PROJECT['requires-python']}"]
    for dependency in PROJECT["dependencies"]:
        name = re.match(r"[\w-]+", dependency).group()
        expected.append(f"{CONDA_NAMES.get(name, name)} {dependency.removeprefix(name)}")
    assert re.findall(r"- (.*)", run) == expected
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    versions = re.findall(r"^(?:version: |  version: )\"?([\d.]+)", recipe + citation, re.MULTILINE)
    assert len(versions) == 2 and len(set(versions)) == 1


def test_the_address_of_the_repository_is_set_once():
    """Only pyproject.toml has it, and pages to clone from or to open a notebook from, whose own tests compare it."""
    address = PROJECT["urls"]["Repository"].removeprefix("https://github.com/")
    listed = subprocess.run(
        ["git", "grep", "-lIF", address, "--", ":!*.ipynb"], cwd=REPOSITORY, capture_output=True, text=True
    )
    if listed.returncode == 128:
        pytest.skip("not a git checkout")
    listed_files = set(listed.stdout.split())
    cloning = {name for name in listed_files if name.startswith(("README", "docs/howto/install.md", "docs/tutorials/"))}
    assert listed_files - cloning == {"pyproject.toml"}
    for name in cloning:  # the whole address, to clone it or to open a notebook of it
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        assert re.search(rf"github(?:\.com)?/{address}", text), name


def test_every_extra_without_wheels_is_marked_for_that_python():
    """A package without wheels for a Python is left out there by a marker, and `install_hint` says so."""
    for extra, (package, version) in FIRST_PYTHON_WITHOUT_WHEELS.items():
        requirements = PROJECT["optional-dependencies"][extra]
        marker = f"python_version < '{version[0]}.{version[1]}'"
        assert any(line.startswith(package) and marker in line for line in requirements), extra
