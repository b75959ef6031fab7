"""`samara identify`: from a log to a vehicle that flies, and one sentence about every invalid log."""

import os
import re

import numpy as np
import pytest
from support.command import call
from support.measured_flights import HOME_W, lively_trajectory

import samara
from samara.control.registry import controller_spec
from samara.identify.identification import _correlation, _deviations
from samara.identify.readers.registry import read_logs
from samara.identify.start_vehicle import recorded_vehicle, scaled_vehicle
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.vehicles.plausibility import warnings

SECONDS = 24.0


def real_crazyflie():
    """The Crazyflie without the damping of its file, which would hide its inertia."""
    return samara.vehicle("crazyflie").without_effect("damping")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Half a minute of flight in Samara's format."""
    vehicle = real_crazyflie()
    path = tmp_path_factory.mktemp("flown") / "lively.mcap"
    drone = Drone(
        "drone", vehicle, lively_trajectory(vehicle), HOME_W, airborne=True, controller=controller_spec("indi")
    )
    samara.fly(Scenario("lively", (drone,), SECONDS, rates=Rates(log=100.0)), out=path)
    return path


@pytest.fixture(scope="module")
def guess(tmp_path_factory):
    """The initial vehicle: thrust and inertia 25 % too large."""
    vehicle = real_crazyflie()
    rotors = tuple(rotor._replace(k_thrust=1.25 * rotor.k_thrust) for rotor in vehicle.rotors)
    path = tmp_path_factory.mktemp("believed") / "guess.toml"
    samara.save_vehicle(vehicle.replace(rotors=rotors, inertia_B=1.25 * vehicle.inertia_B), path)
    return path


def test_a_log_becomes_a_vehicle(log, guess, tmp_path, monkeypatch, capsys):
    """From parameters that are 25 % off to the vehicle that flew, as output, a file and a page."""
    out, report = tmp_path / "mine.toml", tmp_path / "report"
    words = ("identify", str(log), "--vehicle", str(guess), "-o", str(out), "--report", str(report))
    status, output, err = call(monkeypatch, capsys, *words)
    assert (status, err) == (0, "")
    truth = real_crazyflie()
    for path in (out, tmp_path / "mine_predictor.toml"):
        identified = samara.vehicle(str(path))
        assert identified.name == path.stem
        assert np.mean([rotor.k_thrust for rotor in identified.rotors]) == pytest.approx(
            truth.rotors[0].k_thrust, rel=0.02
        )
        assert identified.inertia_B.xx == pytest.approx(truth.inertia_B.xx, rel=0.05)
        assert "identified" in path.read_text() or "fitted" in path.read_text()
    assert "physical vehicle" in output and "predictor vehicle" in output
    assert re.search(r"k_thrust .*±.*…", output)
    assert re.search(r"\* not excited: .*; fly ", output) or " *" not in output
    rows = {
        line.split()[0]: [float(cell) for cell in line.split()[1:]]
        for line in output.splitlines()
        if re.match(r"  (physical|predictor) +\d", line)
    }
    assert max(rows["predictor"]) < 0.1 and max(rows["physical"]) < 0.5
    assert "one flight: its halves predict each other" in output and "does not fly" not in output
    page = (report / "identify.html").read_text(encoding="utf-8")
    for word in (
        "Parameters",
        "not excited",
        "Prediction of unseen",
        "Residual force",
        "Correlation of",
        "samara identify",
    ):
        assert word in page or word == "not excited"
    assert "http" not in re.sub(r'"data:[^"]*"', "", page).replace("http-equiv", "")
    pictures = sorted(path.name for path in report.glob("*.png"))
    assert "identify_numbers.png" in pictures and "identify_predicted.png" in pictures
    assert [path.name for path in tmp_path.rglob(".*")] == []
    status, output, err = call(monkeypatch, capsys, "validate", str(out), str(log), "-o", str(tmp_path / "validated"))
    assert (status, err) == (0, "")
    assert "mine, trimmed" in output and (tmp_path / "validated" / "validation.png").exists()


