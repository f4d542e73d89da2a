from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.errors import InvalidInputError
from tests.support.teaching import draw_examples

pytest.importorskip("torch")

from steersman.training.baselines import rank_actions
from steersman.training.crossval import CrossValidation, cross_validate
from steersman.training.evidence import join_outcomes, judge, outcomes_by_name
from steersman.training.examples import Examples
from steersman.training.folds import scene_folds
from steersman.training.intervals import Interval
from steersman.training.learners import fit_decided
from steersman.training.pareto import (
    ParetoPoint,
    advise,
    default_weights,
    join_equal,
    mark_front,
    sweep_costs,
)
from steersman.training.settings import FitSettings


def test_every_row_is_held_out_once_and_figures_are_pooled() -> None:
    examples = draw_examples(scenes=9, rows=6)
    settings = FitSettings(epochs=15, learning_rate=0.01)
    found = cross_validate(examples, settings, folds=3)
    assert found.by_scene.row_count == found.at_random.row_count == 54
    assert found.by_scene.scene_count == found.at_random.scene_count == 9
    folds, parts, scenes = scene_folds(examples, 3, seed=0), [], []
    for fold in range(3):
        training, rest = examples.take(folds != fold), examples.take(folds == fold)
        policy = fit_decided(training, settings).policy
        parts.append(outcomes_by_name(rest, policy.batch_values(rest.features), rank_actions(training)))
        scenes.append(rest.scenes)
    expected = judge(
        join_outcomes(parts), np.concatenate(scenes), best_fixed=found.by_scene.best_fixed.name, seed=0
    )
    assert found.by_scene == expected


def scene_bound(scenes: int) -> Examples:
    """Each scene has a best action of its own, and features that give away which scene it is, nothing more."""
    plain = draw_examples(scenes=scenes, rows=8, features=8, actions=3, masked=0.0)
    draw = np.random.default_rng(1)
    places = draw.normal(size=(scenes, 8)) * 3.0
    features = (places[plain.scenes] + 0.05 * draw.normal(size=plain.features.shape)).astype(np.float32)
    best = draw.integers(3, size=scenes)[plain.scenes]
    gains = np.where(np.arange(3) == best[:, np.newaxis], 1.0, -0.5)
    return replace(plain, features=features, gains=gains)


@pytest.mark.parametrize("scenes", [6, 24])
def test_a_random_split_that_flatters_is_flagged(scenes: int) -> None:
    found = cross_validate(
        scene_bound(scenes), FitSettings(epochs=150, learning_rate=0.01), folds=min(scenes, 6)
    )
    assert found.at_random.gap_closed is not None
    assert found.by_scene.gap_closed is not None
    assert found.at_random.gap_closed > 0.9
    assert found.by_scene.gap_closed < 0.6
    assert found.parted


def test_an_honest_problem_is_not_flagged() -> None:
    examples = draw_examples(scenes=15, rows=20, scene_effect=0.0, noise=0.05)
    found = cross_validate(examples, FitSettings(epochs=60, learning_rate=0.01), folds=3)
    assert not found.parted
    assert found.by_scene.verdict == "better"


@pytest.mark.parametrize(
    ("interval", "at_random", "parted"),
    [
        (Interval(0.2, 0.4), 0.1, True),
        (Interval(0.2, 0.4), 0.2, False),
        (Interval(0.2, 0.4), 0.4, False),
        (Interval(0.2, 0.4), 0.5, True),
        (None, 0.38, False),
        (None, 0.42, True),
        (None, 0.18, True),
        (None, None, False),
    ],
)
def test_two_figures_part_outside_the_interval_of_the_honest_one(
    interval: Interval | None, at_random: float | None, parted: bool
) -> None:
    examples = draw_examples(scenes=3, rows=2)
    named = outcomes_by_name(examples, examples.gains, rank_actions(examples))
    plain = judge(named, examples.scenes, best_fixed="action-0", seed=0)
    honest = replace(plain, gap_closed=0.3, gap_closed_interval=interval)
    assert CrossValidation(3, honest, replace(plain, gap_closed=at_random)).parted is parted


def test_without_a_gap_nothing_parts() -> None:
    examples = draw_examples(scenes=4, rows=3, masked=0.0)
    flat = replace(examples, gains=np.zeros_like(examples.gains))
    found = cross_validate(flat, FitSettings(epochs=2), folds=2)
    assert isinstance(found, CrossValidation)
    assert found.by_scene.gap_closed is None
    assert not found.parted


