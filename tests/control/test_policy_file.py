"""Policy folders as strangers send them: one sentence for each, and nothing is run."""

import json
import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.policy_file import (
    ABOUT,
    WEIGHTS,
    LayerKind,
    PolicyError,
    digest_of,
    load_policy,
    mlp,
    parse_policy,
    save_policy,
)
from samara.core.safetensors import read_tensors, tensors_bytes
from samara.scenario.file import load_scenario
from samara.scenario.scenario import ScenarioError


def saved(folder: Path, seed: int = 0, **options: Any) -> Path:
    draw, width, tensors = np.random.default_rng(seed), 22, {}
    for k, own in enumerate(mlp((8,), 4)):
        tensors |= {f"{k}.weight": draw.normal(size=(own.size, width)), f"{k}.bias": draw.normal(size=own.size)}
        width = own.size
    options = {"task": "hover", "evaluation": {"success": 0.998, "starts": "10 000"}} | options
    save_policy(folder, samara.vehicle("crazyflie"), mlp((8,), 4), tensors, **options)
    return folder


def test_a_folder_reads_back_what_was_written(tmp_path: Path) -> None:
    drawn = []

    def curve(path: Path) -> None:
        drawn.append(path.suffix)
        path.write_bytes(b"png")

    own = load_policy(saved(tmp_path / "policy", curve=curve, period=0.02))
    assert sorted(path.name for path in (tmp_path / "policy").iterdir()) == ["curve.png", ABOUT, WEIGHTS]
    assert drawn == [".png"]
    first = own.network[0]
    weights = np.random.default_rng(0).normal(size=(8, 22)).astype(np.float32)
    np.testing.assert_array_equal(first.weights, weights)
    assert own.period == 0.02 and dict(own.evaluation)["success"] == 0.998 and own.task == "hover"
    assert own.digest == digest_of(*((tmp_path / "policy" / name).read_bytes() for name in (ABOUT, WEIGHTS)))


