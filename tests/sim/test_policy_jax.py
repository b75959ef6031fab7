"""Policies in the flights of JAX: a product of matrices for each layer, and the flight of LLVM to rounding."""

from pathlib import Path

import numpy as np
import pytest
from support.distilled import distilled

import samara
from samara.core.tree import flatten

pytest.importorskip("jax")


def test_policies_fly_on_jax_as_on_llvm(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    distilled(tmp_path / "policy", vehicle, hidden=16, samples=500)
    chosen = {"kind": "policy", "file": str(tmp_path / "policy")}
    scenario = samara.load_scenario("hover", {"duration": 0.5, "events": [], "drones.controller": chosen, "expect": {}})
    one = samara.fly_many(scenario, 3)
    two = samara.fly_many(scenario, 3, backend="jax", dtype="float64", fast=False)
    a, b = (np.array(flatten(own.final))[:6] for own in (one, two))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)
