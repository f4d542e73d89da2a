"""The compose file's own sequence of commands over a real PostgreSQL, without containers; and the runbook's backups."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.usecases.isolation import serving_problems
from tests.deploy.written import ROLES, RUNBOOK, lines_of, read_compose
from tests.support.commands import BIN
from tests.support.postgres import PostgresCluster, temporary_cluster

PATIENCE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Stack:
    """What the compose file describes, brought up."""

    cluster: PostgresCluster
    folder: Path
    port: int

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service, with passwords put in and the host replaced by the socket that is here."""
        given = read_compose()["services"][service]["environment"]
        plain = {name: re.sub(r"\$\{(\w+):\?\}", r"secret\1", value) for name, value in given.items()}
        here = f"@/steersman?host={quote(str(self.cluster.folder), safe='')}"
        return {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"} | {
            name: value.replace("@postgres:5432/steersman", here) for name, value in plain.items()
        }

    def shell(self, script: str, **environment: str) -> None:
        """Run a script as the container of PostgreSQL would, in its superuser's name."""
        path = f"{self.cluster._binaries}:{os.environ['PATH']}"
        there = {"PATH": path, "PGHOST": str(self.cluster.folder)} | environment
        done = subprocess.run(
            ["sh", "-eu"],
            input=script,
            cwd=self.folder,
            env=there,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def run(self, service: str, *words: str) -> str:
        """Run a command in a service, its own unless `words` says another; return what it printed."""
        command = list(words) or read_compose()["services"][service]["command"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(service),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, path: str, key: str = "", body: object = None) -> Any:
        """Return what the service answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)


def order() -> list[str]:
    """The services in the order in which compose starts them."""
    waits = {name: set(each.get("depends_on", {})) for name, each in read_compose()["services"].items()}
    found: list[str] = []
    while len(found) < len(waits):
        ready = [name for name in waits if name not in found and waits[name] <= set(found)]
        assert ready
        found += ready
    return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Everything up: the roles made, the schema upgraded and granted, the service answering."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    with temporary_cluster() as cluster:
        made = Stack(cluster, tmp_path_factory.mktemp("stack"), port)
        server: subprocess.Popen[str] | None = None
        try:
            for service in order():
                if service == "postgres":
                    passwords = made.environment(service)
                    made.shell(ROLES.read_text(), **{k: v for k, v in passwords.items() if "PASSWORD" in k})
                elif service == "service":
                    server = serve(made)
                elif service != "tools":
                    made.run(service)
            yield made
        finally:
            if server is not None:
                server.send_signal(signal.SIGTERM)
                _, log = server.communicate(timeout=PATIENCE)
                assert server.returncode == 0, log


def serve(stack: Stack) -> subprocess.Popen[str]:
    """Start the service, and wait until its health check passes."""
    told = read_compose()["services"]["service"]
    here = {"8000": str(stack.port), "0.0.0.0": "127.0.0.1"}
    server = subprocess.Popen(
        [here.get(word, word) for word in told["command"]],
        cwd=stack.folder,
        env=stack.environment("service"),
        stderr=subprocess.PIPE,
        text=True,
    )
    kind, *check = told["healthcheck"]["test"]
    assert kind == "CMD"
    check = [word.replace("127.0.0.1:8000", f"127.0.0.1:{stack.port}") for word in check]
    check[0] = sys.executable if check[0] == "python" else check[0]
    deadline = time.monotonic() + PATIENCE
    while subprocess.run(check, capture_output=True, check=False).returncode:
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return server


def test_a_decision_over_http(stack: Stack) -> None:
    key = json.loads(
        stack.run("tools", "steersman", "keys", "create", "--operator", "--name", "me", "--json")
    )["text"]
    declaration = json.dumps({"actions": ["hold", "trade"], "states": 2})
    stack.run("tools", "steersman", "tenant", "create", "acme", "--set", declaration)
    decided = stack.ask("/v1/decide", key, {"tenant": "acme", "state": 1, "decision_id": "first"})
    # Both actions are untried, so each is played with probability 1/2.
    assert (decided["decision_id"], decided["propensity"]) == ("first", 0.5)
    assert (
        stack.ask("/v1/reward", key, {"tenant": "acme", "decision_id": "first", "value": 1})["effect"]
        == "learned"
    )
    assert stack.ask("/readyz") == {"status": "ready"}
    with pytest.raises(urllib.error.HTTPError, match="401"):
        stack.ask("/v1/decide", "sk_0123456789ab_" + "x" * 43, {"tenant": "acme", "state": 1})
    assert "acme" in stack.run("tools", "steersman", "tenant", "list")
    stack.run("tools", "steersman", "verify", "acme")


def test_a_tenant_is_archived_as_the_runbook_says(stack: Stack) -> None:
    declaration = json.dumps({"actions": ["hold", "trade"], "states": 2})
    stack.run("tools", "steersman", "tenant", "create", "old", "--set", declaration)
    made = ("steersman", "keys", "create", "old", "--name", "old", "--json")
    key = json.loads(stack.run("tools", *made))["text"]
    decided = stack.ask("/v1/decide", key, {"state": 1, "decision_id": "first"})
    stack.ask("/v1/reward", key, {"decision_id": "first", "value": 1})
    shelf = str(stack.folder / "shelf")
    stack.run("tools", "steersman", "archive", "run", "old", "--older-than", "0", "--output", shelf)
    stack.run("tools", "steersman", "verify", "old")
    assert stack.ask("/v1/decide", key, {"state": 1, "decision_id": "first"}) == decided
    with pytest.raises(urllib.error.HTTPError, match="410"):
        stack.ask("/v1/reward", key, {"decision_id": "first", "value": 1, "reward_id": "late"})


def test_a_backup_is_restored_as_the_runbook_says(stack: Stack) -> None:
    wanted = re.compile(r"exec (?:--no-TTY )?postgres (.+)$")
    lines = [found[1] for line in lines_of(RUNBOOK) if (found := wanted.search(line))]
    assert [shlex.split(line)[0] for line in lines] == ["pg_dump", "createdb", "pg_restore"]
    stack.shell("\n".join(lines))
    for service in ("upgrade", "service"):
        url = stack.environment(service)["STEERSMAN_DATABASE_URL"].replace("/steersman?", "/restored?")
        database = Database.open(url)
        if service == "upgrade":
            with Steersman(database) as library:
                assert library.verify().differences == ()
        else:
            # Tables, policies and grants came along.
            assert serving_problems(database) == []
            database.close()


def test_a_file_is_backed_up_as_the_runbook_says(tmp_path: Path) -> None:
    with Steersman.open(str(tmp_path / "steersman.db")) as library:
        library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        library.decide("acme", 0, decision_id="first")
        (line,) = [line for line in lines_of(RUNBOOK) if "VACUUM INTO" in line]
        _, *words = shlex.split(line)
        subprocess.run([sys.executable, *words], cwd=tmp_path, check=True)
    with Steersman.open(str(tmp_path / "backup.db")) as library:
        assert library.verify().differences == ()
        assert library.explain("acme", "first").decision.decision_id == "first"
