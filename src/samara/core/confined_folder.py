"""Access to the files of an untrusted folder without following a symbolic link.

Every component of a path below the folder is opened with O_NOFOLLOW relative to its parent directory, so that no entry of the
folder leads out of it, neither for reading nor for writing. The folder itself is the user's choice and may be a link.
"""

import ctypes
import errno
import os
import secrets
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from samara.core.budget import MAX_TABLE_BYTES, read_limited

LINK_MESSAGE = "is a symbolic link; expected a file or directory of the folder itself"
NOT_REGULAR_MESSAGE = "is not a regular file"


class ConfinedFolder(NamedTuple):
    """A folder whose files are named by paths below it, such as "rows/a.parquet"; errors are OSErrors with the path."""

    path: Path

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a regular file for reading; a pipe or a device is refused without waiting for it."""
        with self._parent(name) as (parent, base_name):
            file = os.fdopen(self._open_regular(name, base_name, os.O_RDONLY, parent), "rb")
        with file:
            yield file

    def read(self, name: str, max_bytes: int = MAX_TABLE_BYTES) -> bytes:
        """Read a regular file of at most `max_bytes` bytes."""
        with self.open(name) as file:
            return read_limited(file, max_bytes)

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """Write a file atomically; an existing entry of that name is replaced, never followed."""
        with self._parent(name, make=True) as (parent, base_name):
            temporary = f".{base_name}.{secrets.token_hex(4)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=parent), "wb") as file:
                    yield file
                os.replace(temporary, base_name, src_dir_fd=parent, dst_dir_fd=parent)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)

    def write_text(self, name: str, text: str) -> None:
        """Write a UTF-8 text file atomically."""
        with self.write(name) as file:
            file.write(text.encode())

    @contextmanager
    def lock_file(self, name: str) -> Iterator[BinaryIO]:
        """Open a file to lock; create it if necessary, never truncate it."""
        with self._parent(name, make=True) as (parent, base_name):
            file = os.fdopen(self._open_regular(name, base_name, os.O_RDWR | os.O_CREAT, parent), "r+b")
        with file:
            yield file

    def names(self, name: str = "") -> list[str]:
        """List a directory, sorted; a missing directory has no entries."""
        try:
            with self._parent(f"{name}/." if name else ".") as (parent, _):
                return sorted(os.listdir(parent))
        except FileNotFoundError:
            return []

    def has_file(self, name: str) -> bool:
        """Whether a regular file of that name exists; a link does not count."""
        try:
            with self._parent(name) as (parent, base_name):
                return stat.S_ISREG(os.stat(base_name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def directory(self, name: str, *, make: bool = False) -> Path:
        """Return the path of a directory; symbolic links of the folder are refused."""
        with self._parent(f"{name}/.", make=make):
            return self.path / name

    def writable_path(self, name: str) -> Path:
        """Return the path for a writer other than this class; a link or a pipe of that name is refused."""
        with self._parent(name, make=True) as (parent, base_name), suppress(FileNotFoundError):
            self._require_regular(name, os.stat(base_name, dir_fd=parent, follow_symlinks=False))
        return self.path / name

    @contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the directory that contains a file; yields its descriptor and the file's base name. OSErrors name the file."""
        *folders, base_name = name.split("/")
        if PurePosixPath(name).is_absolute() or ".." in (*folders, base_name) or "\0" in name:
            raise OSError(errno.EINVAL, "leads out of the folder", str(self.path / name))
        open_directory = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = -1
        try:
            if make:
                self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, open_directory)
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=descriptor)
                if _is_link(folder, descriptor):
                    raise OSError(errno.ELOOP, LINK_MESSAGE)
                child = os.open(folder, open_directory | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = child
            yield descriptor, base_name
        except OSError as error:
            text = error.strerror or str(error)
            raise OSError(error.errno, text, str(self.path / name.removesuffix("/."))) from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _open_regular(self, name: str, base_name: str, flags: int, parent: int) -> int:
        if _is_link(base_name, parent):
            raise OSError(errno.ELOOP, LINK_MESSAGE)
        safety_flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(base_name, flags | safety_flags, 0o666, dir_fd=parent)
        try:
            self._require_regular(name, os.fstat(descriptor))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _require_regular(self, name: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            text = LINK_MESSAGE if stat.S_ISLNK(status.st_mode) else NOT_REGULAR_MESSAGE
            raise OSError(errno.EINVAL, text, str(self.path / name))


def _is_link(name: str, parent: int) -> bool:
    """Whether an entry is a link, for the message; the flags of `os.open` refuse a link in any case."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


_PR_SET_PDEATHSIG = 1


def kill_when_parent_ends(parent_pid: int) -> None:
    """Ask the kernel to kill this process when the parent process with this id ends; call it in the child as it starts.

    Has no effect outside Linux: a child that outlives its parent ends when its work is done.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent_pid:
        os._exit(1)
