"""The fit as a person or a script meets it: options, tables, one line of JSON, exit codes, and Ctrl-C."""

from __future__ import annotations

import inspect
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from dataclasses import MISSING, fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command

from steersman.cli.app import app
from steersman.cli.fit import fit_command
from steersman.usecases.load_policy import load_policy
from tests.cli.conftest import Ask, Run
from tests.house.rules import ROOT
from tests.support.commands import BIN
from tests.support.teaching import BINDING, PROMISED, write_rows
from tests.teacher.test_corpus import GOOD, LINES

pytest.importorskip("torch")

from steersman.console.fit import fit_parts
from steersman.training.settings import FitSettings
from steersman.usecases.fit import FitRequest, fit_policy

QUICK = ("--epochs", "20", "--learning-rate", "0.01", "--hidden-dim", "8")
FIT = ("fit", "--teacher", "rows", "--output", "made/policy.safetensors", *QUICK)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows")


def test_the_answer_is_one_line_of_json_with_the_names_promised(rows: Path, ask: Ask, tmp_path: Path) -> None:
    body = ask(*FIT)
    assert set(body) >= PROMISED
    assert body["output"] == "made/policy.safetensors"
    assert body["binding"] == BINDING | {
        "teacher_dataset_hash": body["binding"]["teacher_dataset_hash"],
        "teacher_source_hashes": body["binding"]["teacher_source_hashes"],
    }
    # Of 12 scenes of 8 rows, a fifth is held out, rounded up: 3.
    assert (body["training_row_count"], body["training_scene_count"]) == (72, 9)
    assert (body["heldout_row_count"], body["heldout_scene_count"]) == (24, 3)
    loaded = load_policy(tmp_path / "made" / "policy.safetensors", expected_binding=BINDING)
    assert loaded.sha256 == body["checkpoint_sha256"]
    assert body["sentence"].startswith("Too few scenes: 3 held out, and at least 8 are needed")
    assert rows.is_dir()


def test_the_defaults_are_those_of_a_fit() -> None:
    shown = {name: option.default for name, option in inspect.signature(fit_command).parameters.items()}
    for kind in (FitSettings, FitRequest):
        for field in fields(kind):
            if field.default is not MISSING:
                names = {"validation_scene_ids": "validation_scene", "cache_dir": "cache"}
                assert shown[names.get(field.name, field.name)] == field.default, field.name


def test_every_option_reaches_the_fit(rows: Path, ask: Ask, tmp_path: Path) -> None:
    first = ask(*FIT, "--holdout-fraction", "0.4", "--folds", "2")
    # 0.4 of 12 scenes, rounded up.
    assert first["heldout_scene_count"] == 5
    assert first["folds_gap_closed"] is not None
    again = ask(
        *("fit", "--teacher", str(rows), "--output", "again.safetensors", "--epochs", "7"),
        *("--device", "cpu", "--seed", "3", "--init-policy", "made/policy.safetensors", "--hidden-dim", "8"),
        *("--learning-rate", "0.02", "--weight-decay", "0.001", "--tie-tolerance", "0.01"),
        *("--validation-scene", "scene-00", "scene-03", "--learner", "mlp", "--loss", "rank"),
        *("--inputs", "plain", "--cost-weight", "0.25", "--cache", "kept", "--ensemble", "1"),
        *("--trees", "9", "--min-leaf", "4"),
    )
    assert again["validation_scene_ids"] == ["scene-00", "scene-03"]
    assert again["cost_weight"] == 0.25
    assert len(list((tmp_path / "kept").glob("*.columns"))) == 1
    made = load_policy(tmp_path / "again.safetensors").provenance
    assert made["init_policy_sha256"] == first["checkpoint_sha256"]
    asked = {"learner": "mlp", "loss": "rank", "inputs": "plain", "hidden_dim": 8, "epochs": 7, "seed": 3}
    asked |= {"learning_rate": 0.02, "weight_decay": 0.001, "tie_tolerance": 0.01, "device": "cpu"}
    asked |= {"ensemble": 1, "early_stopping": False, "search": False, "trees": 9, "min_leaf": 4}
    assert made["requested"] == asked


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--early-stopping",), {"early_stopping": True}),
        (("--search",), {"search": True}),
        (("--learner", "forest", "--trees", "5"), {"learner": "forest", "trees": 5}),
        (("--learner", "auto", "--trees", "5"), {"learner": "auto"}),
        (("--ensemble", "2", "--inputs", "ranked"), {"ensemble": 2, "inputs": "ranked"}),
    ],
)
def test_what_chooses_and_what_is_fitted_can_be_asked_for(
    rows: Path, ask: Ask, tmp_path: Path, words: tuple[str, ...], expected: dict[str, Any]
) -> None:
    assert rows.is_dir()
    ask(*FIT, *words)
    requested = load_policy(tmp_path / "made" / "policy.safetensors").provenance["requested"]
    assert {name: requested[name] for name in expected} == expected


