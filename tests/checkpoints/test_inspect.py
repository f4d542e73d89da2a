from __future__ import annotations

import json
from pathlib import Path

import pytest

from steersman.checkpoints.format import load_checkpoint, save_checkpoint
from steersman.checkpoints.inspect import checkpoint_facts, describe_checkpoint
from steersman.policies.fitted import FittedPolicy
from tests.support.fitted import BINDING, EVERY_KIND, PROBES, PROVENANCE, save


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_everything_but_the_numbers_of_tensors_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "policy.safetensors"
    sha256 = save(path, EVERY_KIND[kind]())
    facts = json.loads(json.dumps(checkpoint_facts(load_checkpoint(path)), allow_nan=False))
    assert facts["sha256"] == sha256
    assert facts["size_bytes"] == path.stat().st_size
    assert facts["policy"]["kind"] == EVERY_KIND[kind]().kind
    assert facts["catalogue"] == ["hold", "push", "yield"]
    assert facts["feature_schema"]["names"] == ["gap", "pace", "is_late"]
    assert facts["binding"] == BINDING
    assert facts["provenance"] == PROVENANCE
    assert facts["probe_rows"] == 2
    assert set(facts["tensors"]) == set(EVERY_KIND[kind]().tensors())


def judged(regret: float, name: str) -> dict[str, object]:
    return {"name": name, "regret": regret, "interval": {"low": 0.5, "high": 2.25}, "mean_cost": 0.0}


EVIDENCE = {
    "verdict": "better",
    "sentence": "That of the split.",
    "policy": judged(1.25, "policy"),
    "best_fixed": judged(1.5, "push"),
    "row_count": 48,
    "scene_count": 8,
    "fixed": [judged(9.0 - place, f"action-{place}") for place in range(6)],
}
TOLD = PROVENANCE | {
    "verdict": "better",
    "sentence": "It is better.",
    "evidence": EVIDENCE,
    "cross_validation": None,
    "fallback": False,
    "row_count": 240,
    "profile": "routing",
    "teacher_dataset_hash": "0" * 64,
    "training_scene_ids": [f"scene-{number:02d}" for number in range(32)],
    "validation_scene_ids": [f"held-{number}" for number in range(8)],
    "trials": [
        {"regret": 3.0, "settings": {"loss": "squared", "seed": 0}},
        {"regret": 2.0, "settings": {"loss": "rank", "seed": 0}},
    ],
    "versions": {"python": "3.11.7", "steersman": "0.1.0"},
}


def described(
    path: Path, policy: FittedPolicy, provenance: dict[str, object], *, whole: bool = False
) -> list[str]:
    save_checkpoint(path, policy, binding=BINDING, provenance=provenance, probe_features=PROBES)
    return describe_checkpoint(load_checkpoint(path), whole=whole).splitlines()


def test_six_lines_on_top_say_what_it_is_and_what_it_is_worth(tmp_path: Path) -> None:
    lines = described(tmp_path / "policy.safetensors", EVERY_KIND["ranking"](), TOLD)
    assert lines[: lines.index("")] == [
        "what: fixed_ranking of 3 actions and 3 features: plays push, else hold, else",
        "    yield",
        "verdict: It is better.",
        "held-out regret: 1.25, against 1.5 of always playing push (48 rows of 8 scenes)",
        "data: 240 rows, 32 scenes trained on and 8 held out, profile routing, data set",
        f"    {'0' * 64}",
        "made for: feature_schema_version tests.features.v1, model_content_hash model-1,",
        "    protocol (renderer plain, samples 16)",
        "written by: python 3.11.7, steersman 0.1.0",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "1.25, against 1.5 of always playing push (48 rows of 8 scenes)"),
        (
            {"fallback": True},
            "1.5, that of always playing push; 1.25 of the fit that gave way (48 rows of 8 scenes)",
        ),
        (
            {
                "cross_validation": {
                    "by_scene": EVIDENCE
                    | {"policy": judged(2.0, "policy"), "row_count": 240, "scene_count": 40}
                }
            },
            "2, against 1.5 of always playing push (by folds, 240 rows of 40 scenes)",
        ),
        ({"evidence": None}, "none, as no scene was held out"),
        ({"evidence": ["nonsense"]}, "not told, against not told of always playing not told"),
    ],
)
def test_the_regret_is_the_one_that_the_verdict_comes_from(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    lines = described(tmp_path / "policy.safetensors", EVERY_KIND["mlp"](), TOLD | changes)
    top = " ".join(" ".join(lines[: lines.index("")]).split())
    assert f"held-out regret: {said}" in top


def test_a_provenance_that_tells_nothing_is_called_so(tmp_path: Path) -> None:
    lines = described(tmp_path / "policy.safetensors", EVERY_KIND["mlp"](), PROVENANCE)
    assert "verdict: not told" in lines
    assert "written by: not told" in lines


def test_long_tables_are_shortened_unless_all_is_asked_for(tmp_path: Path) -> None:
    short = described(tmp_path / "short.safetensors", EVERY_KIND["mlp"](), TOLD)
    first = short.index(
        "    fixed 1: name action-5, regret 4"
    )  # least regret first, and what is the same left out
    assert short[first + 3 : first + 5] == [
        "    fixed 4: name action-2, regret 7",
        "    and 2 more: see --all",
    ]
    assert "  trials 1: regret 2, settings (loss rank)" in short
    assert "scene-07 and 24 more" in " ".join(short)
    whole = described(tmp_path / "whole.safetensors", EVERY_KIND["mlp"](), TOLD, whole=True)
    assert not [line for line in whole if "more" in line]
    last = whole.index("    fixed 6:")
    assert whole[last + 1 : last + 3] == ["      name: action-5", "      regret: 4"]
    assert "scene-31" in " ".join(whole)


def test_a_person_reads_all_of_it_in_lines(tmp_path: Path) -> None:
    lines = described(tmp_path / "policy.safetensors", EVERY_KIND["ranking"](), PROVENANCE, whole=True)
    assert "catalogue: hold, push, yield" in lines
    assert "  kind: fixed_ranking" in lines
    assert "  order: push, hold, yield" in lines
    assert "  protocol:" in lines
    assert "    samples: 16" in lines
    values = lines.index("  values:")
    assert lines[values + 1 : values + 5] == [
        "    dtype: float64",
        "    shape: 3",
        "    least: -1",
        "    most: 1",
    ]
    assert all(len(line) <= 80 for line in lines)
