"""The C compiler of this machine, and what its objects may ask for."""

import shutil
import subprocess
from typing import Any

from support.repository import do_without

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
ELEMENTARY = {"sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log", "pow", "floor"}
COMPILERS_OWN = {"memcpy", "memset", "memmove", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}


def compiler(name: str = "cc") -> str:
    found = shutil.which(name)
    if found is None:
        do_without(f"there is no compiler `{name}`")
    return found


def run(*command: Any) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
