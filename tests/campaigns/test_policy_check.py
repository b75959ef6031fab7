"""Policy checks: of a good policy, of a weakened copy, and the reported concerns of both."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trained_policies import trained_policy, weakened_policy
from typer.testing import CliRunner

import samara
from samara.campaigns.confidence import clopper_pearson
from samara.campaigns.policy_check import (
    PolicyCheckResult,
    Trial,
    _compare_trial,
    _fit_dependence,
    _max_end_distance,
    check_policy,
    fly_world,
)
from samara.campaigns.policy_perturbations import PERTURBATIONS, Worlds, make_policy_scenario, sample_worlds
from samara.cli import app
from samara.core.tree import flatten
from samara.sim.varied import varied_drone


def sampled_worlds(count: int, **options: Any) -> tuple[Any, Worlds]:
    scenario = make_policy_scenario(trained_policy(), "crazyflie")
    return scenario, sample_worlds(scenario, count, **options)


# Worlds ---------------------------------------------------------------------------------------------------------------


def test_a_world_is_decided_by_seed_and_number() -> None:
    _, few = sampled_worlds(10)
    _, many = sampled_worlds(40)
    np.testing.assert_array_equal(many.values[:10], few.values)
    np.testing.assert_array_equal(many.seeds[:10], few.seeds)
    _, other = sampled_worlds(10, seed=2)
    assert (other.values != few.values).all()
    for k, perturbation in enumerate(many.perturbations):
        assert perturbation.low <= many.values[:, k].min() < many.values[:, k].max() <= perturbation.high


def test_shares_multiply_all_of_a_kind_and_starts_are_beside_the_scenarios() -> None:
    scenario, worlds = sampled_worlds(6)
    names = [perturbation.name for perturbation in worlds.perturbations]
    assert names == [perturbation.name for perturbation in PERTURBATIONS]
    nominal = scenario.drones[0].vehicle
    for k in range(6):
        row = dict(zip(names, worlds.values[k], strict=True))
        drone = varied_drone(scenario.drones[0], worlds.vary, k)
        vehicle = drone.vehicle
        assert vehicle.mass == pytest.approx(row["mass"] * nominal.mass, rel=1e-14)
        np.testing.assert_allclose(vehicle.inertia_B, row["inertia"] * np.array(nominal.inertia_B), rtol=1e-14)
        for rotor, nominal_rotor in zip(vehicle.rotors, nominal.rotors, strict=True):
            assert rotor.k_thrust / nominal_rotor.k_thrust == pytest.approx(row["thrust"], rel=1e-14)
            assert rotor.k_torque / nominal_rotor.k_torque == pytest.approx(row["thrust"], rel=1e-14)
            assert rotor.motor.time_constant_up / nominal_rotor.motor.time_constant_up == pytest.approx(
                row["lag"], rel=1e-14
            )
            assert rotor.motor.time_constant_down / nominal_rotor.motor.time_constant_down == pytest.approx(
                row["lag"], rel=1e-14
            )
        np.testing.assert_allclose(drone.start_W, (row["start x"], row["start y"], 3.0 + row["start z"]), rtol=1e-14)
        assert drone.yaw == pytest.approx(row["start yaw"])
        wind = worlds.vary["wind.mean_W"][k]
        assert np.hypot(*wind[:2]) == pytest.approx(row["wind"]) and wind[2] == 0.0
        assert np.arctan2(wind[1], wind[0]) == pytest.approx(row["wind to"])


def test_a_spread_of_none_is_the_vehicle_as_its_file_has_it() -> None:
    scenario, worlds = sampled_worlds(3, spread=0.0)
    drone = varied_drone(scenario.drones[0], worlds.vary, 2)
    np.testing.assert_allclose(flatten(drone.vehicle.rotors), flatten(scenario.drones[0].vehicle.rotors), rtol=1e-15)
    assert drone.vehicle.mass == scenario.drones[0].vehicle.mass
    with pytest.raises(ValueError, match=r"spread 7 reduces mass to -0\.05 of the vehicle's; expected above 0"):
        sampled_worlds(3, spread=7.0)


def test_the_policy_knows_the_file_and_no_world() -> None:
    scenario, _ = sampled_worlds(1)
    policy = scenario.drones[0].controller.option_values["file"]
    assert policy.trim == trained_policy().trim
    assert scenario.rates.control == 100.0  # as in training


# Trials ---------------------------------------------------------------------------------------------------------------


def trial(passed: list[int], name: str = "some") -> Trial:
    success = np.array(passed, dtype=bool)
    return Trial(name, name, success, np.where(success, 0.5, -0.5), np.zeros((3, len(success))))


def test_a_trial_is_compared_world_by_world() -> None:
    """Of ten changed worlds, nine for the worse: Σ C(10, k) 2⁻¹⁰, k = 9 and 10"""
    first = trial([1] * 9 + [0] + [1] * 20)
    compared = _compare_trial(trial([0] * 9 + [1] + [1] * 10), first)
    assert compared.changed == 10 and compared.p_value == pytest.approx(11 / 1024)
    assert compared.interval == clopper_pearson(11, 20)
    assert _compare_trial(trial([1] * 10), trial([0] * 10)).p_value == 1.0
    moved = compared._replace(p_W=np.full((3, 20), 0.01))
    assert _max_end_distance(moved, first) == pytest.approx(0.01 * np.sqrt(3.0))


def test_what_failures_depend_on_is_found_with_the_range_to_trust() -> None:
    draw = np.random.default_rng(3)
    x, idle = draw.uniform(0.0, 1.5, 2000), draw.uniform(0.0, 1.5, 2000)
    wind = next(perturbation for perturbation in PERTURBATIONS if perturbation.name == "wind")
    failed = draw.uniform(size=2000) < 1.0 / (1.0 + np.exp(-8.0 * (x - 1.2)))
    wind_trial = trial((~failed).astype(int).tolist())
    dependence = _fit_dependence(wind, x, wind_trial)
    assert dependence.is_significant and dependence.trusted_range is not None
    assert dependence.trusted_range[0] == 0.0 and dependence.trusted_range[1] == pytest.approx(
        1.2 - np.log(19.0) / 8.0, abs=0.06
    )  # 5 % there
    assert dependence.rates[0] < 0.01 and dependence.rates[2] == pytest.approx(
        1.0 / (1.0 + np.exp(-8.0 * 0.3)), abs=0.06
    )
    assert not _fit_dependence(wind, idle, wind_trial).is_significant


# Complete checks ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checks() -> tuple[PolicyCheckResult, PolicyCheckResult]:
    """Of a trained policy, and of one with a third of its action"""
    return tuple(check_policy(policy, "crazyflie", flights=200) for policy in (trained_policy(), weakened_policy()))  # type: ignore[return-value]


def test_a_weak_policy_raises_more_concerns_than_a_trained_one(
    checks: tuple[PolicyCheckResult, PolicyCheckResult],
) -> None:
    good, soft = checks
    calm = [first_trial.rate for first_trial in (good.trials[0], soft.trials[0])]
    assert calm[0] > 0.9 and calm[1] < 0.8
    assert any(concern.startswith("success in perturbed worlds") for concern in soft.concerns)
    assert any(concern.startswith("wind: ") for concern in soft.concerns)
    least = [
        next(dependence.trusted_range for dependence in check.dependences if dependence.factor.name == "wind")
        for check in checks
    ]
    assert least[0] is not None and (
        least[1] is None or least[1][1] < 0.5 * least[0][1]
    )  # [m/s] of wind to be trusted in
    names = [trial_result.name for trial_result in good.trials]
    assert names[:5] == ["worlds", "finer_steps", "faster", "late", "adaptive_steps"]
    finer, adaptive = good.trials[1], good.trials[4]
    assert finer.changed == 0 and _max_end_distance(finer, good.trials[0]) < 1e-4  # RK4 of 1 ms is exact for this
    assert adaptive.changed == 0 and _max_end_distance(adaptive, good.trials[0]) < 1e-4
    if shutil.which("cc"):
        assert names[5] == "in_c" and _max_end_distance(good.trials[5], good.trials[0]) < 1e-3
    else:
        assert "there is no C compiler" in good.skipped[0]


def test_a_world_flies_alone_to_the_same_place(checks: tuple[PolicyCheckResult, PolicyCheckResult]) -> None:
    good, _ = checks
    number = good.worst
    end = fly_world(good, number).drone_records[0].tables["state"].rows[-1, :3]
    np.testing.assert_array_equal(end, good.trials[0].p_W[:, number])


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["policy", "check", *words])


def test_the_command_line_reports_writes_and_decides(tmp_path: Path) -> None:
    folder = str(trained_policy().folder)
    report, recording = tmp_path / "check.md", tmp_path / "worst.mcap"
    few = [folder, "--flights", "24", "--spread", "0.3"]
    done = run(*few, "--out", str(tmp_path), "--require", "success > 0.8 @ 95%")
    assert done.exit_code == 0, done.output
    assert "24 of 24" in done.output and "success > 0.8 @ 95%: held" in done.output
    text = report.read_text()
    assert "| worlds | 24 perturbed worlds | 24 of 24 |" in text and "Not to be trusted:" in text
    assert samara.load_run(recording).drone_records[0].vehicle.name == "crazyflie"
    assert run(*few, "--require", "late > 0.99 @ 95%").exit_code == 1  # 24 flights cannot show it


def test_what_cannot_be_checked_is_one_sentence(tmp_path: Path) -> None:
    folder = str(trained_policy().folder)
    for words, sentence in (
        ([str(tmp_path)], "policy.toml: cannot be read"),
        ([folder, "--vehicle", "iris"], "trained on 'crazyflie' and is to fly 'iris'"),
        ([folder, "--require", "often"], "requirement 'often'; expected a name"),
        ([folder, "--scenario", "swarm", "--flights", "2"], "expected one, which the policy flies"),
    ):
        done = run(*words)
        assert done.exit_code and sentence in str(done.exception), (words, done.output, done.exception)
