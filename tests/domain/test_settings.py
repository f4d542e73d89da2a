from __future__ import annotations

import math
from typing import Any

import pytest

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.settings import PolicySettings, Prior, TenantSpec
from steersman.domain.states import StateSpace
from steersman.errors import InvalidInputError, InvalidSpecError

SMALL = {"actions": ["a", "b"], "states": 2}
FULL = {
    "actions": [{"id": "7", "label": "Hold firm"}, {"id": "trade", "label": "Trade"}],
    "states": {"factors": [{"name": "gap", "edges": [0.1, 0.5], "before": "<0.1"}]},
    "learning": {"alpha": 0.25, "gamma": 0.9, "lambda": 0.5},
    "exploration": {"c": 0.5, "epsilon": 0.2},
    "reward_range": [-5.0, 5.0],
    "priors": {"trade": {"q": 0.75, "weight": 3.0}},
    "base": "camping",
    "contributes": True,
    "borrow_cap": 10.0,
    "reward_wait": 3600.0,
    "default_reward": -5.0,
}


def test_what_is_not_said_has_its_default() -> None:
    spec = TenantSpec.from_json(SMALL)
    assert spec.actions.ids == spec.labels == ("a", "b")
    assert len(spec.states) == 2
    settings = spec.settings
    assert (settings.alpha, settings.gamma, settings.lam) == (None, 1.0, 0.0)
    assert (settings.c, settings.epsilon) == (math.sqrt(2.0), 0.1)
    assert (settings.reward_low, settings.reward_high, settings.width) == (0.0, 1.0, 1.0)
    assert settings.priors == ()
    assert (spec.base, spec.contributes, spec.borrow_cap) == (None, False, 20.0)
    assert (spec.reward_wait, spec.default_reward) == (None, None)


def test_everything_can_be_said_and_comes_back() -> None:
    spec = TenantSpec.from_json(FULL)
    assert spec.to_json() == FULL
    assert TenantSpec.from_json(spec.to_json()) == spec
    assert spec.settings.width == 10.0
    assert spec.settings.prior_of == {"trade": Prior(0.75, 3.0)}
    assert spec.label_of("7") == "Hold firm"
    assert spec.label_of("gone") == "gone"


def test_one_over_n_is_spelled_out() -> None:
    body = TenantSpec.from_json(SMALL).to_json()
    assert body["learning"]["alpha"] == "1/n"
    assert PolicySettings.from_json(body).alpha is None


@pytest.mark.parametrize(
    "actions", [["7", "trade"], [7, "trade"], {"7": "7", "trade": "trade"}, [{"id": 7}, {"id": "trade"}]]
)
def test_actions_may_be_said_in_three_ways(actions: Any) -> None:
    spec = TenantSpec.from_json({"actions": actions, "states": 1})
    assert spec.actions == ActionCatalogue.of(["7", "trade"])
    assert spec.labels == ("7", "trade")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"actions": "ab"}, "actions: expected a list"),
        ({"actions": 3}, "actions: expected a list"),
        ({"actions": [{"label": "x"}]}, r"actions\[0\]: expected id and label"),
        ({"actions": [{"id": "a", "colour": "red"}]}, r"actions\[0\]: expected id and label"),
        ({"actions": []}, "expected 1 to 10000 action ids"),
        ({"states": "many"}, "states: expected"),
        ({"learning": 1}, "learning: expected a mapping"),
        ({"learning": {"beta": 1}}, r"learning: unexpected \['beta'\]"),
        ({"exploration": {"gamma": 1}}, r"exploration: unexpected \['gamma'\]"),
        ({"learning": {"alpha": 0}}, "alpha: expected above 0 to 1, got 0"),
        ({"learning": {"alpha": 1.5}}, "alpha: expected above 0 to 1, got 1.5"),
        ({"learning": {"gamma": 1.01}}, "gamma: expected 0 to 1"),
        ({"learning": {"gamma": -0.1}}, "gamma: expected 0 to 1"),
        ({"learning": {"lambda": 2}}, "lambda: expected 0 to 1"),
        ({"exploration": {"c": -1}}, "c: expected 0 to"),
        ({"exploration": {"epsilon": 1.5}}, "epsilon: expected 0 to 1"),
        ({"reward_range": [1, 1]}, r"reward_range: expected \[low, high\] with low < high"),
        ({"reward_range": [2, 1]}, "low < high"),
        ({"reward_range": [-1.7e308, 1.7e308]}, "reward_range"),  # a width beyond every double
        ({"reward_range": [1]}, r"reward_range: expected \[low, high\]"),
        ({"reward_range": "01"}, r"reward_range: expected \[low, high\]"),
        ({"priors": {"a": 1}}, r"priors\.a: expected q and weight"),
        ({"priors": {"a": {"q": 1}}}, r"priors\.a: expected q and weight"),
        ({"priors": {"a": {"q": 1, "weight": -1}}}, r"priors\.a\.weight: expected 0, or"),
        ({"priors": {"c": {"q": 1, "weight": 1}}}, r"priors: expected ids of the catalogue, got \['c'\]"),
        ({"contributes": 1}, "contributes: expected true or false"),
        ({"contributes": True}, "contributes: expected a base to contribute to"),
        ({"borrow_cap": -1}, "borrow_cap: expected 0, or"),
        ({"reward_wait": 5}, "reward_wait and default_reward: expected both or neither"),
        ({"default_reward": 0.5}, "reward_wait and default_reward: expected both or neither"),
        ({"reward_wait": -1, "default_reward": 0}, "reward_wait: expected 0 to 1e"),
        (
            {"reward_wait": 1, "default_reward": 2},
            "default_reward: expected 0.0 to 1.0, the reward range; got 2",
        ),
        ({"colour": "red"}, r"missing \[\], unexpected \['colour'\]"),
    ],
)
def test_a_bad_part_is_refused_by_name(part: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        TenantSpec.from_json(SMALL | part)


@pytest.mark.parametrize("body", [[], "acme", None, 1])
def test_what_is_no_mapping_is_refused(body: Any) -> None:
    with pytest.raises(InvalidSpecError, match="expected a mapping with"):
        TenantSpec.from_json(body)


@pytest.mark.parametrize("body", [{}, {"actions": ["a"]}, {"states": 1}])
def test_actions_and_states_are_required(body: Any) -> None:
    with pytest.raises(InvalidSpecError, match="missing"):
        TenantSpec.from_json(body)


@pytest.mark.parametrize(
    "part",
    [
        {"learning": {"gamma": math.nan}},
        {"learning": {"alpha": "0.1"}},
        {"learning": {"lambda": True}},
        {"exploration": {"c": math.inf}},
        {"reward_range": [0, math.inf]},
        {"priors": {"a": {"q": math.nan, "weight": 1}}},
        {"borrow_cap": math.inf},
        {"reward_wait": math.nan, "default_reward": 0},
        {"base": "@camping"},
    ],
)
def test_numbers_are_finite_and_names_are_names(part: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError):
        TenantSpec.from_json(SMALL | part)


@pytest.mark.parametrize("label", ["x" * 201, "x\ny", "\ud800"])
def test_labels_are_texts_for_people(label: str) -> None:
    with pytest.raises(InvalidInputError, match=r"actions\[0\]\.label: expected a text of at most 200"):
        TenantSpec.from_json({"actions": [{"id": "a", "label": label}], "states": 1})


def test_a_label_for_each_action() -> None:
    with pytest.raises(InvalidSpecError, match="labels: expected 2, got 1"):
        TenantSpec(ActionCatalogue.of(["a", "b"]), ("a",), StateSpace.plain(1))
