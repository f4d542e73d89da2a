"""How the benchmark of algorithm selection scores choices, by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.algorithm_selection_runs import LEARNERS, remaining, run_learner
from benchmarks.algorithm_selection_tasks import Score, Task, find_scenarios, load_task, score, single_best
from steersman.training.settings import FitSettings
from tests.house.rules import ROOT
from tests.integrations.test_aslib import write_scenario
from tests.support.teaching import draw_examples

# Cutoff 100. Over the first three instances, which someone solves: a 1010/3, b 1060/3, oracle 70/3.
LOSSES = np.array([[5.0, 30.0], [5.0, 1000.0], [1000.0, 30.0], [1000.0, 1000.0]])
FOLDS = np.array([1, 2, 1, 2])


def task(kind: str = "official", costs: float = 0.0) -> Task:
    examples = draw_examples(scenes=4, rows=1, actions=2, masked=0.0)
    return Task(
        scenario="made",
        kind=kind,
        examples=replace(examples, gains=LOSSES.mean(axis=1, keepdims=True) - LOSSES),
        losses=LOSSES,
        feature_costs=np.full(4, costs),
        solved=np.array([True, True, True, False]),
        cutoff=100.0,
        folds=FOLDS,
        dataset_hash="none",
    )


def test_the_single_best_is_known_in_hindsight_on_official_folds_only() -> None:
    assert single_best(task()).tolist() == [0, 0, 0, 0]
    # Trained on fold 2, a has (5 + 1000) / 2 and b 1000; trained on fold 1, a has 1005 / 2 and b 30.
    assert single_best(task("family")).tolist() == [0, 1, 0, 1]


def test_the_oracle_scores_0_and_the_single_best_1() -> None:
    assert score(task(), LOSSES.argmin(axis=1)).npar10 == 0.0
    assert score(task(), np.zeros(4, dtype=np.int64)).npar10 == 1.0
    assert score(task("family"), np.array([0, 1, 0, 1])).npar10 == 1.0


def test_what_nobody_solves_does_not_count() -> None:
    scores = {score(task(), np.array([0, 0, 1, last])) for last in (0, 1)}
    assert len(scores) == 1


def test_features_are_paid_for_and_may_use_up_the_time() -> None:
    # 5 + 10, 5 + 10, 30 + 10 against 40 of the oracle, and 1010 of the single best
    assert score(task(costs=10.0), np.array([0, 0, 1, 0])).npar10 == pytest.approx((70 - 40) / (1010 - 40))
    # 30 + 71 is beyond the cutoff, and counts as a failure; 5 + 71 is not
    assert score(task(costs=71.0), np.array([0, 0, 1, 0])).npar10 == pytest.approx((1152 - 40) / (1010 - 40))


def test_intervals_are_over_whole_scenes() -> None:
    one = replace(task().examples, scenes=np.zeros(4, dtype=np.int64))
    found = score(replace(task(), examples=one), np.array([1, 0, 1, 0]))
    assert found.low == found.high == pytest.approx(found.npar10) == (65 - 40) / (1010 - 40)
    apart = score(task(), np.array([1, 0, 1, 0]))
    assert apart.low < apart.npar10 < apart.high


def test_worse_than_the_single_best_is_said_beyond_the_interval_only() -> None:
    assert Score(1.5, 1.1, 1.9).is_worse_than_single_best
    assert not Score(1.5, 0.9, 2.1).is_worse_than_single_best
    assert not score(task(), np.zeros(4, dtype=np.int64)).is_worse_than_single_best


def test_choices_are_kept_by_settings_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "quick", FitSettings(epochs=2))
    monkeypatch.setitem(LEARNERS, "slow", FitSettings(epochs=3))
    told: list[int] = []
    first = run_learner(task(), "quick", tmp_path, lambda: told.append(1))
    assert len(told) == 2
    assert remaining(task(), "quick", tmp_path, 1) == 0
    again = run_learner(task(), "quick", tmp_path, lambda: told.append(1))
    assert len(told) == 2
    assert first.chosen is not None
    assert again.chosen is not None
    assert first.chosen.tolist() == again.chosen.tolist()
    assert first.seconds == again.seconds
    assert remaining(task(), "slow", tmp_path, 1) == 2
    assert remaining(replace(task(), folds=FOLDS + 1), "quick", tmp_path, 1) == 2


def test_a_crafted_scenario_is_a_task_of_either_kind(tmp_path: Path) -> None:
    write_scenario(tmp_path / "crafted")
    (tmp_path / "families.csv").write_text(
        'instance_id,family\n"a, the first",f\nb,f\nd,g\n', encoding="utf-8"
    )
    assert find_scenarios(tmp_path) == ("crafted",)
    official, family = (load_task(tmp_path, "crafted", kind) for kind in ("official", "family"))
    assert official.folds.tolist() == [2, 1, 2]
    assert official.losses.tolist() == [[505.0, 30.0], [1000.0, 50.0], [1000.0, 1000.0]]
    assert official.feature_costs.tolist() == [2.0, 0.25, 0.0]
    assert official.solved.tolist() == [True, True, False]
    assert family.folds[0] == family.folds[1] != family.folds[2]


def test_without_scenarios_it_says_where_it_looked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.algorithm_selection", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert str(tmp_path) in done.stderr
