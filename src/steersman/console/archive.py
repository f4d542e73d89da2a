"""How archives look."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from steersman.console.grid import facts
from steersman.store.archive import ArchiveFile
from steersman.usecases.archive import Archived

__all__ = ["archived_facts", "files_text"]


def archived_facts(done: Archived) -> Table:
    """Return what a run has moved."""
    counts = {
        "decisions": done.decisions,
        "rewards": done.rewards,
        "learning steps": done.learning_steps,
        "files": len(done.files),
    }
    return facts(f"Archived of {done.tenant}", {name: f"{count:,}" for name, count in counts.items()})


def files_text(files: Sequence[ArchiveFile]) -> str:
    """Return a line for each file, as `sha256sum --check` reads them."""
    return "\n".join(f"{file.digest.hex()}  {file.file}" for file in files) or "nothing was archived"
