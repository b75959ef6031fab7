"""Policies in flights on JAX: one matrix product per layer, equal to the LLVM flight to rounding."""

from pathlib import Path

import numpy as np
import pytest
from support.distilled_policy import distil_policy

import samara
from samara.core.tree import flatten

pytest.importorskip("jax")


def test_policies_fly_on_jax_as_on_llvm(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    distil_policy(tmp_path / "policy", vehicle, hidden=16, samples=500)
    controller = {"type": "policy", "file": str(tmp_path / "policy")}
    scenario = samara.load_scenario(
        "hover", {"duration": 0.5, "events": [], "drones.controller": controller, "expect": {}}
    )
    on_llvm = samara.fly_many(scenario, 3)
    on_jax = samara.fly_many(scenario, 3, backend="jax", dtype="float64", fast=False)
    a, b = (np.array(flatten(flights.final))[:6] for flights in (on_llvm, on_jax))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)
