"""The command line as a person or a script meets it: two outputs and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pysqlite3
import pytest

from tests.cli.conftest import Ask, Run
from tests.support.commands import BIN
from tests.support.commands import run as run_process

DECLARATIONS = """
bases:
  retail: &space
    actions: {firm: Hold firm, split: Split the difference, concede: Concede}
    states:
      factors:
        - {name: stage, values: [open, late]}
        - {name: gap, edges: [0.2, 0.5]}
tenants:
  acme:
    <<: *space
    base: retail
    contributes: true
    learning: {gamma: 0.5}
    reward_wait: 0
    default_reward: 0.25
"""


@pytest.fixture
def acme(tmp_path: Path, ask: Ask) -> Ask:
    (tmp_path / "tenants.yaml").write_text(DECLARATIONS, encoding="utf-8")
    assert [item["outcome"] for item in ask("tenant", "apply", "tenants.yaml")] == ["created", "created"]
    return ask


def test_a_negotiation_from_decide_to_why(acme: Ask, run: Run) -> None:
    wide = ("-s", "stage=open", "-s", "gap=0.7")
    left_out = ("-f", "firm", "-f", "split", "--reason", "concede=needs approval")
    first = acme("decide", "acme", *wide, *left_out, "--id", "d1", "--metadata", '{"deal": 7}')
    # Nothing is tried, so both feasible actions are greedy: half each.
    assert first["propensity"] == 0.5
    assert first["state"] == 2
    assert acme("decide", "acme", *wide, *left_out, "--id", "d1", "--metadata", '{"deal": 7}') == first
    assert acme("reward", "acme", "d1", "0.8")["effect"] == "learned"
    why = acme("why", "acme", "d1")
    assert [item["feasible"] for item in why["actions"]] == [True, True, False]
    assert why["actions"][2]["reason"] == "needs approval"
    assert [step["target"] for step in why["steps"]] == [0.8]
    assert 0.0 <= why["draw"] < 1.0
    shown = run("why", "acme", "d1").stdout
    assert "needs approval" in shown
    assert "Hold firm" in shown
    assert [item["decision_id"] for item in acme("decisions", "acme", "--metadata", '{"deal": 7}')] == ["d1"]
    assert acme("decisions", "acme", "--metadata", '{"deal": true}') == []


def test_an_episode_from_decide_to_close(acme: Ask) -> None:
    for step in range(2):
        acme("decide", "acme", "-s", "3", "--episode", "deal", "--id", f"e{step}")
    closed = acme("close", "acme", "deal", "--outcome", "1")
    assert (closed["decisions"], closed["learned"]) == (2, 2)
    assert acme("episodes", "list", "acme", "--status", "closed")[0]["episode"] == "deal"
    detail = acme("episodes", "show", "acme", "deal")
    assert [item["decision_id"] for item in detail["decisions"]] == ["e0", "e1"]
    # Last step first: the outcome 1; then 0.5 * the largest q of the same state, which is 1 by now.
    table = acme("show", "acme")
    assert sorted(cell["q"] for cell in table["states"][0]["cells"]) == [0.0, 0.5, 1.0]


def test_void_and_expire(acme: Ask) -> None:
    acme("decide", "acme", "-s", "0", "--id", "never")
    assert acme("void", "acme", "never")["status"] == "void"
    acme("decide", "acme", "-s", "0", "--id", "late")
    assert acme("expire") == [{"tenant": "acme", "decisions": 1, "episodes": 0}]
    assert [item["value"] for item in acme("why", "acme", "late")["rewards"]] == [0.25]


def test_a_changed_catalogue_is_shown_before_it_is_made(acme: Ask, run: Run) -> None:
    acme("decide", "acme", "-s", "0")
    change = '{"actions": {"firm": "Hold firm", "split": "Split", "walk": "Walk away"}}'
    foreseen = acme("tenant", "change", "acme", "--set", change, "--dry-run")
    assert foreseen["version"] is None
    assert foreseen["actions"]["parked"]["shown"] == ["concede"]
    made = acme("tenant", "change", "acme", "--set", change)
    assert made["version"] == 2
    assert made["actions"] == foreseen["actions"]
    assert [item["status"] for item in acme("versions", "list", "acme")] == ["superseded", "active"]
    assert acme("versions", "rollback", "acme")["number"] == 3
    assert [item["id"] for item in acme("tenant", "show", "acme")["spec"]["actions"]][2] == "concede"
    assert "restored" in run("versions", "list", "acme").stdout


def test_versions_and_bases(acme: Ask) -> None:
    acme("decide", "acme", "-s", "0", "--id", "a", "-f", "firm")
    acme("reward", "acme", "a", "1")
    assert acme("versions", "freeze", "acme", "gold")["name"] == "gold"
    acme("decide", "acme", "-s", "0", "--id", "b", "-f", "firm")
    acme("reward", "acme", "b", "0")
    # The mean of 1 and 0, against 1 in the frozen copy.
    change = acme("versions", "diff", "acme", "gold")["changes"][0]
    assert (change["q_before"], change["q_after"]) == (1.0, 0.5)
    built = acme("base", "build", "retail")
    assert [(item["tenant"], item["updates"]) for item in built["contributions"]] == [("acme", 2)]
    assert acme("versions", "show", "@retail")["updates"] == 2


def test_the_doctor_speaks_of_what_was_never_tried(acme: Ask, run: Run) -> None:
    for number in range(40):
        acme("decide", "acme", "-s", "0", "--id", str(number), "-f", "firm")
    found = acme("doctor", "acme")["findings"]
    assert any(finding["code"] == "never-tried" and "Split" in finding["message"] for finding in found)
    assert "next: steersman" in run("doctor").stdout


def test_verify_ends_with_1_on_a_difference(acme: Ask, run: Run, tmp_path: Path) -> None:
    acme("decide", "acme", "-s", "0")
    assert acme("verify")["count"] == 0
    connection = pysqlite3.connect(str(tmp_path / "cli.db"))
    connection.execute("UPDATE cells SET visits = visits + 1")
    connection.commit()
    connection.close()
    done = run("verify", "acme")
    assert done.returncode == 1
    assert "visits" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("decide", "acme", "-s", "stage=open"), 2, "expected the factors ['stage', 'gap']"),
        (("decide", "acme", "-s", "99"), 2, "expected an index from 0 to 5, got 99"),
        (("decide", "acme", "-s", "0", "-f", "bluff"), 2, "got 'bluff'"),
        (("decide", "acme", "-s", "0", "--metadata", "[1]"), 2, "expected a JSON object, got [1]"),
        (("decide", "nobody", "-s", "0"), 1, "see: steersman tenant list"),
        (("reward", "acme", "none", "0.5"), 1, "no decision 'none'"),
        (("tenant", "create", "acme", "--set", '{"actions": ["a"], "states": 1}'), 1, "already"),
        (("tenant", "create", "beta"), 2, "either --from FILE or --set JSON"),
        (("versions", "activate", "acme", "7"), 1, "no version 7"),
        (("db", "status", "-d", "nowhere/steersman.db"), 1, "expected an existing folder"),
    ],
)
def test_an_error_says_what_was_expected(
    acme: Ask, run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    del acme
    done = run(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    told = json.loads(run(*words, "--json").stderr)
    assert said in f"{told['message']} {told['hint']}"


def test_erase_asks_first(acme: Ask, run: Run) -> None:
    assert run("tenant", "erase", "acme").returncode == 1
    assert acme("tenant", "list")[0]["tenant"] == "acme"
    acme("tenant", "erase", "acme", "--yes")
    assert acme("tenant", "list") == []
    assert acme("tenant", "audit", "acme")[0]["verb"] == "erase"


def test_a_secret_is_never_shown(acme: Ask, run: Run) -> None:
    del acme
    assert "secret" not in run("tenant", "show", "acme", "--json").stdout


def test_the_installed_command_answers(tmp_path: Path) -> None:
    done = run_process(BIN / "steersman", "decide", "nobody", "-s", "0", "-d", "new.db", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("NotFoundError: there is no database at ")
    assert not (tmp_path / "new.db").exists()
