"""How bases look."""

from __future__ import annotations

from rich.table import Table

from steersman.console.grid import facts, grid
from steersman.domain.answers import BaseBuild, Refresh

__all__ = ["build_table", "refresh_facts"]


def build_table(built: BaseBuild) -> Table:
    """Return who contributed to a build."""
    rows = [
        (
            item.tenant,
            "-" if item.version is None else str(item.version),
            f"{item.cells:,}",
            f"{item.updates:,}",
            item.skipped or "merged",
        )
        for item in built.contributions
    ]
    title = f"Base {built.base}: version {built.version} with {built.cells:,} cells"
    columns = ["tenant", "version", "cells", "updates", ""]
    return grid(title, columns, rows, numbers=["version", "cells", "updates"])


def refresh_facts(refreshed: Refresh) -> Table:
    """Return what a refresh did."""
    made = f"version {refreshed.version} is active" if refreshed.made else "the base had nothing new to lend"
    pairs = {
        "base version": str(refreshed.base_version),
        "cells borrowed": f"{refreshed.borrowed:,}",
        "cells given back": f"{refreshed.dropped:,}",
        "cells of its own": f"{refreshed.kept:,}",
    }
    return facts(f"{refreshed.tenant}: {made}", pairs)
