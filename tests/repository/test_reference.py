"""The reference is complete: every key that a reader accepts has a row, and the example of each file loads and flies."""

import re
import tomllib

import numpy as np
import pytest
from support.repository import REPOSITORY
from tools.file_keys import FILES, record_keys, vehicle_keys
from tools.reference import BLOCK, NO_MEANING, PAGES, REGISTRIES, keys_table, rewrite, section

import samara
from samara.campaigns.campaign import parse_campaign
from samara.control.policy_file import dense_tensors, parse_policy
from samara.core.safetensors import tensors_bytes
from samara.record.run import check_expectations
from samara.scenario.file import ScenarioError, parse_scenario
from samara.vehicles import parse_vehicle

GENERATED = [page for page in sorted(PAGES.glob("*.md")) if "<!-- generated:" in page.read_text(encoding="utf-8")]
ELSEWHERE = {
    "wind[].mean": "a wind within a wind has the keys of `wind[]`",
    "events[].task": "a task within an event has the keys of `drones[].tasks[]`",
    "drones[].estimator": "docs/reference/estimators.md",
}
"""Tables of the files without a marked table on the page of the file."""


def read_page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    """The first TOML block of a page"""
    return re.search(r"^```toml\n(.*?)^```$", read_page(name), re.MULTILINE | re.DOTALL).group(1)


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_code(page):
    """`make gallery` rewrites them; a key without a meaning was never described."""
    text = page.read_text(encoding="utf-8")
    assert rewrite(text) == text
    assert text.count("<!-- generated:") == text.count("<!-- /generated -->") == len(BLOCK.findall(text))
    assert f"|{NO_MEANING}|" not in text


@pytest.mark.parametrize("file", FILES)
def test_every_table_of_a_file_is_on_its_page(file):
    marked = {match["name"] for match in BLOCK.finditer(read_page(f"{file}-file"))}
    missing = []
    for name in FILES[file]():
        table = name.partition(":")[0]
        is_described = f"keys {file} {table or 'top'}" in marked or f"types {file} {table}" in marked
        if not is_described and table not in ELSEWHERE:
            missing.append(name)
    assert missing == []


def test_every_type_of_a_table_is_probed():
    """A new task, event, wind or shape has a row; the keys that all winds share are in one table."""
    page = read_page("scenario-file")
    for table, names in REGISTRIES.items():
        assert [name for name in names if f"|`{name}`|" not in section(f"types scenario {table}", "")] == []
    shared = page.partition("|key of every model|")[2].partition("\n\n")[0]
    assert re.findall(r"^\|`(\w+)`\|", shared, re.MULTILINE) == ["model", "speed", "from_deg", "per_rotor"]


def test_the_tables_of_the_vehicle_file_have_the_keys_that_its_reader_accepts():
    """Under the heading of each table, no more and no less."""
    described: dict[str, set[str]] = {}
    for part in re.split(r"^### ", read_page("vehicle-file"), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        names = re.findall(r"\[+([\w.]+)\]+", title) or [""]
        keys = {
            key
            for row in re.findall(r"^\|(`\w+`(?:, `\w+`)*)\|", text, re.MULTILINE)
            for key in re.findall(r"\w+", row)
        }
        described[" ".join(names)] = keys | set(re.findall(r"^`(model) = ", text, re.MULTILINE))
    accepted = {re.sub(r"\[\]", "", name): set(keys) for name, keys in vehicle_keys().items()}
    accepted[""] -= {name for name in accepted if "." not in name}
    accepted["rotor rotors"] = (accepted.pop("rotor") | accepted.pop("rotors")) - {"motor", "servo"}
    common = {name: keys for name, keys in accepted.items() if name in described}
    assert {name: described[name] ^ keys for name, keys in common.items() if described[name] != keys} == {}
    assert set(common) == set(described)


def test_a_key_that_no_page_describes_is_found():
    """The recorder notes every key that a reader requests; a key without a meaning shows."""
    with record_keys("mine.toml") as tables, pytest.raises(ScenarioError, match="wings"):
        parse_scenario('duration = 1.0\nwings = 2\n[[drones]]\nvehicle = "iris"\n', "mine.toml")
    assert tables[""]["duration"].expected == "a number above 0 and up to 86400"
    rows = keys_table("campaign", "stop", "|`half_width`|x|y|Half the width.|")
    assert "|Half the width.|" in rows and rows.endswith(
        f"|`confidence`|number above 0.5 and up to 0.999999|`0.95`|{NO_MEANING}|"
    )


def test_the_example_of_a_scenario_flies():
    scenario = parse_scenario(example("scenario-file"), "example.toml")
    results = check_expectations(samara.fly(scenario), scenario.expect)
    assert len(results) == 3 and all(result.satisfied for result in results)


def test_the_example_of_a_vehicle_hovers():
    vehicle = parse_vehicle(example("vehicle-file"), "example.toml")
    assert samara.vehicles.warnings(vehicle) == []
    state, command = samara.hover(vehicle)
    assert all(0.0 < u < 1.0 for u in command)
    assert max(abs(x) for x in samara.derivative(state, command, vehicle).v_W) < 1e-9


def test_the_example_of_a_campaign_runs(tmp_path):
    (tmp_path / "example.toml").write_text(example("campaign-file"), encoding="utf-8")
    campaign = parse_campaign(example("campaign-file"), "example.toml", tmp_path)
    rows = samara.sweep(tmp_path / "example.toml", tmp_path / "out").table()
    assert rows.num_rows == campaign.flights and set(rows["outcome"].to_pylist()) == {"pass"}


def test_the_example_of_a_policy_is_read_with_its_weights():
    """Those of the Python example beside it."""
    weights = tensors_bytes(dense_tensors([(np.zeros((4, 22)), np.zeros(4))]))
    policy = parse_policy(example("policy-file").encode(), weights, "example")
    assert (policy.vehicle, policy.input_count, policy.output_count) == ("crazyflie", 22, 4)
    assert set(tomllib.loads(example("policy-file"))) >= {"vehicle", "observation", "action", "layers"}


def test_every_name_of_samara_is_on_the_page_of_python():
    """And every `samara.…` of the page exists."""
    page = read_page("python")
    assert [name for name in samara.__all__ if not re.search(rf"(samara\.|`){name}\b", page)] == []
    called = set(re.findall(r"`samara\.(\w+)\(", page))
    assert called <= set(samara.__all__) and len(called) > 20


def test_the_repository_runs_the_generator():
    """`make gallery` writes the tables."""
    assert "-m tools.reference" in (REPOSITORY / "Makefile").read_text(encoding="utf-8")
