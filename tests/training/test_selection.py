"""What settings leave open is chosen on inner folds of the training scenes, and only there."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from steersman.errors import FitError, InvalidInputError
from steersman.training.examples import Examples
from steersman.training.folds import inner_folds, random_folds, scene_folds
from steersman.training.settings import FitSettings
from tests.support.teaching import draw_examples

pytest.importorskip("torch")

from steersman.policies.action_value import ActionValuePolicy
from steersman.training import selection
from steersman.training.learners import fit_decided
from steersman.training.metrics import choices, regrets
from steersman.training.selection import decide_settings, standard_error


def test_scene_folds_hold_every_row_out_once_and_scenes_whole() -> None:
    examples = draw_examples(scenes=11, rows=7)
    folds = scene_folds(examples, 4, seed=0)
    assert folds.shape == (77,)
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3]
    for scene in range(11):
        assert len(set(folds[examples.scenes == scene].tolist())) == 1
    sizes = np.bincount(folds) // 7
    assert sorted(sizes.tolist()) == [2, 3, 3, 3]


def test_scene_folds_are_dealt_in_order_of_the_hash() -> None:
    examples = draw_examples(scenes=6, rows=2)
    order = sorted(examples.scene_ids, key=lambda s: hashlib.sha256(f"7:{s}".encode()).hexdigest())
    folds = scene_folds(examples, 3, seed=7)
    for place, scene in enumerate(order):
        rows = examples.scenes == examples.scene_ids.index(scene)
        assert set(folds[rows].tolist()) == {place % 3}


def test_random_folds_are_even_and_break_scenes_up() -> None:
    folds = random_folds(77, 4, seed=0)
    assert sorted(np.bincount(folds).tolist()) == [19, 19, 19, 20]
    assert len(set(folds[:7].tolist())) > 1


@pytest.mark.parametrize("folds", [0, 1, True, 2.0, 12])
def test_impossible_numbers_of_folds_are_refused(folds: int) -> None:
    with pytest.raises(InvalidInputError, match="folds: expected"):
        scene_folds(draw_examples(scenes=11), folds, seed=0)


def test_one_training_scene_leaves_nothing_to_choose_by() -> None:
    with pytest.raises(InvalidInputError, match="at least 2 training scenes"):
        inner_folds(draw_examples(scenes=1), seed=0)


def test_plain_settings_are_left_as_they_are() -> None:
    settings = FitSettings()
    decision = decide_settings(draw_examples(scenes=1), settings)
    assert decision.settings is settings
    assert decision.trials == ()


def overfitting() -> Examples:
    """Few rows, much noise: a hundred fast epochs learn the noise."""
    return draw_examples(scenes=8, rows=4, features=20, noise=2.0)


def shifted(examples: Examples) -> Examples:
    """The same, with features and gains whose spread differs from scene to scene."""
    far = np.random.default_rng(3).lognormal(sigma=1.5, size=len(examples.scene_ids))[
        examples.scenes, np.newaxis
    ]
    features = (examples.features * far + far).astype(np.float32)
    return replace(examples, features=features, gains=examples.gains * far)


@pytest.mark.parametrize("learner", ["mlp", "forest"])
def test_trials_on_inner_folds_are_fits_that_know_nothing_of_the_fold(learner: str) -> None:
    examples = shifted(draw_examples(scenes=10, rows=6))
    settings = FitSettings(learner="auto", epochs=30, learning_rate=0.05, hidden_dim=8, trees=10)
    trials = decide_settings(examples, settings).trials
    (trial,) = [
        trial for trial in trials if trial.settings.learner == learner and trial.settings.inputs == "plain"
    ]
    folds, lost = inner_folds(examples, seed=0), np.zeros(len(examples))
    for fold in range(int(folds.max()) + 1):
        rest = examples.take(folds == fold)
        policy = fit_decided(examples.take(folds != fold), trial.settings).policy
        chosen = choices(policy.batch_values(rest.features), rest.feasible)
        lost[folds == fold] = regrets(rest.gains, rest.feasible, chosen)
    assert trial.regret == pytest.approx(lost.mean())


def test_rows_held_out_on_inner_folds_are_measured_in_units_of_the_others() -> None:
    examples = shifted(draw_examples(scenes=6, rows=6))
    held_out = examples.scenes < 2
    training, rest = examples.take(~held_out), examples.take(held_out)
    targets, weights = selection._held_out_targets(examples, "gain", held_out)
    entries = training.gains[training.feasible]
    expected = np.where(rest.feasible, (rest.gains - entries.mean()) / entries.std(), 0.0)
    np.testing.assert_allclose(targets.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert weights.numpy().tolist() == rest.feasible.astype(float).tolist()


def test_early_stopping_takes_one_step_at_least() -> None:
    """Gains that no feature tells, and steps so large that the first one is too far already."""
    plain = draw_examples(scenes=8, rows=4)
    noise = np.random.default_rng(0).normal(size=plain.gains.shape)
    examples = replace(plain, gains=np.where(plain.feasible, noise, 0.0))
    settings = FitSettings(early_stopping=True, epochs=5, learning_rate=3.0)
    assert decide_settings(examples, settings).settings.epochs >= 1


def test_early_stopping_ends_where_rows_held_out_say() -> None:
    examples = overfitting()
    settings = FitSettings(hidden_dim=16, learning_rate=0.02, epochs=80, early_stopping=True)
    decision = decide_settings(examples, settings)
    assert 1 <= decision.settings.epochs < 80
    assert decision.settings == replace(settings, epochs=decision.settings.epochs, early_stopping=False)

    def held_out_loss(epochs: int) -> float:
        """By separate fits of so many epochs on each inner fold's complement."""
        folds, total, count = inner_folds(examples, seed=0), 0.0, 0
        for fold in range(folds.max() + 1):
            rest = examples.take(folds == fold)
            fitted = fit_decided(examples.take(folds != fold), replace(decision.settings, epochs=epochs))
            targets = (rest.gains - fitted.target.mean) / fitted.target.scale
            errors = np.square(fitted.policy.batch_values(rest.features) - targets)
            total, count = total + float(errors[rest.feasible].sum()), count + int(rest.feasible.sum())
        return total / count

    best = decision.settings.epochs
    least = held_out_loss(best)
    for epochs in {1, max(1, best - 5), best + 5, 80} - {best}:
        assert held_out_loss(epochs) > least - 1e-6


