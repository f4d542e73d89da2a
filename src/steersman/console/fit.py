"""How a fit looks: the verdict, what the policy must beat, and what was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from steersman.console.grid import facts, grid
from steersman.console.words import count, number
from steersman.training.pareto import ParetoPoint, advise, join_equal

if TYPE_CHECKING:
    from steersman.training.crossval import CrossValidation
    from steersman.training.evidence import Evidence, Judged
    from steersman.training.intervals import Interval
    from steersman.usecases.fit import FitReport

__all__ = ["fit_parts"]

_COLOURS = {"better": "green", "worse": "red"}
_MOST_FIXED = 12


def fit_parts(report: FitReport) -> list[RenderableType]:
    """Return what was fitted and written, the evidence in tables, and the verdict in plain words."""
    parts: list[RenderableType] = [_fit_facts(report)]
    if report.evidence is not None:
        parts += [_evidence_table(report.evidence), _gap(report.evidence)]
    if report.cross_validation is not None:
        parts += [_folds_table(report.cross_validation)]
    if report.cross_validation is not None and report.cross_validation.parted:
        parts.append(
            "The two part: rows of one scene are alike, and a random split tests on scenes that are known."
        )
    if report.pareto:
        parts += [_pareto_table(report.pareto), Text(advise(report.pareto))]
    colour = _COLOURS.get(report.verdict.kind, "yellow")
    sentences = [Text(report.verdict.sentence, style=colour), *(Text(remark) for remark in report.remarks)]
    return [*parts, *sentences, _written(report)]


def _fit_facts(report: FitReport) -> Table:
    result, metrics = report.result, report.result.metrics
    settings = result.settings
    pairs = {
        "training": f"{_rows(metrics, 'training')}, near ties {_share(metrics['training_near_tie_coverage'])}",
        "held out": f"{_rows(metrics, 'heldout')}, near ties {_share(metrics['heldout_near_tie_coverage'])}",
        "learner": f"{settings.learner}, loss {settings.loss}, seed {settings.seed}",
        "training loss": number(metrics["training_loss"]),
        "held-out loss": number(metrics["heldout_loss"]),
        "held-out regret": number(metrics["heldout_regret"]),
        "top accuracy": _share(metrics["heldout_top_accuracy"]),
    }
    if report.duplicate_rows or report.blank_lines:
        pairs["left out"] = (
            f"{count(report.duplicate_rows, 'duplicate')}, {count(report.blank_lines, 'blank line')}"
        )
    return facts("Fit", pairs)


def _written(report: FitReport) -> Table:
    pairs = {
        "checkpoint": str(report.output),
        "SHA-256": report.checkpoint_sha256,
        "policy": f"{report.policy.kind}, {report.policy.declared_work_units:,} work units a decision",
    }
    if report.verdict.fell_back and report.evidence is not None:
        pairs["its held-out regret"] = number(report.metrics["heldout_regret"])
    if report.report is not None:
        pairs["report"] = str(report.report / "report.html")
    return facts("Written", pairs)


def _evidence_table(evidence: Evidence) -> Table:
    """Return every way of choosing, least regret first; of many fixed actions the best."""
    fixed = sorted(evidence.fixed, key=lambda row: row.regret)
    shown = [evidence.oracle, evidence.policy, evidence.uniform, *fixed[:_MOST_FIXED]]
    rows = [_judged(row, evidence) for row in sorted(shown, key=lambda row: row.regret)]
    title = f"On {count(evidence.row_count, 'row')} of {count(evidence.scene_count, 'scene')} held out"
    if len(fixed) > _MOST_FIXED:
        title += f", with the best {_MOST_FIXED} of {len(fixed)} fixed actions"
    columns = ["", "mean regret", "95 % interval", "mean cost"]
    return grid(title, columns, rows, numbers=columns[1:])


def _judged(row: Judged, evidence: Evidence) -> list[str | Text]:
    name = f"always {row.name}" if row in evidence.fixed else row.name
    cells = [name, number(row.regret), _between(row.interval), number(row.mean_cost)]
    return [Text(cell, style="bold" if row is evidence.policy else "") for cell in cells]


def _gap(evidence: Evidence) -> Table:
    best, interval = evidence.best_fixed, evidence.gap_closed_interval
    closed = "none, as there is no gap"
    if evidence.gap_closed is not None:
        closed = number(evidence.gap_closed) + (f", {_between(interval)}" if interval else "")
    pairs = {
        "best fixed action by the training scenes": f"{best.name}, regret {number(best.regret)}",
        "by the held-out scenes themselves": f"{evidence.hindsight.name}, {number(evidence.hindsight.regret)}",
        "gap closed, of the regret of the first": closed,
    }
    return facts("Beside playing one action", pairs)


def _folds_table(folds: CrossValidation) -> Table:
    rows = [
        [
            name,
            number(found.policy.regret),
            number(found.best_fixed.regret),
            number(found.gap_closed),
            _between(found.gap_closed_interval),
            found.verdict,
        ]
        for name, found in (("by scene", folds.by_scene), ("at random", folds.at_random))
    ]
    columns = ["held out", "regret", "fixed", "gap closed", "95 % interval", "verdict"]
    return grid(f"Cross-validation in {folds.folds} folds", columns, rows, numbers=columns[1:5])


def _pareto_table(points: tuple[ParetoPoint, ...]) -> Table:
    rows = [
        [
            line.label,
            number(line.regret),
            number(line.mean_cost),
            "on the front" if line.on_front else "",
        ]
        for line in join_equal(points)
    ]
    columns = ["", "mean regret", "mean cost", ""]
    return grid("What regret buys in costs", columns, rows, numbers=columns[1:3])


def _rows(metrics: Mapping[str, float | int | None], part: str) -> str:
    rows, scenes = int(metrics[f"{part}_row_count"] or 0), int(metrics[f"{part}_scene_count"] or 0)
    return f"{count(rows, 'row')} of {count(scenes, 'scene')}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _between(interval: Interval | None) -> str:
    return "-" if interval is None else f"{number(interval.low)} to {number(interval.high)}"
