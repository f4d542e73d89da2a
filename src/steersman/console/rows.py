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
    """Return what is in the rows, action by action, and then each thing to know before a fit."""
    binding = {key: _text(value) for key, value in found.binding.items()}
    bound = [facts("Bound to", binding)] if binding else []
    return [_row_facts(found), *bound, _actions_table(found), *_findings(found)]


def _row_facts(found: RowsInspection) -> Table:
    sizes = found.scenes.values()
    least, most = min(sizes), max(sizes)
    spread = f"{most:,} rows each" if least == most else f"{least:,} to {most:,} rows each"
    pairs = {
        "profile": found.profile,
        "files": f"{len(found.source_hashes):,}",
        "rows": f"{found.rows:,}",
        "duplicates": f"{found.duplicates:,}",
        "blank lines": f"{found.blank_lines:,}",
        "scenes": f"{len(found.scenes):,}, {spread}",
        "episodes": f"{found.episodes:,}",
        "near ties": f"{found.near_ties:,} ({found.near_ties / found.rows:.1%} of the rows)",
        "dataset hash": found.dataset_hash,
    }
    return facts("Teacher rows", pairs)


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


def _findings(found: RowsInspection) -> list[RenderableType]:
    parts: list[RenderableType] = [
        *_disagreement(found.advantages, "advantage is not the mean feasible loss less the action's loss"),
        *_disagreement(found.skew, "features differ from the encoded control input: train-serve skew"),
        *_disagreement(found.not_encodable, "control input cannot be encoded, so skew cannot be seen"),
    ]
    never = [item.action for item in found.actions if not item.feasible]
    if never:
        parts.append(_warning(f"feasible in no row, so that nothing is learned about it: {_named(never)}"))
    if found.constant_features:
        parts.append(_warning(f"the same in all rows: {_named(found.constant_features)}"))
    if found.missing_features:
        missing = [f"{name} ({rows:,})" for name, rows in found.missing_features.items()]
        parts.append(Text(f"missing in some rows: {_named(missing)}"))
    return parts or [Text("no contradictions found", style="green")]


def _disagreement(found: Disagreement | None, what: str) -> list[RenderableType]:
    if found is None or not found.rows:
        return []
    largest = f", by up to {number(found.largest)}" if found.largest else ""
    lines = [f"in {count(found.rows, 'row')} the {what}{largest}", *found.places]
    return [_warning("\n  ".join(lines))]


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
