"""The one look that all tables have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table

__all__ = ["facts", "grid"]


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()
) -> Table:
    """Return a table; the columns named in `numbers` are aligned to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for column in columns:
        # Ids are there to be copied: folded, never cut.
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def facts(title: str, pairs: Mapping[str, str]) -> Table:
    """Return a table of names and values."""
    table = Table(title=title, title_justify="left", box=None, show_header=False, title_style="bold")
    table.add_column(style="dim")
    table.add_column()
    for name, value in pairs.items():
        table.add_row(name, value)
    return table
