"""From row files to a checkpoint, a report and one line of JSON."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.checkpoints.format import save_checkpoint
from steersman.checkpoints.inspect import describe_checkpoint
from steersman.errors import (
    BindingMismatchError,
    InvalidInputError,
    InvalidRowError,
    MissingExtraError,
    OutputExistsError,
)
from steersman.usecases.load_policy import load_policy
from tests.support.teaching import BINDING, PROMISED, draw_rows, write_rows

pytest.importorskip("torch")

from steersman.policies.action_value import ActionValuePolicy
from steersman.policies.ranking import FixedRankingPolicy
from steersman.training.progress import ProgressEvent
from steersman.training.settings import FitSettings
from steersman.usecases.fit import FitReport, FitRequest, fit_policy

QUICK = FitSettings(epochs=20, learning_rate=0.01, hidden_dim=8)


def request(folder: Path, **changes: Any) -> FitRequest:
    rows = folder / "rows"
    if not rows.exists():
        write_rows(rows)
    return replace(
        FitRequest(teacher=(rows,), output=folder / "made" / "policy.safetensors", settings=QUICK), **changes
    )


def test_a_fit_ends_in_a_checkpoint_that_says_how_it_was_made(tmp_path: Path) -> None:
    asked = request(tmp_path)
    report = fit_policy(asked)
    data = asked.output.read_bytes()
    assert report.checkpoint_sha256 == hashlib.sha256(data).hexdigest()
    loaded = load_policy(asked.output, expected_binding=BINDING)
    rows_hash = hashlib.sha256((tmp_path / "rows" / "rows.jsonl").read_bytes()).hexdigest()
    assert loaded.binding == {
        **BINDING,
        "teacher_dataset_hash": loaded.provenance["teacher_dataset_hash"],
        "teacher_source_hashes": {"rows.jsonl": rows_hash},
    }
    made = loaded.provenance
    assert made["schema"] == "steersman.policy_training.v1"
    assert made["row_count"] == 96
    assert made["training_scene_ids"] == list(report.result.training_scene_ids)
    assert made["validation_scene_ids"] == list(report.result.validation_scene_ids)
    assert made["target_normalisation"] == {
        "mean": report.result.target_mean,
        "scale": report.result.target_scale,
    }
    assert made["seed"] == 0
    assert made["requested"] == QUICK.to_json()
    assert made["hyper_parameters"] == QUICK.to_json() | {"cost_weight": 0.0}
    assert made["metrics"] == report.result.metrics
    assert made["init_policy_sha256"] is None
    assert made["init_scene_ids"] == []
    assert set(made["versions"]) == {"python", "steersman", "numpy", "torch"}
    features = report.result.heldout.features[0]
    assert loaded.policy.all_values(features) == report.policy.all_values(features)
    assert "teacher_dataset_hash" in describe_checkpoint(loaded)


def test_the_binding_refuses_another_runtime(tmp_path: Path) -> None:
    asked = request(tmp_path)
    fit_policy(asked)
    with pytest.raises(BindingMismatchError, match=r"render_protocol\.samples: expected 8, found 16"):
        load_policy(asked.output, expected_binding={"render_protocol": {"samples": 8}})


def test_the_policy_takes_control_inputs_of_its_profile(tmp_path: Path) -> None:
    from steersman.teacher.streaming_scene import encode

    control = {
        "rgb_mse": 0.5,
        "opacity_mean": 0.1,
        "current_image_mean": 0.2,
        "density_mean": 0.3,
        "fast_norm": 1.0,
        "observed_count": 3,
        "previous_action": "FUSE",
        "remaining_budget": 100.0,
        "coverage": 0.5,
        "valid_count": 2,
        "remaining_steps": 4,
    }
    asked = request(tmp_path)
    fit_policy(asked)
    policy = load_policy(asked.output).policy
    assert policy.all_values(control) == policy.all_values(encode(control))
    assert policy.choose(control, ["OFF", "ALL"]).action in ("OFF", "ALL")


def test_the_same_request_makes_the_same_file(tmp_path: Path) -> None:
    first = fit_policy(request(tmp_path))
    second = fit_policy(request(tmp_path, output=tmp_path / "again.safetensors"))
    assert first.checkpoint_sha256 == second.checkpoint_sha256


def test_the_report_is_one_line_of_json(tmp_path: Path) -> None:
    report = fit_policy(request(tmp_path, folds=3, pareto=True))
    line = json.dumps(report.to_json(), allow_nan=False)
    assert "\n" not in line
    body = json.loads(line)
    assert set(body) >= PROMISED | {
        "verdict",
        "gap_closed",
        "best_fixed_regret",
        "folds_gap_closed",
        "folds_gap_closed_at_random",
        "pareto",
    }
    assert body["verdict"] == body["folds_verdict"]
    assert body["evidence"]["verdict"] == "too few scenes"  # 3 of 12 are held out
    assert body["cross_validation"]["by_scene"]["row_count"] == 96
    assert body["evidence"]["policy"]["regret"] == body["heldout_regret"]


@pytest.mark.parametrize("taken", ["policy.safetensors", "policy.safetensors.part"])
def test_an_existing_output_is_refused_before_any_work(tmp_path: Path, taken: str) -> None:
    there = tmp_path / "made" / taken
    there.parent.mkdir()
    there.write_bytes(b"kept")
    told: list[ProgressEvent] = []
    with pytest.raises(OutputExistsError):
        fit_policy(request(tmp_path, teacher=(tmp_path / "missing",)), progress=told.append)
    assert told == []
    assert there.read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"teacher": (Path("missing"),)}, InvalidRowError),
        ({"holdout_fraction": 1.0}, InvalidInputError),
        ({"validation_scene_ids": ("nowhere",)}, InvalidInputError),
        ({"folds": 13}, InvalidInputError),
        ({"folds": 1}, InvalidInputError),
        ({"cost_weight": -1.0}, InvalidInputError),
        ({"pareto": True, "validation_scene_ids": ()}, InvalidInputError),
    ],
)
def test_a_fit_that_fails_writes_nothing(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        fit_policy(request(tmp_path, report=tmp_path / "report", **changes))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["rows"]


@pytest.mark.parametrize(
    "changes",
    [{"search": True}, {"early_stopping": True}, {"learner": "auto"}],
    ids=["search", "early stopping", "auto"],
)
def test_folds_that_leave_nothing_to_choose_by_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_rows(tmp_path / "rows", scenes=3)
    told: list[str] = []
    asked = request(tmp_path, folds=2, settings=replace(QUICK, **changes))
    with pytest.raises(
        InvalidInputError, match=r"folds: expected at least two scenes left .* 2 folds of 3 scenes"
    ):
        fit_policy(asked, progress=lambda event: told.append(event.stage))
    assert set(told) == {"read rows"}


def test_broken_rows_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    asked = request(tmp_path)
    with (tmp_path / "rows" / "rows.jsonl").open("a") as file:
        file.write('{"row_id": NaN}\n')
    with pytest.raises(InvalidRowError, match=r"rows\.jsonl:97"):
        fit_policy(asked)
    assert not asked.output.parent.exists()


def hopeless(folder: Path) -> Path:
    """Rows whose features say nothing about the actions, of which ALL is the best on average."""
    draw = np.random.default_rng(0)
    rows = draw_rows(scenes=30, rows=3)
    for row in rows:
        gains = draw.normal(loc=[0.0, 0.0, 0.0, 1.0])
        entries = [
            float(gain) if allowed else None
            for gain, allowed in zip(gains, row["feasible_mask"], strict=True)
        ]
        row["advantages"] = entries
        row["losses"] = [None if entry is None else -entry for entry in entries]
    folder.mkdir()
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_where_a_fit_is_no_better_the_fallback_plays_the_best_fixed_action(tmp_path: Path) -> None:
    asked = request(tmp_path, teacher=(hopeless(tmp_path / "hopeless"),), folds=3, fallback=True)
    report = fit_policy(asked)
    assert report.verdict.fell_back
    assert report.cross_validation is not None
    assert report.cross_validation.by_scene.verdict != "better"
    policy = load_policy(asked.output).policy
    assert isinstance(policy, FixedRankingPolicy)
    for features in report.result.heldout.features[:20]:
        assert policy.choose(features).action == "ALL"
    assert load_policy(asked.output).provenance["fallback"] is True
    assert_described(report)
    kept = fit_policy(replace(asked, fallback=False, output=tmp_path / "kept.safetensors"))
    assert isinstance(load_policy(kept.output).policy, ActionValuePolicy)


def assert_described(report: FitReport) -> None:
    """What is told of a checkpoint that fell back is worked out anew, by playing ALL or else the next best."""
    rows, body = report.result.heldout, report.to_json()
    means = np.nanmean(
        np.where(report.result.training.feasible, report.result.training.gains, np.nan), axis=0
    )
    chosen = [max(np.flatnonzero(mask), key=lambda action: means[action]) for mask in rows.feasible]
    best = [gains[mask].max() for gains, mask in zip(rows.gains, rows.feasible, strict=True)]
    regret = float(np.mean(best - rows.gains[np.arange(len(rows)), chosen]))
    errors = np.square(rows.gains - means) / report.result.target_scale**2
    loss = np.mean([row[mask].mean() for row, mask in zip(errors, rows.feasible, strict=True)])
    written = load_policy(report.output).provenance
    for told in (body, written["metrics"]):
        assert told["heldout_regret"] == pytest.approx(regret)
        assert told["heldout_loss"] == pytest.approx(float(loss))
        assert told["heldout_mean_cost"] == pytest.approx(
            float(rows.costs[np.arange(len(rows)), chosen].mean())
        )
    assert report.evidence is not None
    assert body["gap_closed"] == 0.0
    assert body["fitted_gap_closed"] == report.evidence.gap_closed
    assert body["best_fixed_regret"] == pytest.approx(regret)
    assert body["fitted_heldout_regret"] == report.result.metrics["heldout_regret"]
    assert body["fitted_heldout_regret"] != pytest.approx(regret)
    assert written["fitted_metrics"] == report.result.metrics
    assert written["hyper_parameters"] == {"cost_weight": 0.0}
    assert written["fitted_hyper_parameters"]["learner"] == "mlp"
    assert (written["verdict"], written["sentence"]) == (report.verdict.kind, report.verdict.sentence)


def test_where_a_fit_is_better_the_fallback_is_not_taken(tmp_path: Path) -> None:
    write_rows(tmp_path / "many", scenes=30, rows=20)
    settings = FitSettings(learner="forest", trees=40)
    asked = request(tmp_path, teacher=(tmp_path / "many",), folds=3, fallback=True, settings=settings)
    report = fit_policy(asked)
    assert report.cross_validation is not None
    assert report.cross_validation.by_scene.verdict == "better"
    assert not report.verdict.fell_back
    assert report.policy.kind == "action_value_forest"
    assert set(load_policy(asked.output).provenance["versions"]) >= {"scikit-learn"}


def test_with_too_few_scenes_the_fallback_is_taken(tmp_path: Path) -> None:
    report = fit_policy(request(tmp_path, fallback=True))
    assert report.evidence is not None
    assert report.evidence.verdict == "too few scenes"
    assert report.verdict.fell_back


def test_costs_can_weigh_so_much_that_the_cheapest_is_played(tmp_path: Path) -> None:
    settings = FitSettings(learner="forest", trees=30)
    report = fit_policy(request(tmp_path, cost_weight=1e3, settings=settings))
    assert report.evidence is not None
    rows = report.result.heldout
    cheapest = np.where(rows.feasible, rows.costs, np.inf).min(axis=1)
    assert report.evidence.policy.mean_cost == pytest.approx(cheapest.mean(), abs=1e-9)
    assert report.to_json()["cost_weight"] == 1e3


def test_what_a_fit_continued_from_is_recorded(tmp_path: Path) -> None:
    first = fit_policy(request(tmp_path))
    again = request(tmp_path, output=tmp_path / "again.safetensors", init_policy=first.output)
    fit_policy(again)
    assert load_policy(again.output).provenance["init_policy_sha256"] == first.checkpoint_sha256


def test_scenes_that_the_given_weights_know_are_no_evidence(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", scenes=40)
    first = fit_policy(request(tmp_path))
    again = request(tmp_path, output=tmp_path / "again.safetensors", init_policy=first.output)
    assert fit_policy(again).verdict.kind == first.verdict.kind  # the same split
    others = replace(again, output=tmp_path / "other.safetensors", settings=replace(QUICK, seed=1))
    known = len(
        set(fit_policy(replace(others, init_policy=None)).result.validation_scene_ids)
        & set(first.result.training_scene_ids)
    )
    assert known
    others = replace(others, output=tmp_path / "third.safetensors", fallback=True)
    report = fit_policy(others)
    assert report.verdict.kind == "known scenes"
    assert report.verdict.sentence.startswith(f"{known} of the held-out scenes trained the policy")
    assert report.verdict.fell_back


def test_scenes_that_an_earlier_ancestor_knows_are_no_evidence_either(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", scenes=20)
    held_out = tuple(f"scene-{number:02d}" for number in range(10))
    first = fit_policy(request(tmp_path, validation_scene_ids=()))  # knows all of them
    path, made = first.output, []
    for name in ("child", "grandchild", "its child"):
        asked = request(tmp_path, output=tmp_path / name, init_policy=path, validation_scene_ids=held_out)
        report = fit_policy(asked)
        assert report.verdict.kind == report.to_json()["verdict"] == "known scenes"
        assert report.verdict.sentence.startswith("10 of the held-out scenes trained the policy")
        made.append(load_policy(asked.output).provenance)
        path = asked.output
    everything = [f"scene-{number:02d}" for number in range(20)]
    assert [provenance["init_scene_ids"] for provenance in made] == [everything] * 3
    assert [provenance["evidence"]["verdict"] for provenance in made] == ["known scenes"] * 3


@pytest.mark.parametrize("missing", ["training_scene_ids", "init_scene_ids"])
def test_weights_that_do_not_say_what_they_know_make_no_evidence(tmp_path: Path, missing: str) -> None:
    first = fit_policy(request(tmp_path))
    loaded = load_policy(first.output)
    silent = tmp_path / "silent.safetensors"
    provenance = {name: value for name, value in loaded.provenance.items() if name != missing}
    save_checkpoint(
        silent,
        loaded.policy,
        binding=loaded.binding,
        provenance=provenance,
        probe_features=first.result.training.features[:1],
    )
    asked = request(tmp_path, output=tmp_path / "again", init_policy=silent)
    report = fit_policy(asked)
    assert report.verdict.kind == "known scenes"
    assert "does not say which scenes it was trained on" in report.verdict.sentence
    assert load_policy(asked.output).provenance["init_scene_ids"] is None


@pytest.mark.parametrize("changes", [{"folds": 3}, {"pareto": True}])
def test_given_weights_are_not_judged_by_fits_that_begin_anew(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    asked = request(tmp_path, teacher=(tmp_path / "missing",), init_policy=tmp_path / "missing", **changes)
    with pytest.raises(InvalidInputError, match="init_policy: expected neither folds nor pareto"):
        fit_policy(asked)


def test_rows_that_contradict_themselves_are_told_beside_the_verdict(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = draw_rows()
    for row in rows[:5]:
        row["advantages"] = [None if gain is None else -gain for gain in row["advantages"]]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    report = fit_policy(request(tmp_path, teacher=(tmp_path / "odd",), report=tmp_path / "report"))
    wrong = sum(any(gain for gain in row["advantages"]) for row in rows[:5])  # 0 is its own opposite
    told = f"In {wrong} of 96 rows advantages do not follow from the losses."
    assert report.remarks[0].startswith(told)
    assert report.to_json()["remarks"] == list(report.remarks)
    assert told in (tmp_path / "report" / "report.html").read_text()


def test_what_to_try_next_stands_beside_a_verdict_that_is_not_good(tmp_path: Path) -> None:
    few = fit_policy(request(tmp_path)).remarks  # 3 of 12 scenes are held out
    falling = "The training loss was still falling after 20 epochs: more `--epochs` may do better."
    assert few == ("To judge with these rows: `--folds 5` holds every scene out once.", falling)
    judged = fit_policy(request(tmp_path, folds=3, output=tmp_path / "judged"))
    assert judged.verdict.kind != "better"
    assert judged.remarks[0].startswith("To try next: `--learner auto`")
    write_rows(tmp_path / "many", scenes=30, rows=20)
    settings = FitSettings(learner="forest", trees=40)
    good = request(tmp_path, teacher=(tmp_path / "many",), folds=3, settings=settings, output=tmp_path / "g")
    assert fit_policy(good).remarks == ()


def test_without_pytorch_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from steersman.errors import MissingExtraError\n"
        "try:\n    import steersman.usecases.fit\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(MissingExtraError("fit", purpose="fitting a policy"))


def test_what_fitting_offers_is_imported_from_one_place_and_only_then() -> None:
    script = (
        "import sys, steersman\n"
        "heavy = {'torch', 'sqlalchemy', 'pyarrow', 'matplotlib', 'sklearn'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "from steersman import load_teacher_dataset, load_teacher_rows, parse_teacher_row, split_scene_ids\n"
        "from steersman import TeacherDataset, TeacherRow, load_policy\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "from steersman import PolicyFitResult, fit_action_policy, load_init_policy\n"
        "print([name for name in steersman.__all__ if not hasattr(steersman, name)])\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n[]\n[]\n"
