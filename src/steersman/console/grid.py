"""The one look that all tables have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

__all__ = ["facts", "grid"]


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, numbers: Sequence[str] = ()
) -> Table:
    """Return a table; the columns named in `numbers` are aligned to the right, and no text is read as markup."""
    table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        # Ids are there to be copied: folded, never cut.
        table.add_column(Text(column), justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def facts(title: str, pairs: Mapping[str, str]) -> Table:
    """Return a table of names and values; no text is read as markup."""
    table = Table(title=Text(title, style="bold"), title_justify="left", box=None, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(Text(name), Text(value))
    return table
