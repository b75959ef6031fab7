"""Shared fixtures and settings: files outside the repository, double precision in JAX."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("support")  # before any module of it is imported

from support.repository import REPOSITORY, REQUIRE_ALL, TESTS, skip_lines, skip_or_fail  # noqa: E402

# JAX reads these when it is first imported: comparisons to 1e-12 need doubles, and no test needs a GPU.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Machine code is shared by the workers of one run only, so that the code of this checkout is compiled.
CODE_CACHE = None if "PYTEST_XDIST_WORKER" in os.environ else tempfile.TemporaryDirectory(prefix="samara-code-")
if CODE_CACHE:
    os.environ["SAMARA_CACHE"] = CODE_CACHE.name

# No test measures time. Examples are random in every run, except in continuous integration, where results must not vary.
settings.register_profile("samara", deadline=None, derandomize=REQUIRE_ALL)
settings.load_profile("samara")

# Modules that use signals, process groups, pipes, file modes, symbolic links or /dev. Windows has none of these or others.
POSIX_ONLY = [
    *(
        "link/test_link_*.py",
        "cli/test_interrupts.py",
        "cli/test_console.py",
        "core/test_children.py",
        "core/test_files.py",
    ),
    *(
        "core/test_names.py",
        "core/test_named_files.py",
        "compiler/test_llvm_cache.py",
        "campaigns/test_untrusted_campaign.py",
    ),
    *(
        "control/test_firmware.py",
        "repository/test_memory.py",
        "repository/test_size_bombs.py",
        "repository/test_fuzz.py",
    ),
    *("vehicles/test_hostile_files.py", "record/test_recording.py"),
]
collect_ignore_glob = POSIX_ONLY if sys.platform == "win32" else []

SLOW = frozenset(line for line in (TESTS / "slow.txt").read_text(encoding="utf-8").splitlines() if line[:1] != "#")


def pytest_unconfigure() -> None:
    if CODE_CACHE:
        CODE_CACHE.cleanup()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Freeze imported objects, so that the garbage collector does not traverse them repeatedly."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `slow.txt` as long. Run the wheel test first: it downloads while the other workers compute."""
    for item in items:
        if item.nodeid in SLOW:
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.path.name != "test_wheel.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the count of skipped tests for each reason; on GitHub also into the summary of the job."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the main process has the reports of all workers
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
    """Set the signal handlers of a program in a terminal, even if the tests run under nohup and ignore some signals."""
    from samara.cli.console import SIGNALS

    default = dict.fromkeys(SIGNALS, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    previous = {number: signal.signal(number, handler) for number, handler in default.items()}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder this repository is checked out in."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder `shared` beside the repository: reference cases and measured data too large, or not ours, to ship."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        skip_or_fail("the folder `shared` with reference data is not beside the repository")
    return folder
