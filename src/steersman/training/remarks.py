"""What a person should know beside the verdict: rows that contradict themselves, and what to try next."""

from __future__ import annotations

from steersman.teacher.dataset import TeacherDataset
from steersman.teacher.inspection import contradicting_rows
from steersman.training.evidence import MIN_SCENES
from steersman.training.fit import PolicyFitResult
from steersman.training.verdict import Verdict

__all__ = ["remarks_on"]

_STILL_FALLING = 0.01  # of the loss, in the last tenth of the epochs


def remarks_on(
    dataset: TeacherDataset, result: PolicyFitResult, verdict: Verdict, *, folds: int | None
) -> tuple[str, ...]:
    """Return sentences, the gravest first; `folds`: how many there were, if any."""
    remarks: list[str] = []
    if wrong := contradicting_rows(dataset):
        remarks.append(
            f"In {wrong} of {len(dataset)} rows advantages do not follow from the losses. The fit goes by the "
            f"advantages, and so does the verdict: look at `steersman rows inspect` before you believe it."
        )
    if verdict.kind != "better":
        remarks += _advice(dataset, result, verdict, folds)
    return tuple(remarks)


def _advice(
    dataset: TeacherDataset, result: PolicyFitResult, verdict: Verdict, folds: int | None
) -> list[str]:
    advice: list[str] = []
    if verdict.kind in ("too few scenes", "no evidence") and folds is None:
        if len(dataset.scene_ids) >= MIN_SCENES:
            advice.append("To judge with these rows: `--folds 5` holds every scene out once.")
    elif result.requested.learner == "mlp" and not result.requested.search:
        advice.append("To try next: `--learner auto`, which compares networks and forests on inner folds.")
    if _was_falling(result.losses):
        advice.append(
            f"The training loss was still falling after {len(result.losses)} epochs: more `--epochs` may do better."
        )
    return advice


def _was_falling(losses: tuple[float, ...]) -> bool:
    tenth = max(1, len(losses) // 10)
    return len(losses) > tenth and losses[-1] < (1.0 - _STILL_FALLING) * losses[-1 - tenth]