def test_early_stopping_generalises_better_than_a_hundred_fixed_epochs() -> None:
    examples = overfitting()
    held_out = examples.of_scenes(("scene-01", "scene-04", "scene-06"))
    training, rest = examples.take(~held_out), examples.take(held_out)
    losses = []
    for stopping in (False, True):
        settings = FitSettings(learning_rate=0.02, early_stopping=stopping)
        decided = decide_settings(training, settings).settings
        fitted = fit_decided(training, decided)
        targets = (rest.gains - fitted.target.mean) / fitted.target.scale
        losses.append(np.square(fitted.policy.batch_values(rest.features) - targets)[rest.feasible].mean())
    assert losses[1] < losses[0]


def test_a_search_takes_the_trial_with_the_least_regret_on_inner_folds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corners = selection.SEARCH_CORNERS[:2]
    monkeypatch.setattr(selection, "SEARCH_CORNERS", corners)
    monkeypatch.setattr(selection, "SEARCH_STEPS", (5, 20))
    examples = draw_examples(scenes=6, rows=6)
    settings = FitSettings(epochs=10, search=True)
    decision = decide_settings(examples, settings)
    assert len(decision.trials) == 3 * 3  # as given and two corners, at 5, 10 and 20 epochs
    assert decision.trials[0].settings == replace(settings, search=False)
    best = min(decision.trials, key=lambda trial: trial.regret)
    assert decision.settings == replace(best.settings, ensemble=selection.SEARCH_ENSEMBLE)
    # A trial's regret is that of separate fits.
    trial = decision.trials[-1]
    folds = inner_folds(examples, seed=0)
    values = np.zeros(examples.gains.shape)
    for fold in range(folds.max() + 1):
        fitted = fit_decided(examples.take(folds != fold), trial.settings)
        values[folds == fold] = fitted.policy.batch_values(examples.features[folds == fold])
    lost = regrets(examples.gains, examples.feasible, choices(values, examples.feasible))
    assert trial.regret == pytest.approx(lost.mean(), rel=1e-6)