def test_tensors_are_bytes_of_the_safetensors_format() -> None:
    """Eight bytes with the length of a JSON header, padded to a multiple of eight; the header; the numbers, by name."""
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
    """The bytes of a file; `names` are those of a list of entries, which may have one twice."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    if names:
        pairs = zip(names, entries, strict=True)
        text = b"{%s}" % ",".join(f'"{name}": {json.dumps(entry)}' for name, entry in pairs).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + numbers


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is not a safetensors file ("),
        (header({}, length=10_000_000_000), "header has 10000000000 bytes; expected at most 65536"),
        (header({}, length=2**63), "header has 9223372036854775808 bytes; expected at most 65536"),
        (header({}, length=60_000), "it is not a safetensors file ("),
        (header(b"[" * 60_000), "invalid JSON in header"),
        (header(b'{"a": ' * 5000), "recursion limit exceeded"),
        (header(b"\xff\xfe{}"), "invalid UTF-8 in header"),
        (header([1]), "invalid JSON in header"),
        (header({"a": {**ONE, "dtype": "I32"}}, b"1234"), "'a' is of 'I32'; expected F32"),
        (header({"a": {**ONE, "dtype": "F16"}}, b"1234"), "invalid shape, data type, or offset"),
        (header({"a": 3}, b"1234"), "invalid JSON in header"),
        (header({"a": ONE, "__metadata__": {"b": [1]}}, b"1234"), "invalid JSON in header"),
        (header(b'{"a": ' + b"9" * 5000 + b"}"), "number out of range"),
        (header(b'{"a": {"shape": [1], "shape": [2]}}'), "duplicate field `shape`"),
        (header(2 * [ONE], b"1234", names="aa"), "its header has 'a' twice; expected every name once"),
        (header({"a": {**ONE, "data_offsets": [-4, 0]}}, b"1234"), "invalid value: integer `-4`"),
        (header({"a": {**ONE, "data_offsets": [0, 10**400]}}, b"1234"), "number out of range"),
        (header({"a": {**ONE, "shape": [-1]}}, b"1234"), "invalid value: integer `-1`"),
        (header({"a": {**ONE, "shape": [1e300]}}, b"1234"), "floating point `1e+300`"),
        (header({"a": {**ONE, "shape": [1] * 9}}, b"1234"), "'a' has 9 axes; expected at most 4"),
        (header({"a": {**ONE, "shape": [2**20]}}, b"1234"), "invalid shape, data type, or offset"),
        (header({"a": {**ONE, "shape": [2**30, 2**30]}}, b"1234"), "overflow computing buffer size"),
        (header({"a": {**ONE, "data_offsets": [0, 8]}}, b"1234"), "invalid shape, data type, or offset"),
        (header({"a": {**ONE, "data_offsets": [4, 0]}}, b"1234"), "invalid offset for tensor `a`"),
        (header({"a": ONE, "b": ONE}, b"1234"), "invalid offset for tensor"),
        (header({"a": ONE}, b"12345678"), "file not fully covered"),
        (header({str(k): {**ONE, "shape": [0], "data_offsets": [0, 0]} for k in range(300)}), "300 arrays"),
    ],
)
def test_hostile_tensors_are_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read_tensors(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def changed(folder: Path, pattern: str, text: str) -> None:
    path = folder / ABOUT
    path.write_text(re.sub(pattern, text, path.read_text(), count=1))


@pytest.mark.parametrize(
    ("pattern", "text", "words"),
    [
        ("schema = 1", "schema = 2", "a newer Samara wrote it"),
        ("task", "tusk", "task is missing"),
        ("period = .*", "period = nan", "period = nan: expected a number"),
        ("period = .*", "period = 1e-12", "period = 1e-12: expected a number above 1e-05 and up to 1"),
        ('task = "hover"', r'task = "hover\\n#include"', "expected a text of up to 200 printable characters"),
        ("schema = 1", f"schema = 1\na = {'[' * 5000}", "is not TOML (brackets within brackets without end)"),
        ("period = .*", "period = 0.01\nprogram = 'rm'", "program = 'rm': expected only the keys"),
        ("size = 8", "size = 9", "0.weight is 8 × 22; expected 9 × 22"),
        ("size = 8", "size = 1000000000", "a whole number from 1 to 1024"),
        ("inputs = 22", "inputs = 21", "expected 22, as full_state of 4 rotors has"),
        ("rotors = 4", "rotors = 6", "expected 6 positive numbers"),
        ('activation = "tanh"', 'activation = "__import__"', "one of linear, relu, sigmoid, tanh"),
        ('kind = "full_state"', 'kind = "../x"', "one of full_state, tracking, state_error, raptor, px4_nn"),
        ("centre = .*", "centre = [1.0]", "expected 4 positive numbers"),
        ("weights_sha256 = .*", 'weights_sha256 = "0"', "is not the file that policy.toml was written with"),
        ("success = .*", "success = [1]", "expected a text or a finite number"),
        ("success = .*", "success = nan", "expected a text or a finite number"),
        ('kind = "dense"', 'kind = "code"', "one of dense, gru"),
    ],
)
def test_what_is_wrong_with_the_text_is_one_sentence(tmp_path: Path, pattern: str, text: str, words: str) -> None:
    changed(saved(tmp_path / "policy"), pattern, text)
    with pytest.raises(PolicyError, match=re.escape(words)) as caught:
        load_policy(tmp_path / "policy")
    assert str(caught.value).startswith(str(tmp_path / "policy")) and "\n" not in str(caught.value)


def with_tensors(folder: Path, tensors: dict[str, Any]) -> None:
    import hashlib

    weights = tensors_bytes(tensors)
    (folder / WEIGHTS).write_bytes(weights)
    changed(folder, "weights_sha256 = .*", f'weights_sha256 = "{hashlib.sha256(weights).hexdigest()}"')


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"0.weight": np.full((8, 22), np.nan)}, "0.weight[0, 0] is nan; expected a finite number"),
        ({"1.bias": np.array([0.0, np.inf, 0.0, 0.0])}, "1.bias[1] is inf"),
        ({"0.bias": np.full(8, 1e30)}, "at most 1e+06 in size"),
        ({"0.bias": np.zeros(7)}, "0.bias is 7; expected 8"),
        ({"2.weight": np.zeros(1)}, "it has '2.weight', which no layer of policy.toml has"),
    ],
)
def test_wrong_weights_are_one_sentence(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    folder = saved(tmp_path / "policy")
    with_tensors(folder, {**read_tensors((folder / WEIGHTS).read_bytes()), **change})
    with pytest.raises(PolicyError, match=re.escape(words)):
        load_policy(folder)


def test_a_policy_that_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    kinds = (LayerKind("dense", 4, "tanh"),)
    with pytest.raises(PolicyError, match="nan; expected a finite number"):
        save_policy(
            tmp_path / "policy",
            samara.vehicle("crazyflie"),
            kinds,
            {"0.weight": np.full((4, 22), np.nan), "0.bias": np.zeros(4)},
            task="hover",
        )
    assert not (tmp_path / "policy").exists()
    with pytest.raises(PolicyError, match="is larger than a policy"):
        parse_policy(b"", bytes(1 << 25), "policy")


@pytest.mark.parametrize(("name", "words"), [(WEIGHTS, "it is larger than 16 MB"), (ABOUT, "it is larger than 256 kB")])
def test_ten_gigabytes_are_not_read(tmp_path: Path, name: str, words: str) -> None:
    folder = saved(tmp_path / "policy")
    with (folder / name).open("r+b") as file:
        file.truncate(10_000_000_000)  # a hole: it takes no room on the disk
    tracemalloc.start()
    with pytest.raises(PolicyError, match=re.escape(words)) as caught:
        load_policy(folder)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20  # nor is a part of them
    assert str(caught.value).startswith(str(folder / name)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "command", ["export policy HERE -o out", "policy check HERE", "policy adapt HERE run.mcap -o out"]
)
def test_a_stranger_names_no_files(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vehicle of a policy is found by its name among those that are shipped, and never read from a path"""
    folder = saved(tmp_path / "policy")
    monkeypatch.chdir(tmp_path)
    for name in ("../secret.toml", str(tmp_path / "secret.toml"), "nobody"):
        changed(folder, 'name = ".*"', f'name = "{name}"')
        run = CliRunner().invoke(app, command.replace("HERE", str(folder)).split())
        words = f"{folder}: was trained on {name!r}, which does not come with Samara; expected --vehicle with its .toml file"
        assert str(run.exception) == words
    assert not list(tmp_path.glob("out/*"))


