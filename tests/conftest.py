"""What every test may ask for: files outside the repository, and double precision in JAX."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("support")  # before any of it is imported

from support.repository import REPOSITORY, REQUIRE_ALL, TESTS, do_without, skip_lines  # noqa: E402

# JAX reads these when it is first imported: comparisons to 1e-12 need doubles, and no test needs a GPU.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Machine code is shared by the workers of one run, and by nobody else: what is compiled is what is in this checkout.
CODE = None if "PYTEST_XDIST_WORKER" in os.environ else tempfile.TemporaryDirectory(prefix="samara-code-")
if CODE:
    os.environ["SAMARA_CACHE"] = CODE.name

# No test is about time. Examples are new at every run, but in continuous integration: there a change is judged, not the dice.
settings.register_profile("samara", deadline=None, derandomize=REQUIRE_ALL)
settings.load_profile("samara")

SLOW = frozenset(line for line in (TESTS / "slow.txt").read_text(encoding="utf-8").splitlines() if line[:1] != "#")


def pytest_unconfigure() -> None:
    if CODE:
        CODE.cleanup()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported stays until the end: the search for garbage need not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What `slow.txt` lists is long. The wheel first: it waits for downloads while the other workers compute."""
    for item in items:
        if item.nodeid in SLOW:
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.path.name != "test_wheel.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason; on GitHub also into the summary of the job"""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the process that started the workers has the reports of all of them
    lines = skip_lines(terminalreporter.stats.get("skipped", []))
    if lines:
        terminalreporter.section("skipped tests")
        for line in lines:
            terminalreporter.line(line)
    if lines and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write("".join(f"- {line}\n" for line in lines))


@pytest.fixture
def signals_heard() -> Iterator[None]:
    """Signals as a terminal's programs have them, also where these tests run under nohup and ignore some."""
    from samara.cli.console import SIGNALS

    default = dict.fromkeys(SIGNALS, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    before = {each: signal.signal(each, handler) for each, handler in default.items()}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder this repository is checked out in."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder `shared` beside the repository: reference cases and measured data too large, or not ours, to ship."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        do_without("the folder `shared` with reference data is not beside the repository")
    return folder
