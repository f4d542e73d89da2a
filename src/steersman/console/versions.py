"""How versions look."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table

from steersman.console.grid import facts, grid
from steersman.console.words import count, moment, number
from steersman.domain.records import PolicyVersion
from steersman.usecases.import_table import Imported
from steersman.usecases.version_diff import VersionDiff
from steersman.usecases.versions import VersionDetail

__all__ = ["diff_parts", "imported_facts", "version_facts", "versions_table"]


def versions_table(owner: str, versions: Sequence[PolicyVersion]) -> Table:
    """Return a table of versions."""
    rows = [
        (
            str(version.number),
            version.status,
            version.name or "-",
            version.origin,
            "-" if version.parent is None else str(version.parent),
            str(len(version.actions)),
            f"{version.states.size:,}",
            moment(version.created_at),
        )
        for version in versions
    ]
    columns = ["version", "status", "name", "origin", "parent", "actions", "states", "made (UTC)"]
    return grid(f"Versions of {owner}", columns, rows, numbers=["version", "parent", "actions", "states"])


def version_facts(detail: VersionDetail) -> Table:
    """Return the facts of one version."""
    version = detail.version
    pairs = {
        "kind": version.kind,
        "status": version.status,
        "name": version.name or "-",
        "origin": version.origin,
        "ancestors": ", ".join(map(str, detail.ancestors)) or "none",
        "provenance": ", ".join(f"{key}: {value}" for key, value in version.provenance.items()) or "-",
        "actions": ", ".join(version.actions.ids),
        "states": f"{version.states.size:,}",
        "cells with a row": f"{detail.cells:,}",
        "visits": f"{detail.visits:,}",
        "updates": f"{detail.updates:,}",
        "made (UTC)": moment(version.created_at),
    }
    return facts(f"{version.tenant}, version {version.number}", pairs)


def diff_parts(diff: VersionDiff) -> list[RenderableType]:
    """Return the cells that changed most, and how many did."""
    rows = [
        (
            change.meaning,
            change.label,
            number(change.q_before),
            number(change.q_after),
            f"{change.q_after - change.q_before:+.4g}",
            number(change.evidence_before),
            number(change.evidence_after),
        )
        for change in diff.changes
    ]
    columns = ["state", "action", "q before", "q after", "change", "evidence before", "evidence after"]
    title = f"From version {diff.before} to {diff.after}: {count(diff.changed, 'cell')} changed"
    parts: list[RenderableType] = [grid(title, columns, rows, numbers=columns[2:])]
    if diff.only_before or diff.only_after:
        parts.append(
            f"only before: {count(diff.only_before, 'cell')}; only after: {count(diff.only_after, 'cell')}"
        )
    return parts


def imported_facts(imported: Imported) -> Table:
    """Return what an import did."""
    return facts(
        f"{imported.tenant}: version {imported.version} is active",
        {
            "cells": f"{imported.cells:,}",
            "ignored: unknown states": f"{imported.unknown_states:,}",
            "ignored: unknown actions": f"{imported.unknown_actions:,}",
            "cells without evidence": f"{imported.without_evidence:,}",
        },
    )
