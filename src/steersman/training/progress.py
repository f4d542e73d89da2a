"""How a long run tells where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "ProgressEvent", "quiet"]


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step of one stage of a run."""

    stage: str  # for people: "fit", "search", "fold 2 of 5", ...
    done: int
    total: int
    loss: float | None = None
    in_bytes: bool = False  # done and total count bytes, not steps


Progress = Callable[[ProgressEvent], None]


def quiet(event: ProgressEvent) -> None:
    """Tell nobody."""
