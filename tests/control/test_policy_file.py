"""Untrusted policy folders: every defect gives one sentence, and nothing is executed."""

import json
import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.policy_file import (
    DESCRIPTION_FILE,
    WEIGHTS_FILE,
    LayerSpec,
    PolicyError,
    load_policy,
    mlp_layers,
    parse_policy,
    policy_digest,
    save_policy,
)
from samara.core.safetensors import read_tensors, tensors_bytes
from samara.scenario.file import load_scenario
from samara.scenario.scenario import ScenarioError

HAS_DETAILS = tuple(map(int, safetensors.__version__.split(".")[:2])) >= (0, 8)  # older ones name the error only


def save_random_policy(folder: Path, seed: int = 0, **options: Any) -> Path:
    rng, width, tensors = np.random.default_rng(seed), 22, {}
    for i, layer in enumerate(mlp_layers((8,), 4)):
        tensors |= {f"{i}.weight": rng.normal(size=(layer.size, width)), f"{i}.bias": rng.normal(size=layer.size)}
        width = layer.size
    options = {"task": "hover", "evaluation": {"success_rate": 0.998, "starts": "10 000"}} | options
    save_policy(folder, samara.vehicle("crazyflie"), mlp_layers((8,), 4), tensors, **options)
    return folder


def test_a_folder_reads_back_what_was_written(tmp_path: Path) -> None:
    suffixes = []

    def curve(path: Path) -> None:
        suffixes.append(path.suffix)
        path.write_bytes(b"png")

    policy = load_policy(save_random_policy(tmp_path / "policy", curve=curve, period=0.02))
    assert sorted(path.name for path in (tmp_path / "policy").iterdir()) == [
        "curve.png",
        DESCRIPTION_FILE,
        WEIGHTS_FILE,
    ]
    assert suffixes == [".png"]
    first = policy.network[0]
    weights = np.random.default_rng(0).normal(size=(8, 22)).astype(np.float32)
    np.testing.assert_array_equal(first.weights, weights)
    assert policy.period == 0.02 and dict(policy.evaluation)["success_rate"] == 0.998 and policy.task == "hover"
    assert policy.digest == policy_digest(
        *((tmp_path / "policy" / name).read_bytes() for name in (DESCRIPTION_FILE, WEIGHTS_FILE))
    )


def test_tensors_are_bytes_of_the_safetensors_format() -> None:
    """Eight bytes with the length of a JSON header, padded to a multiple of eight; the header; the data, by name."""
    arrays = {"c": np.array([1.5]), "a.b": np.arange(6.0).reshape(2, 3)}
    text = b'{"a.b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"c":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}}'
    text += b" " * (-len(text) % 8)
    data = struct.pack("<Q", len(text)) + text + struct.pack("<7f", *range(6), 1.5)
    assert tensors_bytes(arrays) == data
    tensors = read_tensors(data)
    assert tensors.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(tensors[name], array)


