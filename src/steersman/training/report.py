"""The report of a fit: one page of HTML that needs nothing else, and its pictures as PNG files."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from shutil import rmtree
from typing import Any

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidInputError, OutputExistsError
from steersman.training.crossval import CrossValidation
from steersman.training.evidence import MIN_SCENES, Evidence
from steersman.training.fit import PolicyFitResult
from steersman.training.intervals import Interval
from steersman.training.pareto import ParetoPoint, advise, join_equal
from steersman.training.plots import (
    draw_confusion,
    draw_losses,
    draw_pareto,
    draw_predictions,
    draw_regrets,
    draw_scenes,
)
from steersman.training.verdict import Verdict

__all__ = ["ReportContent", "check_report_folder", "render_report", "staged_report"]

_NETWORK_ONLY = frozenset(
    {
        "inputs",
        "hidden_dim",
        "epochs",
        "learning_rate",
        "weight_decay",
        "device",
        "ensemble",
        "early_stopping",
    }
)
_FOREST_ONLY = frozenset({"trees", "min_leaf"})
_MOST_FILES = 20
_ROUNDING = 1e-12  # a mean that is 0 but for rounding
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2329; max-width: 54rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p.verdict { font-size: 1.1rem; border-left: .3rem solid #8a929b; padding: .4rem .9rem; background: #f4f6f8 }
p.better { border-color: #2e7d4f } p.worse { border-color: #b8432f }
table { border-collapse: collapse } th, td { text-align: left; padding: .2rem .9rem .2rem 0 }
th { border-bottom: 1px solid #8a929b }
table.origin td { overflow-wrap: anywhere; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
tr.policy td { font-weight: 600 } img { max-width: 100%; height: auto } .note { color: #58616b }
div.wide { overflow-x: auto }
@media (max-width: 34rem) {
  body { font-size: 13px; margin: 1rem auto } th, td { padding-right: .5rem } img { max-width: none; width: 44rem }
  td:first-child { overflow-wrap: anywhere; min-width: 7rem }
}
"""


def check_report_folder(folder: Path) -> None:
    """Raise OutputExistsError unless `folder` is missing or an empty folder, and its `.part` is missing."""
    if os.path.lexists(part := _part(folder)):
        hint = "another fit is writing it, or one was interrupted: then delete it"
        raise OutputExistsError(f"{part} exists already", hint=hint)
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        return
    if os.path.lexists(folder):
        raise OutputExistsError(
            f"{folder} exists already, and is not an empty folder", hint="choose another report folder"
        )


@dataclass(frozen=True, slots=True, eq=False)
class ReportContent:
    """What a report tells."""

    output: Path  # the checkpoint
    result: PolicyFitResult
    metrics: Mapping[
        str, float | int | None
    ]  # of the policy as written, which may be another than that of `result`
    evidence: Evidence | None
    folds: CrossValidation | None
    pareto: tuple[ParetoPoint, ...]
    verdict: Verdict
    remarks: tuple[str, ...]
    binding: Mapping[str, Any]
    provenance: Mapping[str, Any]


def render_report(content: ReportContent) -> dict[str, bytes]:
    """Return the files of a report by name: `report.html` and the pictures. Raises MissingExtraError."""
    pictures = _draw(content)
    files = {f"{name}.png": picture for name, (_, picture) in pictures.items()}
    return files | {"report.html": _page(content, pictures).encode()}


@contextmanager
def staged_report(folder: Path, files: Mapping[str, bytes]) -> Iterator[None]:
    """Write `files` beside `folder`, and move them there when the body is done; leave nothing when it fails.

    Raises OutputExistsError when something is in the folder, InvalidInputError where nothing can be written.
    """
    check_report_folder(folder)
    part = _part(folder)
    try:
        with _translated(folder):
            part.mkdir(parents=True)
            for name, content in files.items():
                (part / name).write_bytes(content)
        yield
        with _translated(folder):
            part.rename(folder)
    finally:
        rmtree(part, ignore_errors=True)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInputError(
            f"expected a place that can be written, got: {reason}", where=str(folder)
        ) from error


