"""Senseless parts lists: each gives a vehicle that hovers, or is rejected in one sentence."""

from collections import Counter

import numpy as np
import pytest

import samara
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.layouts import LAYOUTS
from samara.vehicles.parts.parts_list import parts_list

TEXTS = ("", "0x0", "-5x4", "nan", "1e9x1", "2207", "2207 0KV", "0S0", "6S1300 0C", "99S1", "\x1b[31m", "5x5x99", "∞")


def random_parts(generator: np.random.Generator) -> dict[str, object]:
    """Unrelated parts, some of them invalid."""
    stator = f"{int(generator.integers(3, 99)):02d}{int(generator.integers(1, 40)):02d}"
    entries = {
        "mass": float(0.01 * 2500.0 ** generator.uniform(-0.1, 1.1)),
        "diagonal": float(0.03 * 130.0 ** generator.uniform(-0.1, 1.1)),
        "motors": f"{stator} {10.0 * 6000.0 ** generator.uniform():.0f}KV{' brushed' if generator.uniform() < 0.1 else ''}",
        "props": f"{40.0 ** generator.uniform():.2f}x{40.0 ** generator.uniform():.2f}x{int(generator.integers(1, 7))}",
        "battery": f"{int(generator.integers(1, 16))}S{20.0 * 2000.0 ** generator.uniform():.0f}",
        "layout": str(generator.choice(list(LAYOUTS))),
    }
    if generator.uniform() < 0.3:
        entries[str(generator.choice(["motors", "props", "battery", "layout"]))] = str(generator.choice(TEXTS))
    if generator.uniform() < 0.2:
        entries[str(generator.choice(["mass", "diagonal", "k_thrust", "payload"]))] = float(
            generator.choice([np.nan, np.inf, -1.0, 0.0])
        )
    return entries


def try_all(seed: int, count: int) -> Counter[str]:
    generator, outcomes = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        entries = random_parts(generator)
        try:
            vehicle = assemble(parts_list(name="any", **entries))
        except ValueError as refused:
            assert str(refused) and "\n" not in str(refused) and "\x1b" not in str(refused), entries
            assert "expected" in str(refused) or "cannot hover" in str(refused), str(refused)
            outcomes["refused"] += 1
            continue
        samara.hover(vehicle)
        outcomes["made"] += 1
    return outcomes


def test_a_few():
    assert try_all(seed=0, count=40)["refused"] > 30


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many(seed):
    assert try_all(seed, 300)["refused"] > 200