def header(entries: Any, numbers: bytes = b"", length: int | None = None, names: str = "") -> bytes:
    """The bytes of a file; `names` are those of a list of entries, which may repeat a name."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    if names:
        pairs = zip(names, entries, strict=True)
        text = b"{%s}" % ",".join(f'"{name}": {json.dumps(entry)}' for name, entry in pairs).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + numbers


ONE_FLOAT = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is not a safetensors file ("),
        (header({}, length=10_000_000_000), "header has 10000000000 bytes; expected at most 65536"),
        (header({}, length=2**63), "header has 9223372036854775808 bytes; expected at most 65536"),
        (header({}, length=60_000), "it is not a safetensors file ("),
        (header(b"[" * 60_000), "invalid JSON in header"),
        (header(b'{"a": ' * 5000), "recursion limit exceeded"),
        (header(b"\xff\xfe{}"), "invalid UTF-8 in header"),
        (header([1]), "invalid JSON in header"),
        (header({"a": {**ONE_FLOAT, "dtype": "I32"}}, b"1234"), "'a' is of 'I32'; expected F32"),
        (header({"a": {**ONE_FLOAT, "dtype": "F16"}}, b"1234"), "invalid shape, data type, or offset"),
        (header({"a": 3}, b"1234"), "invalid JSON in header"),
        (header({"a": ONE_FLOAT, "__metadata__": {"b": [1]}}, b"1234"), "invalid JSON in header"),
        (header(b'{"a": ' + b"9" * 5000 + b"}"), "number out of range"),
        (header(b'{"a": {"shape": [1], "shape": [2]}}'), "duplicate field `shape`"),
        (header(2 * [ONE_FLOAT], b"1234", names="aa"), "its header has 'a' twice; expected every name once"),
        (header({"a": {**ONE_FLOAT, "data_offsets": [-4, 0]}}, b"1234"), "invalid value: integer `-4`"),
        (header({"a": {**ONE_FLOAT, "data_offsets": [0, 10**400]}}, b"1234"), "number out of range"),
        (header({"a": {**ONE_FLOAT, "shape": [-1]}}, b"1234"), "invalid value: integer `-1`"),
        (header({"a": {**ONE_FLOAT, "shape": [1e300]}}, b"1234"), "floating point `1e+300`"),
        (header({"a": {**ONE_FLOAT, "shape": [1] * 9}}, b"1234"), "'a' has 9 axes; expected at most 4"),
        (header({"a": {**ONE_FLOAT, "shape": [2**20]}}, b"1234"), "invalid shape, data type, or offset"),
        (header({"a": {**ONE_FLOAT, "shape": [2**30, 2**30]}}, b"1234"), "overflow computing buffer size"),
        (header({"a": {**ONE_FLOAT, "data_offsets": [0, 8]}}, b"1234"), "invalid shape, data type, or offset"),
        (header({"a": {**ONE_FLOAT, "data_offsets": [4, 0]}}, b"1234"), "invalid offset for tensor `a`"),
        (header({"a": ONE_FLOAT, "b": ONE_FLOAT}, b"1234"), "invalid offset for tensor"),
        (header({"a": ONE_FLOAT}, b"12345678"), "file not fully covered"),
        (header({str(k): {**ONE_FLOAT, "shape": [0], "data_offsets": [0, 0]} for k in range(300)}), "300 arrays"),
    ],
)
def test_hostile_tensors_are_rejected(data: bytes, message: str) -> None:
    words = [message] if HAS_DETAILS else [message, "it is not a safetensors file"]
    with pytest.raises(ValueError, match="|".join(map(re.escape, words))) as caught:
        read_tensors(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def replace_text(folder: Path, pattern: str, text: str) -> None:
    path = folder / DESCRIPTION_FILE
    path.write_text(re.sub(pattern, text, path.read_text(), count=1))


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ("schema = 1", "schema = 2", "a newer Samara wrote it"),
        ("task", "tusk", "task is missing"),
        ("period = .*", "period = nan", "period = nan: expected a number"),
        ("period = .*", "period = 1e-12", "period = 1e-12: expected a number above 1e-05 and up to 1"),
        ('task = "hover"', r'task = "hover\\n#include"', "expected a text of up to 200 printable characters"),
        ("schema = 1", f"schema = 1\na = {'[' * 5000}", "is not TOML (brackets are nested too deeply)"),
        ("period = .*", "period = 0.01\nprogram = 'rm'", "program = 'rm': expected only the keys"),
        ("size = 8", "size = 9", "0.weight is 8 × 22; expected 9 × 22"),
        ("size = 8", "size = 1000000000", "a whole number from 1 to 1024"),
        ("inputs = 22", "inputs = 21", "expected 22, the size of full_state for 4 rotors"),
        ("rotors = 4", "rotors = 6", "expected 6 positive numbers"),
        ('activation = "tanh"', 'activation = "__import__"', "one of linear, relu, sigmoid, tanh"),
        ('type = "full_state"', 'type = "../x"', "one of full_state, tracking, state_error, raptor, px4_nn"),
        ("offset = .*", "offset = [1.0]", "expected 4 positive numbers"),
        ("weights_sha256 = .*", 'weights_sha256 = "0"', "is not the file that policy.toml was written with"),
        ("success_rate = .*", "success_rate = [1]", "expected a text or a finite number"),
        ("success_rate = .*", "success_rate = nan", "expected a text or a finite number"),
        ('type = "dense"', 'type = "code"', "one of dense, gru"),
    ],
)
def test_defects_of_the_description_are_reported(tmp_path: Path, pattern: str, text: str, message: str) -> None:
    replace_text(save_random_policy(tmp_path / "policy"), pattern, text)
    with pytest.raises(PolicyError, match=re.escape(message)) as caught:
        load_policy(tmp_path / "policy")
    assert str(caught.value).startswith(str(tmp_path / "policy")) and "\n" not in str(caught.value)


def replace_tensors(folder: Path, tensors: dict[str, Any]) -> None:
    import hashlib

    weights = tensors_bytes(tensors)
    (folder / WEIGHTS_FILE).write_bytes(weights)
    replace_text(folder, "weights_sha256 = .*", f'weights_sha256 = "{hashlib.sha256(weights).hexdigest()}"')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.weight": np.full((8, 22), np.nan)}, "0.weight[0, 0] is nan; expected a finite number"),
        ({"1.bias": np.array([0.0, np.inf, 0.0, 0.0])}, "1.bias[1] is inf"),
        ({"0.bias": np.full(8, 1e30)}, "at most 1e+06 in magnitude"),
        ({"0.bias": np.zeros(7)}, "0.bias is 7; expected 8"),
        ({"2.weight": np.zeros(1)}, "it has '2.weight', which no layer of policy.toml has"),
    ],
)
def test_wrong_weights_are_reported(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = save_random_policy(tmp_path / "policy")
    replace_tensors(folder, {**read_tensors((folder / WEIGHTS_FILE).read_bytes()), **change})
    with pytest.raises(PolicyError, match=re.escape(message)):
        load_policy(folder)


def test_a_policy_that_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    kinds = (LayerSpec("dense", 4, "tanh"),)
    with pytest.raises(PolicyError, match="nan; expected a finite number"):
        save_policy(
            tmp_path / "policy",
            samara.vehicle("crazyflie"),
            kinds,
            {"0.weight": np.full((4, 22), np.nan), "0.bias": np.zeros(4)},
            task="hover",
        )
    assert not (tmp_path / "policy").exists()
    with pytest.raises(PolicyError, match="is too large for a policy"):
        parse_policy(b"", bytes(1 << 25), "policy")


@pytest.mark.parametrize(
    ("name", "message"), [(WEIGHTS_FILE, "it is larger than 16 MB"), (DESCRIPTION_FILE, "it is larger than 256 kB")]
)
def test_ten_gigabytes_are_not_read(tmp_path: Path, name: str, message: str) -> None:
    folder = save_random_policy(tmp_path / "policy")
    with (folder / name).open("r+b") as file:
        file.truncate(10_000_000_000)  # a sparse file, which takes no disk space
    tracemalloc.start()
    with pytest.raises(PolicyError, match=re.escape(message)) as caught:
        load_policy(folder)
    _, peak_memory = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_memory < 1 << 20  # not even partly
    assert str(caught.value).startswith(str(folder / name)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "command", ["export policy HERE -o out", "policy check HERE", "policy adapt HERE run.mcap -o out"]
)
def test_a_policy_cannot_name_files(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vehicle of a policy is looked up by name among the shipped ones, never read from a path"""
    folder = save_random_policy(tmp_path / "policy")
    monkeypatch.chdir(tmp_path)
    for name in ("../secret.toml", str(tmp_path / "secret.toml"), "nobody"):
        replace_text(folder, 'name = ".*"', f'name = "{name}"')
        run = CliRunner().invoke(app, command.replace("HERE", str(folder)).split())
        message = f"{folder}: was trained on {name!r}, which does not come with Samara; expected --vehicle with its .toml file"
        assert str(run.exception) == message
    assert not list(tmp_path.glob("out/*"))


