"""Every kind of policy keeps the contract; a kind without an example here fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from steersman.policies.base import Policy
from steersman.policies.checks import check_policy
from steersman.policies.kinds import POLICY_KINDS
from tests.house.rules import ROOT
from tests.policies.examples import EXAMPLES

PAGE = ROOT / "docs" / "policies.md"

CASES = [
    pytest.param(make, observations, id=f"{kind} {index}")
    for kind, examples in EXAMPLES.items()
    for index, (make, observations) in enumerate(examples)
]
FOR_EVERY_POLICY = [
    "input_unchanged",
    "mask_respected",
    "probabilities_sum_to_one",
    "draw_falls_in_order",
    "frequencies_match",
    "draw_replays",
    "batch_equals_single",
    "save_load_equal",
]
FOR_POLICIES_THAT_COUNT = ["cold_start", "ties_fair", "spread_before_reward"]


def test_every_kind_has_an_example() -> None:
    assert set(EXAMPLES) == set(POLICY_KINDS)
    assert all(policy.kind == kind for kind, policy in POLICY_KINDS.items())


@pytest.mark.parametrize(("make", "observations"), CASES)
def test_the_policy_keeps_the_contract(make: Callable[[], Policy], observations: list[Any]) -> None:
    policy = make()
    counts = FOR_POLICIES_THAT_COUNT if policy.kind == "ucb_q_table" else []
    assert check_policy(policy, observations) == FOR_EVERY_POLICY + counts


# The page about policies


def test_every_kind_and_every_check_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = {line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")}
    assert headings == set(POLICY_KINDS)
    for check in FOR_EVERY_POLICY + FOR_POLICIES_THAT_COUNT:
        assert f"| `{check}` |" in page


@pytest.mark.parametrize(
    "code", re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
)
def test_the_code_on_the_page_runs(code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), {})
