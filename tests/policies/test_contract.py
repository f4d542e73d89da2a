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
from tests.support import fitted

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


@pytest.mark.parametrize(("make", "observations"), CASES)
def test_the_policy_is_shown_without_what_it_learned(
    make: Callable[[], Policy],
    observations: list[Any],  # noqa: ARG001 - the form of a case
) -> None:
    policy = make()
    shown = repr(policy)
    assert shown.startswith(type(policy).__name__)
    assert "array" not in shown
    assert "StateRow" not in shown


def test_a_network_and_a_forest_are_shown_by_their_sizes() -> None:
    assert repr(fitted.mlp()) == (
        "ActionValuePolicy(actions=3, features=3, hidden_dim=5, activation='silu', inputs='plain', "
        "declared_work_units=41, epsilon=0.1)"
    )
    # Two trees whose leaves are at most two questions away and hold three values.
    assert repr(fitted.forest()) == (
        "ForestPolicy(actions=3, features=3, trees=2, mode='regression', declared_work_units=10, epsilon=0.1)"
    )
    assert fitted.ranking().order() == ("push", "hold", "yield")


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
