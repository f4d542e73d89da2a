"""The databases that the other tests are given are what they are said to be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.postgres import PostgresCluster, temporary_cluster

START_AND_WAIT = """
from tests.support.postgres import temporary_cluster
with temporary_cluster() as cluster:
    print(cluster.folder, (cluster.folder / "postmaster.pid").read_text().split()[0], flush=True)
    input()
"""


def test_a_test_is_an_ordinary_role_in_a_database_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute(
            "SELECT rolname, rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        owned = connection.execute(
            "SELECT datname FROM pg_database JOIN pg_roles r ON r.oid = datdba WHERE r.rolname = current_user"
        ).fetchall()
        assert row == ("tester", False, False, False)
        assert (connection.info.dbname,) in owned
        assert all(str(name).startswith("test_") for (name,) in owned)
        connection.execute("CREATE TABLE own (x int)")


def test_databases_are_dropped_with_connections_still_open(postgres_server: PostgresCluster) -> None:
    name = postgres_server.create_database()
    with psycopg.connect(postgres_server.url(name)) as connection:
        postgres_server.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_server.url(name))


def test_a_database_copies_its_template(postgres_server: PostgresCluster) -> None:
    template = postgres_server.create_database()
    with psycopg.connect(postgres_server.url(template)) as connection:
        connection.execute("CREATE TABLE known (x int)")
        connection.execute("INSERT INTO known VALUES (7)")
    copy = postgres_server.create_database(template=template)
    with psycopg.connect(postgres_server.url(copy)) as connection:
        connection.execute("INSERT INTO known VALUES (8)")
        assert connection.execute("SELECT x FROM known ORDER BY x").fetchall() == [(7,), (8,)]
    postgres_server.drop_database(copy)
    postgres_server.drop_database(template)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_private_server_keeps_what_was_committed(private_postgres: PostgresCluster, mode: str) -> None:
    url = private_postgres.url(private_postgres.create_database())
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        connection.commit()
        connection.execute("INSERT INTO kept VALUES (2)")
        private_postgres.stop(mode)
        assert not private_postgres.is_running()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    private_postgres.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT x FROM kept").fetchall() == [(1,)]


@pytest.mark.parametrize("durable", [True, False])
def test_a_server_is_as_durable_as_asked(*, durable: bool) -> None:
    with (
        temporary_cluster(durable=durable) as cluster,
        psycopg.connect(cluster.url("postgres")) as connection,
    ):
        row = connection.execute(
            "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
        ).fetchone()
        assert row == ("on" if durable else "off", "on")


def test_a_server_and_its_folder_are_gone_afterwards() -> None:
    with temporary_cluster() as cluster:
        process = psutil.Process(int((cluster.folder / "postmaster.pid").read_text().split()[0]))
        assert process.is_running()
    assert not process.is_running()
    assert not cluster.folder.exists()


@pytest.mark.skipif(not shutil.which("setpriv"), reason="only setpriv ties the server to its parent's life")
def test_a_server_does_not_outlive_a_killed_test_run() -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        folder, pid = starter.stdout.readline().split()
        server = psutil.Process(int(pid))
        os.kill(starter.pid, signal.SIGKILL)
    server.wait(30)
    subprocess.run(["rm", "-r", folder], check=True)


def test_a_server_is_started_from_the_main_thread_alone(private_postgres: PostgresCluster) -> None:
    private_postgres.stop()
    errors: list[str] = []

    def start() -> None:
        try:
            private_postgres.start()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert errors == ["expected the main thread: the server would end with any other"]


def test_every_backend_is_given(store_url: str) -> None:
    assert store_url.startswith(("sqlite:///", "postgresql://tester@/test_"))