def test_the_predictor_alone_without_scores(log, tmp_path, monkeypatch, capsys):
    out = tmp_path / "p.toml"
    words = ("identify", "logs", str(log), "--product", "predictor", "--no-scores", "--out", str(out))
    status, output, err = call(monkeypatch, capsys, *words)
    assert (status, err) == (0, "")
    assert "over the error of constant velocity" not in output
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]
    assert "effective value for prediction" in out.read_text()


def test_the_physical_vehicle_alone(log, tmp_path, monkeypatch, capsys):
    out = tmp_path / "mine.toml"
    status, output, err = call(
        monkeypatch, capsys, "identify", str(log), "--no-predictor", "--no-scores", "--out", str(out)
    )
    assert (status, err) == (0, "")
    assert "physical vehicle" in output and "predictor" not in output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]
    assert samara.vehicle(str(out)).name == "mine"


def test_a_result_that_does_not_fly_is_status_one(log, tmp_path, monkeypatch, capsys):
    """The file is written; one sentence names it and says what happened."""
    monkeypatch.setattr("samara.identify.hover_check.hover_problem", lambda vehicle: f"{vehicle.name} fell")
    out = tmp_path / "mine.toml"
    words = ("identify", str(log), "--no-predictor", "--no-scores", "--out", str(out))
    status, output, err = call(monkeypatch, capsys, *words)
    assert (status, err) == (1, "") and out.exists()
    assert output.splitlines()[-1] == f"{out}: does not fly: mine fell"


def test_help_says_both_ways(monkeypatch, capsys):
    assert "samara identify LOG" in " ".join(call(monkeypatch, capsys, "identify", "--help")[1].split())
    assert "--vehicle" in call(monkeypatch, capsys, "identify", "logs", "--help")[1]


# Bad input -----------------------------------------------------------------------------------------------------------

CSV = "t,u0,u1,u2,u3,wx,wy,wz,ax,ay,az\n"
MAP = """
time = "t"
motors = ["u0", "u1", "u2", "u3"]
rate = ["wx", "wy", "wz"]
specific_force = ["ax", "ay", "az"]
"""


def csv_rows(change=lambda k, row: row, n=2000):
    return CSV + "".join(
        ",".join(str(cell) for cell in change(k, [0.01 * k, *[0.6] * 4, 0.1, 0.0, 0.0, 0.0, 0.0, 9.8])) + "\n"
        for k in range(n)
    )


def replace_value(column, value, every=1, begin=500):
    def change(k, row):
        if k >= begin and k % every == 0:
            row[column] = value
        return row

    return change


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.ulg", b"", "empty.ulg: is empty; expected a flight log"),
        ("words.bin", b"these are words", "begins with b'these are words'"),
        ("short.ulg", b"ULog\x01\x12\x35\x01" + bytes(8), "short.ulg: "),
        ("cut.mcap", None, "cut.mcap"),
        ("still.csv", csv_rows(replace_value(slice(1, 5), [0.0] * 4, begin=0)), "motors never turn"),
        ("nan.csv", csv_rows(replace_value(1, "nan")), "are not numbers"),
        ("back.csv", csv_rows(replace_value(0, 3.0, every=3)), "goes back"),
        ("beyond.csv", csv_rows(replace_value(1, 7.5)), "outside 0 … 1"),
    ],
)
def test_a_log_that_is_none_gets_one_sentence(name, content, sentence, log, tmp_path, monkeypatch, capsys):
    path, columns = tmp_path / name, tmp_path / "map.toml"
    columns.write_text(MAP)
    if content is None:
        content = log.read_bytes()[:3000]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options = ("--columns", str(columns)) if name.endswith(".csv") else ()
    out = tmp_path / "out" / "mine.toml"
    words = ("identify", str(path), "--vehicle", "crazyflie", "-o", str(out), *options)
    status, _, err = call(monkeypatch, capsys, *words)
    assert (status, err.count("\n")) == (2, 1), err
    assert err.startswith("samara: ") and sentence in err
    assert not out.parent.exists()


