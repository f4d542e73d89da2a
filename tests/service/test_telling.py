"""What a service tells those who run it: logs without secrets or bodies, and metrics of few series."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest
from sqlalchemy import text

from steersman import __version__
from steersman.domain.records import Decision, Reward, SeenRow
from steersman.errors import IdReusedError, NotFoundError
from steersman.library import Steersman
from steersman.service.logs import Log
from steersman.service.metrics import Metrics
from tests.support.served import Server, serving


def lines(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.log.getvalue().splitlines()]


@pytest.mark.parametrize(("requests", "expected"), [("all", 3), ("some", 2), ("none", 0)])
def test_requests_are_logged_as_the_setting_says(tmp_path: Path, requests: str, expected: int) -> None:
    with serving(str(tmp_path / "steersman.db"), log_requests=requests) as server:
        company = server.company()
        headers = {"x-request-id": "mine-1"}
        company.post("/v1/decide", {"state": 0, "metadata": {"secret": "in-the-body"}}, headers=headers)
        company.post("/v1/decide", {"state": 9, "metadata": {"secret": "in-the-body"}}, headers=headers)
        assert company.http.get("/v1/tenant", headers=headers).headers["x-request-id"] == "mine-1"
        foreign = company.http.get("/healthz", headers={"x-request-id": "no id {}"}).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", foreign)
        found = [line for line in lines(server) if line.get("request_id") == "mine-1"]
        assert len(found) == expected
        for line in found:
            assert (line["event"], line["tenant"], line["key"]) == (
                "request",
                company.tenant,
                company.key[3:15],
            )
            assert line["milliseconds"] > 0
        assert [line["route"] for line in found if line["status"] == 400] == (
            ["/v1/decide"] if expected else []
        )
        assert "in-the-body" not in server.log.getvalue()
        assert company.key[16:] not in server.log.getvalue()


def test_probes_that_succeed_are_no_news(tmp_path: Path) -> None:
    for requests, expected in (("some", []), ("all", ["/healthz", "/readyz", "/metrics"])):
        with serving(str(tmp_path / f"{requests}.db"), log_requests=requests) as server:
            for path in ("/healthz", "/readyz", "/metrics"):
                assert server.http.get(path).status_code == 200
            assert server.http.post("/readyz").status_code == 405
        logged = [line for line in lines(server) if line["event"] == "request"]
        assert [line["route"] for line in logged if line["status"] == 200] == expected
        assert [line["status"] for line in logged if line["status"] != 200] == [405]


def test_the_start_is_told(tmp_path: Path) -> None:
    for commit in ("thread", "inline"):
        with serving(str(tmp_path / "steersman.db"), commit=commit) as server:
            assert server.http.get("/readyz").status_code == 200
        (ready,) = [line for line in lines(server) if line["event"] == "ready"]
        assert (ready["version"], ready["database"], ready["commit"]) == (__version__, "sqlite", commit)


def test_a_defect_is_logged_by_kind_and_place_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("quotes the body")

    monkeypatch.setattr("steersman.service.core.decide_many", fail)
    monkeypatch.setattr("steersman.service.routes.reading.doctor", fail)
    with serving(str(tmp_path / "steersman.db")) as server:
        company = server.company()
        for answer in (company.post("/v1/decide", {"state": 0}), company.get("/v1/doctor")):
            assert (answer.status_code, answer.json()["code"]) == (500, "internal")
            (line,) = [
                line
                for line in lines(server)
                if line["event"] == "defect" and line["request_id"] == answer.headers["x-request-id"]
            ]
            assert line["error"] == "ZeroDivisionError"
            assert "test_telling.py" in line["where"][-1]
        assert company.get("/v1/tenant").status_code == 200
        assert "quotes the body" not in server.log.getvalue()


def test_what_the_database_says_of_a_row_is_logged_without_the_row(store_url: str) -> None:
    Steersman.open(store_url).close()
    refuse = (
        "ALTER TABLE decisions ADD CONSTRAINT planted CHECK (metadata IS NULL)"
        if store_url.startswith("postgresql")
        else "CREATE TRIGGER planted BEFORE INSERT ON decisions BEGIN SELECT RAISE(ABORT, 'planted'); END"
    )
    with serving(store_url) as server:
        company = server.company()
        with server.library.database.transaction() as connection:
            connection.execute(text(refuse))
        body = {"state": 0, "metadata": {"secret": "in-the-body"}, "decision_id": "id-in-the-body"}
        answer = company.post("/v1/decide", body)
        assert (answer.status_code, answer.json()["code"]) == (500, "store")
        assert "planted" not in answer.text
        (line,) = [line for line in lines(server) if line["event"] == "store"]
        assert line["request_id"] == answer.headers["x-request-id"]
        assert "planted" in line["message"]
        assert "in-the-body" not in server.log.getvalue() + answer.text


def samples(page: bytes | str) -> dict[str, float]:
    text = page.decode() if isinstance(page, bytes) else page
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    }


def test_metrics_count_what_was_answered(server: Server) -> None:
    company = server.company()
    for number in range(3):
        company.post("/v1/decide", {"state": 0, "decision_id": f"d{number}", "feasible": ["hold"]})
        company.post("/v1/reward", {"decision_id": f"d{number}", "value": 0.25 * number})
    company.post("/v1/decide", {"state": 1, "decision_id": "d0"})
    found = samples(server.http.get("/metrics").text)
    label = f'{{tenant="{company.tenant}"}}'
    assert found[f"steersman_decisions_total{label}"] == 3
    assert found[f"steersman_explored_decisions_total{label}"] == 0
    # 0 + 0.25 + 0.5 over three rewards.
    assert (found[f"steersman_rewards_count{label}"], found[f"steersman_rewards_sum{label}"]) == (3, 0.75)
    assert found['steersman_conflicts_total{verb="decide"}'] >= 1
    assert found['steersman_batch_items_sum{verb="decide"}'] >= 4
    assert found['steersman_requests_total{route="/v1/decide",status="200"}'] >= 3
    assert found['steersman_request_seconds_count{route="/v1/reward"}'] >= 3
    assert found['steersman_queue_items{verb="decide"}'] == 0


def decision(tenant: str, *, explored: bool) -> Decision:
    row = SeenRow((0.0,), (0,), (0,), (0.0,))
    return Decision(tenant, "d", 1, 0, "a", 1.0, explored, True, 0.1, 1.0, ("a",), row)


def test_tenants_beyond_the_first_hundred_share_a_label() -> None:
    metrics = Metrics()
    for number in range(150):
        made = [decision(f"t{number}", explored=explored) for explored in (True, False)]
        metrics.committed("decide", [*made, NotFoundError()], 0.01)
    metrics.committed(
        "reward", [Reward("t149", "r", "d", -0.5, "learned"), Reward("t0", "r", "d", 1.0, "learned")], 0.1
    )
    metrics.committed("reward", [IdReusedError(stored_fingerprint="a", given_fingerprint="b")], 0.1)
    found = samples(metrics.page())
    decided = {name: value for name, value in found.items() if name.startswith("steersman_decisions_total")}
    assert len(decided) == 101
    assert decided['steersman_decisions_total{tenant="(others)"}'] == 100
    assert found['steersman_explored_decisions_total{tenant="t7"}'] == 1
    assert found['steersman_rewards_sum{tenant="(others)"}'] == -0.5
    assert found['steersman_conflicts_total{verb="reward"}'] == 1
    assert found['steersman_batch_items_sum{verb="decide"}'] == 450


def test_there_is_a_metric_of_each_kind_and_no_label_that_callers_can_make_up(server: Server) -> None:
    company = server.company()
    for number in range(3):
        company.post("/v1/decide", {"state": number, "decision_id": f"d{number}", "episode": f"e{number}"})
        company.post("/v1/reward", {"decision_id": f"d{number}", "value": 0.5})
        company.post(f"/v1/episodes/e{number}/close")
        company.http.request(f"MADE{number}", f"/v1/decisions/d{number}")
        company.get(f"/v1/decisions/none{number}", **{f"made{number}": "up"})
    page = server.http.get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE))
    assert {name: kind for name, kind in kinds.items() if not name.endswith("_created")} == {
        "steersman_requests_total": "counter",
        "steersman_request_seconds": "histogram",
        "steersman_decisions_total": "counter",
        "steersman_explored_decisions_total": "counter",  # over decisions: the share of exploration
        "steersman_rewards": "summary",  # sum over count: the mean reward
        "steersman_conflicts_total": "counter",
        "steersman_batch_items": "histogram",
        "steersman_commit_seconds": "histogram",
        "steersman_queue_items": "gauge",
    }
    labels: dict[str, set[str]] = {}
    for name, value in re.findall(r'[{,](\w+)="([^"]*)"', page):
        labels.setdefault(name, set()).add(value)
    assert labels.keys() == {"route", "status", "tenant", "verb", "le"}
    document = server.http.get("/openapi.json").json()
    assert labels["route"] <= {*document["paths"], "(none)"}
    assert labels["verb"] == {"decide", "reward", "close"}
    assert all(re.fullmatch(r"[1-5]\d\d", status) for status in labels["status"])


def test_paths_that_are_no_routes_share_a_label(server: Server) -> None:
    for number in range(20):
        server.http.get(f"/v1/none/{number}")
    routes = {
        name for name in samples(server.http.get("/metrics").text) if "none" in name and "_total" in name
    }
    assert routes == {'steersman_requests_total{route="(none)",status="404"}'}


def test_the_log_takes_what_it_is_given() -> None:
    stream = io.StringIO()
    Log("all", stream).line("event", text='a "quoted"\nline')
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["text"] == 'a "quoted"\nline'


WORKER = """
import os

