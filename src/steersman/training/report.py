"""The report of a fit: one page of HTML that needs nothing else, and its pictures as PNG files."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from shutil import rmtree

from steersman.errors import InvalidInputError, OutputExistsError
from steersman.training.crossval import CrossValidation
from steersman.training.evidence import Evidence
from steersman.training.fit import PolicyFitResult
from steersman.training.intervals import Interval
from steersman.training.pareto import ParetoPoint
from steersman.training.plots import (
    draw_confusion,
    draw_losses,
    draw_pareto,
    draw_predictions,
    draw_regrets,
    draw_scenes,
)
from steersman.training.verdict import Verdict

__all__ = ["check_report_folder", "render_report", "staged_report"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2329; max-width: 54rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p.verdict { font-size: 1.1rem; border-left: .3rem solid #8a929b; padding: .4rem .9rem; background: #f4f6f8 }
p.better { border-color: #2e7d4f } p.worse { border-color: #b8432f }
table { border-collapse: collapse } th, td { text-align: left; padding: .2rem .9rem .2rem 0 }
th { border-bottom: 1px solid #8a929b }
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


def render_report(
    result: PolicyFitResult,
    *,
    metrics: Mapping[str, float | int | None],
    evidence: Evidence | None,
    folds: CrossValidation | None,
    pareto: tuple[ParetoPoint, ...],
    verdict: Verdict,
) -> dict[str, bytes]:
    """Return the files of a report by name: `report.html` and the pictures. Raises MissingExtraError.

    `metrics` are those of the policy as written, which may be another than that of `result`.
    """
    pictures = _draw(result, evidence, pareto)
    page = _page(result, evidence, folds, pareto, pictures, metrics=metrics, verdict=verdict)
    files = {f"{name}.png": content for name, (_, content) in pictures.items()}
    return files | {"report.html": page.encode()}


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


def _draw(
    result: PolicyFitResult, evidence: Evidence | None, pareto: tuple[ParetoPoint, ...]
) -> dict[str, tuple[str, bytes]]:
    """Return heading and content of each picture by name."""
    pictures: dict[str, tuple[str, bytes]] = {}
    if evidence is not None:
        pictures["regret"] = ("Regret on held-out scenes", draw_regrets(evidence))
        pictures["scenes"] = ("Regret by scene", draw_scenes(result))
        pictures["predictions"] = ("Predicted against true", draw_predictions(result))
        pictures["confusion"] = ("Chosen against best", draw_confusion(result))
    if result.losses:
        pictures["loss"] = ("Training loss", draw_losses(result))
    if pareto:
        pictures["pareto"] = ("Regret against cost", draw_pareto(pareto))
    return pictures


def _page(
    result: PolicyFitResult,
    evidence: Evidence | None,
    folds: CrossValidation | None,
    pareto: tuple[ParetoPoint, ...],
    pictures: dict[str, tuple[str, bytes]],
    *,
    metrics: Mapping[str, float | int | None],
    verdict: Verdict,
) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Report of a fit</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body><h1>Report of a fit</h1>",
        _verdict(verdict),
        _summary(result, metrics, verdict),
    ]
    if evidence is not None:
        parts += ["<h2>What it must beat</h2>", _evidence_table(evidence)]
    if folds is not None:
        parts += ["<h2>Cross-validation</h2>", _folds_table(folds)]
    for heading, content in pictures.values():
        encoded = base64.b64encode(content).decode("ascii")
        parts.append(
            f'<h2>{heading}</h2><div class="wide"><img alt="{heading}" src="data:image/png;base64,{encoded}"></div>'
        )
    if pareto:
        rows = [
            [point.name, _number(point.regret), _number(point.mean_cost), _tick(point.on_front)]
            for point in pareto
        ]
        parts.append(_table(["", "regret", "mean cost", "on the front"], rows))
    settings = [[name, str(value)] for name, value in result.settings.to_json().items()]
    parts += ["<h2>Settings of the fit</h2>", _table(["", "value"], settings), "</body></html>"]
    return "\n".join(parts)


def _verdict(verdict: Verdict) -> str:
    kind = verdict.kind if verdict.kind in ("better", "worse") else "open"
    return f'<p class="verdict {kind}">{escape(verdict.sentence)}</p>'


def _summary(result: PolicyFitResult, metrics: Mapping[str, float | int | None], verdict: Verdict) -> str:
    """Return the metrics of the policy as written, and beside them those of a fit that gave way to it."""
    sides, head, note = [metrics], ["", "value"], ""
    if verdict.fell_back:
        sides, head = [metrics, result.metrics], ["", "as written", "the fit"]
        note = '<p class="note">All that follows shows the fit, which is not what was written.</p>'
    rows = [[name.replace("_", " "), *(_figure(side[name]) for side in sides)] for name in metrics]
    return _table(head, rows) + note


def _evidence_table(evidence: Evidence) -> str:
    rows = [evidence.oracle, evidence.policy, *evidence.fixed, evidence.uniform]
    rows.sort(key=lambda row: row.regret)
    cells = [[row.name, _number(row.regret), _interval(row.interval), _number(row.mean_cost)] for row in rows]
    table = _table(["", "regret", "95 % interval", "mean cost"], cells, strong=rows.index(evidence.policy))
    best, hindsight = evidence.best_fixed, evidence.hindsight
    return (
        f"{table}<p>Gap closed: {_number(evidence.gap_closed)} {_interval(evidence.gap_closed_interval)} of the "
        f"regret of {escape(best.name)} ({_number(best.regret)}), which the training scenes rank first. "
        f"The held-out scenes themselves would have ranked {escape(hindsight.name)} first "
        f"({_number(hindsight.regret)}).</p>"
        f'<p class="note">{evidence.row_count} rows of {evidence.scene_count} scenes; intervals from a paired '
        f"bootstrap over scenes.</p>"
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


def _figure(value: float | int | None) -> str:  # noqa: PYI041 - counts are shown as counts
    return str(value) if isinstance(value, int) else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f"[{interval.low:.4g}, {interval.high:.4g}]"


def _tick(yes: bool) -> str:  # noqa: FBT001 - a value to show
    return "yes" if yes else ""