def test_a_csv_of_unknown_columns_asks_for_a_map(tmp_path, monkeypatch, capsys):
    path = tmp_path / "other.csv"
    path.write_text(csv_rows())
    for words in (("identify", str(path)), ("validate", str(path)), ("info", str(path)), ("plot", str(path))):
        status, _, err = call(monkeypatch, capsys, *words)
        assert (status, err.count("\n")) == (2, 1), err
        assert "other.csv: has unknown columns; expected --columns MAP.toml" in err


def test_a_negative_variance_is_an_infinite_error():
    """Rounding makes variances negative in a flight of 3 s; the parameter is not excited, and no NaN is printed."""
    covariance = np.array([[4.0, 3.0], [3.0, -1e-9]])
    assert _deviations(covariance).tolist() == [2.0, np.inf]
    assert np.isfinite(_correlation(covariance)).all()


def test_validate_replays_dc_motors_and_refuses_other_aircraft(log, tmp_path, monkeypatch, capsys):
    """DC motors get the lag that `identify` gives them; a log with more motors than the vehicle is of another aircraft."""
    out = ("-o", str(tmp_path / "validated"))
    status, output, err = call(monkeypatch, capsys, "validate", "hakoniwa", str(log), *out)
    assert (status, err) == (0, "") and "hakoniwa, trimmed" in output
    rows = csv_rows().splitlines()
    six = [f"{row},{'u4,u5' if k == 0 else '0.6,0.6'}" for k, row in enumerate(rows)]
    (tmp_path / "six.csv").write_text("\n".join(six))
    (tmp_path / "map.toml").write_text(MAP.replace('"u3"]', '"u3", "u4", "u5"]'))
    words = (str(tmp_path / "six.csv"), "--columns", str(tmp_path / "map.toml"), *out)
    status, _, err = call(monkeypatch, capsys, "validate", "crazyflie", *words)
    assert status == 2 and "six: holds 6 motors; expected 4, as vehicle 'crazyflie' has" in err
    status, _, err = call(monkeypatch, capsys, "validate", "crazyfly", str(log), *out)
    assert status == 2 and "crazyfly: is neither a vehicle nor a flight log; did you mean crazyflie?" in err


def test_ten_gigabytes_are_refused_at_once(tmp_path, monkeypatch, capsys):
    path = tmp_path / "long.ulg"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    status, _, err = call(monkeypatch, capsys, "identify", str(path), "-o", str(tmp_path / "mine.toml"))
    assert status == 2 and "long.ulg: has 10.7 GB; expected a log of at most" in err


def test_what_is_wrong_beside_the_log_is_said_before_any_work(log, tmp_path, monkeypatch, capsys):
    """Unknown vehicle, unidentifiable vehicle, a folder that is a file, missing log, unknown output type."""
    (tmp_path / "file").write_text("")
    out = ("-o", str(tmp_path / "mine.toml"))
    for words, sentence in (
        ((str(log), "--vehicle", "crazyfly", *out), "crazyfly"),
        ((str(log), "--vehicle", "rigid_body_quadrotor", *out), "its motors do not use the model 'lag'"),
        ((str(log), "-o", str(tmp_path / "file" / "mine.toml")), "Not a directory"),
        ((str(log), *out, "--report", str(tmp_path / "file" / "report")), "Not a directory"),
        ((str(tmp_path / "none.ulg"), *out), "none.ulg"),
        ((str(log), *out, "--outputs", "torque"), "outputs is 'torque'; expected one of speed, thrust"),
        ((str(log), *out, "--product", "predictor", "--no-predictor"), "--product predictor with --no-predictor"),
    ):
        status, _, err = call(monkeypatch, capsys, "identify", *words)
        assert (status, err.count("\n")) == (2, 1), err
        assert sentence in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_log_without_its_aircraft_needs_one(log, tmp_path, monkeypatch, capsys):
    """A CSV does not say what flew: a vehicle, or mass and size, never an assumed one; a recording has its vehicle."""
    (tmp_path / "flight.csv").write_text(csv_rows())
    (tmp_path / "map.toml").write_text(MAP)
    words = ("identify", str(tmp_path / "flight.csv"), "--columns", str(tmp_path / "map.toml"), "--no-scores")
    out = ("-o", str(tmp_path / "mine.toml"))
    status, _, err = call(monkeypatch, capsys, *words, *out)
    assert status == 2 and err.startswith("samara: the logs do not say which aircraft flew; expected --vehicle")
    status, _, err = call(monkeypatch, capsys, *words, *out, "--vehicle", "iris", "--mass", "1")
    assert status == 2 and "--vehicle iris with --mass or --diagonal; expected one or the other" in err
    status, _, err = call(monkeypatch, capsys, *words, *out, "--mass", "-1", "--diagonal", "0.2")
    assert status == 2 and "mass = -1: expected a positive number" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flight.csv", "map.toml"]
    assert recorded_vehicle(read_logs([log]), [log]) == real_crazyflie()


