"""Every command, setting, metric and package that deployment and runbook name is there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from steersman.cli.serve import _DRAINED_WITHIN as DRAINED_WITHIN
from steersman.errors import ConflictError
from steersman.service.metrics import Metrics
from tests.deploy.written import (
    COMPOSE,
    CONSTRAINTS,
    CONTAINERFILE,
    POSTGRESQL,
    ROLES,
    ROOT,
    RUNBOOK,
    UNIT,
    commands_of,
    parse,
    read_alerts,
    read_compose,
    read_unit,
    samples_of,
    strange_samples,
    unknown_settings,
)

ROLE_NAMES = set(re.findall(r"CREATE ROLE (\w+)", ROLES.read_text()))


def test_every_command_parses() -> None:
    in_compose = [
        service["command"] for name, service in read_compose()["services"].items() if name != "postgres"
    ]
    in_container = re.search(r"^CMD (.+)$", CONTAINERFILE.read_text(), re.MULTILINE)
    assert in_container is not None
    in_unit = re.findall(r"/opt/steersman/bin/(steersman .+)$", UNIT.read_text(), re.MULTILINE)
    assert read_unit()["ExecStart"] == [f"/opt/steersman/bin/{in_unit[-1]}"]
    on_page = list(commands_of(RUNBOOK))
    assert len(on_page) > 10
    for words in [*in_compose, json.loads(in_container[1]), *map(shlex.split, in_unit), *on_page]:
        parse(words)


@pytest.mark.parametrize(
    "page", [COMPOSE, CONTAINERFILE, RUNBOOK, POSTGRESQL, UNIT], ids=lambda path: path.name
)
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


def test_every_alert_asks_for_what_is_there_and_has_its_place_in_the_runbook() -> None:
    metrics = Metrics()
    metrics.answered("/v1/decide", 503, 0.1)
    metrics.committed("decide", [ConflictError()], 0.1)
    metrics.watch_queue("decide", lambda: 3)
    samples = samples_of(metrics.page().decode())
    alerts = read_alerts()
    assert {
        name: strange for name, asked in alerts.items() if (strange := strange_samples(asked, samples))
    } == {}
    assert set(re.findall(r"`(Steersman[A-Z]\w+)`", RUNBOOK.read_text(encoding="utf-8"))) == set(alerts)


def test_what_runs_once_is_waited_for() -> None:
    services = read_compose()["services"]
    lasting = {name: each for name, each in services.items() if "profiles" not in each}
    waited = {
        name: told["condition"]
        for each in lasting.values()
        for name, told in each.get("depends_on", {}).items()
    }
    once = {name for name, each in lasting.items() if "restart" not in each}
    # `up --wait` takes the end of a service for its failure, unless another one waits for that.
    assert once == {"upgrade", "grant"}
    assert {waited[name] for name in once} == {"service_completed_successfully"}
    # And a command by hand runs none of them again.
    for name in set(services) - set(lasting):
        assert set(services[name]["depends_on"]) == {"postgres"}


def test_the_unit_waits_for_what_is_under_way() -> None:
    unit = read_unit()
    assert int(unit["TimeoutStopSec"][0]) > DRAINED_WITHIN
    assert unit["KillSignal"] == ["SIGTERM"]


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


def test_what_the_container_asks_for_is_pinned_to_versions_that_it_may_have() -> None:
    text = CONTAINERFILE.read_text()
    assert "--constraint constraints.txt" in text
    assert (
        "!deploy/constraints.txt" in (ROOT / "deploy" / "Containerfile.dockerignore").read_text().splitlines()
    )
    pins = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#"))
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    asked = re.search(r"\.\[([a-z,]+)\]", text)
    assert asked is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *(package for name in asked[1].split(",") for package in extras[name]),
    ]
    wrong = [
        package
        for package in map(Requirement, needed)
        if pinned.get(canonicalize_name(package.name), "") not in package.specifier
    ]
    assert wrong == []


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


@pytest.mark.parametrize(
    ("expression", "strange"),
    [
        ("rate(steersman_requests[5m]) > 0", {"steersman_requests"}),
        ('steersman_requests_total{state="500"} > 0', {"steersman_requests_total.state"}),
        ("sum by (word) (steersman_requests_total) > 0", {"word"}),
    ],
)
def test_a_wrong_alert_is_found(expression: str, strange: set[str]) -> None:
    assert strange_samples(expression, {"steersman_requests_total": {"route", "status"}}) == strange


def test_a_wrong_variable_is_found() -> None:
    assert unknown_settings("STEERSMAN_DATABASE_URI: x") == {"STEERSMAN_DATABASE_URI"}
