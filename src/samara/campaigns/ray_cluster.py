"""A campaign on a Ray cluster: batches are tasks, and come back in any order. What a lost node had is flown again elsewhere.

The rows are drawn here and flown there, each task on one thread, so that the bits are those of a campaign flown here.
"""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from samara.campaigns.batch import Columns, Flying
from samara.campaigns.campaign import CampaignError
from samara.campaigns.gpu_confirmation import flown_by
from samara.campaigns.samples import Block, Rows, settings_of
from samara.campaigns.store import versions
from samara.compiler.thread_pool import limited_to
from samara.core.lazy_import import MissingExtraError
from samara.core.quantity import Scalar
from samara.core.types import Array

Missing = Callable[[int], Iterator[tuple[Block, Array]]]

RETRIES = 20  # of a batch whose node was lost
AHEAD = 2  # batches that wait for each processor, so that none is idle and results do not pile up
ROUNDS = 16  # batches for each processor in a small campaign: at its end the last one is waited for
LEAST, MOST = 272, 4096  # rows in a batch: one fill of the lanes, and some seconds of flying
ANSWERS_WITHIN = 20.0  # [s]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # RFC 9113, 3.4
SETTINGS = b"\x04"  # the kind of frame that a server says first
LOOKS_EVERY = 10.0  # [s], whether the cluster is still there


def flown_on(
    address: str,
    flying: Flying,
    missing: Missing,
    left: int,
    size: int | None,
    how: dict[str, Scalar],
    lost: Callable[[int], None] = lambda nodes: None,
) -> Iterator[tuple[Block, Array, Columns]]:
    """Each batch with its columns as soon as it is done, on the cluster at an address, or on the one that "auto" finds

    `missing` gives the batches of a size, `left` is how many rows they have; without `size` each processor gets some. `lost`
    hears how many nodes the cluster has lost meanwhile.
    """
    ray = _ray()
    with _connected(ray, address) as host:
        needs = {"num_gpus": 1} if how.get("backend") == "pallas" else {"num_cpus": 1}
        task = ray.remote(max_retries=RETRIES, **needs)(_columns)
        every = -(-left // (ROUNDS * _processors(ray)))
        batches = missing(size or min(max(every, LEAST), MOST))
        packed, ours = ray.cloudpickle.dumps(flying), tuple(versions().items())
        waiting: dict[Scalar, tuple[Block, Array]] = {}
        dead = _dead(ray)
        while True:
            if not _answers(host):  # asked of Ray itself, it would wait for a minute and then end the process
                raise CampaignError(
                    f"--ray {address}: the cluster no longer answers; nothing is lost, and the same command goes on"
                )
            lost(_dead(ray) - dead)
            while len(waiting) < AHEAD * _processors(ray) and (batch := next(batches, None)) is not None:
                waiting[task.remote(packed, ours, flying.rows(batch[1], batch[0]), how)] = batch
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOKS_EVERY)
            for own in done:
                block, numbers = waiting.pop(own)
                yield block, numbers, _got(ray, own, f"--ray {address}: rows {numbers[0]} to {numbers[-1]}")


def _columns(packed: bytes, theirs: tuple[tuple[str, str], ...], rows: Rows, how: dict[str, Scalar]) -> Columns:
    """A batch on a worker, on one of its machine's cores"""
    flying = _unpacked(packed, theirs)
    file = flying.campaign.file
    if settings_of(rows) and isinstance(file, Path) and not file.exists():
        raise CampaignError(f"a worker has no file {file}; expected it there, since numbers of it are varied")
    with limited_to(1):
        return flown_by(flying, rows, how)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes, theirs: tuple[tuple[str, str], ...]) -> Flying:
    """The campaign, once for all batches that a worker flies: its programs are traced for this object, and for no copy of it"""
    ours = versions()
    for package, version in theirs:
        if ours[package] != version:
            raise CampaignError(
                f"a worker has {package} {ours[package]}; expected {version}, for the same bits everywhere"
            )
    flying: Flying = pickle.loads(packed)
    return flying


def _got(ray: Scalar, result: Scalar, where: str) -> Columns:
    try:
        columns: Columns = ray.get(result)
        return columns
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        sentence = (str(cause).splitlines() or [""])[0] or type(cause).__name__
        raise CampaignError(f"{where}: {sentence}") from None


def _processors(ray: Scalar) -> int:
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


def _dead(ray: Scalar) -> int:
    return sum(not own["Alive"] for own in ray.nodes())


@contextmanager
def _connected(ray: Scalar, address: str) -> Iterator[str]:
    """With the cluster, whose address is given; one sentence where there is none"""
    if ray.is_initialized():
        yield ""
        return
    try:
        if not _answers(own := _place_of(address)):
            raise ConnectionError(f"nobody at {own} speaks as Ray does")
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        sentence = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise CampaignError(f"--ray {address}: no Ray cluster answers ({sentence}); expected one") from None
    ray._private.worker._worker_logs_enabled = False  # pages about a lost node, which `log_to_driver` does not stop
    try:
        yield address if address.startswith("ray://") else ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def _place_of(address: str) -> str:
    """host:port of the cluster; for "auto" that of the last one here, empty where there was none"""
    if address != "auto":
        return address
    if place := os.environ.get("RAY_ADDRESS", ""):
        return place if place != "auto" else ""
    last = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    try:
        return last.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _answers(host: str) -> bool:
    """Whether somebody at host:port answers as Ray does, in HTTP/2; true where the address is not known

    Ray itself waits forever at an address where something other than Ray listens.
    """
    name, _, port = host.removeprefix("ray://").rpartition(":")
    if not host:
        return True
    if not name or not port.isdecimal() or not int(port) < 1 << 16:
        raise ValueError(f"{host!r} is not auto, HOST:PORT or ray://HOST:PORT")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), ANSWERS_WITHIN) as own:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return True
            own.sendall(PREFACE)
            return own.recv(4)[3:] == SETTINGS
    except OSError:
        return False


def _ray() -> Scalar:
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtraError("--ray needs Ray: pip install 'samara[ray]'") from None
    return ray
