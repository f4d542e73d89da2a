"""The arithmetic of acting and learning: pure functions on small sequences.

A row holds the cells of the F feasible actions of one state. Rows are short (a catalogue has tens of actions)
and come from a database as Python numbers, so plain loops are faster here than array calls, and they give the
same bits for one row as for many. Sums use `math.fsum`, which is exactly rounded on every version of Python:
what was logged must be recomputable elsewhere to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import fsum, log, sqrt
from operator import add

__all__ = [
    "draw_from_mixture",
    "draw_uniform",
    "further_step_size",
    "greedy_by_ucb",
    "greedy_by_value",
    "is_maximal",
    "lambda_returns",
    "maximisers",
    "mixture",
    "one_step_target",
    "q_update",
    "step_size",
    "ucb_bonuses",
]


def maximisers(values: Sequence[float]) -> list[int]:
    """Return the positions of the largest of `values` ([F] float64), ascending."""
    best = max(values)
    if values.count(best) == 1:
        return [values.index(best)]
    return [index for index, value in enumerate(values) if value == best]


def is_maximal(q: Sequence[float], position: int) -> bool:
    """Return whether the value at `position` is a largest of `q` ([F] float64); ties count."""
    return q[position] >= max(q)


def ucb_bonuses(evidence: Sequence[float], scale: float) -> list[float]:
    """Return scale * sqrt(ln N / n) for each n of `evidence` ([F] float64, all > 0), N their sum.

    UCB1 (Auer, Cesa-Bianchi, Fischer 2002, figure 1) has scale sqrt(2) for rewards in [0, 1]; `scale` is
    c times the width of the reward range. Fractional evidence can sum to less than 1: ln N counts as 0 then.
    """
    log_total = _log_of(fsum(evidence))
    return [scale * sqrt(log_total / n) for n in evidence]


def _log_of(total: float) -> float:
    return log(total) if total > 1.0 else 0.0


def greedy_by_ucb(
    q: Sequence[float], visits: Sequence[int], borrowed: Sequence[float], scale: float
) -> list[int]:
    """Return the positions that UCB would play: all those without evidence, else all maximisers of the score.

    `q`, `visits`, `borrowed`: [F]; evidence is visits + borrowed, and the score is q plus the bonus.
    """
    if any(borrowed):
        evidence: Sequence[float] = list(map(add, visits, borrowed))
        log_total = _log_of(fsum(evidence))
    else:
        evidence = visits
        log_total = _log_of(float(sum(visits)))  # whole numbers add up exactly, in a fifth of the time
    try:
        return maximisers([value + scale * sqrt(log_total / n) for value, n in zip(q, evidence, strict=True)])
    except ZeroDivisionError:
        return [index for index, n in enumerate(evidence) if n == 0]


def greedy_by_value(q: Sequence[float], updates: Sequence[int], borrowed: Sequence[float]) -> list[int]:
    """Return the positions of the largest q among those with updates or borrowed evidence; all when none has.

    `q`, `updates`, `borrowed`: [F].
    """
    known = [index for index, count in enumerate(updates) if count or borrowed[index]]
    if not known:
        return list(range(len(q)))
    best = max([q[index] for index in known])
    return [index for index in known if q[index] == best]


def mixture(greedy: Sequence[int], size: int, epsilon: float) -> list[float]:
    """Return the probabilities of `size` actions: (1 - epsilon) shared by `greedy`, epsilon shared by all.

    Returns [F] float64.
    """
    share = epsilon / size
    probabilities = [share] * size
    top = (1.0 - epsilon) / len(greedy) + share
    for index in greedy:
        probabilities[index] = top
    return probabilities


def draw_from_mixture(greedy: Sequence[int], size: int, epsilon: float, u: float) -> int:
    """Return the position that `u` in [0, 1) falls on: the inverse of the cumulative `mixture`.

    The cumulative probability up to and with position i is (i + 1) * epsilon / size, plus (1 - epsilon) / G for
    each of the G greedy positions up to i; only the greedy ones need a look.
    """
    share = epsilon / size
    bonus = (1.0 - epsilon) / len(greedy)
    for rank, index in enumerate(greedy):
        before = index * share + rank * bonus
        if u < before:
            return min(index - 1, int((u - rank * bonus) / share))
        if u < (index + 1) * share + (rank + 1) * bonus:
            return index
    # Rounding can leave the sum a hair below u; without exploration only a greedy action has any probability.
    last = greedy[-1]
    return last if share == 0.0 or last == size - 1 else min(size - 1, int((u - (1.0 - epsilon)) / share))


def draw_uniform(secret: bytes, decision_id: str) -> float:
    """Return a number in [0, 1) that depends on nothing but the tenant's secret and the decision's id.

    It is the top 53 bits of SHA-256(secret, NUL, id in UTF-8), over 2**53, so every draw can be replayed.
    """
    digest = hashlib.sha256(secret + b"\0" + decision_id.encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) * 2.0**-53


def step_size(alpha: float | None, borrowed: float, updates: int) -> float:
    """Return the step size of an update: `alpha`, or for None 1/n with n = borrowed + updates.

    `updates` counts this one. With 1/n, q is the mean of its targets and of `borrowed` times its opening value
    (Sutton and Barto 2018, section 2.4).
    """
    return alpha if alpha is not None else 1.0 / (borrowed + updates)


def further_step_size(alpha: float | None, borrowed: float, updates: int) -> float:
    """Return the step size of a further reward, which is no update of its own: `alpha`, or 1/n, n at least 1."""
    return alpha if alpha is not None else 1.0 / max(1.0, borrowed + updates)


def q_update(q: float, target: float, size: float) -> float:
    """Return q + size * (target - q) (Sutton and Barto 2018, equation 2.4)."""
    return q + size * (target - q)


def one_step_target(reward: float, gamma: float, bootstrap: float) -> float:
    """Return reward + gamma * bootstrap; with the successor's largest q this is Q-learning (Watkins 1989)."""
    return reward + gamma * bootstrap


def lambda_returns(
    rewards: Sequence[float],
    successor_values: Sequence[float],
    greedy: Sequence[bool],
    lam: float,
    gamma: float,
) -> list[tuple[float, float]]:
    """Return (bootstrap, return) of each step of a finished episode: Watkins's Q(lambda), forward view.

    rewards: [T] float64, the outcome in the last. successor_values: [T - 1] float64, the largest feasible q of
    the state after step t. greedy: [T] bool, whether the action of step t was maximal in the row it saw.
    G_t = r_t + gamma * b_t, with b_t = (1 - lam) * v_(t+1) + lam * G_(t+1) where step t + 1 was greedy, b_t =
    v_(t+1) where it was not, and 0 after the last (Sutton and Barto 2018, section 12.10).
    """
    results: list[tuple[float, float]] = []
    following = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        if t == len(rewards) - 1:
            bootstrap = 0.0
        elif greedy[t + 1]:
            bootstrap = (1.0 - lam) * successor_values[t] + lam * following
        else:
            bootstrap = successor_values[t]
        following = one_step_target(rewards[t], gamma, bootstrap)
        results.append((bootstrap, following))
    results.reverse()
    return results
