"""The compose file's own sequence of commands over a real PostgreSQL, without containers; and the runbook's backups."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.usecases.isolation import serving_problems
from tests.deploy.written import POSTGRESQL, ROLES, ROOT, RUNBOOK, lines_of, read_compose
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
        return {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"} | {
            name: self.here(value) for name, value in plain.items()
        }

    def here(self, text: str) -> str:
        """Put the socket that is here in place of the host of each URL."""
        return re.sub(
            r"@postgres(?::5432)?/(\w+)", rf"@/\1?host={quote(str(self.cluster.folder), safe='')}", text
        )

    def make_roles(self) -> None:
        """Do what the container of PostgreSQL does first; from then on all but the superuser show passwords."""
        passwords = {k: v for k, v in self.environment("postgres").items() if "PASSWORD" in k}
        self.shell(ROLES.read_text(), **passwords)
        demand_passwords(self.cluster)

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

    def do(self, line: str) -> str:
        """Do what a line of the runbook says: a command of ours in the service that the page names for it."""
        line = line.removeprefix("docker compose -f deploy/compose.yaml ")
        if line.startswith("exec "):
            self.shell(line.split(" postgres ", 1)[1])
            return ""
        if line.startswith("run "):
            service, command = re.sub(r"run --rm (--no-TTY )?", "", line).split(" ", 1)
            return self.run(service, "sh", "-euc", self.here(command))
        words = shlex.split(self.here(line))
        return self.run(service_of(words), *words)

    def ask(self, path: str, key: str = "", body: object = None) -> Any:
        """Return what the service answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)


def demand_passwords(cluster: PostgresCluster) -> None:
    """Have the server ask everybody but its superuser for a password."""
    told = "local all postgres trust\nlocal all all scram-sha-256\n"
    (cluster.folder / "pg_hba.conf").write_text(told)
    cluster.restart("fast")


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def service_of(words: list[str]) -> str:
    """Where the runbook has a command run that stands there without a service."""
    return "owner" if words[:2] == ["steersman", "db"] and words[2] in {"upgrade", "grant"} else "tools"