def test_a_flight_that_excites_nothing_is_status_one(tmp_path, monkeypatch, capsys):
    """Constant angular rates alone: nothing is identified and nothing is written, but what to fly is listed."""
    (tmp_path / "flight.csv").write_text(csv_rows())
    (tmp_path / "map.toml").write_text(MAP.replace("specific_force", "# specific_force"))
    words = ("identify", str(tmp_path / "flight.csv"), "--columns", str(tmp_path / "map.toml"), "--no-scores")
    out = ("-o", str(tmp_path / "mine.toml"))
    status, output, err = call(monkeypatch, capsys, *words, *out, "--mass", "0.65", "--diagonal", "0.22")
    assert (status, err) == (1, "")
    assert "nothing was identified" in output and "samara identify plan" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flight.csv", "map.toml"]


@pytest.mark.parametrize(
    ("rotors", "mass", "diagonal"), [(4, 0.65, 0.22), (4, 0.029, 0.092), (6, 2.0, 0.6), (8, 6.0, 1.0)]
)
def test_a_scaled_vehicle_hovers_plausibly(rotors, mass, diagonal):
    """Mass and size are those given, thrust carries the weight, and no coefficient of the propellers is implausible."""
    vehicle = scaled_vehicle(rotors, mass=mass, diagonal=diagonal)
    assert len(vehicle.rotors) == rotors and vehicle.mass == mass
    assert 2.0 * max(np.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors) == pytest.approx(diagonal)
    speeds = samara.hover(vehicle)[0].rotor_speed
    thrust = sum(rotor.k_thrust * speed**2 for rotor, speed in zip(vehicle.rotors, speeds, strict=True))
    assert thrust == pytest.approx(mass * 9.80665, rel=1e-6)
    assert warnings(vehicle) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(log, tmp_path, monkeypatch, capsys):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    status, _, err = call(monkeypatch, capsys, "identify", str(log), "-o", str(closed / "mine.toml"))
    assert status == 2 and "closed" in err


# The plan ------------------------------------------------------------------------------------------------------------


def test_a_plan_is_a_scenario_waypoints_and_a_picture(tmp_path, monkeypatch, capsys):
    words = ("identify", "plan", "crazyflie", "--duration", "25", "--half-width", "2", "-o", str(tmp_path))
    status, output, err = call(monkeypatch, capsys, *words)
    assert (status, err) == (0, "")
    assert "manoeuvre" in output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"identify_crazyflie.{suffix}" for suffix in ("toml", "csv", "png")}
    scenario = samara.load_scenario(tmp_path / "identify_crazyflie.toml")
    assert scenario.drones[0].vehicle.name == "crazyflie"


def test_a_room_that_cannot_be_is_one_sentence(tmp_path, monkeypatch, capsys):
    for words, sentence in (
        (("--max-height", "0.6"), "at least 0.5 m between"),
        (("--duration", "3"), "expected 20 to 3600"),
    ):
        status, _, err = call(monkeypatch, capsys, "identify", "plan", "crazyflie", *words, "-o", str(tmp_path / "p"))
        assert status == 2 and sentence in err
    assert list(tmp_path.iterdir()) == []
