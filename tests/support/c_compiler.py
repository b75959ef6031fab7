"""The C compiler of this machine, and the external symbols that its objects may use."""

import shutil
import subprocess
from typing import Any

from support.repository import skip_or_fail

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
ELEMENTARY_FUNCTIONS = {"sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log", "pow", "floor"}
COMPILER_SYMBOLS = {"memcpy", "memset", "memmove", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}


def compiler(name: str = "cc") -> str:
    path = shutil.which(name)
    if path is None:
        skip_or_fail(f"there is no compiler `{name}`")
    return path


def run(*command: Any) -> str:
    process = subprocess.run([str(argument) for argument in command], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout
