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
    "ALERTS",
    "COMPOSE",
    "CONSTRAINTS",
    "CONTAINERFILE",
    "POSTGRESQL",
    "ROLES",
    "ROOT",
    "RUNBOOK",
    "UNIT",
    "commands_of",
    "lines_of",
    "parse",
    "read_alerts",
    "read_compose",
    "read_unit",
    "samples_of",
    "strange_samples",
    "unknown_settings",
]

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yaml"
COMPOSE = ROOT / "deploy" / "compose.yaml"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
POSTGRESQL = ROOT / "docs" / "postgresql.md"
ROLES = ROOT / "deploy" / "roles.sh"
RUNBOOK = ROOT / "docs" / "runbook.md"
UNIT = ROOT / "deploy" / "steersman.service"

_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_OURS = re.compile(r"(?:^|run --rm (?:tools|owner) )(steersman .*)$")
_SETTING = re.compile(r"STEERSMAN_[A-Z_]+")


def read_compose() -> dict[str, Any]:
    """Return the compose file."""
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return content


def read_alerts() -> dict[str, str]:
    """Return the expression of each alert by its name."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def read_unit() -> dict[str, list[str]]:
    """Return what the unit of systemd sets, by name; a name may be set more than once."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def samples_of(page: str) -> dict[str, set[str]]:
    """Return the labels of each sample on a page of metrics, by its full name."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def strange_samples(expression: str, samples: dict[str, set[str]]) -> set[str]:
    """Return the samples that an expression of Prometheus names, or label, and are none."""
    strange = set()
    for name, labels in re.findall(r"\b(steersman_\w+)(?:\{(.*?)\})?", expression):
        wanted = set(re.findall(r"(\w+)\s*[!=]", labels))
        strange |= {name} if name not in samples else {f"{name}.{label}" for label in wanted - samples[name]}
    everywhere: set[str] = set().union(*samples.values())
    by = {label.strip() for group in re.findall(r"\bby \((.*?)\)", expression) for label in group.split(",")}
    return strange | (by - everywhere)


def lines_of(page: Path, section: str | None = None) -> Iterator[str]:
    """Yield the lines of a page, or of one `section` of it, that are to be typed; one that goes on is one line."""
    text = page.read_text(encoding="utf-8")
    if section is not None:
        text = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    for block in _BLOCK.findall(text):
        yield from block.replace("\\\n", " ").splitlines()


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
