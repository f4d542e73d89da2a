"""How decisions, rewards, episodes and explanations look."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from steersman.console.grid import facts, grid
from steersman.console.words import count, moment, number, yes_no
from steersman.domain.answers import Episode, EpisodeDetail, Expired, Explanation
from steersman.domain.records import ClosedEpisode, Decision, Reward
from steersman.domain.settings import TenantSpec

__all__ = [
    "closed_sentence",
    "decision_facts",
    "decisions_table",
    "episode_parts",
    "episodes_table",
    "expired_table",
    "explanation_parts",
    "reward_sentence",
]

_EFFECTS = {
    "learned": "learned from",
    "waits": "waits for what comes next in its episode",
    "further": "added to what was learned",
    "parked": "learned in an older version, where the action or state still is",
}


def decision_facts(decision: Decision, spec: TenantSpec) -> Table:
    """Return one decision."""
    pairs = {
        "decision": decision.decision_id,
        "action": _labelled(decision.action, spec),
        "probability": number(decision.propensity),
        "explored": yes_no(decision.explored),
        "version": str(decision.version),
    }
    if decision.episode is not None:
        pairs["episode"] = f"{decision.episode}, step {decision.step}"
    return facts(decision.tenant, pairs)


def reward_sentence(reward: Reward) -> str:
    """Return what became of a reward."""
    return f"{reward.decision_id}: {number(reward.value)} {_EFFECTS[reward.effect]}"


def closed_sentence(closed: ClosedEpisode) -> str:
    """Return what became of an episode."""
    outcome = "without an outcome" if closed.outcome is None else f"with {number(closed.outcome)}"
    learned = f"{closed.learned} learned from now"
    return f"{closed.episode}: closed {outcome}; {count(closed.decisions, 'decision')}, {learned}"


def expired_table(expired: Sequence[Expired]) -> Table:
    """Return what was settled for each tenant."""
    rows = [(item.tenant, f"{item.decisions:,}", f"{item.episodes:,}") for item in expired]
    columns = ["tenant", "decisions", "episodes"]
    return grid("Settled with the default reward", columns, rows, numbers=columns[1:])


def decisions_table(decisions: Sequence[Decision], spec: TenantSpec) -> Table:
    """Return a table of decisions."""
    rows = [
        (
            decision.decision_id,
            moment(decision.created_at),
            spec.states.describe(decision.state)
            if decision.state < spec.states.size
            else str(decision.state),
            _labelled(decision.action, spec),
            number(decision.propensity),
            decision.status,
            "-" if decision.episode is None else f"{decision.episode}:{decision.step}",
            "-" if decision.metadata is None else json.dumps(dict(decision.metadata), ensure_ascii=False),
        )
        for decision in decisions
    ]
    columns = ["decision", "when (UTC)", "state", "action", "probability", "status", "episode", "metadata"]
    return grid(count(len(rows), "decision"), columns, rows, numbers=["probability"])


def episodes_table(episodes: Sequence[Episode]) -> Table:
    """Return a table of episodes."""
    rows = [
        (
            episode.episode,
            episode.status,
            str(episode.steps),
            number(episode.closed.outcome) if episode.closed is not None else "-",
            moment(episode.opened_at),
            moment(episode.touched_at),
        )
        for episode in episodes
    ]
    columns = ["episode", "status", "decisions", "outcome", "opened (UTC)", "last touched (UTC)"]
    return grid(count(len(rows), "episode"), columns, rows, numbers=["decisions", "outcome"])


def _labelled(action: str, spec: TenantSpec) -> str:
    label = spec.label_of(action)
    return action if label == action else f"{label} ({action})"


def episode_parts(detail: EpisodeDetail, spec: TenantSpec) -> list[RenderableType]:
    """Return one episode and its decisions."""
    return [episodes_table([detail.episode]), decisions_table(detail.decisions, spec)]


def explanation_parts(explanation: Explanation) -> list[RenderableType]:
    """Return why a decision was made: the row as seen, the draw, what came of it."""
    decision = explanation.decision
    meaning = ", ".join(f"{name}={value}" for name, value in explanation.meaning.items())
    how = (
        f"epsilon {number(decision.epsilon)}, c {number(decision.c)}"
        if decision.explore
        else "no exploration"
    )
    pairs = {
        "state": meaning or str(decision.state),
        "version": str(decision.version),
        "played": how,
        "draw": f"{explanation.draw:.6f} of the summed probabilities, in this order",
        "status": decision.status,
        "made (UTC)": moment(decision.created_at),
    }
    columns = ["action", "q", "visits", "borrowed", "bonus", "greedy", "probability", "up to", ""]
    table = grid(
        "The row as seen", columns, _explained_rows(explanation), numbers=columns[1:5] + columns[6:8]
    )
    return [facts(f"{decision.tenant}: {decision.decision_id}", pairs), table, *_consequences(explanation)]


def _explained_rows(explanation: Explanation) -> list[list[str | Text]]:
    rows: list[list[str | Text]] = []
    total = 0.0
    for item in explanation.actions:
        if item.probability is None:
            blank = [""] * 7
            rows.append([item.label, *blank, f"not feasible{f': {item.reason}' if item.reason else ''}"])
            continue
        total += item.probability
        bonus = "-" if item.bonus is None else number(item.bonus)
        numbers = [number(item.q), f"{item.visits:,}", number(item.borrowed), bonus]
        mark = Text("chosen" if item.chosen else "", style="bold")
        rows.append(
            [item.label, *numbers, yes_no(item.greedy), number(item.probability), f"{total:.6f}", mark]
        )
    return rows


def _consequences(explanation: Explanation) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if explanation.rewards:
        rows = [
            (item.reward_id, number(item.value), item.kind, item.effect, moment(item.created_at))
            for item in explanation.rewards
        ]
        parts.append(
            grid("Rewards", ["reward", "value", "kind", "effect", "when (UTC)"], rows, numbers=["value"])
        )
    if explanation.steps:
        steps = [
            (
                f"{step.key.version}/{step.key.state}/{step.key.action}",
                str(step.number),
                step.kind,
                number(step.reward),
                number(step.bootstrap),
                number(step.target),
                number(step.step_size),
            )
            for step in explanation.steps
        ]
        columns = [
            "cell (version/state/action)",
            "step",
            "kind",
            "reward",
            "bootstrap",
            "target",
            "step size",
        ]
        parts.append(grid("Learned", columns, steps, numbers=columns[3:]))
    return parts
