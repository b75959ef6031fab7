"""The page of a campaign: its numbers are those of the rows, it is self-contained, and names in it do no harm."""

import re

import pytest

import samara
from samara.campaigns.campaign import load_campaign
from samara.campaigns.confidence import clopper_pearson, format_percent
from samara.campaigns.store import worst_rows
from samara.campaigns.sweep import outcome_counts, sweep
from samara.record.flight_streams import parameter_unit
from samara.view.report.campaign import campaign_page, write_campaign_page

pytest.importorskip("pyarrow")

EVIL = "</pre><script>alert(1)</script>"
TEXT = f"""
schema = 1
name = "{EVIL}"
scenario = "hover"
flights = 40
seed = 3
sampler = "latin"

[settings]
duration = 0.4
"expect.landed" = false
"expect.max_error" = 0.3
"drones.vehicle" = "crazyflie_documented"

[vary]
mass = {{ normal = [1.0, 0.05], relative = true }}
"start_W.x" = {{ uniform = [-0.1, 0.1] }}

[degraded]
max_error = LIMIT
"""


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    file = folder / "own.toml"
    file.write_text(TEXT.replace("LIMIT", "0.05"))
    return sweep(file, folder / "out"), load_campaign(file)


def words(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r'src="data:[^"]*"', "", page)))


def test_rates_intervals_and_the_worst_are_those_of_the_rows(flown, tmp_path):
    store, campaign = flown
    write_campaign_page(store.folder, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    text = words(page)
    for outcome, count in outcome_counts(store).items():
        low, high = clopper_pearson(count, 40)
        assert f"{outcome} {count} {format_percent(count / 40)} {format_percent(low)} to {format_percent(high)}" in text
    for row in worst_rows(store, campaign, 10):
        assert f"samara sweep replay {store.folder} --row {row} --view" in text
    assert "normal, 1 ± 0.05 × nominal" in text and store.metadata["fingerprint"] in text
    assert "2 parameters varied" in text and "/rows, 1 Parquet file " in text
    assert "a fan of trajectories" in page and "distributions of the metrics" in page


def test_the_page_needs_nothing_and_runs_nothing(flown):
    store, _ = flown
    page = campaign_page(store.folder, fly=False)
    assert EVIL not in page and "<script" not in page and "&lt;script&gt;" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert page == campaign_page(store.folder, fly=False)


def test_where_flights_fail(tmp_path):
    """Failure rates over each factor, the pairs, and rows that could not be flown are listed separately."""
    file = tmp_path / "own.toml"
    text = TEXT.replace("LIMIT", "0.05").replace('"expect.max_error" = 0.3', '"expect.max_tilt_deg" = 3.0')
    file.write_text(text.replace("normal = [1.0, 0.05]", "normal = [1.0, 0.6]"))
    store = sweep(file, tmp_path / "out")
    page = campaign_page(store.folder, fly=False)
    rows = store.table().to_pylist()
    unflown = [row for row in rows if row["reason"] == "error"]
    assert unflown and f"{len(unflown)} could not be flown" in page and f"row {unflown[0]['row']}: " in page
    assert any(row["outcome"] == "fail" for row in rows)
    assert "failure rate over each factor" in page and "outcomes over pairs of factors" in page


def test_no_failure_is_said(flown):
    store, _ = flown
    assert outcome_counts(store)["fail"] or "No flight failed." in campaign_page(store.folder, fly=False)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.5, "50.0 %"), (0.0123, "1.2 %"), (0.99996, "99.9960 %"), (1e-6, "0.00010 %")],
)
def test_percent_has_digits_that_tell_it_from_none_and_all(share, text):
    assert format_percent(share) == text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[("mass", "kg"), ("vehicle.mass", "kg"), ("yaw", "rad"), ("start_W.x", "m"), ("drag.linear.x", "N s/m")],
        *[("rotors.k_thrust", "N s^2/rad^2"), ("rotors.0.k_thrust", "N s^2/rad^2"), ("battery.capacity", "C")],
        *[("inertia_B.xx", "kg m^2"), ("controller.position", "1"), ("scenario.duration", "1")],
        *[
            ("wind.mean_W.x", "m/s"),
            ("wind.sigma", "m/s"),
            ("wind.sigma.x", "m/s"),
            ("wind.tau", "s"),
            ("wind.no", "1"),
        ],
    ],
)
def test_a_varied_parameter_has_the_unit_of_its_field(name, unit):
    assert parameter_unit(samara.load_scenario("wind"), name) == unit
