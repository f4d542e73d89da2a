"""Scenarios of algorithm selection become teacher rows, by hand-made ones and, where there, eight real ones."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from steersman.errors import InvalidInputError, OutputExistsError
from steersman.integrations.aslib.arff import read_arff
from steersman.integrations.aslib.description import read_description
from steersman.integrations.aslib.rows import METADATA_NAME, ROWS_NAME, ScenarioRows, convert_scenario
from steersman.integrations.aslib.scenario import FILES, read_scenario
from steersman.teacher.dataset import load_teacher_dataset, load_teacher_rows
from steersman.teacher.inspection import inspect_rows

SHARED = Path(os.environ.get("STEERSMAN_SHARED", Path(__file__).parents[3] / "shared"))
REAL = SHARED / "data" / "aslib"
SCENARIOS = (
    "ASP-POTASSCO",
    "BNSL-2016",
    "CPMP-2015",
    "CSP-2010",
    "MAXSAT12-PMS",
    "QBF-2011",
    "SAT11-INDU",
    "SAT11-RAND",
)
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason=f"no scenarios in {REAL}")

RUNTIME = {
    "description.txt": """\
scenario_id: crafted
performance_measures: runtime
performance_type: [runtime]
maximize: 'false'
algorithm_cutoff_time: '100'
algorithm_cutoff_memory: '?'
""",
    "algorithm_runs.arff": """\
% of two algorithms on four instances
@RELATION runs

@ATTRIBUTE instance_id STRING
@ATTRIBUTE repetition NUMERIC
@ATTRIBUTE algorithm STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok, timeout, memout, not_applicable, crash, other}

@DATA,
'a, the first',1,quick,10,ok
'a, the first',2,quick,100,timeout
'a, the first',1,steady,20,ok
'a, the first',2,steady,40,ok
b,1,quick,3,memout
b,1,steady,50,ok
c,1,quick,1,ok
c,1,steady,1,ok
d,1,quick,100.7,timeout
d,1,steady,?,crash
""",
    "feature_values.arff": """\
@relation features
@attribute instance_id string
@attribute repetition numeric
@attribute x numeric
@attribute "the y" numeric
@data
b, 1, ?, -4
'a, the first', 1, 1, 0.5
'a, the first', 2, 3, 0.5
c, 1, ?, ?
d, 1, 1e3, ?
""",
    "feature_runstatus.arff": """\
@relation status
@attribute instance_id string
@attribute repetition numeric
@attribute first {ok, presolved, other}
@attribute second {ok, presolved, other}
@data
'a, the first',1,ok,ok
'a, the first',2,ok,ok
b,1,other,ok
c,1,ok,presolved
d,1,ok,other
""",
    "feature_costs.arff": """\
@relation costs
@attribute instance_id string
@attribute repetition numeric
@attribute first numeric
@attribute second numeric
@data
'a, the first',1,0.5,1
'a, the first',2,1.5,1
b,1,?,0.25
c,1,0,0
d,1,?,?
""",
    "cv.arff": """\
@relation folds
@attribute instance_id string
@attribute repetition numeric
@attribute fold numeric
@data
'a, the first',1,2
b,1,1
c,1,1
d,1,2
'a, the first',2,1
b,2,1
c,2,2
d,2,2
""",
}
LOSSES = {"a, the first": [505.0, 30.0], "b": [1000.0, 50.0], "d": [1000.0, 1000.0]}  # quick, steady

QUALITY = RUNTIME | {
    "description.txt": """\
scenario_id: [crafted quality]
performance_measures: [accuracy, runtime]
performance_type: [solution_quality, runtime]
maximize: [true, false]
algorithm_cutoff_time: '?'
""",
    "algorithm_runs.arff": """\
