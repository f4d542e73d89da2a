"""The only table from the name of a kind to its class. A new policy is one file, and one line here."""

from __future__ import annotations

from steersman.policies.action_value import ActionValuePolicy
from steersman.policies.base import Policy
from steersman.policies.fixed import FixedActionPolicy, SeededRandomPolicy, ThresholdPolicy
from steersman.policies.forest import ForestPolicy
from steersman.policies.ranking import FixedRankingPolicy
from steersman.policies.tabular import UCBQTablePolicy

__all__ = ["POLICY_KINDS"]

POLICY_KINDS: dict[str, type[Policy]] = {
    UCBQTablePolicy.kind: UCBQTablePolicy,
    ActionValuePolicy.kind: ActionValuePolicy,
    ForestPolicy.kind: ForestPolicy,
    FixedRankingPolicy.kind: FixedRankingPolicy,
    FixedActionPolicy.kind: FixedActionPolicy,
    ThresholdPolicy.kind: ThresholdPolicy,
    SeededRandomPolicy.kind: SeededRandomPolicy,
}
