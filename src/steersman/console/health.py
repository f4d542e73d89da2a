"""How verification and the doctor's findings look."""

from __future__ import annotations

from rich.console import RenderableType

from steersman.console.grid import grid
from steersman.console.words import count
from steersman.usecases.findings import Difference
from steersman.usecases.verify import Verification

__all__ = ["verification_parts"]

_SHOWN = 50


def verification_parts(result: Verification) -> list[RenderableType]:
    """Return that all is well, or the differences."""
    owners = count(result.owners, "owner")
    looked = f"{count(result.rows, 'row')} of {owners}"
    if not result.count:
        return [f"[green]verified[/]: {looked}; every probability, draw, cell and seal is as rebuilt"]
    columns = ["tenant", "version", "state", "action", "what", "field", "stored", "rebuilt"]
    rows = [_row(difference) for difference in result.differences[:_SHOWN]]
    parts: list[RenderableType] = [f"[red]{count(result.count, 'difference')}[/] in {looked}"]
    parts.append(grid("Differences", columns, rows))
    if result.count > _SHOWN:
        parts.append(f"... the first {_SHOWN}; --json holds the first {len(result.differences):,}")
    return parts


def _row(difference: Difference) -> list[str]:
    place = (difference.tenant, difference.version, difference.state, difference.action)
    what = f"{difference.subject} {difference.record}".strip()
    shown = [str(difference.stored), str(difference.rebuilt)]
    return [*("-" if part is None else str(part) for part in place), what, difference.field, *shown]