def test_a_repeated_array_is_reported() -> None:
    one = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    with pytest.raises(ValueError, match="has 'a' twice"):
        read_tensors(header(f"{{{one}, {one}}}".encode(), b"1234"))


FILE = """
duration = 1.0
[[drones]]
vehicle = "{vehicle}"
controller = {{ type = "policy", file = "{file}" }}
[[drones.tasks]]
type = "hover"
duration = 1.0
"""


def test_a_scenario_names_policies_beside_it(tmp_path: Path) -> None:
    save_random_policy(tmp_path / "elsewhere")
    directory = tmp_path / "here"
    save_random_policy(directory / "policy")
    (directory / "linked").mkdir()
    (directory / "linked" / DESCRIPTION_FILE).write_bytes((directory / "policy" / DESCRIPTION_FILE).read_bytes())
    (directory / "linked" / WEIGHTS_FILE).symlink_to(tmp_path / "elsewhere" / WEIGHTS_FILE)
    cases = [
        ("crazyflie", "../elsewhere", "a file beside the scenario or below it"),
        ("crazyflie", str(tmp_path / "elsewhere"), "a file beside the scenario or below it"),
        ("crazyflie", "linked", "weights.safetensors: leads out of its folder; expected a file in it"),
        ("crazyflie", "nothing", "is not a directory; expected one with policy.toml and weights.safetensors"),
        ("iris", "policy", "trained on 'crazyflie' and is to fly 'iris'"),
    ]
    for vehicle, file, message in cases:
        (directory / "mine.toml").write_text(FILE.format(vehicle=vehicle, file=file))
        with pytest.raises(ScenarioError, match=re.escape(message)) as caught:
            load_scenario(directory / "mine.toml")
        assert str(caught.value).startswith("mine.toml: drones[0].controller.file")
    (directory / "mine.toml").write_text(FILE.format(vehicle="crazyflie", file="policy").replace(", file", ", flie"))
    with pytest.raises(ScenarioError, match="file is missing"):
        load_scenario(directory / "mine.toml")
    with pytest.raises(ScenarioError, match="a table with its folder"):
        load_scenario("hover", {"drones.controller": "policy"})
    elsewhere = {"drones.controller": {"type": "policy", "file": str(tmp_path / "elsewhere")}}  # set by the user
    assert samara.load_scenario("hover", elsewhere).drones[0].controller.name == "policy"
