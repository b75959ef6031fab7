"""Figures of generated C: code size and stack as compiled, for this machine or a microcontroller, and instructions per call.

They need programs that may be missing: a GCC, and Valgrind's Callgrind for the instructions; without them a figure is None.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HOST = ("cc",)
CORTEX_M4F = ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
_NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


class CodeFigures(NamedTuple):
    """Bytes of code with constants, and of the stack that a function and those it calls use at most."""

    code_bytes: int
    stack_bytes: int


def measure_code(source: Path, function: str, compiler: Sequence[str], optimisation: str) -> CodeFigures | None:
    """Compile a source file and return its figures; None without the compiler, or if it is not GCC."""
    command, size = shutil.which(compiler[0]), shutil.which(compiler[0].removesuffix("gcc").removesuffix("cc") + "size")
    if command is None or size is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "code.o"
        options = (*compiler[1:], "-std=c99", optimisation, "-fcallgraph-info=su", "-c", str(source), "-o", str(result))
        if _run(command, *options) is None:
            return None
        sizes = _run(size, str(result))
        graph = result.with_suffix(".ci")
        if sizes is None or not graph.exists():
            return None
        return CodeFigures(int(sizes.splitlines()[1].split()[0]), _stack(graph.read_text(encoding="utf-8"), function))


def _stack(graph: str, function: str) -> int:
    """The largest sum of stack frames along calls from a function; the graph has no cycles."""
    frames = {name: int(size) for name, size in _NODE.findall(graph)}
    calls: dict[str, set[str]] = {}
    for caller, callee in _EDGE.findall(graph):
        calls.setdefault(caller, set()).add(callee)

    def depth(name: str) -> int:
        return frames.get(name, 0) + max(map(depth, calls.get(name, ())), default=0)

    return depth(function)


def count_instructions(source: Path, program: str, function: str, calls: int) -> float | None:
    """Return the instructions per call of a function on this machine, in scalar arithmetic; None without a tool.

    Args:
        source: source file of the function.
        program: C program that calls it.
        function: name of the function.
        calls: how often the program calls it.
    """
    compiler, valgrind = shutil.which(HOST[0]), shutil.which("valgrind")
    if compiler is None or valgrind is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        main, binary = Path(folder) / "main.c", Path(folder) / "main"
        main.write_text(program, encoding="utf-8")
        options = ("-std=c99", "-O2", "-fno-tree-vectorize", f"-I{source.parent}", "-o", str(binary))
        if _run(compiler, *options, str(main), str(source), "-lm") is None:
            return None
        tool = ("--tool=callgrind", f"--callgrind-out-file={folder}/calls", f"--toggle-collect={function}")
        output = _run(valgrind, *tool, str(binary))
    collected = re.search(r"Collected : (\d+)", output or "")
    return int(collected[1]) / calls if collected else None


def _run(*command: str) -> str | None:
    """Return what a program prints; None if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if result.returncode else result.stdout + result.stderr
