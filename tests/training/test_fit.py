"""The plain fit: against golden values, against PyTorch written out, and at its bounds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steersman.errors import DeviceUnavailableError, FitError, InvalidCheckpointError, InvalidInputError
from steersman.policies.action_value import MAX_HIDDEN, ActionValuePolicy
from steersman.teacher.dataset import TeacherDataset, as_dataset, load_teacher_dataset
from steersman.teacher.profiles import RowProfile
from steersman.teacher.rows import parse_teacher_row
from tests.support.fitted import ranking, save
from tests.support.teaching import BINDING, draw_rows

torch = pytest.importorskip("torch")

from steersman.training.fit import (  # noqa: E402 - after it is known that PyTorch is there
    PolicyFitResult,
    fit_action_policy,
    load_init_policy,
)
from steersman.training.progress import ProgressEvent  # noqa: E402
from steersman.training.settings import FitSettings  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("STEERSMAN_SHARED", ROOT.parent / "shared"))
REFERENCE = SHARED / "reference" / "teacher_rows.jsonl"

# Two fits of the 300 reference rows, by an independent implementation.
GOLDEN = [
    (
        {"hidden_dim": 32, "epochs": 100, "learning_rate": 0.001, "weight_decay": 0.0, "seed": 0},
        ("scene-03", "scene-08", "scene-09"),
        {
            "training_loss": 0.14514784514904022,
            "target_scale": 0.3018936216831207,
            "heldout_loss": 0.404295039921999,
            "heldout_regret": 0.04698238035043081,
            "heldout_top_accuracy": 0.7333333333333333,
            "heldout_near_tie_coverage": 0.0,
            "heldout_row_count": 75,
        },
    ),
    (
        {"hidden_dim": 16, "epochs": 200, "learning_rate": 0.005, "weight_decay": 0.0001, "seed": 3},
        ("scene-01", "scene-02", "scene-09"),
        {
            "training_loss": 0.0033626966178417206,
            "target_scale": 0.30309826135635376,
            "heldout_loss": 0.6645320618959765,
            "heldout_regret": 0.08900300411507488,
            "heldout_top_accuracy": 0.6533333333333333,
            "heldout_near_tie_coverage": 0.0,
            "heldout_row_count": 75,
        },
    ),
]


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference rows are not on this machine")
@pytest.mark.parametrize(("hyper", "validation", "expected"), GOLDEN)
def test_golden_values(
    hyper: dict[str, Any], validation: tuple[str, ...], expected: dict[str, float]
) -> None:
    result = fit_action_policy(
        load_teacher_dataset([REFERENCE]), holdout_fraction=0.2, tie_tolerance=1e-4, **hyper
    )
    assert result.validation_scene_ids == validation
    for name, value in expected.items():
        assert result.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def written_out(
    rows: list[dict[str, Any]], held_out: tuple[str, ...], *, hidden: int, epochs: int, rate: float, seed: int
) -> tuple[float, NDArray[np.float32]]:
    """The fit without anything of ours: the last loss, and the outputs for the held-out rows in row order."""
    held = np.array([row["scene_id"] in held_out for row in rows])
    x = np.array([row["features"] for row in rows], dtype=np.float32)
    mask = np.array([row["feasible_mask"] for row in rows])
    y = np.array([[0.0 if v is None else v for v in row["advantages"]] for row in rows])
    mean = x[~held].mean(axis=0, dtype=np.float64).astype(np.float32)
    scale = x[~held].astype(np.float64).std(axis=0).astype(np.float32)
    mean[-6:-2], scale[-6:-2] = 0.0, 1.0  # previous_action_*
    targets = y[~held][mask[~held]]
    middle, spread = np.float32(targets.mean()), np.float32(targets.std())
    inputs = torch.from_numpy((x - mean) / scale)
    goal = torch.from_numpy(((y - middle) / spread).astype(np.float32))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], hidden), torch.nn.SiLU(), torch.nn.Linear(hidden, y.shape[1])
        )
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    train, wanted = torch.from_numpy(~held), torch.from_numpy(mask)
    loss = torch.zeros(())
    for _ in range(epochs):
        optimiser.zero_grad()
        loss = torch.square(net(inputs[train]) - goal[train])[wanted[train]].mean()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return float(loss), net(inputs[torch.from_numpy(held)]).numpy()


def test_the_fit_equals_pytorch_written_out() -> None:
    rows = draw_rows(scenes=12, rows=8)
    result = fit_action_policy(rows, hidden_dim=8, epochs=40, learning_rate=0.01, seed=5)
    loss, outputs = written_out(rows, result.validation_scene_ids, hidden=8, epochs=40, rate=0.01, seed=5)
    assert result.metrics["training_loss"] == pytest.approx(loss, rel=1e-5)
    found = result.policy.batch_values(result.heldout.features)
    np.testing.assert_allclose(found, outputs, rtol=1e-4, atol=1e-5)


def test_the_result_says_what_was_done() -> None:
    rows = draw_rows(scenes=10, rows=6)
    result = fit_action_policy(rows, epochs=3)
    assert isinstance(result.policy, ActionValuePolicy)
    assert len(result.training_scene_ids) == 8
    assert len(result.validation_scene_ids) == 2
    assert not set(result.training_scene_ids) & set(result.validation_scene_ids)
    assert result.row_count == 60
    assert result.metrics["training_row_count"] == 48
    assert result.metrics["training_scene_count"] == 8
    assert result.metrics["heldout_row_count"] == 12
    assert result.metrics["heldout_scene_count"] == 2
    assert result.binding == BINDING
    assert len(result.losses) == 3
    assert result.metrics["training_loss"] == result.losses[-1]
    assert result.feature_mean.shape == result.feature_scale.shape == (75,)
    assert result.feature_mean[-6:-2].tolist() == [0.0] * 4
    assert result.feature_scale[-6:-2].tolist() == [1.0] * 4
    assert (result.metrics["target_mean"], result.metrics["target_scale"]) == (
        result.target_mean,
        result.target_scale,
    )


def test_rows_mappings_and_data_sets_give_the_same_numbers() -> None:
    rows = draw_rows(scenes=4, rows=5)
    plain = fit_action_policy(rows, epochs=5)
    parsed = fit_action_policy([parse_teacher_row(row) for row in rows], epochs=5)
    whole = fit_action_policy(as_dataset(rows), epochs=5)
    assert plain.metrics == parsed.metrics == whole.metrics


def test_ranked_inputs_stand_beside_the_features(tmp_path: Path) -> None:
    rows, path = draw_rows(scenes=6, rows=6), tmp_path / "ranked.safetensors"
    result = fit_action_policy(rows, epochs=20, inputs="ranked", hidden_dim=8)
    assert isinstance(result.policy, ActionValuePolicy)
    assert result.policy.layers.hidden_weight.shape == (8, 75 + 71)
    assert result.policy.declared_work_units == 146 * 8 + 8 * 4 + 146 + 8 + 4
    save(path, result.policy)
    features = result.heldout.features
    loaded = load_init_policy(path).policy
    assert loaded.batch_values(features).tolist() == result.policy.batch_values(features).tolist()
    again = type(result.policy).from_payload(result.policy.to_payload())
    assert again.batch_values(features).tolist() == result.policy.batch_values(features).tolist()


@pytest.mark.parametrize("inputs", ["plain", "ranked"])
def test_what_is_served_is_what_was_trained(inputs: str) -> None:
    """The last loss but one step is that of the served values, to the precision of float32."""
    rows = draw_rows(scenes=4, rows=6)
    result = fit_action_policy(rows, epochs=30, inputs=inputs, learning_rate=1e-6, validation_scene_ids=[])
    targets = (result.training.gains - result.target_mean) / result.target_scale
    values = result.policy.batch_values(result.training.features)
    served = np.square(values - targets)[result.training.feasible].mean()
    assert result.metrics["training_loss"] == pytest.approx(served, rel=1e-4)


def test_nothing_of_a_validation_scene_touches_the_training() -> None:
    rows = draw_rows(scenes=6, rows=6)
    changed = [
        row | {"features": [9.0 * value + 3.0 for value in row["features"]]}
        if row["scene_id"] == "scene-02"
        else row
        for row in rows
    ]
    one, other = (
        fit_action_policy(some, epochs=5, validation_scene_ids=["scene-02"]) for some in (rows, changed)
    )
    assert one.losses == other.losses
    for name, array in one.policy.tensors().items():
        np.testing.assert_array_equal(array, other.policy.tensors()[name])


def test_without_validation_scenes_held_out_metrics_are_null() -> None:
    result = fit_action_policy(draw_rows(scenes=3, rows=3), epochs=2, validation_scene_ids=[])
    assert result.validation_scene_ids == ()
    assert result.metrics["heldout_row_count"] == result.metrics["heldout_scene_count"] == 0
    for name in ("loss", "regret", "top_accuracy", "near_tie_coverage"):
        assert result.metrics[f"heldout_{name}"] is None


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others() -> None:
    rows = draw_rows(scenes=4, rows=5)
    first, second, other = (fit_action_policy(rows, epochs=5, seed=seed) for seed in (1, 1, 2))
    assert first.losses == second.losses
    assert first.losses != other.losses


def test_the_global_generator_is_left_alone() -> None:
    threads = torch.get_num_threads()
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    state: Any = np.random.get_state()  # noqa: NPY002 - this is the global one
    fit_action_policy(draw_rows(scenes=3, rows=3), epochs=2)
    assert torch.equal(torch.rand(3), expected)
    after: Any = np.random.get_state()  # noqa: NPY002
    assert after[1].tolist() == state[1].tolist()
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epochs", 0),
        ("epochs", True),
        ("epochs", 1.0),
        ("hidden_dim", 0),
        ("hidden_dim", True),
        ("seed", -1),
        ("seed", False),
        ("learning_rate", 0.0),
        ("learning_rate", -1.0),
        ("learning_rate", float("inf")),
        ("learning_rate", float("nan")),
        ("learning_rate", True),
        ("weight_decay", -1e-9),
        ("weight_decay", float("nan")),
        ("tie_tolerance", -1.0),
        ("tie_tolerance", float("inf")),
        ("holdout_fraction", 1.0),
        ("holdout_fraction", -0.1),
        ("holdout_fraction", float("nan")),
        ("validation_scene_ids", ["nowhere"]),
        ("validation_scene_ids", ["scene-00", "scene-01", "scene-02"]),
        ("cost_weight", -1.0),
        ("cost_weight", float("nan")),
        ("cost_weight", True),
        ("ensemble", 0),
        ("hidden_dim", 66_667),
        ("hidden_dim", 2_000_000_000),
        ("early_stopping", "no"),
        ("search", 1),
        ("device", None),
        ("init_policy", "policy.safetensors"),
        ("learner", "tree"),
        ("loss", "hinge"),
        ("inputs", "logarithms"),
    ],
)
def test_arguments_outside_their_bounds_are_refused(argument: str, value: object) -> None:
    arguments: Mapping[str, Any] = {"epochs": 2, argument: value}
    with pytest.raises(InvalidInputError, match=argument):
        fit_action_policy(draw_rows(scenes=3, rows=2), **arguments)


def test_all_networks_together_stay_within_what_a_checkpoint_holds() -> None:
    """A search makes five seeds of them, and a mixed loss three networks of each: 15 times 66,666 units."""
    assert 15 * 66_666 <= MAX_HIDDEN < 15 * 66_667
    assert FitSettings(hidden_dim=66, ensemble=1000).ensemble == 1000
    with pytest.raises(
        InvalidInputError, match="at most 66,666 units in all networks of an ensemble, got 67 in"
    ):
        FitSettings(hidden_dim=67, ensemble=1000)


def test_the_same_numbers_written_otherwise_are_the_same_settings() -> None:
    plain = FitSettings(weight_decay=0.0, tie_tolerance=0.0, learning_rate=1.0).to_json()
    for zero in (0, -0.0):
        settings = FitSettings(weight_decay=zero, tie_tolerance=zero, learning_rate=1)
        assert json.dumps(settings.to_json()) == json.dumps(plain)


def test_a_forest_takes_no_device() -> None:
    with pytest.raises(InvalidInputError, match="device: expected cpu with the learner forest"):
        FitSettings(learner="forest", device="cuda")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "meta", "cpu:0", "cuda:99", "mps"])
def test_a_device_that_is_not_there_is_an_error(device: str) -> None:
    with pytest.raises(DeviceUnavailableError, match="device"):
        fit_action_policy(draw_rows(scenes=3, rows=2), epochs=2, device=device)


def test_cuda_gives_the_numbers_of_the_processor() -> None:
    rows = draw_rows(scenes=4, rows=5)
    if not torch.cuda.is_available():
        with pytest.raises(DeviceUnavailableError):
            fit_action_policy(rows, epochs=5, device="cuda")
        return
    one, other = (fit_action_policy(rows, epochs=5, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(one.losses, other.losses, rtol=1e-4)


@pytest.mark.parametrize("learner", ["mlp", "forest"])
def test_numbers_beyond_the_arithmetic_are_named_and_nothing_warns(learner: str) -> None:
    rows = draw_rows(scenes=3, rows=3)
    with pytest.raises(
        InvalidInputError, match=r"cost_weight: expected gains within ±1e\+38, and with 1e\+308"
    ):
        fit_action_policy(rows, learner=learner, cost_weight=1e308)
    for row, value in zip(rows, (3.4e38, -3.4e38), strict=False):
        row["features"][7] = value
    with pytest.raises(
        InvalidInputError, match=r"features\.\w+: expected values within ±1e\+38, got -3\.4e\+38 to"
    ):
        fit_action_policy(rows, learner=learner)
    for row, value in zip(rows, (1e38, -1e38), strict=False):
        row["features"][7] = value
    assert np.isfinite(
        fit_action_policy(rows, learner=learner, epochs=3).policy.all_values(rows[0]["features"])
    ).all()


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(FitError, match="loss became"):
        fit_action_policy(draw_rows(scenes=3, rows=3), epochs=50, learning_rate=1e30)


def continued(path: Path, rows: list[dict[str, Any]], **arguments: Any) -> PolicyFitResult:
    return fit_action_policy(rows, init_policy=load_init_policy(path), **arguments)


def test_a_fit_continues_from_given_weights(tmp_path: Path) -> None:
    rows, path = draw_rows(scenes=6, rows=6), tmp_path / "init.safetensors"
    first = fit_action_policy(rows, hidden_dim=8, epochs=30, learning_rate=0.01, validation_scene_ids=[])
    save(path, first.policy)
    again = continued(path, rows, hidden_dim=8, epochs=1, learning_rate=0.01, validation_scene_ids=[])
    # Same rows, same normalisation: the loss before the first step is that of the weights as given.
    assert again.losses[0] < first.losses[-1]
    assert again.losses[0] == pytest.approx(first.losses[-1], rel=0.1)
    other = continued(path, draw_rows(scenes=6, rows=6, seed=1), hidden_dim=8, epochs=1)
    assert not np.array_equal(other.feature_mean, first.feature_mean)  # a new normalisation


def test_weights_of_another_shape_are_not_continued_from(tmp_path: Path) -> None:
    rows, path = draw_rows(scenes=4, rows=4), tmp_path / "init.safetensors"
    fitted = fit_action_policy(rows, hidden_dim=8, epochs=1)
    save(path, fitted.policy)
    with pytest.raises(InvalidInputError, match="init_policy: expected the hidden_dim 9, got 8"):
        continued(path, rows, hidden_dim=9)
    for changes in (
        {"ensemble": 2},
        {"search": True},
        {"early_stopping": True},
        {"learner": "forest"},
        {"loss": "mixed"},
        {"inputs": "ranked"},
    ):
        with pytest.raises(InvalidInputError, match="init_policy"):
            continued(path, rows, hidden_dim=8, **changes)
    assert isinstance(fitted.policy, ActionValuePolicy)
    loaded = load_init_policy(path)
    renamed = replace(fitted.policy.schema, version="another")
    with pytest.raises(InvalidInputError, match="init_policy: expected the feature schema"):
        fit_action_policy(
            rows,
            hidden_dim=8,
            init_policy=replace(loaded, policy=replace(fitted.policy, schema=renamed)),
        )
    other = tmp_path / "ranking.safetensors"
    save(other, ranking())
    with pytest.raises(InvalidCheckpointError, match="expected a network"):
        load_init_policy(other)


def test_progress_tells_every_epoch_and_its_loss() -> None:
    told: list[ProgressEvent] = []
    result = fit_action_policy(draw_rows(scenes=3, rows=3), epochs=4, progress=told.append)
    assert [(event.stage, event.done, event.total) for event in told] == [
        ("fit", epoch, 4) for epoch in (1, 2, 3, 4)
    ]
    assert tuple(event.loss for event in told) == result.losses


def test_rows_beyond_one_chunk_give_the_gradient_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = draw_rows(scenes=5, rows=9)
    whole = fit_action_policy(rows, epochs=30, learning_rate=0.01)
    monkeypatch.setattr("steersman.training.mlp.CHUNK_ROWS", 7)
    parts = fit_action_policy(rows, epochs=30, learning_rate=0.01)
    np.testing.assert_allclose(parts.losses, whole.losses, rtol=1e-4)


def test_reference_rows_need_no_more_than_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in draw_rows(scenes=3, rows=3)))
    assert fit_action_policy(load_teacher_dataset([path]), epochs=1).row_count == 9


def nullable_rows() -> TeacherDataset:
    """Rows of a declared profile: action `go` pays exactly where `pace` is missing, whatever else is known."""
    profile = RowProfile.from_json(
        {
            "name": "tests",
            "actions": ["stay", "go"],
            "features": {"version": "v1", "names": ["gap", "pace"], "nullable": ["pace"]},
        }
    )
    draw = np.random.default_rng(2)
    rows = []
    for index in range(160):
        missing = bool(draw.random() < 0.5)
        gain = 1.0 if missing else -1.0
        rows.append(
            {
                "schema_version": "steersman.teacher_row.v1",
                "row_id": f"row-{index}",
                "episode_id": "episode",
                "scene_id": f"scene-{index % 8}",
                "split_id": "train",
                "prefix_step": index,
                "prefix_frame_id": index,
                "control_input": {},
                "features": [float(draw.normal()), None if missing else float(draw.normal(loc=5.0))],
                "actions": ["stay", "go"],
                "feasible_mask": [True, True],
                "losses": [gain, -gain],
                "advantages": [-gain, gain],
                "costs": [0.0, 1.0],
                "horizon_used": 1,
                "provenance": {},
            }
        )
    return as_dataset(rows, profile=profile)


@pytest.mark.parametrize("learner", ["mlp", "forest"])
def test_missing_features_stand_at_the_training_mean_and_are_indicated(learner: str) -> None:
    data = nullable_rows()
    result = fit_action_policy(data, epochs=200, learning_rate=0.01, learner=learner)
    assert result.metrics["heldout_top_accuracy"] == 1.0
    assert result.policy.choose([0.3, None]).action == "go"
    assert result.policy.choose({"gap": 0.3}).action == "go"
    assert result.policy.choose([0.3, 5.0]).action == "stay"
    present = result.training.features[:, 1]
    assert result.feature_mean[1] == pytest.approx(np.nanmean(present.astype(np.float64)), rel=1e-6)
    with pytest.raises(InvalidInputError, match="gap"):
        result.policy.choose([math.nan, 1.0])
    if isinstance(result.policy, ActionValuePolicy):
        assert result.policy.layers.hidden_weight.shape == (32, 3)
