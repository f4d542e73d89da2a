"""Running learners and peers on tasks, and keeping what they chose, so that a run may be broken off and resumed."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.algorithm_selection_peers import PEERS
from benchmarks.algorithm_selection_tasks import Task
from steersman.domain.canonical import canonical_json, fingerprint
from steersman.training.fit import fit_examples
from steersman.training.metrics import choices
from steersman.training.selection import decide_settings
from steersman.training.settings import FitSettings

__all__ = ["LEARNERS", "Outcome", "PeerEnvironment", "Told", "remaining", "run_learner", "run_peer"]

_TREES = 900  # of the three forests of a mixed loss together

LEARNERS: Mapping[str, FitSettings] = {
    "mlp": FitSettings(),
    "mlp --search": FitSettings(search=True),
    "forest": FitSettings(learner="forest", loss="mixed", trees=_TREES),
    "auto": FitSettings(learner="auto", trees=_TREES),
}
"""The same settings for every scenario; what they leave open is chosen on inner folds of the rows trained on."""

Told: TypeAlias = Callable[[], None]
"""Called when another fold is done."""

_ROOT = Path(__file__).parents[1]
_PACKAGES = (
    "econml==0.17.0",
    "lightgbm==4.7.0",
    "numpy==2.4.6",
    "scikit-learn==1.9.1",
    "vowpalwabbit==9.11.9",
)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What was chosen on one task."""

    chosen: NDArray[np.int64] | None  # [N]; None where the time was over
    seconds: float
    decided: tuple[Mapping[str, Any], ...] = ()  # of each fold, the settings that a learner of ours came to


def remaining(task: Task, name: str, cache: Path, budget: int) -> int:
    """Return how many folds are still to be run; a peer runs all of them or none."""
    if name in PEERS:
        return 0 if _peer_file(task, name, cache, budget).exists() else len(task.fold_numbers)
    return sum(not _fold_file(task, LEARNERS[name], fold, cache).exists() for fold in task.fold_numbers)


def run_learner(task: Task, name: str, cache: Path, told: Told) -> Outcome:
    """Fit to the complement of each fold and choose for the fold; what was run before is read.

    What a learner of ours decides on, and what is chosen with settings in which nothing is left open, are kept apart,
    so that learners which come to the same settings share the fit.
    """
    chosen = np.zeros(len(task.folds), dtype=np.int64)
    seconds = 0.0
    decided: list[Mapping[str, Any]] = []
    for fold in task.fold_numbers:
        held_out = task.folds == fold
        is_new = not _fold_file(task, LEARNERS[name], fold, cache).exists()
        settings, deciding = _decide(task, LEARNERS[name], fold, cache)
        chosen[held_out], fitting = _choose(task, settings, fold, cache)
        seconds += deciding + fitting
        decided.append(settings.to_json())
        if is_new:
            told()
    return Outcome(chosen, seconds, tuple(decided))


def _decide(task: Task, asked: FitSettings, fold: int, cache: Path) -> tuple[FitSettings, float]:
    """Return what `asked` comes to on the rows trained on, and the seconds that this took."""
    path = _fold_file(task, asked, fold, cache)
    if not path.exists():
        begin = time.perf_counter()
        decision = decide_settings(task.examples.take(task.folds != fold), asked)
        _keep(
            path,
            {
                "seconds": time.perf_counter() - begin,
                "decided": decision.settings.to_json(),
                "trials": [trial.to_json() for trial in decision.trials],
            },
        )
    kept = json.loads(path.read_text(encoding="utf-8"))
    return FitSettings(**kept["decided"]), kept["seconds"]


def _choose(task: Task, settings: FitSettings, fold: int, cache: Path) -> tuple[NDArray[np.int64], float]:
    """Return what a policy with `settings` chooses on `fold`, and the seconds that its fit took."""
    path = _fold_file(task, settings, fold, cache, "chosen")
    if not path.exists():
        begin = time.perf_counter()
        held_out = task.folds == fold
        fitted, _ = fit_examples(task.examples.take(~held_out), settings)
        rest = task.examples.take(held_out)
        picked = choices(fitted.policy.batch_values(rest.features), rest.feasible)
        _keep(path, {"chosen": picked.tolist(), "seconds": time.perf_counter() - begin})
    kept = json.loads(path.read_text(encoding="utf-8"))
    return np.array(kept["chosen"], dtype=np.int64), kept["seconds"]


