"""Fly a campaign on a Ray cluster: batches are tasks that complete in any order; batches of a lost node are flown elsewhere.

Rows are sampled locally and flown on the workers, each task on one thread, so that the bits are those of a local campaign.
"""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from samara.campaigns.batch import CampaignFlights, Columns
from samara.campaigns.campaign import CampaignError
from samara.campaigns.gpu_confirmation import fly_batch
from samara.campaigns.samples import RowRange, SampleRows, scenario_settings
from samara.campaigns.store import versions
from samara.compiler.thread_pool import limit_threads
from samara.core.extras import import_extra
from samara.core.quantity import Scalar
from samara.core.types import Array

MissingBatches = Callable[[int], Iterator[tuple[RowRange, Array]]]

RETRIES = 20  # of a batch whose node was lost
QUEUED_BATCHES_PER_CPU = 2  # queued batches per processor, so that none is idle and results do not pile up
BATCHES_PER_CPU = 16  # batches per processor in a small campaign: limits the wait for the last batch
MIN_BATCH_ROWS, MAX_BATCH_ROWS = 272, 4096  # rows in a batch: one fill of the SIMD lanes, and a few seconds of flying
CONNECT_TIMEOUT = 20.0  # [s]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # RFC 9113, 3.4
SETTINGS = b"\x04"  # type of the first frame from a server
POLL_PERIOD = 10.0  # [s]: period of the check that the cluster still responds


def fly_on_cluster(
    address: str,
    campaign_flights: CampaignFlights,
    missing: MissingBatches,
    remaining: int,
    size: int | None,
    options: dict[str, Scalar],
    on_lost_nodes: Callable[[int], None] = lambda nodes: None,
) -> Iterator[tuple[RowRange, Array, Columns]]:
    """Fly the missing batches on a Ray cluster, and yield each with its columns as soon as it is done.

    Args:
        address: "auto", HOST:PORT or ray://HOST:PORT.
        campaign_flights: the campaign to fly.
        missing: yields the missing batches for a batch size.
        remaining: count of missing rows.
        size: rows per batch; chosen by the processor count if None.
        options: options of `samara.fly_many`.
        on_lost_nodes: called with the count of nodes that the cluster has lost since the start.
    """
    ray = _ray()
    with _cluster_connection(ray, address) as host:
        resources = {"num_gpus": 1} if options.get("backend") == "pallas" else {"num_cpus": 1}
        task = ray.remote(max_retries=RETRIES, **resources)(_fly_columns)
        batch_size = -(-remaining // (BATCHES_PER_CPU * _processor_count(ray)))
        batches = missing(size or min(max(batch_size, MIN_BATCH_ROWS), MAX_BATCH_ROWS))
        packed, local_versions = ray.cloudpickle.dumps(campaign_flights), tuple(versions().items())
        waiting: dict[Scalar, tuple[RowRange, Array]] = {}
        dead_nodes = _dead_node_count(ray)
        while True:
            if not _is_responding(host):  # Ray would wait for a minute and then end the process
                raise CampaignError(
                    f"--ray {address}: the cluster no longer answers; no rows are lost: run the same command to resume"
                )
            on_lost_nodes(_dead_node_count(ray) - dead_nodes)
            while (
                len(waiting) < QUEUED_BATCHES_PER_CPU * _processor_count(ray)
                and (batch := next(batches, None)) is not None
            ):
                waiting[task.remote(packed, local_versions, campaign_flights.rows(batch[1], batch[0]), options)] = batch
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_PERIOD)
            for result in done:
                block, numbers = waiting.pop(result)
                yield block, numbers, _fetch_result(ray, result, f"--ray {address}: rows {numbers[0]} to {numbers[-1]}")


def _fly_columns(
    packed: bytes, driver_versions: tuple[tuple[str, str], ...], rows: SampleRows, options: dict[str, Scalar]
) -> Columns:
    """Fly a batch on a worker, on one core of its machine."""
    campaign_flights = _unpack(packed, driver_versions)
    file = campaign_flights.campaign.file
    if scenario_settings(rows) and isinstance(file, Path) and not file.exists():
        raise CampaignError(f"a worker has no file {file}; expected it there, since its settings are varied")
    with limit_threads(1):
        return fly_batch(campaign_flights, rows, options)


@lru_cache(maxsize=1)
def _unpack(packed: bytes, driver_versions: tuple[tuple[str, str], ...]) -> CampaignFlights:
    """Unpickle the campaign once for all batches of a worker: programs are traced per object, not per copy."""
    local_versions = versions()
    for package, version in driver_versions:
        if local_versions[package] != version:
            raise CampaignError(
                f"a worker has {package} {local_versions[package]}; expected {version}, for the same bits everywhere"
            )
    campaign_flights: CampaignFlights = pickle.loads(packed)
    return campaign_flights


def _fetch_result(ray: Scalar, result: Scalar, label: str) -> Columns:
    try:
        columns: Columns = ray.get(result)
        return columns
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        message = (str(cause).splitlines() or [""])[0] or type(cause).__name__
        raise CampaignError(f"{label}: {message}") from None


def _processor_count(ray: Scalar) -> int:
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


def _dead_node_count(ray: Scalar) -> int:
    return sum(not node["Alive"] for node in ray.nodes())


@contextmanager
def _cluster_connection(ray: Scalar, address: str) -> Iterator[str]:
    """Connect to the cluster and yield its address; raise CampaignError if none responds."""
    if ray.is_initialized():
        yield ""
        return
    try:
        if not _is_responding(host := _cluster_address(address)):
            raise ConnectionError(f"{host} does not respond as Ray does")
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        message = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise CampaignError(f"--ray {address}: no Ray cluster answers ({message}); expected one") from None
    ray._private.worker._worker_logs_enabled = False  # suppresses pages about a lost node, unlike `log_to_driver`
    try:
        yield address if address.startswith("ray://") else ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def _cluster_address(address: str) -> str:
    """Return host:port of the cluster; for "auto" that of the last local one, empty if there was none."""
    if address != "auto":
        return address
    if configured := os.environ.get("RAY_ADDRESS", ""):
        return configured if configured != "auto" else ""
    address_file = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    try:
        return address_file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _is_responding(host: str) -> bool:
    """Return whether host:port responds as Ray does, in HTTP/2; True if the address is unknown.

    Ray itself waits forever at an address where another program listens.
    """
    host_name, _, port = host.removeprefix("ray://").rpartition(":")
    if not host:
        return True
    if not host_name or not port.isdecimal() or not int(port) < 1 << 16:
        raise ValueError(f"{host!r} is not auto, HOST:PORT or ray://HOST:PORT")
    try:
        with socket.create_connection((host_name.strip("[]"), int(port)), CONNECT_TIMEOUT) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return True
            connection.sendall(PREFACE)
            return connection.recv(4)[3:] == SETTINGS
    except OSError:
        return False


def _ray() -> Scalar:
    return import_extra("ray", "--ray", "Ray", "ray")