from steersman.errors import IdReusedError
from steersman.service.metrics import Metrics

metrics = Metrics()
metrics.watch_queue("decide", lambda: {depth})
metrics.committed("decide", [IdReusedError(stored_fingerprint="a", given_fingerprint="b")], 0.1)
print(metrics.page().decode(), flush=True)
os._exit(0)
"""


def test_a_worker_that_is_gone_leaves_its_counts_and_not_its_queue(tmp_path: Path) -> None:
    pages = [
        subprocess.run(
            [sys.executable, "-c", WORKER.format(depth=depth)],
            env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for depth in (5, 2)
    ]
    first, second = (samples(page.strip()) for page in pages)
    assert (
        first['steersman_queue_items{verb="decide"}'],
        second['steersman_queue_items{verb="decide"}'],
    ) == (5, 2)
    assert first['steersman_conflicts_total{verb="decide"}'] == 1
    assert second['steersman_conflicts_total{verb="decide"}'] == 2


@contextmanager
def unwritable(kind: str) -> Iterator[TextIO]:
    """A stream that takes nothing: a pipe whose reader is gone, or a device without room."""
    if kind == "full":
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        read, target = os.pipe()
        os.close(read)
    stream = os.fdopen(target, "w")
    yield stream
    with suppress(OSError):
        stream.close()


@pytest.mark.parametrize("kind", ["gone", "full"])
def test_a_log_that_cannot_be_written_costs_no_answer(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with unwritable(kind) as stream, serving(str(tmp_path / "steersman.db")) as server:
        company = server.company()
        assert server.app.service is not None
        server.app.service.log._stream = stream
        assert company.post("/v1/decide", {"state": 0}).status_code == 200
        assert company.post("/v1/decide", {"state": 9}).status_code == 400
        monkeypatch.setattr("steersman.service.routes.reading.doctor", fail)
        assert company.get("/v1/doctor").json()["code"] == "internal"


def test_a_role_that_must_not_serve_is_told_at_the_start(postgres_url: str) -> None:
    with serving(postgres_url) as server:
        told = (
            "must not serve: role 'tester' owns the tables, or is a member of the role that does: "
            "log in as the serving role (docs/isolation.md)"
        )
        deadline = time.monotonic() + 30
        while told not in [line.get("message") for line in lines(server)]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert server.company().get("/v1/tenant").status_code == 200
