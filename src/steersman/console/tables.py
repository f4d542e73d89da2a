"""How a learned table looks."""

from __future__ import annotations

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from steersman.console.words import number
from steersman.domain.answers import LearnedCell, LearnedState, LearnedTable

__all__ = ["learned_parts"]


def learned_parts(table: LearnedTable) -> list[RenderableType]:
    """Return the table by state, the greedy action marked, and what was never tried."""
    known = f"{table.known_states:,} of {table.all_states:,} states known"
    shown = Table(
        title=Text(f"{table.tenant}, version {table.version}: {known}", style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        caption="* is played without exploration",
        caption_justify="left",
    )
    shown.add_column("state", overflow="fold")
    shown.add_column("action", overflow="fold")
    for name in ("q", "visits", "updates", "borrowed"):
        shown.add_column(name, justify="right")
    for state in table.states:
        _add_state(shown, state)
    parts: list[RenderableType] = [shown]
    if len(table.states) < table.known_states:
        parts.append(f"the {len(table.states)} states with the most evidence; see --limit")
    if table.never_tried:
        parts.append(f"never tried: {', '.join(table.never_tried)}")
    return parts


def _add_state(shown: Table, state: LearnedState) -> None:
    for index, cell in enumerate(state.cells):
        name = Text(state.meaning if index == 0 else "")
        shown.add_row(name, *_cell(cell), end_section=index == len(state.cells) - 1)


def _cell(cell: LearnedCell) -> list[RenderableType]:
    if not cell.tried:
        return [Text(cell.label), "-", "never", "", ""]
    mark = Text(f"{cell.label} *", style="bold") if cell.greedy else Text(cell.label)
    return [mark, number(cell.q), f"{cell.visits:,}", f"{cell.updates:,}", number(cell.borrowed)]