def test_a_sweep_trades_regret_for_cost() -> None:
    examples = draw_examples(scenes=20, rows=10, masked=0.0)
    held_out = examples.of_scenes(tuple(f"scene-{scene:02d}" for scene in range(5)))
    training, rest = examples.take(~held_out), examples.take(held_out)
    points = sweep_costs(training, rest, FitSettings(epochs=60, learning_rate=0.01))
    fitted = [point for point in points if point.weight is not None]
    assert [point.weight for point in fitted] == list(default_weights(training))
    assert fitted[0].weight == 0.0
    assert fitted[-1].mean_cost < 0.05 < fitted[0].mean_cost  # action-0 costs nothing
    assert fitted[0].regret < fitted[-1].regret
    by_name = {point.name: point for point in points}
    fixed = by_name["fixed:action-2"]
    assert fixed.mean_cost == 1.0
    lost = rest.gains.max(axis=1) - rest.gains[:, 2]
    assert fixed.regret == pytest.approx(lost.mean())
    best = rest.gains.argmax(axis=1)
    assert by_name["oracle"].regret == 0.0
    assert by_name["oracle"].mean_cost == pytest.approx(np.linspace(0.0, 1.0, 3)[best].mean())


def test_weights_are_set_around_the_even_one() -> None:
    examples = draw_examples(scenes=3, rows=4, masked=0.0)
    gains = np.tile([-2.0, 0.0, 2.0], (12, 1))
    costs = np.tile([0.0, 100.0, 200.0], (12, 1))
    weights = default_weights(replace(examples, gains=gains, costs=costs))
    np.testing.assert_allclose(weights, [0.0, 0.001, 0.002, 0.004, 0.01, 0.02, 0.04, 0.1])
    thirds = default_weights(replace(examples, gains=gains, costs=costs * 0.03))
    assert thirds == (0.0, 0.0333, 0.0667, 0.133, 0.333, 0.667, 1.33, 3.33)  # what is shown is all of it


def test_the_front_by_hand() -> None:
    points = [
        ParetoPoint("a", 0.0, 1.0, 5.0),
        ParetoPoint("b", 1.0, 2.0, 3.0),
        ParetoPoint("c", 2.0, 2.0, 4.0),  # b costs less for the same regret
        ParetoPoint("fixed:x", None, 4.0, 0.0),
        ParetoPoint("fixed:y", None, 4.0, 3.0),  # b has less regret for the same cost
        ParetoPoint("oracle", None, 0.0, 1.0),
    ]
    assert [point.name for point in mark_front(points) if point.on_front] == ["a", "b", "fixed:x"]


def test_equal_points_are_one_line_with_all_its_names() -> None:
    points = [
        ParetoPoint("weight 0", 0.0, 1.0, 5.0),
        ParetoPoint("weight 0.5", 0.5, 4.0, 0.0, on_front=True),
        ParetoPoint("weight 1", 1.0, 1.0, 5.0),
        ParetoPoint("weight 2", 2.0, 4.0, 0.0, on_front=True),
        ParetoPoint("weight 40", 40.0, 4.0, 0.0, on_front=True),
        ParetoPoint("fixed:fixed:x", None, 4.0, 0.0, on_front=True),
        ParetoPoint("oracle", None, 0.0, 1.0),
    ]
    lines = join_equal(points)
    assert [line.label for line in lines] == [
        "weight 0, 1",
        "weight 0.5, 2 to 40, always fixed:x",
        "oracle",
    ]
    assert [(line.regret, line.mean_cost, line.on_front) for line in lines] == [
        (1.0, 5.0, False),
        (4.0, 0.0, True),
        (0.0, 1.0, False),
    ]


def test_a_weight_that_beats_none_in_both_is_told_with_the_option_to_take() -> None:
    plain = ParetoPoint("weight 0", 0.0, 1.4, 0.2)
    dearer = ParetoPoint("weight 1", 1.0, 0.4, 0.3)
    cheaper = ParetoPoint("weight 2", 2.0, 1.5, 0.1)
    fixed = ParetoPoint("fixed:x", None, 0.1, 0.0)
    assert advise([plain, dearer, cheaper, fixed]) == (
        "No weight has both less regret and less mean cost than 0. Fit with one of them by --cost-weight."
    )
    good = ParetoPoint("weight 5.16", 5.16, 0.51, 0.14)
    worse = ParetoPoint("weight 9", 9.0, 0.6, 0.1)
    told = advise([plain, dearer, good, worse, fixed])
    assert told.startswith(
        "Weight 5.16 has less regret and less mean cost than weight 0 (0.51 against 1.4, 0.14 against 0.2)."
    )
    assert "--cost-weight 5.16, and judge that by --folds" in told


def test_a_sweep_needs_rows_to_compare_on_and_costs_that_differ() -> None:
    examples = draw_examples(scenes=3, rows=4)
    nothing = examples.take(np.zeros(0, dtype=np.int64))
    with pytest.raises(InvalidInputError, match="held-out scenes"):
        sweep_costs(examples, nothing, FitSettings(epochs=1))
    free = replace(examples, costs=np.zeros_like(examples.costs))
    with pytest.raises(InvalidInputError, match="costs that differ"):
        sweep_costs(free, examples, FitSettings(epochs=1))
