"""Paths as options and arguments."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["named_path"]


def named_path(text: str) -> Path:
    """Return `text` as a path; an empty one, as of a variable that is not set, would be the current folder."""
    if not text:
        raise typer.BadParameter("expected a path, got an empty text: is a variable not set?")
    return Path(text)
