"""Lists that no builder would write: each makes a vehicle that hovers, or is refused in one sentence."""

from collections import Counter

import numpy as np
import pytest

import samara
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.layouts import LAYOUTS
from samara.vehicles.parts.parts_list import parts_list

TEXTS = ("", "0x0", "-5x4", "nan", "1e9x1", "2207", "2207 0KV", "0S0", "6S1300 0C", "99S1", "\x1b[31m", "5x5x99", "∞")


def senseless(dice: np.random.Generator) -> dict[str, object]:
    """Parts that have nothing to do with each other, some of them none"""
    stator = f"{int(dice.integers(3, 99)):02d}{int(dice.integers(1, 40)):02d}"
    own = {
        "mass": float(0.01 * 2500.0 ** dice.uniform(-0.1, 1.1)),
        "diagonal": float(0.03 * 130.0 ** dice.uniform(-0.1, 1.1)),
        "motors": f"{stator} {10.0 * 6000.0 ** dice.uniform():.0f}KV{' brushed' if dice.uniform() < 0.1 else ''}",
        "props": f"{40.0 ** dice.uniform():.2f}x{40.0 ** dice.uniform():.2f}x{int(dice.integers(1, 7))}",
        "battery": f"{int(dice.integers(1, 16))}S{20.0 * 2000.0 ** dice.uniform():.0f}",
        "layout": str(dice.choice(list(LAYOUTS))),
    }
    if dice.uniform() < 0.3:
        own[str(dice.choice(["motors", "props", "battery", "layout"]))] = str(dice.choice(TEXTS))
    if dice.uniform() < 0.2:
        own[str(dice.choice(["mass", "diagonal", "k_thrust", "payload"]))] = float(
            dice.choice([np.nan, np.inf, -1.0, 0.0])
        )
    return own


def try_all(seed: int, count: int) -> Counter[str]:
    dice, told = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        own = senseless(dice)
        try:
            vehicle = assemble(parts_list(name="any", **own))
        except ValueError as refused:
            assert str(refused) and "\n" not in str(refused) and "\x1b" not in str(refused), own
            assert "expected" in str(refused) or "cannot hover" in str(refused), str(refused)
            told["refused"] += 1
            continue
        samara.hover(vehicle)
        told["made"] += 1
    return told


def test_a_few():
    assert try_all(seed=0, count=40)["refused"] > 30


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many(seed):
    assert try_all(seed, 300)["refused"] > 200