def test_a_larger_ensemble_that_was_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SEARCH_CORNERS", ())
    monkeypatch.setattr(selection, "SEARCH_STEPS", (5,))
    settings = FitSettings(epochs=5, search=True, ensemble=7)
    assert decide_settings(draw_examples(scenes=4, rows=4), settings).settings.ensemble == 7


def test_corners_that_diverge_are_out_of_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SEARCH_CORNERS", ({"learning_rate": 1e30},))
    monkeypatch.setattr(selection, "SEARCH_STEPS", (5,))
    decision = decide_settings(draw_examples(scenes=4, rows=4), FitSettings(epochs=5, search=True))
    assert [trial.settings.learning_rate for trial in decision.trials] == [1e-3]
    with pytest.raises(FitError):
        decide_settings(
            draw_examples(scenes=4, rows=4), FitSettings(epochs=5, search=True, learning_rate=1e30)
        )


def test_auto_compares_both_learners_and_losses_for_long_tails() -> None:
    examples = draw_examples(scenes=6, rows=6)
    decision = decide_settings(examples, FitSettings(learner="auto", epochs=5, trees=10))
    assert [
        (trial.settings.learner, trial.settings.loss, trial.settings.inputs) for trial in decision.trials
    ] == [
        ("mlp", "squared", "plain"),
        ("mlp", "mixed", "ranked"),
        ("forest", "mixed", "plain"),
    ]
    assert decision.settings in [trial.settings for trial in decision.trials]


def test_a_search_of_auto_compares_what_both_learners_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SEARCH_STEPS", (5,))
    decision = decide_settings(
        draw_examples(scenes=4, rows=6), FitSettings(learner="auto", search=True, epochs=5, trees=2)
    )
    kinds = [trial.settings.learner for trial in decision.trials]
    assert (
        kinds == ["mlp"] * 4 + ["forest"] * 15
    )  # as given and three corners; five losses, three sizes of leaves


def test_few_trees_are_enough_to_compare_but_all_are_grown_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selection, "TRIAL_TREES", 4)
    examples = draw_examples(scenes=6, rows=6)
    trials = [
        decide_settings(examples, FitSettings(learner="auto", epochs=5, trees=trees)).trials
        for trees in (4, 40)
    ]
    assert [trial.regret for trial in trials[0]] == [trial.regret for trial in trials[1]]
    assert {trial.settings.trees for trial in trials[1]} == {40}


def test_a_network_must_beat_the_forest_by_more_than_a_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    examples = draw_examples(scenes=4, rows=2, actions=2, masked=0.0)
    gains = np.tile([1.0, 0.0], (8, 1))
    examples = replace(examples, gains=gains)
    right, wrong = np.tile([1.0, 0.0], (8, 1)), np.tile([0.0, 1.0], (8, 1))

    def decided(forest_is_wrong_in: int) -> str:
        """Let the network be right, and the forest wrong in so many of the four scenes."""
        forest = np.where(examples.scenes[:, None] < forest_is_wrong_in, wrong, right)
        monkeypatch.setattr(selection, "_forest_values", lambda *_: forest)
        monkeypatch.setattr(
            selection,
            "_mlp_trials",
            lambda given, settings, *_: [selection._measure(given, settings, right)],
        )
        return decide_settings(examples, FitSettings(learner="auto")).settings.learner

    # Wrong in one scene of four: mean 1/4; sums of deviations 2 · 3/4 and three times 2 · -1/4, so that the standard
    # error is sqrt((9/4 + 3/4) · 4/3) / 8 = 1/4, which the mean does not pass.
    assert decided(1) == "forest"
    # Wrong in two: mean 1/2; four sums of ±1, the standard error is sqrt(4 · 4/3) / 8 = 0.29.
    assert decided(2) == "mlp"
    assert decided(0) == "forest"


