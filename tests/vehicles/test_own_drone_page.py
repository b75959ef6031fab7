"""docs/tutorials/own-drone.md shows the output of its command."""

import re

from support.repository import REPOSITORY

from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.performance import performance_figures

RACER = {"mass": 0.65, "diagonal": 0.22, "motors": "2207 1950KV", "props": "5.1x4.3x3", "battery": "6S1300"}


def test_the_table_is_what_the_command_prints():
    page = (REPOSITORY / "docs" / "tutorials" / "own-drone.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"95 % interval\n ─+\n(.*?)```", page, re.DOTALL)
    printed = [" ".join(line.split()) for line in table.splitlines()]
    figures = performance_figures(assemble(parts_list(name="racer", **RACER)))
    assert printed == [f"{figure.name} {figure.value_text} {figure.interval}" for figure in figures]
