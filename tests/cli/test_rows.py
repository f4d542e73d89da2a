"""Rows inspected, converted and merged from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steersman.teacher.dataset import load_teacher_dataset
from steersman.teacher.streaming_scene import encode
from tests.cli.conftest import Ask, Run
from tests.integrations.test_aslib import write_scenario
from tests.teacher.making import BINDING, complete_control, declared_metadata, make_row, write_rows
from tests.teacher.test_binding import declared_row


def encoded(number: int, **changes: Any) -> dict[str, Any]:
    control = complete_control(valid_count=number)
    return make_row(number, control_input=control, features=encode(control).tolist(), **changes)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Six rows of two scenes and one of them twice; a near tie, a wrong advantage and skewed features."""
    made = [encoded(number) for number in range(6)]
    made[1] |= {"losses": [1.0, 1.0, 1.0, 1.0], "advantages": [0.0, 0.0, 0.0, 0.0]}
    made[2] |= {"losses": [1.0, 2.0, 3.0, 6.0], "advantages": [2.0, 1.0, 0.5, -3.0]}  # the third should be 0
    made[3]["features"][3] = 2.5  # density_mean, which is 2
    path = write_rows(tmp_path / "rows" / "a.jsonl", [*made, made[0]])
    path.write_text(path.read_text() + "\n")
    return path.parent


def test_an_inspection_tells_what_a_person_wants_to_know(rows: Path, ask: Ask, run: Run) -> None:
    found = ask("rows", "inspect", "rows")
    assert (found["rows"], found["duplicates"], found["blank_lines"]) == (6, 1, 1)
    assert found["scenes"] == {"scene-00": 5, "scene-01": 1}
    assert (found["files"], found["near_ties"], found["forced"]) == (1, 1, 0)
    assert (found["advantages"]["rows"], found["advantages"]["largest"]) == (1, 0.5)
    assert (found["skew"]["rows"], found["skew"]["largest"]) == (1, 0.5)
    assert found["binding"] == BINDING
    shown = run("rows", "inspect", "rows").stdout
    assert shown.startswith("in 1 row the advantage is not"), "contradictions stand first"
    for said in (
        "2, 1 to 5 rows each",
        "1 (16.7% of the rows)",
        '{"renderer": "Fixed", "samples": 16}',
        "250,000",  # mean cost of FUSE and COMPLETE
        "in 1 row the advantage is not the mean feasible loss less the action's loss, by up to 0.5",
        f"{rows / 'a.jsonl'}:3: COMPLETE off by 0.5",
        "in 1 row the features differ from the encoded control input: train-serve skew, by up to 0.5",
        f"{rows / 'a.jsonl'}:4: density_mean is 2.5, encoded 2",
        "the same in all rows: rgb_mse",
        "best fixed action",
        "uniform random",
    ):
        assert said in shown, said


def test_sound_rows_are_called_so(tmp_path: Path, run: Run) -> None:
    changes = [{"features": [number, number % 2, 0.5 + number]} for number in range(3)]
    write_rows(tmp_path / "rows.jsonl", [declared_row(number) | changes[number] for number in range(3)])
    (tmp_path / "metadata.json").write_text(json.dumps(declared_metadata()))
    shown = run("rows", "inspect", "rows.jsonl").stdout
    assert "routing" in shown
    assert shown.startswith("no contradictions found")


def test_single_choices_and_odd_categories_are_told(tmp_path: Path, run: Run) -> None:
    alone = {
        "feasible_mask": [True, False],
        "losses": [1.0, None],
        "advantages": [0.0, None],
        "costs": [0.0, None],
        "features": [0.5, 7.5, 1.0],
    }
    write_rows(tmp_path / "rows.jsonl", [declared_row(0), declared_row(1) | alone])
    (tmp_path / "metadata.json").write_text(json.dumps(declared_metadata()))
    shown = run("rows", "inspect", "rows.jsonl").stdout
    assert "1 (50.0% of the rows), 1 of them with one feasible action" in shown
    assert "in 1 row the categorical features are not all 0 or 1" in shown
    assert f"{tmp_path / 'rows.jsonl'}:2: is_night is 7.5" in shown


