"""What Prometheus is told. Tenants beyond the first hundred share one label, so that series stay few."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from steersman.domain.records import Decision, Reward
from steersman.errors import ConflictError

__all__ = ["METRICS_TYPE", "Metrics"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_MOST_TENANTS = 100
_OTHERS = "(others)"  # no tenant can be called so
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where several workers keep their counts together


class Metrics:
    """The metrics of one process, or of all workers of one server where they share a folder."""

    def __init__(self) -> None:
        """Declare every metric."""
        self._registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter(
            "steersman_requests", "Requests answered, by route and status.", ["route", "status"], **made
        )
        self._seconds = Histogram(
            "steersman_request_seconds", "Seconds to answer, by route.", ["route"], buckets=_SECONDS, **made
        )
        self._decisions = Counter("steersman_decisions", "Decisions answered, by tenant.", ["tenant"], **made)
        self._explored = Counter(
            "steersman_explored_decisions", "Of these, outside the greedy set.", ["tenant"], **made
        )
        self._rewards = Summary("steersman_rewards", "Rewards recorded: count and sum.", ["tenant"], **made)
        self._conflicts = Counter(
            "steersman_conflicts", "Calls refused as conflicts, by verb.", ["verb"], **made
        )
        self._batches = Histogram(
            "steersman_batch_items", "Items of one transaction, by verb.", ["verb"], buckets=_ITEMS, **made
        )
        self._commits = Histogram(
            "steersman_commit_seconds", "Seconds of one transaction.", ["verb"], buckets=_SECONDS, **made
        )
        self._queue = Gauge(
            "steersman_queue_items",
            "Items that wait for their transaction.",
            ["verb"],
            multiprocess_mode="livesum",
            **made,
        )
        self._children: dict[Any, Any] = {}
        self._answers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._tenants: set[str] = set()
        self._depths: dict[str, Callable[[], int]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        found = self._answers.get((route, status))
        if found is None:
            found = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._answers[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def committed(self, verb: str, answers: Iterable[object], seconds: float) -> None:
        """Count the answers of one transaction."""
        decided: dict[str, tuple[int, int]] = {}  # decisions and, of them, explored ones
        count = conflicts = 0
        for answer in answers:
            count += 1
            if isinstance(answer, Decision):
                plain, outside = decided.get(answer.tenant, (0, 0))
                decided[answer.tenant] = plain + 1, outside + answer.explored
            elif isinstance(answer, Reward):
                self._child(self._rewards, self._tenant(answer.tenant)).observe(answer.value)
            elif isinstance(answer, ConflictError):
                conflicts += 1
        for tenant, (number, outside) in decided.items():
            label = self._tenant(tenant)
            self._child(self._decisions, label).inc(number)
            explored = self._child(self._explored, label)
            if outside:
                explored.inc(outside)
        if conflicts:
            self._child(self._conflicts, verb).inc(conflicts)
        self._child(self._batches, verb).observe(count)
        self._child(self._commits, verb).observe(seconds)

    def watch_queue(self, verb: str, depth: Callable[[], int]) -> None:
        """Report `depth` of the queue of a verb from now on."""
        self._depths[verb] = depth

    def note_depths(self) -> None:
        """Take the present depths of the queues."""
        for verb, depth in self._depths.items():
            self._child(self._queue, verb).set(depth())

    def page(self) -> bytes:
        """Return every metric in the text format of Prometheus."""
        self.note_depths()
        folder = os.environ.get(_SHARED)
        if folder is None:
            return generate_latest(self._registry)
        _forget_the_dead(Path(folder))
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _tenant(self, tenant: str) -> str:
        if tenant in self._tenants:
            return tenant
        if len(self._tenants) < _MOST_TENANTS:
            self._tenants.add(tenant)
            return tenant
        return _OTHERS

    def _child(self, metric: Any, *labels: str) -> Any:
        key = (metric, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child


def _forget_the_dead(folder: Path) -> None:
    """Drop the queues of workers that are gone; what they had counted stays."""
    for file in folder.glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except (
            ProcessLookupError,
            PermissionError,
        ):  # of another user is somebody else who was given the number
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