def _part(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.part")


def _draw(content: ReportContent) -> dict[str, tuple[str, bytes]]:
    """Return heading and content of each picture by name."""
    result, pictures = content.result, dict[str, tuple[str, bytes]]()
    if content.evidence is not None:
        pictures["regret"] = ("Regret on held-out scenes", draw_regrets(content.evidence))
        pictures["scenes"] = ("Regret by scene", draw_scenes(result))
        pictures["predictions"] = ("Predicted against true", draw_predictions(result))
        pictures["confusion"] = ("Chosen against best", draw_confusion(result))
    if result.losses:
        pictures["loss"] = ("Training loss", draw_losses(result))
    if content.pareto:
        pictures["pareto"] = ("Regret against cost", draw_pareto(content.pareto))
    return pictures


def _page(content: ReportContent, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    title = f"Report of the fit of {escape(content.output.name)}"
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
        _verdict(content.verdict),
        *map(_paragraph, content.remarks),
        _summary(content),
    ]
    if content.folds is not None:
        parts += ["<h2>Cross-validation</h2>", _folds_table(content.folds)]
    if content.evidence is not None:
        parts += ["<h2>What it must beat</h2>", _evidence_table(content.evidence)]
    if content.evidence is not None and content.folds is not None:
        parts.append(
            '<p class="note">The verdict is that of the folds, which see every scene. This table and the pictures '
            "show the scenes of one split, and may look otherwise.</p>"
        )
    for heading, picture in pictures.values():
        encoded = base64.b64encode(picture).decode("ascii")
        parts.append(
            f'<h2>{heading}</h2><div class="wide"><img alt="{heading}" src="data:image/png;base64,{encoded}"></div>'
        )
    if content.pareto:
        rows = [
            [line.label, _number(line.regret), _number(line.mean_cost), _tick(line.on_front)]
            for line in join_equal(content.pareto)
        ]
        parts += [
            _table(["", "regret", "mean cost", "on the front"], rows),
            _paragraph(advise(content.pareto)),
        ]
    parts += [_settings(content.result), _trials(content.result), _origin(content), "</body></html>"]
    return "\n".join(parts)


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _verdict(verdict: Verdict) -> str:
    kind = verdict.kind if verdict.kind in ("better", "worse") else "open"
    return f'<p class="verdict {kind}">{escape(verdict.sentence)}</p>'


def _summary(content: ReportContent) -> str:
    """Return the metrics of the policy as written, and beside them those of a fit that gave way to it."""
    sides, head, note = [content.metrics], ["", "value"], ""
    if content.verdict.fell_back:
        sides, head = [content.metrics, content.result.metrics], ["", "as written", "the fit"]
        note = '<p class="note">All that follows shows the fit, which is not what was written.</p>'
    rows = [
        [
            name.replace("heldout", "held-out").replace("_", " "),
            *(_figure(name, side[name]) for side in sides),
        ]
        for name in content.metrics
    ]
    return _table(head, rows) + note


def _settings(result: PolicyFitResult) -> str:
    """Return the settings that had a part in the fit."""
    idle = _FOREST_ONLY if result.settings.learner == "mlp" else _NETWORK_ONLY
    settings = result.settings.to_json() | {"cost_weight": result.cost_weight}
    rows = [[name.replace("_", " "), str(value)] for name, value in settings.items() if name not in idle]
    return "<h2>Settings of the fit</h2>" + _table(["", "value"], rows)


def _trials(result: PolicyFitResult) -> str:
    """Return what was compared on inner folds, by what differs, least regret first."""
    trials = sorted(result.decision.trials, key=lambda trial: trial.regret)
    if not trials:
        return ""
    settings = [trial.settings.to_json() for trial in trials]
    differing = [name for name in settings[0] if len({str(each[name]) for each in settings}) > 1]
    rows = [
        [_number(trial.regret), *(str(each[name]) for name in differing)]
        for trial, each in zip(trials, settings, strict=True)
    ]
    head = ["regret on inner folds", *(name.replace("_", " ") for name in differing)]
    return "<h2>What was compared</h2>" + _table(head, rows)


def _origin(content: ReportContent) -> str:
    """Return what tells this report from others, and to which checkpoint and data it belongs."""
    made = content.provenance
    sources = made["teacher_source_hashes"]
    pairs: dict[str, str] = {
        "checkpoint": str(content.output),
        "profile": made["profile"],
        "rows": f"{made['row_count']}, and {made['duplicate_rows']} duplicates left out",
        "data set": made["teacher_dataset_hash"],
    }
    pairs |= {f"file {name}": sources[name] for name in sorted(sources)[:_MOST_FILES]}
    if len(sources) > _MOST_FILES:
        pairs["more files"] = str(len(sources) - _MOST_FILES)
    if made["init_policy_sha256"] is not None:
        pairs["continued from"] = made["init_policy_sha256"]
    pairs |= {
        f"bound to {name}": value if isinstance(value, str) else canonical_json(value)
        for name, value in content.binding.items()
        if not name.startswith("teacher_")
    }
    pairs["made with"] = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in pairs.items()
    )
    return f'<h2>Where it comes from</h2><div class="wide"><table class="origin">{lines}</table></div>'


