"""Machine code cached on disk between runs: a folder of files, each named by the key of its content.

SAMARA_CACHE names the folder, or is "off"; else it is `samara` in XDG_CACHE_HOME or ~/.cache. Cached code is executed, so only
files are read that belong to this user, that no other user can write to, and whose key and checksum are right; other files are
overwritten. If the folder cannot be read or written, code is compiled without a cache.
"""

import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from samara.core.atomic_files import atomic_write

CACHE_VARIABLE = "SAMARA_CACHE"
MAX_CACHE_BYTES = 256 << 20  # bytes of all files; the least recently used are deleted
MAGIC = b"samara code 1\n"
HEADER = struct.Struct(f"<{len(MAGIC)}s32s32sQ")  # magic, key, checksum and length of the content
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def digest(*parts: str | bytes) -> bytes:
    """Return a 32-byte hash of these parts, in this order."""
    hasher = blake2b(digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.digest()


def load_or_compile(key: bytes, create: Callable[[], bytes]) -> bytes:
    """Return the code cached under this key; on a miss, call `create` and cache its result."""
    folder = cache_folder()
    if folder is None:
        return create()
    path = folder / f"{key.hex()}.code"
    code = _read(path, key)
    if code is None:
        code = create()
        with suppress(OSError):
            _write(path, HEADER.pack(MAGIC, key, digest(code), len(code)) + code)
    return code


def cache_folder() -> Path | None:
    """Return the cache folder; None if caching is switched off or the folder would not be safe."""
    configured = os.environ.get(CACHE_VARIABLE, "")
    if configured == "off":
        return None
    with suppress(OSError, RuntimeError):  # no home directory
        folder = Path(configured) if configured else _user_cache() / "samara"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(folder.stat()):
            return folder
    return None


def _user_cache() -> Path:
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return configured if configured.is_absolute() else Path.home() / ".cache"


def _is_private(status: os.stat_result) -> bool:
    """Whether a file belongs to this user, and no other may write to it; always true on systems without user ids."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS)


def _read(path: Path, key: bytes) -> bytes | None:
    """Return the content of a cache file if it exists, is private and intact, else None."""
    with suppress(OSError, struct.error):
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > MAX_CACHE_BYTES:
                return None
            data = file.read()
        content = data[HEADER.size :]
        if HEADER.unpack_from(data) == (MAGIC, key, digest(content), len(content)):
            with suppress(OSError):
                os.utime(path)  # mark as recently used
            return content
    return None


def _write(path: Path, data: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.chmod(0o600)
        temporary.write_bytes(data)
    files = []
    for entry in os.scandir(path.parent):
        with suppress(OSError):  # deleted by another process
            if entry.name.endswith(".code") and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                files.append((status.st_mtime_ns, status.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - MAX_CACHE_BYTES
    for _, size, file_path in sorted(files):
        if excess <= 0:
            break
        Path(file_path).unlink(missing_ok=True)
        excess -= size