def test_rows_go_to_parquet_and_back_with_nothing_lost(rows: Path, ask: Ask, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    there = ask("rows", "convert", "rows/a.jsonl", "--output", "made/a.parquet")
    assert (there["output"], there["rows"], there["metadata"]) == ("made/a.parquet", 7, None)
    ask("rows", "convert", "made/a.parquet", "--output", "made/b.jsonl")
    before = [json.loads(line) for line in (rows / "a.jsonl").read_text().splitlines() if line]
    after = [json.loads(line) for line in (tmp_path / "made" / "b.jsonl").read_text().splitlines()]
    assert after == before


def test_many_files_become_one(rows: Path, ask: Ask, run: Run, tmp_path: Path) -> None:
    write_rows(tmp_path / "more.jsonl", [encoded(7), encoded(0)])
    merged = ask("rows", "merge", "rows", "more.jsonl", "--output", "made/all.jsonl")
    assert (merged["rows"], merged["duplicates"]) == (7, 2)
    assert merged["metadata"] == "made/all.metadata.json"
    both = load_teacher_dataset([rows, tmp_path / "more.jsonl"])
    assert merged["dataset_hash"] == both.dataset_hash
    assert load_teacher_dataset(tmp_path / "made").dataset_hash == both.dataset_hash
    assert run("rows", "merge", "rows", "--output", "made/all.jsonl").returncode == 1
    shown = run("rows", "merge", "rows", "--output", "again.jsonl").stdout
    assert "again.metadata.json" in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("inspect",), 2, "Missing argument"),
        (("inspect", "nowhere"), 2, "nowhere: expected a file or folder, found nothing"),
        (("convert", "rows", "--output", "a.jsonl"), 2, "rows: expected one file to convert, got a folder"),
        (("convert", "rows/a.jsonl", "--output", "a.csv"), 2, "a.csv: expected an output named"),
        (("merge", "rows", "--output", "rows/a.jsonl"), 1, "OutputExistsError"),
    ],
)
def test_an_error_says_what_was_expected(
    rows: Path, run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    before = (rows / "a.jsonl").read_bytes()
    done = run("rows", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in " ".join(done.stderr.split())
    assert [entry.name for entry in rows.parent.iterdir()] == ["rows"]
    assert (rows / "a.jsonl").read_bytes() == before


@pytest.mark.parametrize("verb", ["inspect", "merge", "convert"])
def test_a_malformed_row_is_named_and_no_output_is_touched(verb: str, run: Run, tmp_path: Path) -> None:
    text = json.dumps(make_row(0)) + "\n" + json.dumps(make_row(1)).replace("0.25", "NaN", 1) + "\n"
    (tmp_path / "rows.jsonl").write_text(text)
    output = () if verb == "inspect" else ("--output", "made/out.jsonl")
    done = run("rows", verb, "rows.jsonl", *output)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'rows.jsonl'}:2: " in done.stderr
    assert not list(tmp_path.glob("made/*"))


def test_a_scenario_of_algorithm_selection_becomes_rows_that_can_be_fitted(
    ask: Ask, run: Run, tmp_path: Path
) -> None:
    write_scenario(tmp_path / "toy")
    text = 'instance_id,family\n"a, the first",letters\nb,letters\nd,others\n'
    (tmp_path / "families.csv").write_text(text)
    written = ask("rows", "from-aslib", "toy", "--output", "rows")
    # Of four instances c is presolved.
    assert (written["output"], written["rows"], written["actions"], written["presolved"]) == ("rows", 3, 2, 1)
    found = ask("rows", "inspect", "rows")
    assert found["rows"] == 3
    assert all(scene.startswith("fold-") for scene in found["scenes"])
    shown = run(
        "rows", "from-aslib", "toy", "--output", "logged", "--families", "families.csv", "--log"
    ).stdout
    assert "Scenario crafted" in shown
    again = ask("rows", "inspect", "logged")
    assert again["scenes"] == {"letters": 2, "others": 1}
    assert again["binding"]["loss"] == "ln(1 + PAR10)"
    assert run("rows", "from-aslib", "toy", "--output", "rows").returncode == 1
    done = run("rows", "from-aslib", "nowhere", "--output", "more")
    assert (done.returncode, (tmp_path / "more").exists()) == (2, False)
    assert "nowhere: expected a folder with" in done.stderr
    fitted = ask("fit", "--teacher", "logged", "--output", "policy.safetensors", "--epochs", "2")
    assert fitted["training_scene_count"] == 1
