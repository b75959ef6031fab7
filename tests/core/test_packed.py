"""Compressed files are unpacked only up to their limit, and rows that do not form a grid are refused."""

import gzip
import io
import tracemalloc

import numpy as np
import pytest

from samara.core.budget import load_npz, read_text_or_gzip
from samara.wind.wind_field import WindField
from samara.world.obstacles import HeightMap


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def peak_memory(action):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="expected") as error:
            action()
        return str(error.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_packed_arrays_round_trip():
    x, y = load_npz(npz(x=[1, 2], y=[3.5]), "a.npz", "xy")
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [3.5]


def test_text_is_read_gzipped_or_not(tmp_path):
    for name, data in (("a.csv", "é,1\n".encode()), ("b.csv.gz", gzip.compress("\ufeffé,1\n".encode()))):
        (tmp_path / name).write_bytes(data)
        assert read_text_or_gzip(tmp_path / name) == "é,1\n"


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    """20 MB of zeros in 20 kB, with a limit of 1 MB: memory use stays close to the limit."""
    bomb = npz(x=np.zeros(2_500_000))
    sentence, peak = peak_memory(lambda: load_npz(bomb, "bomb.npz", "x", 1 << 20))
    assert sentence == "bomb.npz: holds 19.1 MB; expected at most 1 MB" and peak < 3 << 20
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(bytes(20 << 20)))
    sentence, peak = peak_memory(lambda: read_text_or_gzip(path, 1 << 20))
    assert sentence == f"{path}: has too many bytes after decompression; expected at most 1 MB" and peak < 5 << 20


def test_rows_that_do_not_form_a_grid_are_refused():
    """300 rows with 300 different coordinates on each axis would be a grid of 27 million corners."""
    places = np.arange(300.0)
    lines = [f"{p},{p},{p},0,0,0" for p in places]
    data = "\n".join(["x,y,z,wind_x,wind_y,wind_z", *lines]).encode()
    sentence, peak = peak_memory(lambda: WindField.from_bytes(data, "line.csv"))
    assert sentence == "line.csv: 300 rows; expected one for each of the 300 × 300 × 300 corners of the grid"
    assert peak < 5 << 20
    twice = "x,y,z,wind_x,wind_y,wind_z\n" + "0,0,0,1,1,1\n" * 2 + "1,0,0,1,1,1\n" * 2
    with pytest.raises(ValueError, match="4 rows; expected one for each of the 2 × 1 × 1 corners"):
        WindField.from_bytes(twice.encode(), "twice.csv")
    same = "x,y,z,wind_x,wind_y,wind_z\n0,0,0,1,1,1\n0,0,0,1,1,1\n1,1,0,1,1,1\n1,1,0,1,1,1\n"
    with pytest.raises(ValueError, match="4 rows; expected one for each of the 2 × 2 × 1 corners"):
        WindField.from_bytes(same.encode(), "same.csv")


def test_an_invalid_height_map_is_named(tmp_path):
    for name, data, sentence in (
        ("a.npz", b"no zip", "a.npz: cannot be read; expected a NumPy .npz file of numbers"),
        ("b.npz", npz(x=[0.0, 1.0], y=[0.0, 1.0]), "b.npz: z is missing; expected arrays x, y and z"),
        (
            "c.npz",
            npz(x=[1j, 2], y=[0.0, 1.0], z=[0.0]),
            "c.npz: cannot be read; expected a NumPy .npz file of numbers",
        ),
        (
            "d.npy",
            b"\x93NUMPY\x01\x00\x0e\x00{'descr': (((\n",
            "d.npy: cannot be read; expected a NumPy .npy file of numbers",
        ),
        ("e.csv", b" \n", "e.csv: has no rows; expected heights separated by commas"),
    ):
        with pytest.raises(ValueError, match=rf"^{name}: ") as error:
            HeightMap.from_file(name, None if name.endswith(".npz") else 1.0, data=data)
        assert str(error.value) == sentence


@pytest.mark.parametrize("value", ["x", [[1.0], [1.0, 2.0]], [1j], [None], {"x": 1.0}, 10**400])
def test_arrays_that_are_not_numeric_are_refused(value):
    with pytest.raises(ValueError, match=r"^WindField.x is .*; expected numbers, in rows of equal length$"):
        WindField(value, [0.0], [0.0], [0.0])
