"""Files and streams of the system: devices stay devices, the umask is obeyed, and a reader that has stopped, or accepts only
ASCII, ends nothing."""

import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest
from support.children import COMMAND, child, run_child

from samara.cli.fly import fly
from samara.core.atomic_files import atomic_write, replace_link, write_text
from samara.record.recorder import Recorder


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    """/dev/null through a link, and a pipe whose reader gets the bytes."""
    link = tmp_path / "nowhere.txt"
    link.symlink_to("/dev/null")
    for target in (link, Path("/dev/null")):
        write_text(target, "all of this")
        assert stat.S_ISCHR(target.stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through the pipe")
    assert os.read(reader, 100) == b"through the pipe"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nowhere.txt", "pipe"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_is_obeyed(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "a")
        replace_link(tmp_path / "b.txt", tmp_path / "a.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode
    assert (tmp_path / "b.txt").read_text() == "a"


def test_a_failed_write_leaves_no_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'"),
        atomic_write(tmp_path / "a.txt") as temporary,
    ):
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_for_the_recording_before_the_picture(tmp_path, monkeypatch, capsys):
    """Both fail; the first sentence is about the recording."""

    def append(recorder: Recorder, data: object) -> bool:
        if recorder._progress.chunks:
            recorder.problem = f"{recorder.path}: recording stopped after 0.100 s: No space left on device"
            return False
        return original_append(recorder, data)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "run.png")

    original_append = Recorder._append
    monkeypatch.setattr(Recorder, "_append", append)
    monkeypatch.setattr("samara.view.plot.plots.draw_run", full)
    with pytest.raises(OSError, match=r"run\.png"):
        fly("hover", settings=["duration=2.2"], out=tmp_path)
    out = capsys.readouterr().out
    assert "run.mcap:recordingstoppedafter0.100s:Nospaceleftondevice" in "".join(out.split())  # however it is wrapped


def test_closed_stdout_and_an_ascii_terminal():
    """stdout closed, its reader gone, and ASCII: no traceback, and the exit status is that of the command."""
    closed = run_child(["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "vehicles"])
    assert (closed.returncode, closed.stderr) == (0, b"")
    with child([*COMMAND, "vehicles"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gone:
        assert gone.stdout is not None and gone.stderr is not None
        gone.stdout.close()
        assert (gone.stderr.read(), gone.wait()) == (b"", 0)
    plain = run_child([*COMMAND, "check", "hover"], env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (plain.returncode, plain.stderr) == (0, b"")
    plain.stdout.decode("ascii")