def _evidence_table(evidence: Evidence) -> str:
    rows = [evidence.oracle, evidence.policy, *evidence.fixed, evidence.uniform]
    rows.sort(key=lambda row: row.regret)
    names = [f"always {row.name}" if row in evidence.fixed else row.name for row in rows]
    cells = [
        [name, _number(row.regret), _interval(row.interval), _number(row.mean_cost)]
        for name, row in zip(names, rows, strict=True)
    ]
    table = _table(["", "regret", "95 % interval", "mean cost"], cells, strong=rows.index(evidence.policy))
    intervals = "intervals from a paired bootstrap over scenes"
    if evidence.policy.interval is None:
        intervals = f"for intervals at least {MIN_SCENES} scenes are needed"
    best, hindsight = evidence.best_fixed, evidence.hindsight
    return (
        f"{table}<p>Gap closed: {_number(evidence.gap_closed)} {_interval(evidence.gap_closed_interval)} of the "
        f"regret of {escape(best.name)} ({_number(best.regret)}), which the training scenes rank first. "
        f"The held-out scenes themselves would have ranked {escape(hindsight.name)} first "
        f"({_number(hindsight.regret)}).</p>"
        f'<p class="note">{evidence.row_count} rows of {evidence.scene_count} scenes; {intervals}.</p>'
    )


def _folds_table(folds: CrossValidation) -> str:
    rows = [
        [
            name,
            _number(found.policy.regret),
            _number(found.best_fixed.regret),
            _number(found.gap_closed),
            _interval(found.gap_closed_interval),
            found.verdict,
        ]
        for name, found in (("whole scenes", folds.by_scene), ("rows at random", folds.at_random))
    ]
    table = _table(["held out", "regret", "best fixed", "gap closed", "95 % interval", "verdict"], rows)
    if folds.parted:
        table += (
            "<p>The two part: rows of one scene are alike, and a split at random shows the policy scenes that it "
            "knows. Only the line of whole scenes says what a new scene will bring.</p>"
        )
    return table


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, strong: int | None = None) -> str:
    heads = "".join(
        f'<th class="{"n" if index else ""}">{escape(name)}</th>' for index, name in enumerate(head)
    )
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(
            f'<td class="{"n" if index else ""}">{escape(cell)}</td>' for index, cell in enumerate(row)
        )
        lines.append(f'<tr class="{"policy" if number == strong else ""}">{cells}</tr>')
    return f'<div class="wide"><table><tr>{heads}</tr>{"".join(lines)}</table></div>'


def _figure(name: str, value: float | None) -> str:
    if value is not None and name.endswith(("_coverage", "_accuracy")):
        return f"{value:.1%}"
    return f"{value:,}" if name.endswith("_count") else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    if abs(value) < _ROUNDING:
        return "0"
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f"[{interval.low:.4g}, {interval.high:.4g}]"


def _tick(yes: bool) -> str:  # noqa: FBT001 - a value to show
    return "yes" if yes else ""