def test_a_shell_may_put_several_files_behind_one_option(ask: Ask, tmp_path: Path) -> None:
    for seed in range(3):
        folder = write_rows(tmp_path / str(seed), scenes=4, seed=seed)
        text = (folder / "rows.jsonl").read_text().replace("row-", f"row-{seed}-")
        (tmp_path / f"{seed}.jsonl").write_text(text.replace("scene-", f"scene-{seed}-"))
    words = ("fit", "--teacher", "0.jsonl", "1.jsonl", "--output", "policy.safetensors", "--epochs", "2")
    body = ask(*words, "--teacher=2.jsonl", "--holdout-fraction", "0")
    assert sorted(body["binding"]["teacher_source_hashes"]) == ["0.jsonl", "1.jsonl", "2.jsonl"]
    assert body["training_scene_count"] == 12
    assert body["heldout_regret"] is None
    assert body["sentence"] == "No scene was held out, so there is no evidence for or against the policy."


def test_the_table_tells_what_was_fitted_and_whether_to_use_it(rows: Path, run: Run) -> None:
    assert rows.is_dir()
    done = run(*FIT, "--folds", "3", "--pareto", "--fallback", "--report", "report")
    assert done.returncode == 0
    assert done.stderr == ""  # no bar where nobody watches
    for said in (
        "72 rows of 9 scenes",
        "24 rows of 3 scenes",
        "oracle",
        "uniform random",
        "always COMPLETE",
        "gap closed",
        "by scene",
        "at random",
        "on the front",
        "Over 3 folds of 12 scenes, each held out once: ",
        "made/policy.safetensors",
        "report/report.html",
    ):
        assert said in done.stdout, said


