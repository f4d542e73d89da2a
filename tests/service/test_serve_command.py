"""The command `steersman serve`, as a process of its own that people and supervisors start and stop."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path

import httpx
import psutil
import pysqlite3
import pytest

from steersman import __version__
from steersman.library import Steersman
from steersman.usecases.explain import list_decisions
from steersman.usecases.keys import SCOPES, create_key
from tests.house.rules import ROOT
from tests.support.commands import BIN
from tests.support.postgres import OPERATOR, SERVING, url_as


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def started(
    folder: Path, *options: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """Start the command in `folder` and wait until it answers; end it, if it still runs."""
    port = free_port()
    # In a file: a pipe that nobody reads would fill up and stop the server.
    command = [BIN / "steersman", "serve", "--port", str(port), *options]
    with (
        (folder / "told.txt").open("w") as file,
        subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=os.environ | environment | {"NO_COLOR": "1"},
            stderr=file,
            text=True,
        ) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as http,
    ):
        try:
            deadline = time.monotonic() + 60
            while not answers(http):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process, http
        finally:
            if process.poll() is None:
                process.terminate()


def answers(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def bearer(url: str) -> dict[str, str]:
    with Steersman.open(url) as library:
        library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        return {
            "authorization": f"Bearer {create_key(library.database, tenant='acme', scopes=SCOPES, name='t').text}"
        }


def test_a_first_start_needs_nothing_and_tells_how_to_make_a_key(tmp_path: Path) -> None:
    with started(tmp_path) as (process, http):
        assert http.get("/v1/tenant").status_code == 401
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert process.returncode == 0
    told = (tmp_path / "told.txt").read_text()
    lines = [json.loads(line) for line in told.splitlines()]
    assert all({"time", "event"} <= set(line) for line in lines)
    assert (lines[0]["event"], lines[0]["level"]) == ("server", "info")
    assert "steersman keys create" in lines[0]["message"]
    assert (tmp_path / "steersman.db").exists()
    (ready,) = [line for line in lines if line["event"] == "ready"]
    address = str(http.base_url).rstrip("/")
    assert {name: ready[name] for name in ("version", "database", "commit", "address")} == {
        "version": __version__,
        "database": "sqlite",
        "commit": "inline",
        "address": address,
    }


def test_on_a_terminal_people_are_told_in_plain_words(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(BIN / "steersman"), "serve", "--port", str(free_port())]
    with subprocess.Popen(command, cwd=tmp_path, stderr=theirs) as process:
        told = b""
        while b"\n" not in told:
            told += os.read(ours, 4096)
        process.send_signal(signal.SIGTERM)
        process.wait()
    os.close(ours)
    os.close(theirs)
    assert told.startswith(b"No operator has a key yet: steersman keys create")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_in_use_ends_it_with_one_sentence(tmp_path: Path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        done = subprocess.run(
            [BIN / "steersman", "serve", "--port", port, "--workers", workers],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert line["level"] == "error"
    assert line["message"].startswith(f"cannot listen at 127.0.0.1 port {port}: Address already in use")


def test_a_variable_that_is_no_setting_is_refused_or_remarked_on(tmp_path: Path) -> None:
    command = [str(BIN / "steersman"), "serve", "--port", "0"]
    refused = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"STEERSMAN_KEY_RAT": "4"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 2
    assert "STEERSMAN_KEY_RATE meant" in json.loads(refused.stderr)["message"]
    with started(tmp_path, STEERSMAN_FLAVOUR="sweet"):
        pass
    remark = json.loads((tmp_path / "told.txt").read_text().splitlines()[0])
    assert remark["message"] == "no settings, and left alone: STEERSMAN_FLAVOUR"


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="jq or curl is not there")
def test_the_page_begins_with_what_works(tmp_path: Path) -> None:
    page = (ROOT / "docs/service.md").read_text(encoding="utf-8")
    make, ask = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[:2]
    lines = [line for line in make.splitlines() if not line.startswith("pip ")]
    assert lines.pop() == "steersman serve &"
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    made = "\n".join([*lines, "echo $KEY"])
    key = subprocess.run(
        ["bash", "-ec", made], cwd=tmp_path, env=os.environ | path, capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    with started(tmp_path) as (_, http):
        asked = ask.replace("http://127.0.0.1:8000", str(http.base_url).rstrip("/"))
        answered = subprocess.run(
            ["bash", "-ec", asked],
            env=os.environ | {"KEY": key},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    decision, reward = (json.loads(part) for part in answered.replace("}{", "}\n{").splitlines())
    assert (decision["decision_id"], decision["state"]) == ("deal-7:1", 2)
    assert (reward["decision_id"], reward["value"], reward["effect"]) == ("deal-7:1", 0.4, "learned")


def test_a_place_without_room_for_the_log_stops_no_service(tmp_path: Path) -> None:
    (tmp_path / "told.txt").symlink_to("/dev/full")
    (tmp_path / "scratch").mkdir()
    with started(tmp_path, TMPDIR=str(tmp_path / "scratch")) as (_, http):
        assert http.get("/v1/tenant").status_code == 401
        # A process alone needs no folder, so that none is left by one that is killed.
        assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("commit", ["thread", "inline"])
def test_what_was_acknowledged_before_the_end_is_stored(tmp_path: Path, commit: str) -> None:
    url = str(tmp_path / "served.db")
    headers = bearer(url)
    acknowledged: list[str] = []

    def ask(caller: int) -> None:
        with httpx.Client(base_url=http.base_url, headers=headers, timeout=30.0) as own:
            for number in range(10_000):
                name = f"{caller}-{number}"
                try:
                    answer = own.post("/v1/decide", json={"state": 0, "decision_id": name})
                except httpx.TransportError:
                    return
                assert answer.status_code == 200, answer.text
                acknowledged.append(name)

    with (
        started(tmp_path, "--database", url, STEERSMAN_COMMIT=commit) as (process, http),
        ThreadPoolExecutor(4) as pool,
    ):
        asking = [pool.submit(ask, caller) for caller in range(4)]
        while len(acknowledged) < 20:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        for one in asking:
            one.result()
        process.wait()
    assert process.returncode == 0
    with Steersman.open(url) as library:
        stored = {item.decision_id for item in list_decisions(library.database, "acme", limit=100_000)}
        assert set(acknowledged) <= stored
        assert library.verify().clean


@pytest.mark.parametrize("commit", ["auto", "inline", "thread"])
def test_a_file_that_another_process_holds_keeps_only_its_own_calls_waiting(
    tmp_path: Path, commit: str
) -> None:
    url = str(tmp_path / "served.db")
    headers = bearer(url)
    with (
        started(tmp_path, "--database", url, STEERSMAN_COMMIT=commit) as (_, http),
        ThreadPoolExecutor(1) as pool,
        closing(pysqlite3.connect(url, isolation_level=None)) as other,
    ):
        for name in ("opens", "goes on"):  # the first of a tenant makes its version as well
            body = {"state": 0, "decision_id": name}
            other.execute("BEGIN IMMEDIATE")
            asked = pool.submit(
                httpx.post, f"{http.base_url}/v1/decide", json=body, headers=headers, timeout=30.0
            )
            for _ in range(20):
                assert http.get("/healthz", timeout=2.0).status_code == 200
                time.sleep(0.01)
            assert not asked.done()
            other.execute("ROLLBACK")
            assert asked.result().json()["decision_id"] == name


def test_several_workers_share_database_and_metrics(store_url: str, tmp_path: Path) -> None:
    headers = bearer(store_url)
    with started(tmp_path, "--workers", "2", "--database", store_url) as (process, http):
        workers = psutil.Process(process.pid).children(recursive=True)
        assert sum("spawn_main" in " ".join(worker.cmdline()) for worker in workers) == 2
        for number in range(20):
            with httpx.Client(base_url=http.base_url, headers=headers, timeout=30.0) as caller:
                body = {"state": 0, "decision_id": f"d{number // 2}"}
                assert caller.post("/v1/decide", json=body).status_code == 200
        page = http.get("/metrics").text
        assert 'steersman_decisions_total{tenant="acme"} 20.0' in page.splitlines()
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert process.returncode == 0
    assert psutil.wait_procs(workers, timeout=30)[1] == []
    with Steersman.open(store_url) as library:
        assert library.show("acme").states[0].evidence == 10
        assert library.verify().clean


@pytest.mark.parametrize("commit", ["thread", "inline"])
def test_metrics_that_somebody_removed_stop_neither_answers_nor_the_end(tmp_path: Path, commit: str) -> None:
    url, scratch = str(tmp_path / "served.db"), tmp_path / "scratch"
    scratch.mkdir()
    headers = bearer(url)
    options = ("--workers", "2", "--database", url)
    with started(tmp_path, *options, STEERSMAN_COMMIT=commit, TMPDIR=str(scratch)) as (process, http):
        (folder,) = scratch.glob("steersman-metrics-*")
        folder.rename(tmp_path / "away")  # at once, as the workers may be writing into it
        for number in range(8):
            with httpx.Client(base_url=http.base_url, headers=headers, timeout=30.0) as caller:
                decided = caller.post("/v1/decide", json={"state": 0, "decision_id": f"d{number}"})
                rewarded = caller.post("/v1/reward", json={"decision_id": f"d{number}", "value": 1.0})
            assert (decided.status_code, rewarded.status_code) == (200, 200)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 0
    assert '"event":"defect"' in (tmp_path / "told.txt").read_text()


def test_a_database_that_cannot_be_used_ends_it_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "steersman", "serve", "--database", str(tmp_path / "none" / "x.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "expected an existing folder" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stderr)["error"] == "UnsupportedStoreError"


@pytest.mark.parametrize("given", [{}, {"STEERSMAN_OPERATOR_URL": SERVING}])
def test_a_role_that_may_not_look_up_keys_is_told_which_setting_is_missing(
    postgres_url: str, tmp_path: Path, given: dict[str, str]
) -> None:
    refused = subprocess.run(
        [BIN / "steersman", "serve", "--port", "0", "--database", url_as(SERVING, postgres_url)],
        env=os.environ | {name: url_as(role, postgres_url) for name, role in given.items()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode != 0
    assert "STEERSMAN_OPERATOR_URL" in refused.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_role_that_cannot_log_in_to_serve_ends_it_before_any_worker(
    postgres_url: str, tmp_path: Path, workers: str
) -> None:
    refused = subprocess.run(
        [BIN / "steersman", "serve", "--port", "0", "--workers", workers],
        env=os.environ
        | {
            "STEERSMAN_DATABASE_URL": url_as("nobody", postgres_url),
            "STEERSMAN_OPERATOR_URL": url_as(OPERATOR, postgres_url),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "correct the role or the password" in refused.stderr
    assert "Started" not in refused.stderr


def test_what_is_no_request_is_told_so_and_fills_no_log(tmp_path: Path) -> None:
    two_lengths = b"POST /v1/decide HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"
    with started(tmp_path) as (process, http):
        for sent in (
            b"FOO / HTTP/1.1\r\nhost: x\r\n\r\n",
            b"\x16\x03\x01\r\n\r\n",
            two_lengths,
            b"GET /healthz HTTP/1.1\r\nhost: x\r\n broken\r\n\r\n",
        ):
            with socket.create_connection((http.base_url.host, http.base_url.port or 0)) as caller:
                caller.settimeout(30)
                caller.sendall(sent)
                told = HTTPResponse(caller)
                told.begin()
                body = json.loads(told.read())
                assert (told.status, told.getheader("content-type")) == (400, "application/problem+json")
                assert (body["code"], body["status"], body["request_id"]) == (
                    "not-http",
                    400,
                    told.getheader("x-request-id"),
                )
                assert caller.recv(1) == b""
        with socket.create_connection((http.base_url.host, http.base_url.port or 0)) as caller:
            caller.settimeout(30)
            caller.sendall(
                b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
            )
            assert caller.recv(4096).startswith(b"HTTP/1.1 200 ")
        process.send_signal(signal.SIGTERM)
        process.wait()
    lines = [json.loads(line) for line in (tmp_path / "told.txt").read_text().splitlines()]
    assert lines
    assert [line for line in lines if line.get("level") == "warning"] == []


def test_what_a_library_warns_of_is_a_line_of_json_too() -> None:
    program = """
import logging, logging.config
from steersman.cli.serve import _LOGGING
logging.config.dictConfig(_LOGGING)
logging.getLogger("psycopg").warning("error ignored in %s", "a pipeline")
try:
    raise ValueError("a row")
except ValueError:
    logging.getLogger("sqlalchemy.pool").error("Exception during reset", exc_info=True)
logging.getLogger("httptools").info("too small to tell")
"""
    told = subprocess.run([BIN / "python", "-c", program], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in told.stderr.splitlines()]
    assert [(line["level"], line["message"], line.get("error")) for line in lines] == [
        ("warning", "error ignored in a pipeline", None),
        ("error", "Exception during reset", "ValueError"),
    ]
