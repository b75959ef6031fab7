"""Access to the files of an untrusted folder without following a symbolic link.

Every component of a path below the folder is opened with O_NOFOLLOW relative to its parent directory, so that no entry of the
folder leads out of it, neither for reading nor for writing. The folder itself is the user's choice and may be a link.

Windows cannot open a file relative to a directory. There, every component of the path is checked before the file is opened; a
program that replaces an entry between check and opening is not detected.
"""

import ctypes
import errno
import os
import secrets
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from samara.core.budget import MAX_TABLE_BYTES, read_limited

LINK_MESSAGE = "is a symbolic link; expected a file or directory of the folder itself"
NOT_REGULAR_MESSAGE = "is not a regular file"
HAS_DIR_FD = os.open in os.supports_dir_fd
"""Whether the system opens files relative to a directory; if not, a directory's descriptor is None and names are paths."""

JUNCTION = 0xA0000003  # a link to a directory on Windows that is no symbolic link

O_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
O_SAFE: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
O_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)


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
            folder, file_name = os.path.split(base_name)
            temporary = os.path.join(folder, f".{file_name}.{secrets.token_hex(4)}")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_SAFE
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
            with self._parent(f"{name}/." if name else ".") as (parent, base_name):
                return sorted(os.listdir(base_name if parent is None else parent))
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
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
        """Open the directory of a file; yield its descriptor and the file's name in it, or None and the file's path.

        OSErrors name the file.
        """
        *folders, base_name = name.split("/")
        path = PurePath(name)
        if path.anchor or "\\" in name or ".." in (*folders, base_name) or "\0" in name:
            raise OSError(errno.EINVAL, "leads out of the folder", str(self.path / name))
        try:
            if make:
                self.path.mkdir(parents=True, exist_ok=True)
            if HAS_DIR_FD:
                with _open_directories(self.path, folders, make=make) as descriptor:
                    yield descriptor, base_name
            else:
                yield None, os.path.join(_checked_directory(self.path, folders, make=make), base_name)
        except OSError as error:
            text = error.strerror or str(error)
            raise OSError(error.errno, text, str(self.path / name.removesuffix("/."))) from None

    def _open_regular(self, name: str, base_name: str, flags: int, parent: int | None) -> int:
        if _is_link(base_name, parent):
            raise OSError(errno.ELOOP, LINK_MESSAGE)
        descriptor = os.open(base_name, flags | O_SAFE | O_NONBLOCK, 0o666, dir_fd=parent)
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


@contextmanager
def _open_directories(root: Path, folders: Sequence[str], *, make: bool) -> Iterator[int]:
    """Open a directory component by component, each relative to its parent."""
    descriptor = os.open(root, os.O_RDONLY | O_DIRECTORY)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=descriptor)
            if _is_link(folder, descriptor):
                raise OSError(errno.ELOOP, LINK_MESSAGE)
            child = os.open(folder, os.O_RDONLY | O_DIRECTORY | O_SAFE, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
        yield descriptor
    finally:
        os.close(descriptor)


def _checked_directory(root: Path, folders: Sequence[str], *, make: bool) -> str:
    """Return the path of a directory after checking that no component below the root is a link."""
    path = str(root)
    os.stat(path)
    for folder in folders:
        path = os.path.join(path, folder)
        if make:
            with suppress(FileExistsError):
                os.mkdir(path)
        if _is_link(path, None):
            raise OSError(errno.ELOOP, LINK_MESSAGE)
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return path


def _is_link(name: str, parent: int | None) -> bool:
    """Whether an entry is a link, for the message; the flags of `os.open` refuse a link in any case."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == JUNCTION


def lock_exclusively(file: BinaryIO) -> None:
    """Lock an open file against other processes until it is closed; raise OSError if another process holds the lock."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