def order() -> list[str]:
    """The services in the order in which compose starts them."""
    waits = {
        name: set(each.get("depends_on", {}))
        for name, each in read_compose()["services"].items()
        if "profiles" not in each
    }
    found: list[str] = []
    while len(found) < len(waits):
        ready = [name for name in waits if name not in found and waits[name] <= set(found)]
        assert ready
        found += ready
    return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Everything up: the roles made, the schema upgraded and granted, the service answering."""
    with temporary_cluster() as cluster:
        made = Stack(cluster, tmp_path_factory.mktemp("stack"), free_port())
        server: subprocess.Popen[str] | None = None
        try:
            for service in order():
                if service == "postgres":
                    made.make_roles()
                elif service == "service":
                    server = serve(made)
                else:
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
    (line,) = [line for line in lines_of(RUNBOOK, "Back up") if " tar " in line]
    stack.do(line.replace("/data", shelf))
    with tarfile.open(stack.folder / "files.tar") as files:
        kept = {Path(name).name for name in files.getnames() if name.endswith(".parquet")}
    assert kept == {path.name for path in Path(shelf).rglob("*.parquet")} != set()


def test_a_backup_is_restored_as_the_runbook_says(tmp_path: Path) -> None:
    with temporary_cluster() as cluster:
        stack = Stack(cluster, tmp_path, 0)
        stack.make_roles()
        for service in ("upgrade", "grant"):
            stack.run(service)
        declaration = json.dumps({"actions": ["hold", "trade"], "states": 2})
        stack.do(f"steersman tenant create acme --set '{declaration}'")
        stack.do("steersman decide acme --state 0 --id first")
        (dump,) = [line for line in lines_of(RUNBOOK, "Back up") if "pg_dump" in line]
        stack.do(dump)
        stack.do("steersman tenant erase acme --yes")
        first, *lines, last = lines_of(RUNBOOK, "Restore")
        assert (first.split()[-2:], last.split()[-2:]) == (["stop", "service"], ["start", "service"])
        assert [word for line in lines for word in shlex.split(line) if "pg_" in word] == ["pg_restore"]
        for line in lines:
            stack.do(line)
        assert "acme" in stack.do("steersman tenant list")
        stack.do("steersman verify acme")
        # Tables, policies and grants came along, and the database is closed to others as it was.
        database = Database.open(stack.environment("service")["STEERSMAN_DATABASE_URL"])
        assert serving_problems(database) == []
        database.close()
        with cluster._connect() as connection:
            asked = "SELECT rolname FROM pg_roles WHERE rolcanlogin AND has_database_privilege(rolname, %s, 'CONNECT')"
            may = {name for (name,) in connection.execute(asked, ["steersman"])}
        assert may == {"postgres", "steersman_owner", "steersman_serving", "steersman_operator"}


def test_a_schema_is_upgraded_in_phases_as_the_runbook_says(tmp_path: Path) -> None:
    with temporary_cluster() as cluster:
        stack = Stack(cluster, tmp_path, 0)
        stack.make_roles()
        lines = list(lines_of(RUNBOOK, "Upgrade without downtime"))
        assert [line.split()[2] for line in lines] == ["upgrade", "grant", "upgrade", "grant", "status"]
        for line in lines:
            stack.do(line)
        database = Database.open(stack.environment("service")["STEERSMAN_DATABASE_URL"])
        assert serving_problems(database) == []
        database.close()


def test_postgresql_is_healthy_once_the_database_is_there_over_tcp(tmp_path: Path) -> None:
    kind, check = read_compose()["services"]["postgres"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    with temporary_cluster() as cluster, served_over_tcp(cluster) as port:
        stack = Stack(cluster, tmp_path, 0)

        def code(at: int) -> int:
            there = stack.environment("postgres") | {"PGHOST": str(cluster.folder), "PGPORT": str(at)}
            there["PATH"] = f"{cluster._binaries}:{there['PATH']}"
            return subprocess.run(
                ["sh", "-c", check.replace("$$", "$")], env=there, capture_output=True, check=False
            ).returncode

        assert code(port) != 0  # no database yet
        stack.make_roles()
        assert code(port) == 0
        # The image's server of the first start answers at its socket alone.
        assert code(5432) != 0


def test_a_server_is_set_up_as_its_page_says(tmp_path: Path) -> None:
    with temporary_cluster() as cluster, served_over_tcp(cluster) as port:
        demand_passwords(cluster)
        stack = Stack(cluster, tmp_path, free_port())
        *lines, last = lines_of(POSTGRESQL)
        assert last == "steersman serve"
        script = "\n".join([*lines, f"exec steersman serve --port {stack.port}"])
        server = subprocess.Popen(
            ["sh", "-euc", script.replace("127.0.0.1:5432", f"127.0.0.1:{port}")],
            cwd=ROOT,
            env={
                "PATH": f"{BIN}:{cluster._binaries}:{os.environ['PATH']}",
                "PGHOST": str(cluster.folder),
                "NO_COLOR": "1",
            },
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                with suppress(OSError):
                    assert stack.ask("/readyz") == {"status": "ready"}
                    break
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            server.send_signal(signal.SIGTERM)
            told, log = server.communicate(timeout=PATIENCE)
        key = re.search(r"sk_\w{12}_[\w-]{43}", told)
        assert key is not None, log


@contextmanager
def served_over_tcp(cluster: PostgresCluster) -> Iterator[int]:
    """Pass on what comes to a port of this machine to the socket of a server; yield the port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(cluster.folder / ".s.PGSQL.5432"))
                back = threading.Thread(target=_pass_on, args=[behind, self.request])
                back.start()
                _pass_on(self.request, behind)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


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
