"""Cells as tasks of a Ray cluster. A task watches over the same process that the local executor would start.

Configurations travel, results are files: the study folder must be on a file system that all nodes share.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from dataclasses import asdict
from typing import Any

from sail.errors import BadInputError, SailError
from sail.machine import cores
from sail.studies.cells import Cell
from sail.studies.folder import StudyFolder
from sail.studies.local import machine_memory
from sail.studies.resources import Resources, bytes_text
from sail.studies.supervisor import DISK_IS_FULL, Outcome, WatchedCell, environment_of
from sail.studies.worker import GRACE_SECONDS

POLL_SECONDS = 0.1
MOST_IN_FLIGHT = 1_000
CONNECT_SECONDS = 5.0
CHILDREN_LIVE_ON = "RAY_kill_child_processes_on_worker_exit"
"""Ray kills the children of a worker that ends. Ours end by themselves when that happens, with a checkpoint."""


def watch_cell(study: str, cell: dict[str, Any], resources: dict[str, Any]) -> dict[str, Any]:
    """A task: one cell in a process of its own on this node, from its start to its end."""
    try:
        folder = StudyFolder(study)
    except BadInputError:
        reason = f"The node {socket.gethostname()} does not see {study}: the study folder must be shared by all nodes."
        return asdict(Outcome(cell["name"], error=reason, stops_study=True))
    allowed = Resources(**resources)
    # Ray has set CUDA_VISIBLE_DEVICES for this task, and the cell's process inherits it.
    watched = WatchedCell(folder, Cell(**cell), allowed, environment_of(allowed))
    try:
        while (outcome := watched.poll()) is None:
            time.sleep(POLL_SECONDS)
        return asdict(outcome)
    finally:
        _end(watched)


def _end(watched: WatchedCell) -> None:
    """Ends the process of a task that was cancelled: with a checkpoint, if it has not ended by itself."""
    if watched.process.poll() is None:
        watched.stop()
        until = time.monotonic() + GRACE_SECONDS
        while watched.poll() is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        watched.kill()


class RayStartError(SailError):
    """Ray itself does not start."""


class RayExecutor:
    """Runs cells as tasks of a Ray cluster: an existing one, or one that is started for as long as the study runs."""

    def __init__(self, study: StudyFolder, resources: Resources, address: str | None = None) -> None:
        self.study, self.resources = study, resources
        self._ray = _connect(address)
        self._tasks: dict[Any, str] = {}
        self.notes: list[str] = []
        self.workers = self._fit()
        remote = self._ray.remote(watch_cell)
        self._task = remote.options(
            num_cpus=resources.cores,
            num_gpus=resources.gpus,
            memory=resources.memory,
            max_retries=0,
            runtime_env={"env_vars": {CHILDREN_LIVE_ON: "false"}},
        )

    def _fit(self) -> int:
        needs = self.resources
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        wanted = {"CPU": needs.cores, "memory": needs.memory, "GPU": needs.gpus}
        fit = sum(
            min(int(node.get(kind, 0) / amount + 1e-9) for kind, amount in wanted.items() if amount) for node in nodes
        )
        if fit == 0:
            self._ray.shutdown()
            gpus = f", {needs.gpus:g} GPU" if needs.gpus else ""
            raise BadInputError(
                f"A cell of this study needs {needs.cores} core(s), {bytes_text(needs.memory)} of memory{gpus}, and no "
                f"node of the {len(nodes)} in the Ray cluster has them: change resources, or add nodes."
            )
        return fit

    def room(self) -> bool:
        """Whether another cell can be submitted. Ray keeps the queue, so that nodes that join find work."""
        return len(self._tasks) < MOST_IN_FLIGHT

    def submit(self, cell: Cell) -> None:
        """Hands a cell to Ray."""
        reference = self._task.remote(str(self.study.path), cell.to_tree(), asdict(self.resources))
        self._tasks[reference] = cell.name

    def wait(self, seconds: float) -> list[Outcome]:
        """The cells that have ended; waits so long for one to."""
        if not self._tasks:
            return []
        try:
            ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        except self._ray.exceptions.RayError as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConnectionError(f"The Ray cluster was lost ({first})") from None
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        name, ray = self._tasks.pop(reference), self._ray
        try:
            return Outcome(**ray.get(reference))
        except ray.exceptions.TaskCancelledError:
            return Outcome(name)
        except (ray.exceptions.RayTaskError, ray.exceptions.RayError) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            if isinstance(error, ray.exceptions.RayTaskError):  # a fault in our own task
                full = any(reason in str(error) for reason in DISK_IS_FULL)
                return Outcome(name, error=lines[-1], again=not full, stops_study=full)
            reason = f"Its node or its watcher was lost ({type(error).__name__}: {lines[0]})."
            return Outcome(name, error=reason, again=True, is_cells_fault=False)

    def stop(self) -> None:
        """Asks every cell to end with a checkpoint; those that wait in Ray's queue do not begin."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=False)

    def close(self) -> None:
        """Leaves the cluster; whatever still runs there for us ends."""
        self._ray.shutdown()


def _connect(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise BadInputError("The executor 'ray' needs Ray: pip install 'sail-rl[ray]'.") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        try:
            ray.init(address="local", num_cpus=cores(), include_dashboard=False, _memory=machine_memory(), **quiet)
        except Exception as error:  # Ray has many ways to say so
            first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise RayStartError(f"Ray could not be started on this machine: {first}.") from None
        return ray
    _check_reachable(address)
    try:
        ray.init(address=address, **quiet)
    except Exception as error:
        first = (str(error).splitlines() or ["no answer"])[0].rstrip(".")
        hint = "if the cluster has a token, this machine must have it too (RAY_AUTH_MODE=token, ~/.ray/auth_token)"
        raise BadInputError(f"There is no Ray cluster to be used at '{address}': {first}; {hint}.") from None
    return ray


def _check_reachable(address: str) -> None:
    """Answers for an address where nobody listens within seconds; Ray itself would try for a minute."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise BadInputError(f"A Ray address is auto, HOST:PORT or ray://HOST:PORT, not '{address}'.")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInputError(f"There is no Ray cluster to be reached at '{address}': {reason}.") from None
