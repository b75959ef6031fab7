"""`samara sweep`: from the file to the page; every error is one sentence and loses no row."""

import errno
import sys
from pathlib import Path

import pytest
from support.command import call

from samara.campaigns.store import open_store
from samara.core.extras import install_hint

pytest.importorskip("pyarrow")

TEXT = """
schema = 1
name = "small"
scenario = "hover"
flights = 6
seed = 7

[settings]
duration = 0.5
"expect.landed" = false

[vary]
mass = { normal = [1.0, 0.05], relative = true }
"yaw" = { uniform = [0.0, 1.0] }

[record]
worst = 1
failures = 0
"""


@pytest.fixture
def sweep(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TEXT)
    return lambda *words: call(monkeypatch, capsys, "sweep", *words)


def stored_rows(folder):
    return open_store(folder).table().to_pylist()


def test_from_the_file_to_the_page(sweep):
    status, out, err = sweep("small.toml", "--require", "success > 0.5 @ 95%")
    assert (status, err) == (0, "") and "success > 0.5 @ 95%: held" in out
    assert "saved  1 flights in out/small/flown" in out and len(list(Path("out/small/flown").glob("*.mcap"))) == 1
    first_rows = stored_rows("out/small")
    status, out, _ = sweep("small.toml", "--additional-flights", "2", "--no-record", "--require", "success > 0.9 @ 95%")
    assert status == 1 and "undecided" in out and "saved" not in out
    assert stored_rows("out/small")[:6] == first_rows and len(stored_rows("out/small")) == 8
    status, out, err = sweep("report", "out/small", "--no-fly")
    assert (status, err) == (0, "") and "page   out/small/report.html" in out
    assert "samara sweep replay out/small --row " in Path("out/small/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("mass = ", "weight = ", "small.toml: vary.weight: "),
        ('"yaw" = ', '"wind.sped" = ', "small.toml: vary: 'wind.sped' is not a parameter of this wind"),
        (
            "[1.0, 0.05]",
            "[1.0, -0.05]",
            "small.toml: vary.mass: normal has the width -0.05; expected a positive number",
        ),
        ("[0.0, 1.0]", "[1.0, 0.0]", "small.toml: vary.yaw: uniform is from 1 to 0; expected the first to be less"),
        ("flights = 6", "flights = 0", "small.toml: flights = 0: expected a whole number from 1"),
        ('scenario = "hover"', 'scenario = "gone.toml"', "gone.toml"),
    ],
)
def test_a_file_that_is_wrong_flies_nothing(sweep, old, new, sentence):
    assert old in TEXT
    Path("small.toml").write_text(TEXT.replace(old, new))
    status, out, err = sweep("small.toml")
    assert (status, out) == (2, "") and sentence in err and err.startswith("samara: ") and err.count("\n") == 1
    assert not Path("out").exists()


def test_files_and_folders_that_are_not_there(sweep):
    for words in (("gone.toml",), ("report", "gone"), ("query", "gone", "select 1"), ("replay", "gone", "--row", "1")):
        status, _, err = sweep(*words)
        assert status == 2 and "gone" in err and "expected" in err and err.count("\n") == 1


def test_another_campaign_and_a_changed_file_leave_the_folder_as_it_is(sweep):
    assert sweep("small.toml", "--no-record")[0] == 0
    first_rows = stored_rows("out/small")
    Path("other.toml").write_text(TEXT.replace("small", "other").replace("seed = 7", "seed = 8"))
    Path("small.toml").write_text(TEXT.replace("0.05", "0.06"))
    for file in ("other.toml", "small.toml"):
        status, _, err = sweep(file, "--out", "out/small")
        assert status == 2 and err.count("\n") == 1
        assert "out/small: holds another campaign, 'small', or this one before it was changed" in err
    assert stored_rows("out/small") == first_rows


def test_a_full_disk_loses_no_row_that_was_written(sweep, monkeypatch):
    import pyarrow.parquet

    write, written = pyarrow.parquet.write_table, []

    def write_until_full(table, file, **options):
        if len(written) == 2:
            file.write(b"PAR1 half")  # the part that fits on the disk
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(file)
        return write(table, file, **options)

    monkeypatch.setattr(pyarrow.parquet, "write_table", write_until_full)
    status, _, err = sweep("small.toml", "--batch", "2")
    assert status == 2 and err.startswith("samara: ") and err.count("\n") == 1
    assert "No space left on device" in err and "out/small/rows/000000000004-000000000005.parquet" in err
    saved = stored_rows("out/small")
    assert [row["row"] for row in saved] == [0, 1, 2, 3]
    monkeypatch.setattr(pyarrow.parquet, "write_table", write)
    assert sweep("small.toml", "--no-record")[0] == 0
    assert stored_rows("out/small")[:4] == saved and len(stored_rows("out/small")) == 6


def test_what_a_killed_writer_left_is_no_row(sweep):
    assert sweep("small.toml", "--no-record")[0] == 0
    (Path("out/small/rows") / ".000000000006-000000000007.parquet.0a1b2c3d.parquet").write_bytes(b"PAR1 half")
    assert len(stored_rows("out/small")) == 6 and sweep("small.toml", "--no-record")[0] == 0


def test_no_cluster_is_one_sentence(sweep, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    status, _, err = sweep("small.toml", "--ray", "auto")
    assert status == 2 and err == f"samara: --ray needs Ray: {install_hint('ray')}\n"

    class Ray:
        """The part of Ray that is used when no cluster answers."""

        @staticmethod
        def is_initialized():
            return False

        @staticmethod
        def init(address, **options):
            raise ConnectionError(f"Could not connect to {address}\nand a page of advice")

    monkeypatch.setitem(sys.modules, "ray", Ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", "nowhere")
    for address, reason in (
        ("127.0.0.1:1", "127.0.0.1:1 does not respond as Ray does"),
        ("auto", "Could not connect to auto"),
    ):
        status, _, err = sweep("small.toml", "--ray", address)
        assert (status, err) == (2, f"samara: --ray {address}: no Ray cluster answers ({reason}); expected one\n")
    assert sweep("small.toml", "--no-record")[0] == 0 and len(stored_rows("out/small")) == 6


@pytest.mark.parametrize("words", [("--require", "success > 2"), ("--additional-flights", "-1"), ("--batch", "0")])
def test_options_that_cannot_be(sweep, words):
    status, _, err = sweep("small.toml", *words)
    assert status == 2 and "expected" in err and err.count("\n") == 1
