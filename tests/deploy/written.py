"""What is written in `deploy/` and in the runbook, read by machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from steersman.cli.app import app
from steersman.settings import Settings

__all__ = [
    "COMPOSE",
    "CONTAINERFILE",
    "ROLES",
    "ROOT",
    "RUNBOOK",
    "commands_of",
    "lines_of",
    "parse",
    "read_compose",
    "unknown_settings",
]

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose.yaml"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
ROLES = ROOT / "deploy" / "roles.sh"
RUNBOOK = ROOT / "docs" / "runbook.md"

_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_OURS = re.compile(r"(?:^|run --rm tools )(steersman .*)$")
_SETTING = re.compile(r"STEERSMAN_[A-Z_]+")


def read_compose() -> dict[str, Any]:
    """Return the compose file."""
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return content


def lines_of(page: Path) -> Iterator[str]:
    """Yield the lines of a page that are to be typed."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        yield from block.splitlines()


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield our own commands on a page, word by word."""
    for line in lines_of(page):
        found = _OURS.search(line)
        if found is not None:
            yield shlex.split(found[1])


def parse(words: list[str]) -> None:
    """Parse a command line of ours without running it; raise LookupError or what tells of wrong usage."""
    command: Any = typer.main.get_command(app)
    program, *words = words
    if program != "steersman":
        raise LookupError(program)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    try:
        command.make_context("steersman", words)
    except typer.Exit:
        return


def unknown_settings(text: str) -> set[str]:
    """Return the variables in a text that look like settings of ours and are none."""
    known = {f"STEERSMAN_{name.upper()}" for name in Settings.__dataclass_fields__} | {"STEERSMAN_CONFIG"}
    return set(_SETTING.findall(text)) - known
