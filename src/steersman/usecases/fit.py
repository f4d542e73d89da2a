"""Fit a policy to teacher rows and write the checkpoint, with the evidence for or against it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from steersman.checkpoints.format import LoadedCheckpoint, save_checkpoint
from steersman.errors import InvalidInputError
from steersman.files import check_absent
from steersman.policies.fitted import FittedPolicy
from steersman.policies.ranking import FixedRankingPolicy
from steersman.teacher.dataset import TeacherDataset, load_teacher_dataset
from steersman.teacher.split import split_scene_ids
from steersman.training.baselines import Ranking, rank_actions
from steersman.training.crossval import CrossValidation, cross_validate
from steersman.training.evidence import Evidence, judge, outcomes_by_name
from steersman.training.fit import (
    PolicyFitResult,
    examples_of,
    fit_dataset,
    load_init_policy,
    metrics_of_ranking,
)
from steersman.training.folds import scene_folds
from steersman.training.pareto import ParetoPoint, check_sweep, sweep_costs
from steersman.training.plots import check_can_draw
from steersman.training.progress import Progress, ProgressEvent, quiet
from steersman.training.provenance import (
    checkpoint_binding,
    known_scene_ids,
    probe_features,
    training_provenance,
)
from steersman.training.remarks import remarks_on
from steersman.training.report import ReportContent, check_report_folder, render_report, staged_report
from steersman.training.settings import FitSettings
from steersman.training.verdict import Verdict, reach_verdict

__all__ = ["FitReport", "FitRequest", "fit_policy"]

_MEASURED = (  # what differs between a fit and the best fixed action
    "training_loss",
    "heldout_loss",
    "heldout_regret",
    "heldout_top_accuracy",
    "heldout_mean_cost",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """What to fit, how, and where to put what comes of it."""

    teacher: tuple[Path, ...]  # files and folders of rows
    output: Path
    settings: FitSettings = field(default_factory=FitSettings)
    holdout_fraction: float = 0.2
    validation_scene_ids: tuple[str, ...] | None = None  # None: by fraction; empty: none
    init_policy: Path | None = None
    cost_weight: float = 0.0
    folds: int | None = None
    pareto: bool = False
    fallback: bool = False
    report: Path | None = None
    cache_dir: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FitReport:
    """What came of a fit."""

    output: Path
    checkpoint_sha256: str
    policy: FittedPolicy  # as written: the fit, or the fallback
    metrics: Mapping[str, float | int | None]  # of the policy as written, named as in `result`
    verdict: Verdict
    result: PolicyFitResult  # the fit, whether it was written or not
    binding: Mapping[str, Any]  # of the checkpoint
    duplicate_rows: int  # left out because they were there already
    blank_lines: int
    evidence: Evidence | None  # None without held-out scenes
    cross_validation: CrossValidation | None
    pareto: tuple[ParetoPoint, ...]
    remarks: tuple[str, ...]  # what else a person should know, in plain words
    report: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as one flat JSON object; what has parts of its own stands under one key.

        Figures are those of the policy as written; where the fit gave way to the best fixed action, its own stand
        beside them as `fitted_*`.
        """
        evidence, folds = self.evidence, self.cross_validation
        gap_closed = None if evidence is None else evidence.gap_closed
        fitted: dict[str, Any] = {}
        if self.verdict.fell_back:
            fitted = {f"fitted_{name}": self.result.metrics[name] for name in _MEASURED}
            fitted["fitted_gap_closed"] = gap_closed
            gap_closed = None if gap_closed is None else 0.0  # it is the action that gaps are measured from
        return {
            "output": str(self.output),
            "checkpoint_sha256": self.checkpoint_sha256,
            "binding": dict(self.binding),
            **self.metrics,
            **fitted,
            "training_scene_ids": list(self.result.training_scene_ids),
            "validation_scene_ids": list(self.result.validation_scene_ids),
            "row_count": self.result.row_count,
            "duplicate_rows": self.duplicate_rows,
            "blank_lines": self.blank_lines,
            "policy_kind": self.policy.kind,
            "declared_work_units": self.policy.declared_work_units,
            "settings": self.result.settings.to_json(),
            "cost_weight": self.result.cost_weight,
            "sentence": self.verdict.sentence,
            "verdict": self.verdict.kind,
            "remarks": list(self.remarks),
            "gap_closed": gap_closed,
            "best_fixed_action": None if evidence is None else evidence.best_fixed.name,
            "best_fixed_regret": None if evidence is None else evidence.best_fixed.regret,
            "uniform_regret": None if evidence is None else evidence.uniform.regret,
            "folds_verdict": None if folds is None else folds.by_scene.verdict,
            "folds_gap_closed": None if folds is None else folds.by_scene.gap_closed,
            "folds_gap_closed_at_random": None if folds is None else folds.at_random.gap_closed,
            "folds_parted": None if folds is None else folds.parted,
            "fell_back": self.verdict.fell_back,
            "pareto": [point.to_json() for point in self.pareto],
            "evidence": None if evidence is None else evidence.to_json(),
            "cross_validation": None if folds is None else folds.to_json(),
            "report": None if self.report is None else str(self.report),
        }


