"""The command line and what callers, shells and systems do to it: never markup, never a traceback."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from steersman.cli.app import app
from steersman.cli.common import actor
from tests.cli.conftest import Ask, Run
from tests.support.commands import BIN

ODD = "[/x] weird :smile:"
DECLARED = json.dumps({"actions": [{"id": "[blue]d", "label": ODD}], "states": 2, "reward_range": [-1, 1]})


@pytest.fixture
def odd(ask: Ask) -> Ask:
    """A tenant whose texts look like markup and an emoji."""
    ask("tenant", "create", "odd", "--set", DECLARED)
    return ask


def test_nothing_that_callers_wrote_is_read_as_markup(odd: Ask, run: Run) -> None:
    del odd
    for name in ("[bold]1", "[/]"):
        shown = run(
            "decide", "odd", "-s", "0", "--id", name, "--episode", "[red]e", "--metadata", '{"[/m]": 1}'
        )
        assert (shown.returncode, shown.stderr) == (0, "")
        assert name in shown.stdout
        assert f"{ODD} ([blue]d)" in shown.stdout
        assert "[red]e" in shown.stdout
    for words in (("tenant", "show", "odd"), ("show", "odd"), ("why", "odd", "[/]"), ("decisions", "odd")):
        shown = run(*words)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert ODD in shown.stdout
    assert "[/]" in run("void", "odd", "[/]").stdout
    assert "[red]e" in run("close", "odd", "[red]e", "--outcome", "-0.5").stdout
    assert "[/m]" in run("decisions", "odd").stdout


def test_a_reward_may_be_negative(odd: Ask, run: Run) -> None:
    for number, value in enumerate(("-0.5", "-1e-3", "-1")):
        odd("decide", "odd", "-s", "0", "--id", f"d{number}")
        assert odd("reward", "odd", f"d{number}", value)["value"] == float(value)
    refused = run("reward", "odd", "d0", "-inf")
    assert (refused.returncode, "finite number" in refused.stderr) == (2, True)


def test_an_export_answers_and_wants_the_name_of_a_file(odd: Ask, run: Run) -> None:
    assert odd("tenant", "export", "odd", "odd.jsonl")["path"] == "odd.jsonl"
    for nameless in (".", "/"):
        refused = run("tenant", "export", "odd", nameless)
        assert (refused.returncode, "expected the name of a file" in refused.stderr) == (2, True)


@pytest.mark.parametrize("number", ["99999999999999999999999", "9" * 5000, str(2**40), str(2**31)])
@pytest.mark.parametrize("words", [("versions", "show", "odd"), ("show", "odd", "--version")])
def test_a_number_that_no_version_has(odd: Ask, run: Run, words: tuple[str, ...], number: str) -> None:
    del odd
    done = run(*words, number)
    assert (done.returncode, "no version" in done.stderr) == (1, True)
    assert len(done.stderr) < 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("decisions", "odd", "--limit", "9" * 20), "--limit"),
        (("show", "odd", "--limit", "9" * 20), "--limit"),
        (("versions", "diff", "odd", "1", "--top", "9" * 20), "--top"),
        (("decisions", "odd", "--status", "foo"), "--status"),
        (("episodes", "list", "odd", "--status", "void"), "--status"),
        (("reward", "odd"), "decision_id"),
        (("reward", "odd", "d", "much"), "value"),
        (("decide", "odd"), "--state"),
        (("nope",), "No such command"),
        (("show", "a\udcff"), "expected arguments in UTF-8"),
        (("tenant", "create", "x", "--set", '{"a":' * 900 + "1" + "}" * 900), "nesting of at most 64"),
        (("tenant", "create", "x", "--set", "[" * 90_000), "nesting of at most 64"),
        (
            ("tenant", "create", "x", "--set", '{"states": 1, "states": 2}'),
            'each key once, got "states" twice',
        ),
        (
            ("decide", "odd", "-s", "0", "--metadata", '{"a": {"b": 1, "b": 1}}'),
            'each key once, got "b" twice',
        ),
        (("decisions", "odd", "--metadata", '{"a": NaN}'), "expected a finite number, got NaN"),
        (("tenant", "erase", "odd"), "--yes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_input_is_told_in_json_and_ends_with_2(
    odd: Ask, run: Run, words: tuple[str, ...], said: str
) -> None:
    del odd
    done = run(*words, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    told = json.loads(done.stderr)
    assert set(told) == {"error", "message", "where", "hint"}
    assert told["error"] == "InvalidInputError"
    assert said in told["message"]


def test_usage_is_told_to_people_in_words(odd: Ask, run: Run) -> None:
    del odd
    done = run("decisions", "odd", "--status", "foo")
    assert done.returncode == 2
    assert "Usage: steersman decisions" in done.stderr
    assert run("reward", "--help").stdout.startswith("Usage: steersman reward")


@pytest.mark.parametrize("verb", ["freeze", "activate", "rollback", "import"])
def test_versions_are_made_of_tenants_alone(run: Run, verb: str) -> None:
    assert "@NAME" not in run("versions", verb, "--help").stdout
    assert "@NAME" in run("versions", "list", "--help").stdout


def test_a_user_without_an_entry_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    # No system has an entry for this one; Python then looks it up for real.
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises((KeyError, OSError)):
        getpass.getuser()
    assert actor() == f"cli:{2**31 - 7}"
    monkeypatch.setenv("LOGNAME", "a\udcff")
    assert actor() == "cli:a\\udcff"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_defect_is_one_line_and_ends_with_70(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def broken(*, as_json: bool = typer.Option(False, "--json")) -> None:
        raise ZeroDivisionError(f"first\nsecond {as_json}")

    monkeypatch.setattr(app, "registered_commands", [*app.registered_commands])
    app.command("broken")(broken)
    done = run("broken", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (70, "", 1)
    assert "ZeroDivisionError" in done.stderr
    assert "first second" in done.stderr
    assert "please report it" in done.stderr
    if words:
        assert json.loads(done.stderr)["error"] == "ZeroDivisionError"


@pytest.fixture
def outside(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The installed command, with an output of its own."""

    def command(*words: str, out: Any = subprocess.PIPE, **environment: str) -> Any:
        return subprocess.run(
            [BIN / "steersman", *words],
            cwd=tmp_path,
            env=os.environ | environment | {"STEERSMAN_DATABASE_URL": str(tmp_path / "cli.db")},
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    return command


@pytest.mark.skipif(sys.platform != "linux", reason="the device that is always full")
@pytest.mark.parametrize("words", [("tenant", "list"), ("tenant", "list", "--json"), ("--version",)])
def test_an_output_that_is_full(
    outside: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...]
) -> None:
    outside("db", "upgrade")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = outside(*words, out=full)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in done.stderr


def test_an_output_that_lacks_a_character(
    odd: Ask, outside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    odd("tenant", "create", "euro", "--set", '{"actions": ["\u20ac"], "states": 1}')
    for words in ((), ("--json",)):
        done = outside("tenant", "show", "euro", *words, PYTHONIOENCODING="latin-1")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "the answer could not be printed" in done.stderr