def test_the_standard_error_takes_rows_of_a_scene_together() -> None:
    differences = np.array([0.0, 0.0, 3.0, 3.0, 3.0, 3.0])  # mean 2
    apart = standard_error(differences, np.arange(6))  # deviations -2, -2, 1, 1, 1, 1
    assert apart == pytest.approx(np.sqrt(12 * 6 / 5) / 6)
    together = standard_error(differences, np.array([5, 5, 7, 7, 9, 9]))  # sums -4, 2, 2
    assert together == pytest.approx(np.sqrt(24 * 3 / 2) / 6)
    assert standard_error(differences, np.zeros(6, dtype=np.int64)) == np.inf


def test_auto_takes_the_forest_where_the_answer_is_a_step() -> None:
    """Which action is best flips at x0 = 0.3, whatever the other eleven features are: made for trees."""
    plain = draw_examples(scenes=10, rows=12, features=12, actions=2, masked=0.0)
    gains = np.where(plain.features[:, :1] > 0.3, [1.0, -1.0], [-1.0, 1.0])
    examples = replace(plain, gains=gains)
    decision = decide_settings(examples, FitSettings(learner="auto", epochs=20, trees=50))
    assert decision.settings.learner == "forest"


def test_a_forest_has_no_epochs_to_stop_at() -> None:
    with pytest.raises(InvalidInputError, match="early_stopping"):
        decide_settings(draw_examples(), FitSettings(learner="forest", early_stopping=True))
    with pytest.raises(InvalidInputError, match="search and early_stopping"):
        FitSettings(search=True, early_stopping=True)


def test_choosing_looks_at_the_examples_it_is_given_and_is_repeatable() -> None:
    examples = draw_examples(scenes=6, rows=5)
    settings = FitSettings(epochs=12, learning_rate=0.02, early_stopping=True, seed=4)
    assert decide_settings(examples, settings) == decide_settings(examples, settings)


def test_a_mixed_network_is_the_mean_of_one_for_each_shape() -> None:
    examples = draw_examples(scenes=5, rows=5)
    settings = FitSettings(hidden_dim=6, epochs=15, loss="mixed")
    together = fit_decided(examples, settings)
    alone = [fit_decided(examples, replace(settings, loss=loss)) for loss in ("squared", "log", "rank")]
    mean = np.mean([fitted.policy.batch_values(examples.features) for fitted in alone], axis=0)
    np.testing.assert_allclose(together.policy.batch_values(examples.features), mean, atol=1e-6)


def test_early_stopping_of_a_mixed_network_looks_at_every_shape() -> None:
    settings = FitSettings(hidden_dim=4, learning_rate=0.02, epochs=30, loss="mixed", early_stopping=True)
    assert 1 <= decide_settings(overfitting(), settings).settings.epochs <= 30


def test_pairwise_training_ranks_the_better_action_higher() -> None:
    examples = draw_examples(scenes=10, rows=20, noise=0.0, scene_effect=0.0)
    fitted = fit_decided(examples, FitSettings(loss="pairwise", epochs=150, learning_rate=0.01))
    lost = regrets(
        examples.gains,
        examples.feasible,
        choices(fitted.policy.batch_values(examples.features), examples.feasible),
    )
    first = regrets(examples.gains, examples.feasible, choices(np.zeros(3), examples.feasible))
    assert lost.mean() < 0.2 * first.mean()
    assert fitted.losses[-1] < 0.5 * fitted.losses[0]


def test_an_ensemble_is_the_mean_of_its_seeds() -> None:
    examples = draw_examples(scenes=5, rows=5)
    settings = FitSettings(hidden_dim=6, epochs=15, ensemble=3, seed=10)
    together = fit_decided(examples, settings)
    alone = [fit_decided(examples, replace(settings, ensemble=1, seed=10 + member)) for member in range(3)]
    mean = np.mean([fitted.policy.batch_values(examples.features) for fitted in alone], axis=0)
    np.testing.assert_allclose(together.policy.batch_values(examples.features), mean, atol=1e-6)
    assert isinstance(together.policy, ActionValuePolicy)
    assert together.policy.hidden_dim == 18
    assert together.training_loss == pytest.approx(np.mean([fitted.losses[-1] for fitted in alone]))
