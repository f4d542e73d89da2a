"""The page and pictures of a fit."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from steersman.errors import OutputExistsError
from steersman.usecases.load_policy import load_policy
from tests.support.teaching import draw_rows

pytest.importorskip("torch")

from steersman.usecases.fit import fit_policy
from tests.usecases.test_fit import QUICK, hopeless, request


def test_the_report_is_a_page_of_its_own_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "reports" / "first"
    fit_policy(request(tmp_path, folds=3, pareto=True, report=folder))
    pictures = {"confusion", "loss", "pareto", "predictions", "regret", "scenes"}
    assert {entry.name for entry in folder.iterdir()} == {"report.html"} | {
        f"{name}.png" for name in pictures
    }
    for name in pictures:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(pictures)
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    assert "Over 3 folds of 12 scenes" in page


def test_a_report_tells_which_data_and_checkpoint_it_is_of(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    settings = replace(QUICK, learner="auto", trees=12)
    asked = request(tmp_path, settings=settings, cost_weight=0.25, report=tmp_path / "report")
    made = load_policy(fit_policy(asked).output).provenance
    page = (tmp_path / "report" / "report.html").read_text()
    for told in (
        str(asked.output),
        made["teacher_dataset_hash"],
        made["teacher_source_hashes"]["rows.jsonl"],
        "model-1",
        '{"samples":16}',
        f"steersman {made['versions']['steersman']}",
        "What was compared",
    ):
        assert html.escape(told) in page, told
    assert page.count('<td class="n">mixed</td>') >= sum(
        trial["settings"]["loss"] == "mixed" for trial in made["trials"]
    )
    learner = made["hyper_parameters"]["learner"]
    rows = re.findall(r"<td class=\"\">([a-z ]+)</td><td class=\"n\">([^<]*)</td></tr>", page)
    assert ("cost weight", "0.25") in rows
    assert any(name == "epochs" for name, _ in rows) == (learner == "mlp")
    assert any(name == "trees" for name, _ in rows) == (learner == "forest")


def test_a_report_without_held_out_scenes_says_so(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "report"
    report = fit_policy(request(tmp_path, validation_scene_ids=(), report=folder, fallback=True))
    assert report.evidence is None
    assert report.verdict.fell_back
    page = (folder / "report.html").read_text()
    assert "no evidence for or against" in page
    assert {entry.name for entry in folder.iterdir()} == {"report.html", "loss.png"}


def test_names_from_data_are_escaped_in_the_report(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row | {"scene_id": f"<script>{row['scene_id']}$\\bad$"} for row in draw_rows()]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    folder = tmp_path / "report"
    fit_policy(request(tmp_path, teacher=(tmp_path / "odd",), report=folder))
    assert "<script" not in (folder / "report.html").read_text()


def test_the_page_of_a_fallback_shows_both(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    asked = request(tmp_path, teacher=(hopeless(tmp_path / "hopeless"),), fallback=True)
    report = fit_policy(replace(asked, report=tmp_path / "report"))
    page = (tmp_path / "report" / "report.html").read_text()
    (line,) = [row for row in page.split("<tr") if '<td class="">held-out regret</td>' in row]
    figures = [float(cell) for cell in re.findall(r"<td class=\"n\">([0-9.]+)</td>", line)]
    assert figures == pytest.approx(
        [report.metrics["heldout_regret"], report.result.metrics["heldout_regret"]], rel=1e-3
    )
    assert "All that follows shows the fit, which is not what was written." in page


def test_a_report_folder_with_something_in_it_is_refused_before_any_work(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    with pytest.raises(OutputExistsError, match="not an empty folder"):
        fit_policy(request(tmp_path, teacher=(tmp_path / "missing",), report=folder))
    assert [entry.name for entry in folder.iterdir()] == ["kept"]


def test_an_empty_report_folder_is_filled_and_a_link_to_one_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder, link = tmp_path / "report", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    asked = request(tmp_path, report=link)
    with pytest.raises(OutputExistsError):
        fit_policy(asked)
    assert not asked.output.exists()
    fit_policy(replace(asked, report=folder))
    assert (folder / "report.html").exists()
    assert not (tmp_path / "report.part").exists()
