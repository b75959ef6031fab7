"""Atomic file writing: a file is written under a temporary name beside its target, then renamed."""

import errno
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samara.core.budget import MAX_DEPTH, Budget


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`: renamed to it when the block succeeds, removed when it raises.

    A device or a pipe, such as /dev/null, is written to directly. If the system refuses to
    write (no space, no permission), the OSError names `path`.
    """
    target = Path(path)
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        is_special = target.exists() and not target.is_file() and not target.is_dir()
        temporary = _create_temporary(Path(tempfile.gettempdir()) if is_special else target.parent, target)
        yield temporary
        if is_special:
            with temporary.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            temporary.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


NESTING_ERROR = "brackets are nested too deeply"


def _create_temporary(folder: Path, target: Path) -> Path:
    """Create an empty file under an unused name, with the permissions that the umask gives every new file."""
    while True:
        path = folder / f".{target.name}.{secrets.token_hex(4)}{target.suffix}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return path


def require_writable(folder: str | Path) -> None:
    """Raise OSError with the folder if files cannot be created in it; call this before long computations."""
    existing = Path(folder).absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def replace_link(link: str | Path, target: str | Path) -> None:
    """Make `link` a symbolic link to `target`, replacing an existing file; a copy on systems without links."""
    link_path, target_path = Path(link), Path(target)
    with atomic_write(link_path) as temporary:
        temporary.unlink()
        try:
            temporary.symlink_to(os.path.relpath(target_path, link_path.parent))
        except (OSError, NotImplementedError):  # a file system or an account without links
            shutil.copyfile(target_path, temporary)


def parse_json(text: str) -> Any:
    """Parse a JSON text; ValueError if it is not JSON, is nested deeper than `MAX_DEPTH` or has too many values."""
    Budget("the JSON text").spend_nodes(sum(map(text.count, ",[{")))
    try:
        layer = [value := json.loads(text)]
    except RecursionError:
        raise ValueError(NESTING_ERROR) from None
    for _ in range(MAX_DEPTH):
        layer = [
            child
            for node in layer
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    if layer:
        raise ValueError(NESTING_ERROR)
    return value
