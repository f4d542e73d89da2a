"""Fitting a network, beside scikit-learn's, and deciding with it.

Run with `python -m benchmarks.fit`. Fits are full batch, of 75 features, 32 hidden units and 4 actions, in float32,
for the same number of epochs on one core, the two taking turns, in seconds of processor time. scikit-learn's
MLPRegressor has ReLU, as it knows no SiLU, and its rows come normalised, while ours are normalised within the time.
Memory is the largest resident set of a process of its own. A decision is one `choose` from a list of 75 numbers, in a
process without PyTorch.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.support import Lines, machine

_FEATURES, _HIDDEN, _ACTIONS = 75, 32, 4
_SIZES = {10_000: (100, 5), 200_000: (30, 3)}  # rows to epochs and rounds
_DECISION_AIM = 15e-6  # seconds
_DECISIONS = 20_000


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    lines = Lines(
        f"Fit, full batch, one core, medians ({machine()})",
        ["rows", "epochs", "Steersman", "scikit-learn", "MB at most, Steersman", "scikit-learn"],
    )
    for rows, (epochs, rounds) in _SIZES.items():
        with threadpool_limits(1):  # on one core, a second thread of linear algebra would only wait and count
            ours, theirs = _taking_turns(rows, epochs, rounds)
        memory = [_in_own_process("memory", learner, rows) / 2**20 for learner in ("ours", "theirs")]
        cells = [f"{ours:.2f} s", f"{theirs:.2f} s", *(f"{size:.0f}" for size in memory)]
        lines.add(f"{rows:,}", str(epochs), *cells, aim="no slower", met=ours <= theirs)
    lines.print()
    decisions = Lines(f"One decision of 75 → 32 → 4, median of 5 ({machine()})", ["µs"])
    seconds = statistics.median(_in_own_process("decision") for _ in range(5))
    decisions.add(f"{seconds * 1e6:.1f}", aim="at most 15 µs, without PyTorch", met=seconds <= _DECISION_AIM)
    decisions.print()
    return int(bool(lines.missed or decisions.missed))


def _drawn(rows: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    draw = np.random.default_rng(0)
    features = draw.normal(size=(rows, _FEATURES)).astype(np.float32)
    gains = np.sin(features @ draw.normal(size=(_FEATURES, _ACTIONS)) / 4.0)
    return features, gains.astype(np.float32)


def _our_fit(rows: int, epochs: int) -> Callable[[], object]:
    from steersman.domain.catalogue import ActionCatalogue
    from steersman.domain.features import FeatureSchema
    from steersman.training.examples import Examples
    from steersman.training.learners import fit_decided
    from steersman.training.settings import FitSettings

    features, gains = _drawn(rows)
    examples = Examples(
        ActionCatalogue.of(range(_ACTIONS)),
        FeatureSchema("benchmark", tuple(f"x{index}" for index in range(_FEATURES))),
        features,
        np.ones(gains.shape, dtype=bool),
        gains.astype(np.float64),
        np.zeros(gains.shape),
        np.zeros(rows, dtype=np.int64),
        ("scene",),
    )
    settings = FitSettings(hidden_dim=_HIDDEN, epochs=epochs)
    return lambda: fit_decided(examples, settings)


def _their_fit(rows: int, epochs: int) -> Callable[[], object]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    features, gains = _drawn(rows)
    warnings.simplefilter("ignore", ConvergenceWarning)  # it stops at max_iter, as it is told to
    model = MLPRegressor(
        hidden_layer_sizes=(_HIDDEN,),
        alpha=0.0,
        batch_size=rows,
        learning_rate_init=1e-3,
        max_iter=epochs,
        n_iter_no_change=epochs + 1,
        shuffle=False,
        random_state=0,
    )
    return lambda: model.fit(features, gains)


_FITS = {"ours": _our_fit, "theirs": _their_fit}


def _taking_turns(rows: int, epochs: int, rounds: int) -> tuple[float, float]:
    fits = [make(rows, epochs) for make in _FITS.values()]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for fit, seconds in zip(fits, times, strict=True):
            begin = time.process_time()
            fit()
            seconds.append(time.process_time() - begin)
    ours, theirs = (statistics.median(seconds) for seconds in times)
    return ours, theirs


def _peak_memory(learner: str, rows: str) -> float:
    _FITS[learner](int(rows), 3)()
    status = Path(
        "/proc/self/status"
    ).read_text()  # the resident set of resource.getrusage begins with the parent's
    return float(status.partition("VmHWM:")[2].split()[0]) * 1024.0


def _decision() -> float:
    from steersman.domain.catalogue import ActionCatalogue
    from steersman.domain.features import FeatureSchema
    from steersman.policies.action_value import ActionValuePolicy, Layers
    from steersman.policies.inputs import FeatureScaling

    draw = np.random.default_rng(0)
    schema = FeatureSchema("benchmark", tuple(f"x{index}" for index in range(_FEATURES)))
    shapes: tuple[tuple[int, ...], ...] = (
        (_HIDDEN, _FEATURES),
        (_HIDDEN,),
        (_ACTIONS, _HIDDEN),
        (_ACTIONS,),
    )
    layers = Layers(*(draw.normal(size=shape).astype(np.float32) for shape in shapes))
    ones = np.ones(_FEATURES, dtype=np.float32)
    scaling = FeatureScaling.of(schema, ones, ones)
    policy = ActionValuePolicy(ActionCatalogue.of(range(_ACTIONS)), schema, scaling, layers)
    features: list[Any] = draw.normal(size=_FEATURES).tolist()
    feasible = ["0", "2", "3"]
    policy.choose(features, feasible)
    begin = time.process_time()
    for _ in range(_DECISIONS):
        policy.choose(features, feasible)
    seconds = (time.process_time() - begin) / _DECISIONS
    if "torch" in sys.modules:
        raise RuntimeError("PyTorch was imported on the way to a decision")
    return seconds


_CHILDREN: dict[str, Callable[..., float]] = {"memory": _peak_memory, "decision": _decision}


def _in_own_process(*task: object) -> float:
    command = [sys.executable, "-m", "benchmarks.fit", *map(str, task)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(result.stdout))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_CHILDREN[sys.argv[1]](*sys.argv[2:])))
    else:
        sys.exit(main())
