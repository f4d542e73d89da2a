"""Reading teacher rows, beside the plain way of doing the same with `json` alone.

Run with `python -m benchmarks.teacher_rows`. Rows have 75 features. Rates are medians of five rounds on one core in
one process, the two ways taking turns; memory is the largest resident set of a process of its own. The plain way
parses, checks, fingerprints and drops duplicates, and keeps nothing; the load does that and builds columns, hashes
the file and hashes the data set.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.support import ROUNDS, Lines, machine, scratch
from steersman.teacher.binding import BindingCheck
from steersman.teacher.dataset import load_teacher_dataset, merged_rows
from steersman.teacher.index import RowIndex
from steersman.teacher.reading import RowReader, find_collections
from steersman.teacher.rows import FIELDS
from steersman.teacher.sources import find_sources

_ROWS = 20_000
_MANY_ROWS = 1_000_000
_OBJECT_ROWS = 50_000
_RATE_AIM = 35_000  # rows a second
_SPEEDUP_AIM, _CACHE_AIM = 3.0, 5.0
_MEMORY_AIM = 1 << 30  # bytes
_INT64 = range(-(2**63), 2**63)
_FLOAT32_MOST = 3.4028234663852886e38
_DATASET_KEYS = ("source_hash", "source_hashes", "dataset_hash", "dataset_hashes", "teacher_dataset_hash")
_PROVENANCE = {
    "model_content_hash": "carrier-7f",
    "feature_schema_version": "mcss.dynamic.policy_features.v1",
    "render_protocol": {
        "renderer": "FixedMeasurementRenderer",
        "renderer_samples": 16,
        "ray_chunk_size": 16384,
    },
    "budget_protocol": {"max_units": 1000000000000.0, "policy_work_units": 2639},
    "utility_protocol": {"horizon": 3, "continuation_action": "OFF"},
    "teacher_dataset_hash": "",
    "collector": "benchmark",
}


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rates = Lines(
        f"Teacher rows, rows a second, one core, medians of {ROUNDS} ({machine()})",
        ["floats", "bytes a row", "plain json", "checked", "loaded as columns", "again from the cache"],
    )
    memory = Lines("Teacher rows, largest resident memory", ["way", "rows", "file", "resident", "seconds"])
    with scratch() as folder:
        for kind in ("short", "full"):
            _measure_rates(folder, kind, rates)
        _measure_memory(folder, memory)
    rates.print()
    memory.print()
    return int(bool(rates.missed or memory.missed))


def _measure_rates(folder: Path, kind: str, lines: Lines) -> None:
    path = folder / f"{kind}.jsonl"
    _write(path, _ROWS, kind)
    cache = folder / f"{kind}-cache"
    load_teacher_dataset(path, cache_dir=cache)
    runs: dict[str, Callable[[], object]] = {
        "plain": lambda: _plain(path),
        "checked": lambda: _checked(path),
        "loaded": lambda: load_teacher_dataset(path),
        "cached": lambda: load_teacher_dataset(path, cache_dir=cache),
    }
    rounds = [{name: _seconds(run) for name, run in runs.items()} for _ in range(ROUNDS)]
    rate = {name: _ROWS / statistics.median(seconds[name] for seconds in rounds) for name in runs}
    speedup, again = rate["checked"] / rate["plain"], rate["cached"] / rate["loaded"]
    cells = [f"{rate[name]:,.0f}" for name in runs]
    met = speedup >= _SPEEDUP_AIM and again >= _CACHE_AIM and rate["checked"] >= _RATE_AIM
    aim = f"checked {speedup:.1f}x of 3x plain and {_RATE_AIM:,} rows/s, cache {again:.1f}x of 5x loaded"
    lines.add(kind, f"{path.stat().st_size / _ROWS:,.0f}", *cells, aim=aim, met=met)


def _measure_memory(folder: Path, lines: Lines) -> None:
    path = folder / "memory.jsonl"
    for way, count in (("objects", _OBJECT_ROWS), ("columns", _MANY_ROWS)):
        _write(path, count, "full")
        begin = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.teacher_rows", way, str(path)]
        resident = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        seconds = time.perf_counter() - begin
        aim, met = ("at most 1 GiB", resident <= _MEMORY_AIM) if way == "columns" else ("", True)
        cells = [f"{path.stat().st_size / 1e9:.2f} GB", f"{resident / 2**20:,.0f} MiB", f"{seconds:.0f}"]
        lines.add(way, f"{count:,}", *cells, aim=aim, met=met)


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _checked(path: Path) -> int:
    readers = [RowReader(collection) for collection in find_collections(find_sources(path))]
    bindings = BindingCheck(readers[0].collection.profile)
    return sum(1 for _ in merged_rows(readers, RowIndex(), bindings))


def _plain(path: Path) -> int:
    """Parse, check, fingerprint and drop duplicates, as one would write it with `json`."""
    seen: dict[str, str] = {}
    for row in _plain_rows(path):
        _plain_check(row)
        provenance = {key: value for key, value in row["provenance"].items() if key not in _DATASET_KEYS}
        text = json.dumps({**row, "provenance": provenance}, sort_keys=True, separators=(",", ":"))
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        if seen.setdefault(row["row_id"], fingerprint) != fingerprint:
            raise ValueError(row["row_id"])
    return len(seen)


def _plain_rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def _plain_check(row: dict[str, Any]) -> None:
    if row.keys() != set(FIELDS) or not all(map(_is_number, row["features"])) or len(row["features"]) != 75:
        raise ValueError("fields or features")
    for name in ("losses", "advantages", "costs"):
        for value, feasible in zip(row[name], row["feasible_mask"], strict=True):
            if not (_is_number(value) if feasible else value is None):
                raise ValueError(name)
    for name in ("row_id", "episode_id", "scene_id"):
        if not isinstance(row[name], str) or not row[name]:
            raise ValueError(name)
    _plain_walk(row["control_input"], allow_booleans=False)
    _plain_walk(row["provenance"], allow_booleans=True)


def _plain_walk(value: Any, *, allow_booleans: bool) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _plain_walk(item, allow_booleans=allow_booleans)
    elif isinstance(value, list):
        for item in value:
            _plain_walk(item, allow_booleans=allow_booleans)
    elif value is None or isinstance(value, str) or (allow_booleans and isinstance(value, bool)):
        pass
    elif not _is_number(value):
        raise ValueError(value)


def _is_number(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value) and abs(value) <= _FLOAT32_MOST
    return type(value) is int and value in _INT64


def _write(path: Path, count: int, kind: str) -> None:
    """Write `count` rows; many share their numbers, none its id."""
    draw = random.Random(5)
    halves = [_row_text(draw, kind, number).split('"ROW"') for number in range(min(count, 2000))]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            before, after = halves[number % len(halves)]
            file.write(f'{before}"ep{number // 25}:prefix:{number % 25}"{after}\n')


def _row_text(draw: random.Random, kind: str, number: int) -> str:
    digits = 6 if kind == "short" else 17
    mask = [True, *(draw.random() < 0.85 for _ in range(3))]
    losses = [round(draw.uniform(0, 2), digits) for _ in mask]
    mean = sum(loss for loss, feasible in zip(losses, mask, strict=True) if feasible) / sum(mask)
    costs = [0.0, 250000.0, 250000.0, 500000.0]
    row = {
        "schema_version": "mcss.dynamic.action_teacher_row.v1",
        "row_id": "ROW",
        "episode_id": f"ep{number // 25}",
        "scene_id": f"scene-{number % 40:02d}",
        "split_id": "train",
        "prefix_step": number % 25,
        "prefix_frame_id": number % 25 + 3,
        "control_input": {
            "rgb_mse": round(draw.random(), digits),
            "observed_count": 3,
            "previous_action": "FUSE",
        },
        "features": [round(draw.gauss(0, 1), digits) for _ in range(75)],
        "actions": ["OFF", "FUSE", "COMPLETE", "ALL"],
        "feasible_mask": mask,
        "losses": [loss if feasible else None for loss, feasible in zip(losses, mask, strict=True)],
        "advantages": [
            mean - loss if feasible else None for loss, feasible in zip(losses, mask, strict=True)
        ],
        "costs": [cost if feasible else None for cost, feasible in zip(costs, mask, strict=True)],
        "horizon_used": 3,
        "provenance": _PROVENANCE,
    }
    return json.dumps(row)


def _child(way: str, path: Path) -> None:
    """Load `path` one way or the other and print the largest resident memory in bytes."""
    kept = load_teacher_dataset(path) if way == "columns" else list(_plain_rows(path))
    if not len(kept):
        raise ValueError("no rows")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _child(sys.argv[1], Path(sys.argv[2]))
    else:
        sys.exit(main())