def fit_policy(request: FitRequest, *, progress: Progress = quiet) -> FitReport:
    """Fit, gather the evidence, write the checkpoint and, if asked for, the report; return what came of it.

    What stands in the way of writing is found before any work starts, and nothing is written before all work is
    done. Raises OutputExistsError, InvalidInputError, InvalidRowError, FitError, DeviceUnavailableError,
    MissingExtraError.
    """
    _check_outputs(request)
    _check_start(request)
    init = None if request.init_policy is None else load_init_policy(request.init_policy)
    dataset = _load(request, progress)
    _check_evidence(request, dataset)
    result = fit_dataset(
        dataset,
        request.settings,
        holdout_fraction=request.holdout_fraction,
        validation_scene_ids=request.validation_scene_ids,
        init_policy=init,
        cost_weight=request.cost_weight,
        progress=progress,
    )
    ranking = rank_actions(result.training)
    evidence = _evidence(result, ranking, init)
    folds = _cross_validation(request, dataset, progress)
    pareto = _pareto(request, dataset, result, progress)
    verdict = reach_verdict(evidence, folds, fallback=request.fallback)
    remarks = remarks_on(dataset, result, verdict, folds=request.folds)
    policy, metrics = result.policy, result.metrics
    if verdict.fell_back:
        policy = _fixed(result, ranking)
        metrics = metrics_of_ranking(policy, result)
    binding = checkpoint_binding(dataset)
    provenance = training_provenance(
        dataset,
        result,
        evidence=evidence,
        cross_validation=folds,
        init_policy=init,
        metrics=metrics,
        verdict=verdict,
    )
    content = ReportContent(
        request.output, result, metrics, evidence, folds, pareto, verdict, remarks, binding, provenance
    )
    sha256 = _write(request, policy, content)
    return FitReport(
        output=request.output,
        checkpoint_sha256=sha256,
        policy=policy,
        metrics=metrics,
        verdict=verdict,
        result=result,
        binding=binding,
        duplicate_rows=dataset.duplicates,
        blank_lines=dataset.blank_lines,
        evidence=evidence,
        cross_validation=folds,
        pareto=pareto,
        remarks=remarks,
        report=request.report,
    )


def _write(request: FitRequest, policy: FittedPolicy, content: ReportContent) -> str:
    """Write the checkpoint and, if asked for, the report: both or neither; return the checkpoint's SHA-256."""
    written: AbstractContextManager[None] = nullcontext()
    if request.report is not None:
        written = staged_report(request.report, render_report(content))
    with written:
        return save_checkpoint(
            request.output,
            policy,
            binding=content.binding,
            provenance=content.provenance,
            probe_features=probe_features(content.result.training),
        )


def _check_outputs(request: FitRequest) -> None:
    _check_place(request.output)
    check_absent(request.output)
    if request.report is not None:
        check_can_draw()
        _check_place(request.report)
        check_report_folder(request.report)
        _check_apart(request.output, request.report)


def _check_start(request: FitRequest) -> None:
    """Raise InvalidInputError for evidence that says nothing of a fit that continues from given weights.

    Each fold and each weight of a sweep is a fit of its own, and the given weights may know the scenes that it
    holds out.
    """
    if request.init_policy is not None and (request.folds is not None or request.pareto):
        raise InvalidInputError(
            "init_policy: expected neither folds nor pareto with it, as they would hold out scenes that it knows",
            hint="judge the fit on held-out scenes that trained none of its checkpoints",
        )