def test_every_line_fits_into_80_columns(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows", scenes=40)
    settings = FitSettings(epochs=3)
    asked = FitRequest(teacher=(rows,), output=Path("policy.safetensors"), settings=settings, folds=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        report = fit_policy(asked)
    told = StringIO()
    console = Console(width=200, file=told)
    for part in fit_parts(report):
        console.print(part)
    lines = [line.rstrip() for line in told.getvalue().splitlines()]
    assert len(lines) > 30
    # Sentences are broken anywhere; tables would fold their cells.
    sentences = {report.verdict.sentence, *report.remarks}
    assert [line for line in lines if len(line) > 80 and line not in sentences] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epochs", "0"), "epochs: expected an integer from 1"),
        (("--epochs", "many"), "--epochs"),
        (("--learning-rate", "nan"), "learning_rate: expected a finite number"),
        (("--learning-rate", "0"), "learning_rate: expected a number above 0"),
        (("--weight-decay", "-1"), "weight_decay: expected a number of at least 0"),
        (("--tie-tolerance", "inf"), "tie_tolerance: expected a finite number"),
        (("--seed", "-1"), "seed: expected an integer from 0"),
        (("--learner", "oracle"), "learner: expected one of"),
        (("--loss", "hinge"), "loss: expected one of"),
        (("--inputs", "raw"), "inputs: expected one of"),
        (("--holdout-fraction", "1"), "holdout_fraction"),
        (("--validation-scene", "nowhere"), "nowhere"),
        (("--folds", "13"), "folds: expected at most one for each of the 12 scenes, got 13"),
        (("--cost-weight", "-1"), "cost_weight: expected a number of at least 0"),
        (("--pareto", "--holdout-fraction", "0"), "pareto: expected held-out scenes"),
        (("--search", "--early-stopping"), "search and early_stopping: expected one of them"),
        (("--init-policy", "rows/rows.jsonl"), "rows/rows.jsonl"),
        (("--teacher", "nowhere"), "nowhere: expected a file or folder, found nothing"),
        (("--fast",), "--fast"),
        (("--json", "stray"), "stray"),
    ],
)
def test_bad_input_ends_with_2_and_touches_nothing(
    rows: Path, run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = run(*FIT, "--report", "report", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows"]
    assert rows.is_dir()


@pytest.mark.parametrize("name", LINES)
def test_a_malformed_line_ends_with_2_at_its_place_and_no_output_is_touched(
    name: str, run: Run, tmp_path: Path
) -> None:
    line, _ = LINES[name]
    (tmp_path / "rows.jsonl").write_bytes(GOOD + b"\n" + line + b"\n")
    done = run("fit", "--teacher", "rows.jsonl", "--output", "made/policy.safetensors", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    told = json.loads(done.stderr)
    assert told["error"] == "InvalidRowError"
    assert told["where"] == f"{tmp_path / 'rows.jsonl'}:2"
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf" + GOOD, GOOD[:-9], b"\xff\xfe"])
def test_a_malformed_file_ends_with_2(content: bytes, run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(content)
    done = run("fit", "--teacher", ".", "--output", "made/policy.safetensors")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"InvalidRowError: {tmp_path / 'rows.jsonl'}" in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("taken", ["made/policy.safetensors", "made/policy.safetensors.part", "report/page"])
def test_an_output_that_is_there_is_refused_before_any_work(run: Run, tmp_path: Path, taken: str) -> None:
    there = tmp_path / taken
    there.parent.mkdir()
    there.write_text("kept")
    # There are no rows, and that is not what the error is about.
    done = run(*FIT, "--report", "report")
    assert (done.returncode, done.stdout) == (1, "")
    assert "OutputExistsError" in done.stderr
    assert there.read_text() == "kept"
    assert [entry.name for entry in tmp_path.iterdir()] == [there.parent.name]


def test_a_report_that_cannot_be_written_leaves_no_checkpoint(rows: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    done = run(*FIT, "--report", "file/report")
    assert done.returncode == 2
    assert "file/report: expected a place that can be written" in done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "rows"]
    assert rows.is_dir()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--output", "file/policy.safetensors"), "file/policy.safetensors: expected a place that can be"),
        (("--report", "made"), "made: report: expected a folder that the output"),
        (("--report", "made/policy.safetensors"), "report: expected a folder that the output"),
        (("--report", "made/policy.safetensors/report"), "report: expected a folder that the output"),
        (("--output", "made/../made", "--report", "made"), "report: expected a folder that the output"),
        (("--output", "r.part", "--report", "r"), "r: report: expected a folder that the output"),
        (("--output", "r", "--report", "r.part"), "r.part: report: expected a folder that the output"),
        (("--output", ""), "expected the name of something to write"),
        (("--output", "."), "expected the name of something to write"),
        (("--report", ""), "expected the name of something to write"),
        (("--output", f"{'o' * 251}"), "expected a place that can be written, got: File name too long"),
        (("--report", f"{'r' * 251}"), "expected a place that can be written, got: File name too long"),
        (("--teacher", ""), "expected a path, got an empty text"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_any_work(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").write_text("kept")
    done = run(*FIT, *words)  # there are no rows, and that is not what the error is about
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_what_was_left_out_is_told(rows: Path, ask: Ask, run: Run) -> None:
    path = rows / "rows.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, "\n", *lines[:2]]))
    assert (body := ask(*FIT))["row_count"] == 96
    assert (body["duplicate_rows"], body["blank_lines"]) == (2, 1)
    shown = run(*FIT, "--output", "again.safetensors").stdout
    assert "2 duplicates, 1 blank line" in shown


def test_rows_may_come_as_parquet(rows: Path, ask: Ask) -> None:
    pytest.importorskip("pyarrow")
    ask("rows", "convert", "rows/rows.jsonl", "--output", "parquet/rows.parquet")
    lines = ask(*FIT)
    table = ask("fit", "--teacher", "parquet", "--output", "other.safetensors", *QUICK)
    assert table["binding"]["teacher_dataset_hash"] == lines["binding"]["teacher_dataset_hash"]
    assert table["heldout_regret"] == lines["heldout_regret"]
    assert rows.is_dir()


def test_without_the_extra_the_error_tells_the_command_that_installs_it(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "sys.argv = ['steersman', 'fit', '--teacher', 'rows', '--output', 'policy.safetensors']\n"
        "from steersman.cli.app import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'steersman[fit]'" in done.stderr


# What a shell starts in the background ignores an interrupt, and so does what it starts in turn.
HEEDING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def watched(folder: Path, *words: str, interrupt_at: bytes | None = None) -> tuple[int, str, str]:
    """Exit code, output and what a terminal showed of a fit; Ctrl-C comes when the terminal shows `interrupt_at`."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", HEEDING, BIN / "steersman", *words],
        cwd=folder,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                shown += part
                if not part:
                    break
            if interrupt_at is not None and interrupt_at in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
        output, _ = process.communicate()
    os.close(ours)
    return process.returncode, output.decode(), shown.decode()


def test_ctrl_c_leaves_no_output(rows: Path, tmp_path: Path) -> None:
    words = ("fit", "--teacher", "rows", "--output", "made/policy.safetensors", "--report", "report")
    code, output, shown = watched(tmp_path, *words, "--epochs", "10000000", interrupt_at=b"loss")
    assert (code, output) == (130, "")
    assert "loss" in shown  # the bar tells it, and was there when the interrupt came
    assert "Traceback" not in shown
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows"]
    assert rows.is_dir()


def test_a_program_that_reads_json_is_shown_no_bar(rows: Path, tmp_path: Path) -> None:
    code, output, shown = watched(tmp_path, *FIT, "--json")
    assert (code, shown) == (0, "")
    assert set(json.loads(output)) >= PROMISED
    assert rows.is_dir()


def test_the_page_names_every_option_with_its_default() -> None:
    page = (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(--[a-z-]+)` \|\s*`?([^|`]*?)`?\s*\|", page, re.MULTILINE))
    command = get_command(app).commands["fit"]  # type: ignore[attr-defined]
    shown = {}
    for option in command.params:
        if "--help" not in option.opts:
            default = "off" if option.default is False else "" if option.default is None else option.default
            shown[option.opts[0]] = "" if option.required else default
    assert set(told) == set(shown)
    for name, default in shown.items():
        same = float(told[name]) == default if isinstance(default, (int, float)) else told[name] == default
        assert same, name


def test_the_commands_of_the_readme_run(rows: Path, run: Run) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [
        block
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if "steersman fit" in block
    ]
    lines = re.findall(r"^steersman (.+)$", block, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["rows", "fit", "checkpoint"]
    for line in lines:
        done = run(*shlex.split(line, comments=True))
        assert done.returncode == 0, done.stderr
    assert (rows.parent / "report" / "report.html").exists()
