"""How a checkpoint was made, as its provenance records it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.checkpoints.format import TRAINING_SCHEMA, LoadedCheckpoint
from steersman.teacher.dataset import TeacherDataset
from steersman.training.crossval import CrossValidation
from steersman.training.evidence import Evidence
from steersman.training.examples import Examples
from steersman.training.fit import PolicyFitResult
from steersman.training.verdict import Verdict

__all__ = [
    "PROBE_ROWS",
    "checkpoint_binding",
    "known_scene_ids",
    "probe_features",
    "training_provenance",
]

PROBE_ROWS = 8


def checkpoint_binding(dataset: TeacherDataset) -> dict[str, Any]:
    """Return the binding of the rows with the hashes of the data set and of its files."""
    return {
        **dataset.binding,
        "feature_schema_version": dataset.profile.features.version,
        "teacher_dataset_hash": dataset.dataset_hash,
        "teacher_source_hashes": dict(dataset.source_hashes),
    }


def probe_features(training: Examples) -> NDArray[np.float32]:
    """Return a few training rows, evenly spaced: [n, D], n at most 8."""
    spread = np.linspace(0, len(training) - 1, min(PROBE_ROWS, len(training)))
    return training.features[np.unique(spread.astype(np.int64))]


def known_scene_ids(init: LoadedCheckpoint | None) -> list[str] | None:
    """Return the scenes that `init`, or a checkpoint that it was continued from, was trained on, sorted.

    None where its provenance does not say; none at all where there is no `init`.
    """
    if init is None:
        return []
    own = init.provenance.get("training_scene_ids")
    before = init.provenance.get("init_scene_ids")
    if not isinstance(own, list) or not isinstance(before, list):
        return None
    return sorted({scene for scene in (*own, *before) if isinstance(scene, str)})


def training_provenance(
    dataset: TeacherDataset,
    result: PolicyFitResult,
    *,
    evidence: Evidence | None,
    cross_validation: CrossValidation | None,
    init_policy: LoadedCheckpoint | None,
    metrics: Mapping[str, float | int | None],
    verdict: Verdict,
) -> dict[str, Any]:
    """Return the provenance of a checkpoint, as JSON: inputs with hashes, split, settings, metrics, versions.

    `metrics` are those of the policy as written. Where that is the best fixed action, which only costs could have
    shaped, hyper-parameters and metrics of the fit that gave way to it stand under names of their own.
    """
    weight = {"cost_weight": result.cost_weight}
    hyper_parameters = result.settings.to_json() | weight
    made: dict[str, Any] = {"hyper_parameters": hyper_parameters}
    if verdict.fell_back:
        made = {
            "hyper_parameters": weight,
            "fitted_hyper_parameters": hyper_parameters,
            "fitted_metrics": dict(result.metrics),
        }
    return {
        "schema": TRAINING_SCHEMA,
        "profile": dataset.profile.name,
        "row_schema": dataset.profile.row_schema,
        "row_count": result.row_count,
        "duplicate_rows": dataset.duplicates,
        "teacher_dataset_hash": dataset.dataset_hash,
        "teacher_source_hashes": dict(dataset.source_hashes),
        "training_scene_ids": list(result.training_scene_ids),
        "validation_scene_ids": list(result.validation_scene_ids),
        "target_normalisation": {"mean": result.target_mean, "scale": result.target_scale},
        "seed": result.settings.seed,
        "requested": result.requested.to_json(),
        **made,
        "trials": [trial.to_json() for trial in result.decision.trials],
        "metrics": dict(metrics),
        "verdict": verdict.kind,
        "sentence": verdict.sentence,
        "evidence": None if evidence is None else evidence.to_json(),
        "cross_validation": None if cross_validation is None else cross_validation.to_json(),
        "init_policy_sha256": None if init_policy is None else init_policy.sha256,
        "init_scene_ids": known_scene_ids(init_policy),
        "fallback": verdict.fell_back,
        "versions": _versions(result.settings.learner),
    }


def _versions(learner: str) -> dict[str, str]:
    library = "torch" if learner == "mlp" else "scikit-learn"
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("steersman", "numpy", library)
    }
