"""Every command, setting, metric and package that deployment and runbook name is there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from steersman.service.metrics import Metrics
from tests.deploy.written import (
    COMPOSE,
    CONTAINERFILE,
    ROLES,
    ROOT,
    RUNBOOK,
    commands_of,
    parse,
    read_compose,
    unknown_settings,
)

ROLE_NAMES = set(re.findall(r"CREATE ROLE (\w+)", ROLES.read_text()))


def test_every_command_parses() -> None:
    in_compose = [
        service["command"] for name, service in read_compose()["services"].items() if name != "postgres"
    ]
    in_container = re.search(r"^CMD (.+)$", CONTAINERFILE.read_text(), re.MULTILINE)
    assert in_container is not None
    on_page = list(commands_of(RUNBOOK))
    assert len(on_page) > 10
    for words in [*in_compose, json.loads(in_container[1]), *on_page]:
        parse(words)


@pytest.mark.parametrize("page", [COMPOSE, CONTAINERFILE, RUNBOOK], ids=lambda path: path.name)
def test_every_variable_is_a_setting(page: Path) -> None:
    assert unknown_settings(page.read_text(encoding="utf-8")) == set()


def test_every_metric_is_there() -> None:
    page = Metrics().page().decode()
    there = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    named = set(re.findall(r"steersman_\w+", RUNBOOK.read_text(encoding="utf-8"))) - ROLE_NAMES
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} - there == set()
    # And each that is there is told of, but for when it was made.
    assert {name for name in there if not name.endswith("_created")} <= {
        re.sub(r"_(bucket|count|sum)$", "", name) for name in named
    }


def test_the_container_serves_as_an_ordinary_user_without_what_fits() -> None:
    text = CONTAINERFILE.read_text()
    *_, last = text.split("\nFROM ")
    assert re.findall(r"^USER (\S+)", last, re.MULTILINE) == ["10001"]
    asked = re.search(r"\.\[([a-z,]+)\]", text)
    assert asked is not None
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = [package for name in asked[1].split(",") for package in extras[name]]
    assert needed
    assert [package for package in needed if re.match(r"torch|scikit-learn|matplotlib", package)] == []
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []


# Planted violations


@pytest.mark.parametrize(
    "words",
    [
        ["steersman", "db", "uprgade"],
        ["steersman", "db", "upgrade", "--phase", "between"],
        ["steersman", "serve", "--prot", "8000"],
        ["steersman", "db", "grant", "--serving", "role"],
        ["streersman", "serve"],
    ],
)
def test_a_wrong_command_is_found(words: list[str]) -> None:
    with pytest.raises(Exception, match=r"."):
        parse(words)


def test_a_wrong_variable_is_found() -> None:
    assert unknown_settings("STEERSMAN_DATABASE_URI: x") == {"STEERSMAN_DATABASE_URI"}