def test_an_array_that_comes_twice_is_one_sentence() -> None:
    one = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    with pytest.raises(ValueError, match="has 'a' twice"):
        read_tensors(header(f"{{{one}, {one}}}".encode(), b"1234"))


FILE = """
duration = 1.0
[[drones]]
vehicle = "{vehicle}"
controller = {{ kind = "policy", file = "{file}" }}
[[drones.tasks]]
kind = "hover"
duration = 1.0
"""


def test_a_scenario_names_policies_beside_it(tmp_path: Path) -> None:
    saved(tmp_path / "elsewhere")
    own = tmp_path / "here"
    saved(own / "policy")
    (own / "linked").mkdir()
    (own / "linked" / ABOUT).write_bytes((own / "policy" / ABOUT).read_bytes())
    (own / "linked" / WEIGHTS).symlink_to(tmp_path / "elsewhere" / WEIGHTS)
    cases = [
        ("crazyflie", "../elsewhere", "a file beside the scenario or below it"),
        ("crazyflie", str(tmp_path / "elsewhere"), "a file beside the scenario or below it"),
        ("crazyflie", "linked", "weights.safetensors: leads out of its folder; expected a file in it"),
        ("crazyflie", "nothing", "is not a directory; expected one with policy.toml and weights.safetensors"),
        ("iris", "policy", "trained on 'crazyflie' and is to fly 'iris'"),
    ]
    for vehicle, file, words in cases:
        (own / "mine.toml").write_text(FILE.format(vehicle=vehicle, file=file))
        with pytest.raises(ScenarioError, match=re.escape(words)) as caught:
            load_scenario(own / "mine.toml")
        assert str(caught.value).startswith("mine.toml: drones[0].controller.file")
    (own / "mine.toml").write_text(FILE.format(vehicle="crazyflie", file="policy").replace(", file", ", flie"))
    with pytest.raises(ScenarioError, match="file is missing"):
        load_scenario(own / "mine.toml")
    with pytest.raises(ScenarioError, match="a table with its folder"):
        load_scenario("hover", {"drones.controller": "policy"})
    elsewhere = {"drones.controller": {"kind": "policy", "file": str(tmp_path / "elsewhere")}}  # typed by a person
    assert samara.load_scenario("hover", elsewhere).drones[0].controller.name == "policy"
