"""What the evidence comes to, in a word and in plain sentences."""

from __future__ import annotations

from dataclasses import dataclass

from steersman.training.crossval import CrossValidation
from steersman.training.evidence import Evidence

__all__ = ["Verdict", "reach_verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to use the policy, by the folds where there are any, as they see every scene."""

    kind: str  # better, worse, not shown, too few scenes, known scenes, no evidence
    sentence: str
    fell_back: bool  # whether the best fixed action is played instead


def reach_verdict(evidence: Evidence | None, folds: CrossValidation | None, *, fallback: bool) -> Verdict:
    """Return the verdict; with `fallback`, all but a better policy gives way to the best fixed action."""
    judged, basis = evidence, ""
    if folds is not None:
        judged = folds.by_scene
        basis = f"Over {folds.folds} folds of {judged.scene_count} scenes, each held out once: "
    if judged is None:
        kind = "no evidence"
        sentence = "No scene was held out, so there is no evidence for or against the policy."
    else:
        kind, sentence = judged.verdict, basis + judged.sentence
    fell_back = fallback and kind != "better"
    if fell_back:
        sentence += " The checkpoint therefore plays the best fixed action instead."
    return Verdict(kind, sentence, fell_back)
