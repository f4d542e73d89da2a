"""The command within this process, and what it answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from steersman.cli.app import main

Run = Callable[..., "Done"]
Ask = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command within this process: starting one anew for each takes longer than what it does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", StringIO())
    monkeypatch.setenv("STEERSMAN_DATABASE_URL", str(tmp_path / "cli.db"))

    def command(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["steersman", *words])
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main()
        return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())

    return command


@pytest.fixture
def ask(run: Run) -> Ask:
    """What a command that succeeds answers as JSON, which is one line."""

    def command(*words: str) -> Any:
        done = run(*words, "--json")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1
        return json.loads(done.stdout)

    return command
