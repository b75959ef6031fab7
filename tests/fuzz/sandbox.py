"""File and network access of a case: an audit hook that permits its own folder and the installed packages, and nothing else."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import samara

INSTALLED = tuple(
    os.path.realpath(path) + os.sep
    for path in {sys.prefix, sys.base_prefix, str(Path(samara.__file__).parent), *(path for path in sys.path if path)}
)
OPEN_PORTS = "/proc/net/"  # Linux's list of sockets, from which links warn of ports open to the network
CHANGES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.chown",
    "os.truncate",
)
FORBIDDEN = (
    *(
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
        "os.startfile",
    ),
    *("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "webbrowser.open", "pickle.find_class"),
)


class TouchedError(BaseException):
    """An access outside the folder was attempted; no reader may catch it."""


class _Watch:
    """The current state of the hook, which cannot be removed."""

    folder = ""
    touched: list[str]


@contextmanager
def sandbox() -> Iterator[Path]:
    """Yield an empty folder, which is the working directory inside the block."""
    _install()
    before, bytecode = os.getcwd(), sys.dont_write_bytecode
    with tempfile.TemporaryDirectory(prefix="samara-fuzz-") as folder:
        os.chdir(folder)
        sys.dont_write_bytecode = True
        try:
            yield Path(folder)
        finally:
            os.chdir(before)
            sys.dont_write_bytecode = bytecode


@contextmanager
def watch_accesses(folder: Path) -> Iterator[list[str]]:
    """Yield the list of accesses outside the folder."""
    _Watch.folder, _Watch.touched = os.path.realpath(folder) + os.sep, []
    try:
        yield _Watch.touched
    finally:
        _Watch.folder = ""


_installed: list[bool] = []


def _install() -> None:
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _Watch.folder:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = (
            bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) else "r" not in str(mode)
        )
        _require(event, path, reads=not writes)
    elif event in CHANGES:
        _require(event, arguments[0], reads=False)
    elif event in FORBIDDEN:
        _refuse(f"{event} {arguments!r:.200}")


def _require(event: str, path: Any, *, reads: bool) -> None:
    if isinstance(path, int) or path is None:
        return
    where = os.path.abspath(os.fsdecode(path))
    if f"{where}{os.sep}".startswith(_Watch.folder):
        return
    if reads and where.startswith((*INSTALLED, OPEN_PORTS)):
        return
    _refuse(f"{event} {where}")


def _refuse(access: str) -> None:
    _Watch.touched.append(access)
    raise TouchedError(access)
