"""Files appear whole or not at all: written beside their place, then renamed into it."""

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
    """A temporary path beside `path`; renamed to it when the block ends well, removed when it does not.

    A device or a pipe, as /dev/null, is written to and stays what it is. What the system refuses (no space, no permission) is
    an OSError that names `path`.
    """
    target = Path(path)
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        special = target.exists() and not target.is_file() and not target.is_dir()
        temporary = _fresh(Path(tempfile.gettempdir()) if special else target.parent, target)
        yield temporary
        if special:
            with temporary.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            temporary.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


TOO_DEEP = "brackets within brackets without end"


def _fresh(folder: Path, target: Path) -> Path:
    """An empty file that nobody has, with the rights that the umask leaves to every new one"""
    while True:
        path = folder / f".{target.name}.{secrets.token_hex(4)}{target.suffix}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return path


def require_writable(folder: str | Path) -> None:
    """OSError that names the folder where no file can be put into it: to be known before long work, and not after it"""
    own = Path(folder).absolute()
    while not own.exists():
        own = own.parent
    if not own.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(own))
    if not os.access(own, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def write_text(path: str | Path, text: str) -> None:
    """A UTF-8 text file, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def point_to(link: str | Path, target: str | Path) -> None:
    """Makes `link` another name of a file, in the place of what it named before; a copy where there are no links"""
    own, aim = Path(link), Path(target)
    with atomic_write(own) as temporary:
        temporary.unlink()
        try:
            temporary.symlink_to(os.path.relpath(aim, own.parent))
        except (OSError, NotImplementedError):  # a file system or an account without links
            shutil.copyfile(aim, temporary)


def parsed(text: str) -> Any:
    """Parse a JSON text; ValueError if it is not JSON, is nested deeper than `MAX_DEPTH` or has too many values."""
    Budget("the JSON text").spend_nodes(sum(map(text.count, ",[{")))
    try:
        layer = [value := json.loads(text)]
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    for _ in range(MAX_DEPTH):
        layer = [
            inner
            for own in layer
            if isinstance(own, (dict, list))
            for inner in (own.values() if isinstance(own, dict) else own)
        ]
    if layer:
        raise ValueError(TOO_DEEP)
    return value