def _check_place(path: Path) -> None:
    """Raise InvalidInputError where it can be seen before an hour's work that nothing can be written after it."""
    if not path.name or "\0" in str(path):
        raise InvalidInputError("expected the name of something to write", where=repr(str(path)))
    try:
        os.lstat(_part(path))  # of the two names the longer one
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InvalidInputError(
            f"expected a place that can be written, got: {error.strerror or error}", where=str(path)
        ) from error
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInputError("expected a place that can be written", where=str(path))


def _check_apart(output: Path, report: Path) -> None:
    """Raise InvalidInputError where the output or its part file and the report or its part folder are in the way."""
    ours = [path.resolve() for path in (output, _part(output))]
    theirs = [path.resolve() for path in (report, _part(report))]
    if any(one == other or one in other.parents or other in one.parents for one in ours for other in theirs):
        raise InvalidInputError(
            f"report: expected a folder that the output {output} does not lie in, nor it in the output",
            where=str(report),
            hint=f"such as {report.with_name('report-of-the-fit')}",
        )


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _check_evidence(request: FitRequest, dataset: TeacherDataset) -> None:
    """Raise InvalidInputError for evidence that cannot be had, before the fit and not after it."""
    examples = examples_of(dataset)
    if request.folds is not None:
        folds = scene_folds(examples, request.folds, seed=request.settings.seed)
        largest = max(len(np.unique(examples.scenes[folds == fold])) for fold in range(request.folds))
        left, settings = len(dataset.scene_ids) - largest, request.settings
        if left < 2 and (settings.search or settings.early_stopping or settings.learner == "auto"):
            raise InvalidInputError(
                f"folds: expected at least two scenes left beside each fold to choose settings by, and "
                f"{request.folds} folds of {len(dataset.scene_ids)} scenes leave {left}"
            )
    if request.pareto:
        _, validation_ids = split_scene_ids(
            dataset.scene_ids,
            holdout_fraction=request.holdout_fraction,
            seed=request.settings.seed,
            validation_scene_ids=request.validation_scene_ids,
        )
        held_out = examples.of_scenes(validation_ids)
        check_sweep(examples.take(~held_out), examples.take(held_out))


def _load(request: FitRequest, progress: Progress) -> TeacherDataset:
    def tell(done: int, total: int) -> None:
        progress(ProgressEvent("read rows", done, total, in_bytes=True))

    return load_teacher_dataset(request.teacher, cache_dir=request.cache_dir, progress=tell)


def _evidence(result: PolicyFitResult, ranking: Ranking, init: LoadedCheckpoint | None) -> Evidence | None:
    heldout = result.heldout
    if not len(heldout):
        return None
    named = outcomes_by_name(heldout, result.policy.batch_values(heldout.features), ranking)
    best = heldout.catalogue.ids[ranking.best]
    known = known_scene_ids(init)
    return judge(
        named,
        heldout.scenes,
        best_fixed=best,
        seed=result.settings.seed,
        known_scenes=None if known is None else len(set(known) & set(result.validation_scene_ids)),
    )


def _cross_validation(
    request: FitRequest, dataset: TeacherDataset, progress: Progress
) -> CrossValidation | None:
    if request.folds is None:
        return None
    examples = examples_of(dataset, cost_weight=request.cost_weight)
    return cross_validate(examples, request.settings, folds=request.folds, progress=progress)


def _pareto(
    request: FitRequest, dataset: TeacherDataset, result: PolicyFitResult, progress: Progress
) -> tuple[ParetoPoint, ...]:
    if not request.pareto:
        return ()
    examples = examples_of(dataset)
    held_out = examples.of_scenes(result.validation_scene_ids)
    return sweep_costs(examples.take(~held_out), examples.take(held_out), result.settings, progress=progress)


def _fixed(result: PolicyFitResult, ranking: Ranking) -> FixedRankingPolicy:
    values = (ranking.values - result.target_mean) / result.target_scale
    return FixedRankingPolicy(result.policy.catalogue, result.policy.schema, values)
