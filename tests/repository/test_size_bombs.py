"""Small files that would unfold to unbounded work are refused in one sentence, within a few hundred megabytes.

All bombs are read in one process whose address space is limited, so that a reader without a budget fails by construction.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from fuzz.bombs import BOMBS
from support.children import run_child

FUZZ = Path(__file__).resolve().parent.parent
HEADROOM = 400 << 20  # bytes beyond those of the interpreter with all modules
READ = """
import json, resource, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from fuzz.bombs import BOMBS
from samara.identify.readers import blackbox, crazyflie, csv_mapping, dataflash, ros2, ulog
import mcap.reader, mcap.stream_reader, mujoco, pyulog, defusedxml.ElementTree
from samara.vehicles.exchange import mjcf, sdf
folder = Path(sys.argv[2])
paths = {}
for name, bomb in BOMBS.items():
    (folder / name).mkdir()
    files = bomb.build(bomb.scale)
    paths[name] = folder / name / next(iter(files))
    for file, data in files.items():
        (folder / name / file).write_bytes(data)
del files, data
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[3]),) * 2)
for name, bomb in BOMBS.items():
    try:
        bomb.read(paths[name])
        result = "read"
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    print(json.dumps([name, result]), flush=True)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("the address space of a process is limited as Linux does")
    folder = tmp_path_factory.mktemp("bombs")
    run = run_child([sys.executable, "-c", READ, str(FUZZ), str(folder), str(HEADROOM)], seconds=300.0)
    return dict(json.loads(line) for line in run.stdout.splitlines()), run.stderr.decode()


@pytest.mark.parametrize("name", BOMBS)
def test_a_size_bomb_is_one_sentence(answers, name):
    messages, complaints = answers
    assert name in messages, complaints[-2000:]
    sentences = messages[name].split("\n")  # a vehicle has one per error
    assert re.search(BOMBS[name].sentence, sentences[-1]) and max(map(len, sentences)) < 600, messages[name][:500]
