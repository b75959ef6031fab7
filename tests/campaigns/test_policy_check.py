"""A policy before it flies: one to be trusted, the same made soft, and what is told of both."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.learnt import softened, trained
from typer.testing import CliRunner

import samara
from samara.campaigns.confidence import clopper_pearson
from samara.campaigns.policy_check import Checked, Trial, _apart, _compared, _depends, check_policy, fly_world
from samara.campaigns.policy_perturbations import PERTURBED, Worlds, scenario_for, worlds_of
from samara.cli import app
from samara.core.tree import flatten
from samara.sim.varied import varied_drone


def drawn(count: int, **how: Any) -> tuple[Any, Worlds]:
    scenario = scenario_for(trained(), "crazyflie")
    return scenario, worlds_of(scenario, count, **how)


# Worlds ---------------------------------------------------------------------------------------------------------------


def test_a_world_is_decided_by_seed_and_number() -> None:
    _, few = drawn(10)
    _, many = drawn(40)
    np.testing.assert_array_equal(many.values[:10], few.values)
    np.testing.assert_array_equal(many.seeds[:10], few.seeds)
    _, other = drawn(10, seed=2)
    assert (other.values != few.values).all()
    for k, own in enumerate(many.perturbed):
        assert own.low <= many.values[:, k].min() < many.values[:, k].max() <= own.high


def test_shares_multiply_all_of_a_kind_and_starts_are_beside_the_scenarios() -> None:
    scenario, worlds = drawn(6)
    names = [own.name for own in worlds.perturbed]
    assert names == [own.name for own in PERTURBED]
    nominal = scenario.drones[0].vehicle
    for k in range(6):
        row = dict(zip(names, worlds.values[k], strict=True))
        drone = varied_drone(scenario.drones[0], worlds.vary, k)
        own = drone.vehicle
        assert own.mass == pytest.approx(row["mass"] * nominal.mass, rel=1e-14)
        np.testing.assert_allclose(own.inertia_B, row["inertia"] * np.array(nominal.inertia_B), rtol=1e-14)
        for ours, usual in zip(own.rotors, nominal.rotors, strict=True):
            assert ours.k_thrust / usual.k_thrust == pytest.approx(row["thrust"], rel=1e-14)
            assert ours.k_torque / usual.k_torque == pytest.approx(row["thrust"], rel=1e-14)
            assert ours.motor.rise / usual.motor.rise == pytest.approx(row["lag"], rel=1e-14)
            assert ours.motor.fall / usual.motor.fall == pytest.approx(row["lag"], rel=1e-14)
        np.testing.assert_allclose(drone.start_W, (row["start x"], row["start y"], 3.0 + row["start z"]), rtol=1e-14)
        assert drone.yaw == pytest.approx(row["start yaw"])
        wind = worlds.vary["wind.mean_W"][k]
        assert np.hypot(*wind[:2]) == pytest.approx(row["wind"]) and wind[2] == 0.0
        assert np.arctan2(wind[1], wind[0]) == pytest.approx(row["wind to"])


def test_a_spread_of_none_is_the_vehicle_as_its_file_has_it() -> None:
    scenario, worlds = drawn(3, spread=0.0)
    own = varied_drone(scenario.drones[0], worlds.vary, 2)
    np.testing.assert_allclose(flatten(own.vehicle.rotors), flatten(scenario.drones[0].vehicle.rotors), rtol=1e-15)
    assert own.vehicle.mass == scenario.drones[0].vehicle.mass
    with pytest.raises(ValueError, match=r"spread 7 reduces mass to -0\.05 of the vehicle's; expected above 0"):
        drawn(3, spread=7.0)


def test_the_policy_knows_the_file_and_no_world() -> None:
    scenario, _ = drawn(1)
    policy = scenario.drones[0].controller.chosen["file"]
    assert policy.trim == trained().trim
    assert scenario.rates.autopilot == 100.0  # as in training


# Trials ---------------------------------------------------------------------------------------------------------------


def trial(passed: list[int], name: str = "some") -> Trial:
    own = np.array(passed, dtype=bool)
    return Trial(name, name, own, np.where(own, 0.5, -0.5), np.zeros((3, len(own))))


def test_a_trial_is_compared_world_by_world() -> None:
    """Of ten worlds that change, nine for the worse: Σ C(10, k) 2⁻¹⁰, k = 9 and 10"""
    first = trial([1] * 9 + [0] + [1] * 20)
    own = _compared(trial([0] * 9 + [1] + [1] * 10), first)
    assert own.changed == 10 and own.chance == pytest.approx(11 / 1024)
    assert own.interval == clopper_pearson(11, 20)
    assert _compared(trial([1] * 10), trial([0] * 10)).chance == 1.0
    moved = own._replace(p_W=np.full((3, 20), 0.01))
    assert _apart(moved, first) == pytest.approx(0.01 * np.sqrt(3.0))


def test_what_failures_depend_on_is_found_with_the_range_to_trust() -> None:
    draw = np.random.default_rng(3)
    x, idle = draw.uniform(0.0, 1.5, 2000), draw.uniform(0.0, 1.5, 2000)
    wind = next(own for own in PERTURBED if own.name == "wind")
    failed = draw.uniform(size=2000) < 1.0 / (1.0 + np.exp(-8.0 * (x - 1.2)))
    told = trial((~failed).astype(int).tolist())
    own = _depends(wind, x, told)
    assert own.matters and own.trusted is not None
    assert own.trusted[0] == 0.0 and own.trusted[1] == pytest.approx(1.2 - np.log(19.0) / 8.0, abs=0.06)  # 5 % there
    assert own.rates[0] < 0.01 and own.rates[2] == pytest.approx(1.0 / (1.0 + np.exp(-8.0 * 0.3)), abs=0.06)
    assert not _depends(wind, idle, told).matters


# Whole checks ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checks() -> tuple[Checked, Checked]:
    """Of a trained policy, and of the same that does a third of what it should"""
    return tuple(check_policy(own, "crazyflie", worlds=200) for own in (trained(), softened()))  # type: ignore[return-value]


def test_a_soft_policy_is_distrusted_and_a_learnt_one_less(checks: tuple[Checked, Checked]) -> None:
    good, soft = checks
    calm = [own.rate for own in (good.trials[0], soft.trials[0])]
    assert calm[0] > 0.9 and calm[1] < 0.8
    assert any(own.startswith("success in perturbed worlds") for own in soft.distrust)
    assert any(own.startswith("wind: ") for own in soft.distrust)
    least = [next(own.trusted for own in each.depends if own.factor.name == "wind") for each in checks]
    assert least[0] is not None and (
        least[1] is None or least[1][1] < 0.5 * least[0][1]
    )  # [m/s] of wind to be trusted in
    names = [own.name for own in good.trials]
    assert names[:5] == ["worlds", "finer_steps", "faster", "late", "adaptive_steps"]
    finer, adaptive = good.trials[1], good.trials[4]
    assert finer.changed == 0 and _apart(finer, good.trials[0]) < 1e-4  # RK4 of 1 ms is exact for this
    assert adaptive.changed == 0 and _apart(adaptive, good.trials[0]) < 1e-4
    if shutil.which("cc"):
        assert names[5] == "in_c" and _apart(good.trials[5], good.trials[0]) < 1e-3
    else:
        assert "there is no C compiler" in good.not_flown[0]


def test_a_world_flies_alone_to_the_same_place(checks: tuple[Checked, Checked]) -> None:
    good, _ = checks
    number = good.worst
    end = fly_world(good, number).tracks[0].tables["state"].rows[-1, :3]
    np.testing.assert_array_equal(end, good.trials[0].p_W[:, number])


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["policy", "check", *words])


def test_the_command_line_tells_writes_and_judges(tmp_path: Path) -> None:
    folder, report, kept = str(trained().folder), tmp_path / "report.md", tmp_path / "worst.mcap"
    few = [folder, "--worlds", "24", "--spread", "0.3"]
    done = run(*few, "--report", str(report), "--keep", str(kept), "--require", "success > 0.8 @ 95%")
    assert done.exit_code == 0, done.output
    assert "24 of 24" in done.output and "success > 0.8 @ 95%: held" in done.output
    text = report.read_text()
    assert "| worlds | 24 perturbed worlds | 24 of 24 |" in text and "Not to be trusted:" in text
    assert samara.load_run(kept).tracks[0].vehicle.name == "crazyflie"
    assert run(*few, "--require", "late > 0.99 @ 95%").exit_code == 1  # 24 flights cannot show it


def test_what_cannot_be_checked_is_one_sentence(tmp_path: Path) -> None:
    folder = str(trained().folder)
    for words, sentence in (
        ([str(tmp_path)], "policy.toml: cannot be read"),
        ([folder, "--vehicle", "iris"], "trained on 'crazyflie' and is to fly 'iris'"),
        ([folder, "--require", "often"], "requirement 'often'; expected a name"),
        ([folder, "--scenario", "swarm", "--worlds", "2"], "expected one, which the policy flies"),
    ):
        done = run(*words)
        assert done.exit_code and sentence in str(done.exception), (words, done.output, done.exception)
