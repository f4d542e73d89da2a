"""What companies learn about negotiating, over several seeds, held against what is expected of it.

Run with `python -m benchmarks.negotiation [seeds]`; the default is 8 seeds, from 0. The settings were chosen on other
seeds. Each seed is a tournament as the demo runs it, in a database of its own that is verified. Intervals are 95 %,
by Student's t over seeds. What a tenant draws follows from its secret, which is made anew in every run, so figures
differ a little from run to run.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import t as student

from benchmarks.support import Lines, machine, scratch
from steersman.integrations.negmas.results import (
    NewcomerResult,
    TournamentResult,
    fifth,
    negotiations_to_reach,
)
from steersman.integrations.negmas.tournament import Tournament, run_tournament
from steersman.library import Steersman

_SEEDS = 8
_WORST_LOSS = 0.01


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else _SEEDS
    with scratch() as folder:
        runs = [_run(folder, seed) for seed in range(seeds)]
    results = [result for result, _ in runs]
    title = f"Learning to negotiate, mean over {seeds} seeds ± half of the 95 % interval ({machine()})"
    lines = Lines(title, ["company", "what", "figure", "least", "most"])
    for index in range(len(results[0].companies)):
        _add_company(lines, results, index)
    gains = [statistics.fmean(company.gain for company in result.companies) for result in results]
    middle, half = _interval(gains)
    _add(lines, "all", "learned - best card", gains, aim="interval above 0", met=middle - half > 0.0)
    _add_newcomer(lines, [result.newcomer for result in results])
    differences = sum(count for _, count in runs)
    lines.add("all", "differences found", str(differences), "", "", aim="none", met=differences == 0)
    lines.print()
    return int(bool(lines.missed))


def _run(folder: Path, seed: int) -> tuple[TournamentResult, int]:
    path = str(folder / f"seed-{seed}.db")
    result = run_tournament(Tournament(path, seed=seed))
    with Steersman.open(path) as library:
        count = library.verify().count
    shown = ", ".join(f"{company.name} {company.gain:+.3f}" for company in result.companies)
    print(f"seed {seed}: learned - best card: {shown}; {count} differences", file=sys.stderr, flush=True)
    return result, count


def _add_company(lines: Lines, results: Sequence[TournamentResult], index: int) -> None:
    companies = [result.companies[index] for result in results]
    name = companies[0].name
    for what, values in {
        "first fifth of learning": [company.first_fifth for company in companies],
        "last fifth of learning": [company.last_fifth for company in companies],
        "learned, greedily": [company.learned for company in companies],
        "best card in hindsight": [company.cards[company.best_card] for company in companies],
        "uniform choice": [company.uniform for company in companies],
    }.items():
        _add(lines, name, what, values)
    gains = [company.gain for company in companies]
    met = statistics.fmean(gains) >= -_WORST_LOSS
    _add(lines, name, "learned - best card", gains, aim=f"mean at least {-_WORST_LOSS}", met=met)
    above = [company.last_fifth - company.uniform for company in companies]
    _add(lines, name, "last fifth - uniform", above, aim="above 0 in every seed", met=min(above) > 0.0)


def _add_newcomer(lines: Lines, newcomers: Sequence[NewcomerResult]) -> None:
    name, size = newcomers[0].name, len(newcomers[0].cold)
    window, third = fifth(newcomers[0].cold), size // 3
    finals = [statistics.fmean(newcomer.cold_gain[-window:]) for newcomer in newcomers]
    early = [statistics.fmean(newcomer.warm_gain[third - window : third]) for newcomer in newcomers]
    _add(lines, name, "cold - usual card, last fifth", finals)
    _add(lines, name, f"warm - usual card, {third - window + 1} to {third}", early)
    _add(lines, name, "the second less the first", [a - b for a, b in zip(early, finals, strict=True)])
    mean_curve = [statistics.fmean(gains) for gains in zip(*(n.warm_gain for n in newcomers), strict=True)]
    after = negotiations_to_reach(statistics.fmean(finals), mean_curve, window=window)
    shown = "never" if after is None else str(after)
    met = after is not None and after <= third
    lines.add(name, "warm start at cold's final level after", shown, "", "", aim=f"at most {third}", met=met)


def _add(
    lines: Lines, name: str, what: str, values: Sequence[float], *, aim: str = "", met: bool = True
) -> None:
    middle, half = _interval(values)
    lines.add(
        name,
        what,
        f"{middle:+.3f} ± {half:.3f}",
        f"{min(values):+.3f}",
        f"{max(values):+.3f}",
        aim=aim,
        met=met,
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of `values` and half of its 95 % interval, by Student's t."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return statistics.fmean(values), float(student.ppf(0.975, len(values) - 1)) * error


if __name__ == "__main__":
    raise SystemExit(main())
