"""Machine code kept on disk from one run to the next: a folder of files, each named by the key of what is in it.

SAMARA_CACHE names the folder, or is "off"; else it is `samara` in XDG_CACHE_HOME or ~/.cache. What is in a file is executed, so
only files are read that belong to this user, that nobody else can write to, and whose key and checksum are right; any other is
written again. Where the folder cannot be read or written, nothing is kept, and nothing else changes.
"""

import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from samara.core.atomic_files import atomic_write

VARIABLE = "SAMARA_CACHE"
LIMIT = 256 << 20  # bytes of all files; those that were not used for longest are dropped
MAGIC = b"samara code 1\n"
HEAD = struct.Struct(f"<{len(MAGIC)}s32s32sQ")  # magic, key, checksum and length of what follows
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def digest(*parts: str | bytes) -> bytes:
    """32 bytes that stand for these parts, in this order"""
    whole = blake2b(digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little"))
        whole.update(data)
    return whole.digest()


def kept(key: bytes, make: Callable[[], bytes]) -> bytes:
    """What is kept under this key; where nothing is, what `make` gives is kept"""
    folder = cache_folder()
    if folder is None:
        return make()
    path = folder / f"{key.hex()}.code"
    found = _read(path, key)
    if found is None:
        found = make()
        with suppress(OSError):
            _keep(path, HEAD.pack(MAGIC, key, digest(found), len(found)) + found)
    return found


def cache_folder() -> Path | None:
    """Where code is kept; None where that is switched off, or would not be safe"""
    named = os.environ.get(VARIABLE, "")
    if named == "off":
        return None
    with suppress(OSError, RuntimeError):  # no home
        folder = Path(named) if named else _user_cache() / "samara"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(folder.stat()):
            return folder
    return None


def _user_cache() -> Path:
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def _is_ours(found: os.stat_result) -> bool:
    """Whether it belongs to this user, and nobody else may write to it; other systems keep homes apart."""
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE)


def _read(path: Path, key: bytes) -> bytes | None:
    """What was kept in a file, if it is there, is ours, and is what was written."""
    with suppress(OSError, struct.error):
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _is_ours(found) or found.st_size > LIMIT:
                return None
            data = file.read()
        content = data[HEAD.size :]
        if HEAD.unpack_from(data) == (MAGIC, key, digest(content), len(content)):
            with suppress(OSError):
                os.utime(path)  # used now: it is dropped later than others
            return content
    return None


def _keep(path: Path, data: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.chmod(0o600)
        temporary.write_bytes(data)
    files = []
    for entry in os.scandir(path.parent):
        with suppress(OSError):  # another process has dropped it
            if entry.name.endswith(".code") and entry.is_file(follow_symlinks=False):
                own = entry.stat(follow_symlinks=False)
                files.append((own.st_mtime_ns, own.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - LIMIT
    for _, size, oldest in sorted(files):
        if excess <= 0:
            break
        Path(oldest).unlink(missing_ok=True)
        excess -= size
