"""How teacher rows look: what is in them, and what was written."""

from __future__ import annotations

import json

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from steersman.console.grid import facts, grid
from steersman.console.words import count, number
from steersman.teacher.inspection import Disagreement, RowsInspection
from steersman.teacher.merging import WrittenRows

__all__ = ["inspection_parts", "written_facts"]

_MOST_NAMED = 8  # features


def inspection_parts(found: RowsInspection) -> list[RenderableType]:
    """Return where rows contradict themselves, then what is in them, action by action, and what to know of features."""
    binding = {key: _text(value) for key, value in found.binding.items()}
    bound = [facts("Bound to", binding)] if binding else []
    return [*_contradictions(found), _row_facts(found), *bound, _actions_table(found), *_notes(found)]


def _row_facts(found: RowsInspection) -> Table:
    sizes = found.scenes.values()
    least, most = min(sizes), max(sizes)
    spread = f"{most:,} rows each" if least == most else f"{least:,} to {most:,} rows each"
    pairs = {
        "profile": found.profile,
        "files": f"{found.files:,}",
        "rows": f"{found.rows:,}",
        "duplicates": f"{found.duplicates:,}",
        "blank lines": f"{found.blank_lines:,}",
        "scenes": f"{len(found.scenes):,}, {spread}",
        "episodes": f"{found.episodes:,}",
        "near ties": _near_ties(found),
        "best fixed action": f"{found.best_fixed}, mean regret {number(found.best_fixed_regret)} over all rows",
        "uniform random": f"mean regret {number(found.uniform_regret)}",
        "dataset hash": found.dataset_hash,
    }
    return facts("Teacher rows", pairs)


def _near_ties(found: RowsInspection) -> str:
    text = f"{found.near_ties:,} ({found.near_ties / found.rows:.1%} of the rows)"
    return f"{text}, {found.forced:,} of them with one feasible action" if found.forced else text


def _actions_table(found: RowsInspection) -> Table:
    rows = [
        (
            item.action,
            f"{item.feasible:,}",
            f"{item.best:,}",
            number(item.mean_advantage),
            number(item.mean_cost),
        )
        for item in found.actions
    ]
    columns = ["action", "feasible", "best", "mean advantage", "mean cost"]
    return grid("Actions, in rows", columns, rows, numbers=columns[1:])


def _contradictions(found: RowsInspection) -> list[RenderableType]:
    parts = [
        *_disagreement(found.advantages, "advantage is not the mean feasible loss less the action's loss"),
        *_disagreement(found.skew, "features differ from the encoded control input: train-serve skew"),
        *_disagreement(found.not_encodable, "control input cannot be encoded, so skew cannot be seen"),
        *_disagreement(found.indicators, "categorical features are not all 0 or 1"),
    ]
    return parts or [Text("no contradictions found", style="green")]


def _notes(found: RowsInspection) -> list[RenderableType]:
    parts: list[RenderableType] = []
    never = [item.action for item in found.actions if not item.feasible]
    if never:
        parts.append(_warning(f"feasible in no row, so that nothing is learned about it: {_named(never)}"))
    if found.constant_features:
        parts.append(_warning(f"the same in all rows: {_named(found.constant_features)}"))
    if found.missing_features:
        missing = [f"{name} ({rows:,})" for name, rows in found.missing_features.items()]
        parts.append(Text(f"missing in some rows: {_named(missing)}"))
    return parts


def _disagreement(found: Disagreement | None, what: str) -> list[RenderableType]:
    if found is None or not found.rows:
        return []
    largest = f", by up to {number(found.largest)}" if found.largest else ""
    lines = [f"in {count(found.rows, 'row')} the {what}{largest}", *found.places]
    return [Text("\n  ".join(lines), style="bold red")]


def _warning(text: str) -> Text:
    return Text(text, style="yellow")


def _named(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    rest = len(names) - _MOST_NAMED
    return shown if rest <= 0 else f"{shown} and {rest:,} more"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def written_facts(written: WrittenRows) -> Table:
    """Return what was written."""
    pairs = {"rows": f"{written.rows:,}", "file": str(written.output), "SHA-256": written.sha256}
    if written.metadata is not None:
        pairs["metadata"] = str(written.metadata)
    if written.dataset_hash is not None:
        pairs |= {"duplicates": f"{written.duplicates:,}", "dataset hash": written.dataset_hash}
    return facts("Written", pairs)
