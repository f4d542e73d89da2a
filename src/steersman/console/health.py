"""How verification and the doctor's findings look."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from steersman.console.grid import grid
from steersman.console.words import count
from steersman.domain.answers import Checkup, Difference, Verification

__all__ = ["checkup_parts", "verification_parts"]

_SHOWN = 50
_COLOURS = {"problem": "red", "warning": "yellow", "note": "cyan"}


def verification_parts(result: Verification) -> list[RenderableType]:
    """Return that all is well, or the differences."""
    owners = count(result.owners, "owner")
    looked = f"{count(result.rows, 'row')} of {owners}"
    if not result.count:
        rest = f": {looked}; every probability, draw, cell and seal is as rebuilt"
        return [Text.assemble(("verified", "green"), rest)]
    columns = ["tenant", "version", "state", "action", "what", "field", "stored", "rebuilt"]
    rows = [_row(difference) for difference in result.differences[:_SHOWN]]
    parts: list[RenderableType] = [Text.assemble((count(result.count, "difference"), "red"), f" in {looked}")]
    parts.append(grid("Differences", columns, rows))
    if result.count > _SHOWN:
        parts.append(f"... the first {_SHOWN}; --json holds the first {len(result.differences):,}")
    return parts


def _row(difference: Difference) -> list[str]:
    place = (difference.tenant, difference.version, difference.state, difference.action)
    what = f"{difference.subject} {difference.record}".strip()
    shown = [str(difference.stored), str(difference.rebuilt)]
    return [*("-" if part is None else str(part) for part in place), what, difference.field, *shown]


def checkup_parts(checkup: Checkup) -> list[RenderableType]:
    """Return each finding in words, with what to do next."""
    looked = count(checkup.tenants, "tenant")
    if checkup.healthy:
        return [Text.assemble(("healthy", "green"), f": nothing found in the database and {looked}")]
    parts: list[RenderableType] = [f"{count(len(checkup.findings), 'finding')} in the database and {looked}"]
    for finding in checkup.findings:
        about = finding.tenant or "database"
        line = Text.assemble((finding.severity, _COLOURS[finding.severity]), f"  {about}: {finding.message}")
        if finding.command is not None:
            line.append(f"\n         next: {finding.command}", style="dim")
        parts.append(line)
    return parts