@relation runs
@attribute instance_id string
@attribute repetition numeric
@attribute algorithm string
@attribute accuracy numeric
@attribute runstatus {ok, crash}
@data
'a, the first',1,quick,0.25,ok
'a, the first',2,quick,0.75,ok
'a, the first',1,steady,0.875,ok
b,1,quick,-1,ok
b,1,steady,0.5,ok
d,1,quick,0,ok
d,1,steady,0,ok
""",
}


def write_scenario(
    folder: Path, files: Mapping[str, str] = RUNTIME, changes: Mapping[str, str] = MappingProxyType({})
) -> Path:
    """Write `files` to `folder`; `changes` are by file stem, and an empty text leaves the file out."""
    folder.mkdir()
    for name, text in files.items():
        content = changes.get(name.partition(".")[0], text)
        if content:
            (folder / name).write_text(content, encoding="utf-8")
    return folder


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / ROWS_NAME).read_text(encoding="utf-8").splitlines()
    return {row["row_id"]: row for row in map(json.loads, lines)}


def test_a_runtime_scenario_becomes_rows(tmp_path: Path) -> None:
    written = convert_scenario(write_scenario(tmp_path / "crafted"), tmp_path / "rows")
    assert written == ScenarioRows("crafted", tmp_path / "rows", 3, 2, 2, 2, presolved=1, unsolved=1)
    assert written.to_json()["output"] == str(tmp_path / "rows")
    rows = rows_of(tmp_path / "rows")
    assert list(rows) == ["a, the first", "b", "d"]
    assert {name: row["losses"] for name, row in rows.items()} == LOSSES
    assert rows["a, the first"]["advantages"] == [-237.5, 237.5]
    assert [row["features"] for row in rows.values()] == [[2.0, 0.5], [None, -4.0], [1000.0, None]]
    assert [row["scene_id"] for row in rows.values()] == ["fold-2", "fold-1", "fold-2"]
    assert [row["control_input"]["feature_cost"] for row in rows.values()] == [2.0, 0.25, 0.0]
    assert all(row["actions"] == ["quick", "steady"] for row in rows.values())


def test_the_rows_are_a_data_set_that_declares_its_profile(tmp_path: Path) -> None:
    convert_scenario(write_scenario(tmp_path / "crafted"), tmp_path / "rows")
    dataset = load_teacher_dataset([tmp_path / "rows"])
    assert dataset.profile.name == "aslib.crafted"
    assert dataset.profile.catalogue.ids == ("quick", "steady")
    assert dataset.profile.features.names == ("x", "the y")
    assert dataset.profile.features.nullable == ("x", "the y")
    assert dataset.binding == {"scenario_id": "crafted", "loss": "PAR10"}
    np.testing.assert_array_equal(dataset.features, [[2.0, 0.5], [np.nan, -4.0], [1000.0, np.nan]])
    assert {row.row_id: list(row.losses) for row in load_teacher_rows([tmp_path / "rows"])} == LOSSES
    assert inspect_rows([tmp_path / "rows"]).advantages.rows == 0


def test_the_metadata_says_which_files_the_rows_came_from(tmp_path: Path) -> None:
    families = tmp_path / "families.csv"
    families.write_text('instance_id,family\n\'a,x\n"a, the first",f\nb,f\nd,g\n', encoding="utf-8")
    folder = write_scenario(tmp_path / "crafted")
    convert_scenario(folder, tmp_path / "rows", families=families)
    metadata = json.loads((tmp_path / "rows" / METADATA_NAME).read_text(encoding="utf-8"))
    assert set(metadata["binding"]["source_hashes"]) == {*FILES, "feature_costs.arff", "families.csv"}


def test_quality_is_negated_where_more_is_better(tmp_path: Path) -> None:
    folder = write_scenario(tmp_path / "crafted", QUALITY)
    written = convert_scenario(folder, tmp_path / "rows")
    assert (written.scenario_id, written.unsolved) == ("crafted quality", 0)
    losses = {name: row["losses"] for name, row in rows_of(tmp_path / "rows").items()}
    assert losses == {"a, the first": [-0.5, -0.875], "b": [1.0, -0.5], "d": [0.0, 0.0]}
    assert load_teacher_dataset([tmp_path / "rows"]).binding["loss"] == "-accuracy"


def test_quality_of_which_less_is_better_is_the_loss(tmp_path: Path) -> None:
    text = QUALITY["description.txt"].replace("[true, false]", "no")
    convert_scenario(write_scenario(tmp_path / "crafted", QUALITY, {"description": text}), tmp_path / "rows")
    assert rows_of(tmp_path / "rows")["b"]["losses"] == [-1.0, 0.5]


def test_targets_on_a_logarithmic_scale(tmp_path: Path) -> None:
    convert_scenario(write_scenario(tmp_path / "crafted"), tmp_path / "rows", log_scale=True)
    row = rows_of(tmp_path / "rows")["b"]
    assert row["losses"] == pytest.approx([math.log(1001), math.log(51)])
    assert row["advantages"] == pytest.approx([-math.log(1001 / 51) / 2, math.log(1001 / 51) / 2])
    assert load_teacher_dataset([tmp_path / "rows"]).binding["loss"] == "ln(1 + PAR10)"
    with pytest.raises(InvalidInputError, match="log_scale: expected a scenario of runtimes"):
        convert_scenario(write_scenario(tmp_path / "q", QUALITY), tmp_path / "q-rows", log_scale=True)
    assert not (tmp_path / "q-rows").exists()


def test_scenes_are_families_where_a_file_gives_them(tmp_path: Path) -> None:
    families = tmp_path / "families.csv"
    families.write_text(
        'scenario,instance_id,family\nother,b,wrong\ncrafted,"a, the first",f\ncrafted,b,f\ncrafted,d,g\n',
        encoding="utf-8",
    )
    written = convert_scenario(write_scenario(tmp_path / "crafted"), tmp_path / "rows", families=families)
    assert written.scenes == 2
    assert [row["scene_id"] for row in rows_of(tmp_path / "rows").values()] == ["f", "f", "g"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instance_id,family\nb,f\nd,\n", "missing 2: a, the first, d"),
        ("instance,group\nb,f\n", "expected the columns instance_id and family, got ['instance', 'group']"),
        ("", "expected the columns instance_id and family, got []"),
        ("\udcff", "expected a CSV file in UTF-8"),
    ],
)
def test_a_family_file_must_name_every_instance(tmp_path: Path, text: str, message: str) -> None:
    families = tmp_path / "families.csv"
    families.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InvalidInputError) as caught:
        convert_scenario(write_scenario(tmp_path / "crafted"), tmp_path / "rows", families=families)
    assert message in str(caught.value)
    assert not (tmp_path / "rows").exists()


def without(name: str, line: str) -> dict[str, str]:
    """The change that leaves `line` out of the file whose stem is `name`."""
    text = RUNTIME[f"{name}.arff"]
    assert line in text
    return {name: text.replace(line, "")}


@pytest.mark.parametrize(
    ("changes", "where", "message"),
    [
        (without("algorithm_runs", "b,1,steady,50,ok\n"), "runs.arff", "missing 1 runs: steady on b"),
        (without("feature_values", "b, 1, ?, -4\n"), "values.arff", "missing 1 instances: b"),
        (without("feature_costs", "b,1,?,0.25\n"), "costs.arff", "missing 1 instances: b"),
        (without("cv", "b,1,1\n"), "cv.arff", "missing 1 folds: b"),
        ({"feature_values": "", "cv": ""}, "crafted", "missing ['feature_values.arff', 'cv.arff']"),
    ],
)
def test_an_incomplete_scenario_is_refused_with_what_is_missing(
    tmp_path: Path, changes: dict[str, str], where: str, message: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        convert_scenario(write_scenario(tmp_path / "crafted", changes=changes), tmp_path / "rows")
    assert caught.value.where is not None
    assert caught.value.where.endswith(where)
    assert message in str(caught.value)
    assert not (tmp_path / "rows").exists()


def test_a_quality_that_no_run_reached_is_missing(tmp_path: Path) -> None:
    text = QUALITY["algorithm_runs.arff"].replace("b,1,quick,-1,ok", "b,1,quick,-1,crash")
    with pytest.raises(InvalidInputError, match=r"missing 1 accuracy of runs .*: quick on b \(crash\)"):
        read_scenario(write_scenario(tmp_path / "crafted", QUALITY, {"algorithm_runs": text}))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("algorithm_runs", "b,1,quick,3,memout", "b,1,steady,3,memout", "each run once, got"),
        ("algorithm_runs", "20,ok", "?,ok", "expected a number for a run that is ok, got ?"),
        ("algorithm_runs", "20,ok", "soon,ok", "runtime: expected a finite number or ?, got 'soon'"),
        ("algorithm_runs", "20,ok", "1e999,ok", "runtime: expected a finite number or ?, got '1e999'"),
        ("algorithm_runs", "20,ok", "20", "expected 5 cells, got 4"),
        ("algorithm_runs", "b,1,steady,50,ok", "b,1,?,50,ok", "algorithm: expected a value, got none"),
        ("algorithm_runs", "b,1,steady,50,ok", "'b,1,steady,50,ok", "expected cells with commas"),
        ("algorithm_runs", "b,1,steady,50,ok", "{0 b, 4 ok}", "expected cells with commas"),
        ("algorithm_runs", "@ATTRIBUTE runtime", "@ATTRIBUTE seconds", "expected an attribute runtime, got"),
        ("algorithm_runs", "runtime NUMERIC", "runtime DATE", "expected @attribute with a name and"),
        ("algorithm_runs", "@ATTRIBUTE runtime", "@ATTRIBUTE algorithm", "expected distinct attributes"),
        ("algorithm_runs", "@DATA,", "", "expected @attribute with a name and"),
        ("cv", "b,1,1", "b,1,1.5", "fold: expected an integer, got '1.5'"),
        ("feature_values", "@attribute x numeric\n", "", "expected 3 cells, got 4"),
        ("feature_values", "b, 1, ?, -4", "b, 1, 1e39, -4", "features[0]"),
    ],
)
def test_malformed_tables_are_refused(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    text = RUNTIME[f"{name}.arff"]
    assert old in text
    folder = write_scenario(tmp_path / "crafted", changes={name: text.replace(old, new)})
    with pytest.raises(InvalidInputError) as caught:
        convert_scenario(folder, tmp_path / "rows")
    assert message in str(caught.value)
    assert str(folder) in str(caught.value)
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scenario_id: [", "expected YAML in UTF-8"),
        ("- a list", "expected a mapping"),
        (RUNTIME["description.txt"].replace("performance_type: [runtime]\n", ""), "performance_type"),
        (RUNTIME["description.txt"].replace("[runtime]", "speed"), "expected one of ['runtime',"),
        (RUNTIME["description.txt"].replace("'false'", "maybe"), "maximize: expected true or false"),
        (RUNTIME["description.txt"].replace("'false'", "[true]"), "expected maximize false"),
        (RUNTIME["description.txt"].replace("'100'", "'?'"), "algorithm_cutoff_time above 0"),
        (RUNTIME["description.txt"].replace("'100'", "-1"), "algorithm_cutoff_time: expected a number"),
        (RUNTIME["description.txt"].replace("'100'", "true"), "algorithm_cutoff_time: expected a number"),
    ],
)
def test_descriptions_that_do_not_say_enough_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "description.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError) as caught:
        read_description(path)
    assert message in str(caught.value)


def test_an_output_that_is_there_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / METADATA_NAME).write_text("{}", encoding="utf-8")
    with pytest.raises(OutputExistsError):
        convert_scenario(tmp_path / "no such scenario", tmp_path / "rows")
    assert not (tmp_path / "rows" / ROWS_NAME).exists()


def test_a_scenario_of_presolved_instances_leaves_nothing_to_choose(tmp_path: Path) -> None:
    text = RUNTIME["feature_runstatus.arff"].replace(",ok", ",presolved").replace("other", "presolved")
    with pytest.raises(InvalidInputError, match="expected an instance that is not presolved"):
        read_scenario(write_scenario(tmp_path / "crafted", changes={"feature_runstatus": text}))


def test_cells_with_quotes_commas_and_escapes(tmp_path: Path) -> None:
    path = tmp_path / "t.arff"
    path.write_text("@attribute 'it''s' string\n@data\nx\n", encoding="utf-8")
    with pytest.raises(InvalidInputError):
        read_arff(path)  # a quote within quotes is escaped by a backslash
    path.write_text(
        "@attribute 'it\\'s' string\n@attribute n real\n@attribute last {a, 'b c'}\n@data\n"
        "\"x, 'y'\",1,'b c'\n\n% note\n  o'clock ,\t? , a\nz,,\n",
        encoding="utf-8",
    )
    table = read_arff(path)
    assert table.columns == ("it's", "n", "last")
    assert [cells for _, cells in table.rows] == [
        ("x, 'y'", "1", "b c"),
        ("o'clock", None, "a"),
        ("z", "", ""),
    ]
    assert [line for line, _ in table.rows] == [5, 8, 9]
    assert table.column("IT'S")[1].where == f"{path}:8"


@needs_real_data
@pytest.mark.parametrize("name", SCENARIOS)
def test_real_scenarios_come_to_the_figures_of_their_summary(tmp_path: Path, name: str) -> None:
    with (REAL / "summary.csv").open(encoding="utf-8", newline="") as file:
        known = next(row for row in csv.DictReader(file) if row["scenario"] == name)
    written = convert_scenario(REAL / name, tmp_path / "rows")
    assert written.rows + written.presolved == int(known["n_inst"])
    assert written.presolved == int(known["presolved_inst"])
    assert written.unsolved == int(known["never_solved"])
    assert written.actions == int(known["n_algo"])
    assert written.features == int(known["n_feat"])
    assert written.scenes == int(known["cv_folds"])
    losses = load_teacher_dataset([tmp_path / "rows"]).losses
    assert losses.shape == (written.rows, written.actions)
    if not written.presolved:  # the summary's figures are over all instances
        assert losses.mean(axis=0).min() == pytest.approx(float(known["SBS"]), rel=1e-4)
        assert losses.min(axis=1).mean() == pytest.approx(float(known["VBS"]), rel=1e-4)


@needs_real_data
def test_real_families_keep_instances_of_a_kind_together(tmp_path: Path) -> None:
    written = convert_scenario(REAL / "CPMP-2015", tmp_path / "rows", families=REAL / "families.csv")
    with (REAL / "families.csv").open(encoding="utf-8", newline="") as file:
        known = {
            row["instance_id"]: row["family"]
            for row in csv.DictReader(file)
            if row["scenario"] == "CPMP-2015"
        }
    assert {name: row["scene_id"] for name, row in rows_of(tmp_path / "rows").items()} == known
    assert written.scenes == len(set(known.values()))