class PeerEnvironment:
    """A virtual environment with the peers' packages, made when first needed."""

    def __init__(self, cache: Path) -> None:
        """Say where environments are kept; one for each list of packages."""
        self._folder = cache / f"peers-{fingerprint(list(_PACKAGES))[:12]}"

    def python(self) -> Path:
        """Return its interpreter."""
        path = self._folder / "bin" / "python"
        stamp = self._folder / "complete"
        if not stamp.exists():
            print(f"installing {', '.join(_PACKAGES)} in {self._folder}", file=sys.stderr)
            venv.create(self._folder, clear=True, with_pip=True)
            subprocess.run([path, "-m", "pip", "install", "--quiet", *_PACKAGES], check=True)
            stamp.touch()
        return path


def run_peer(task: Task, name: str, cache: Path, environment: PeerEnvironment, *, budget: int) -> Outcome:
    """Run a peer on all folds in a process of its own, or read what it chose.

    After `budget` seconds of processor time, which other work on the machine does not count towards, it is over.
    """
    path = _peer_file(task, name, cache, budget)
    if not path.exists():
        python = environment.python()
        begin = time.perf_counter()
        chosen = _in_own_process(task, name, python, budget)
        seconds = time.perf_counter() - begin
        _keep(path, {"chosen": None if chosen is None else chosen.tolist(), "seconds": seconds})
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(
        None if kept["chosen"] is None else np.array(kept["chosen"], dtype=np.int64), kept["seconds"]
    )


def _in_own_process(task: Task, name: str, python: Path, budget: int) -> NDArray[np.int64] | None:
    with TemporaryDirectory(prefix="steersman-peer-") as folder:
        arrays, output = Path(folder) / "task.npz", Path(folder) / "chosen.npy"
        features = task.examples.features.astype(np.float64)
        np.savez(arrays, features=features, losses=task.losses, folds=task.folds)
        program = "from benchmarks.algorithm_selection_peers import main; main()"
        command = [str(python), "-W", "ignore", "-c", program, name, str(arrays), str(output), str(budget)]
        done = subprocess.run(command, check=False, cwd=_ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if done.returncode == -signal.SIGXCPU:
            return None
        done.check_returncode()
        chosen: NDArray[np.int64] = np.load(output)
        return chosen


def _fold_file(task: Task, settings: FitSettings, fold: int, cache: Path, what: str = "decided") -> Path:
    key = [*_task_key(task), settings.to_json(), _fit_code(), fold]
    return cache / what / f"{_slug(task, settings.learner)}-{fold}-{fingerprint(key)[:16]}.json"


def _peer_file(task: Task, name: str, cache: Path, budget: int) -> Path:
    code = (_ROOT / "benchmarks" / "algorithm_selection_peers.py").read_text(encoding="utf-8")
    key = [*_task_key(task), name, list(_PACKAGES), code, budget]
    return cache / "peers" / f"{_slug(task, name)}-{fingerprint(key)[:16]}.json"


def _task_key(task: Task) -> list[Any]:
    return [task.name, task.dataset_hash, task.folds.tolist()]


def _slug(task: Task, name: str) -> str:
    return "-".join(f"{task.name} {name}".replace("--", "").split())


@functools.cache
def _fit_code() -> str:
    """Return the SHA-256 of the modules of ours that this process has imported to fit and to choose."""
    digest = hashlib.sha256()
    for name in sorted(
        name for name in sys.modules if name.startswith(("steersman.training.", "steersman.policies."))
    ):
        source = sys.modules[name].__file__
        if source is not None:
            digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _keep(path: Path, body: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(canonical_json(body), encoding="utf-8")
    part.replace(path)
