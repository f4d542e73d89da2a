"""Choosing algorithms: how much of the gap between the single best algorithm and the oracle is left open.

Run with `python -m benchmarks.algorithm_selection`; `--help` tells what can be left out. The scenarios are folders in
the format of ASlib. Each is fitted from its teacher rows, with the official 10 folds, and again with whole families
held out, and so are other packages, in an environment of their own, with a budget of time. Figures are nPAR10, 0 for
the oracle and 1 for the single best algorithm, pooled over the held-out instances that some algorithm solves, what the
features cost included. What was chosen is kept by scenario, folds, learner, settings and code, so that a run can be
broken off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.algorithm_selection_peers import PEERS
from benchmarks.algorithm_selection_runs import (
    LEARNERS,
    Outcome,
    PeerEnvironment,
    remaining,
    run_learner,
    run_peer,
)
from benchmarks.algorithm_selection_tasks import KINDS, Score, Task, find_scenarios, load_task, score
from benchmarks.support import Lines, machine

_ROOT = Path(__file__).parents[1]
_DATA = Path(os.environ.get("STEERSMAN_SHARED", _ROOT.parent / "shared")) / "data" / "aslib"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "steersman" / "algorithm-selection"
_PICTURE = "algorithm-selection.png"
_QUICK = (("CPMP-2015", "SAT11-INDU"), ("mlp", "forest", "sklearn forest"))
_AIMS = {"auto": 0.26, "mlp --search": 0.33}  # mean over eight scenarios, official folds
_AIMED_AT = 8  # scenarios


@dataclass(frozen=True, slots=True)
class Result:
    """One figure of the table."""

    scenario: str
    folds: str
    learner: str
    score: Score | None  # None where the budget of time was over
    seconds: float
    decided: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON."""
        return asdict(self) | {"over_budget": self.score is None}


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    asked = _arguments()
    if not find_scenarios(asked.data):
        print(f"no scenarios in {asked.data}; name their folder with --data", file=sys.stderr)
        return 0
    tasks = [load_task(asked.data, scenario, kind) for kind in asked.folds for scenario in asked.scenarios]
    results = _run(tasks, asked)
    tables = [_table(kind, results) for kind in asked.folds]
    if asked.json:
        print(json.dumps({"machine": machine(), "results": [result.to_json() for result in results]}))
    else:
        for table in tables:
            table.print()
    asked.output.mkdir(parents=True, exist_ok=True)
    _draw(results, asked.output / _PICTURE)
    print(f"picture: {asked.output / _PICTURE}", file=sys.stderr)
    return int(any(table.missed for table in tables))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.algorithm_selection")
    add = parser.add_argument
    add("--data", type=Path, default=_DATA, help="the folder with scenarios and families.csv")
    add("--scenario", action="append", dest="scenarios", help="a scenario (may be given again); default: all")
    add(
        "--learner",
        action="append",
        dest="learners",
        choices=[*LEARNERS, *PEERS],
        help="a learner or peer (may be given again); default: all",
    )
    add("--folds", choices=KINDS, action="append", help="the kind of folds; default: both")
    add("--quick", action="store_true", help="two small scenarios and three quick learners")
    add(
        "--budget", type=int, default=300, help="seconds of processor time for a peer's folds of one scenario"
    )
    add("--cache", type=Path, default=_CACHE, help="where choices and the peers' environment are kept")
    add("--output", type=Path, default=_CACHE, help=f"the folder for {_PICTURE}")
    add("--json", action="store_true", help="print one line of JSON instead of tables")
    asked = parser.parse_args()
    scenarios, learners = _QUICK if asked.quick else (find_scenarios(asked.data), (*LEARNERS, *PEERS))
    asked.scenarios = asked.scenarios or scenarios
    asked.learners = asked.learners or learners
    asked.folds = asked.folds or KINDS
    return asked


def _run(tasks: Sequence[Task], asked: argparse.Namespace) -> list[Result]:
    pairs = [(task, name) for task in tasks for name in asked.learners]
    missing = [remaining(task, name, asked.cache, asked.budget) for task, name in pairs]
    environment = PeerEnvironment(asked.cache)
    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        whole = bar.add_task("folds", total=sum(missing))
        for (task, name), folds in zip(pairs, missing, strict=True):
            bar.update(whole, description=f"{task.name}: {name}")
            if name in PEERS:
                outcome = run_peer(task, name, asked.cache, environment, budget=asked.budget)
                bar.advance(whole, folds)
            else:
                outcome = run_learner(task, name, asked.cache, lambda: bar.advance(whole))
            results.append(_result(task, name, outcome))
    return results


def _result(task: Task, name: str, outcome: Outcome) -> Result:
    scored = None if outcome.chosen is None else score(task, outcome.chosen)
    return Result(task.scenario, task.kind, name, scored, outcome.seconds, outcome.decided)


def _table(kind: str, results: Sequence[Result]) -> Lines:
    """Return nPAR10 by learner and scenario; `!` marks what is worse than the single best by more than its interval."""
    shown = [result for result in results if result.folds == kind]
    scenarios = list(dict.fromkeys(result.scenario for result in shown))
    title = f"nPAR10, {kind} folds ({machine()})"
    lines = Lines(title, ["learner", *scenarios, "mean", "minutes"])
    for name in dict.fromkeys(result.learner for result in shown):
        row = [result for result in shown if result.learner == name]
        scores = [result.score for result in row]
        done = [scored for scored in scores if scored is not None]
        mean = statistics.fmean(scored.npar10 for scored in done) if len(done) == len(row) else None
        aim, met = _aim(kind, name, done, mean, len(scenarios))
        cells = ["over budget" if scored is None else _shown(scored) for scored in scores]
        minutes = sum(result.seconds for result in row) / 60
        lines.add(name, *cells, "" if mean is None else f"{mean:.3f}", f"{minutes:.1f}", aim=aim, met=met)
    return lines


def _aim(kind: str, name: str, done: Sequence[Score], mean: float | None, scenarios: int) -> tuple[str, bool]:
    if name not in LEARNERS:
        return "", True
    if kind == "family":
        return "none worse (!)", not any(scored.is_worse_than_single_best for scored in done)
    if name in _AIMS and mean is not None and scenarios == _AIMED_AT:
        return f"at most {_AIMS[name]}", mean <= _AIMS[name]
    return "", True


def _shown(scored: Score) -> str:
    return f"{scored.npar10:.3f}{'!' if scored.is_worse_than_single_best else ''}"


def _draw(results: Sequence[Result], path: Path) -> None:
    """Write a picture: nPAR10 with its interval by scenario and learner, one panel for each kind of folds."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(result.folds for result in results))
    scenarios = list(dict.fromkeys(result.scenario for result in results))
    learners = list(dict.fromkeys(result.learner for result in results))
    figure = Figure(figsize=(2.0 + 1.6 * len(scenarios), 4.2 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 1, squeeze=False)[:, 0]
    for kind, panel in zip(kinds, panels, strict=True):
        for place, name in enumerate(learners):
            points = [
                (scenarios.index(result.scenario), result.score)
                for result in results
                if (result.folds, result.learner) == (kind, name) and result.score is not None
            ]
            if not points:
                continue
            offset = 0.8 * (place + 0.5) / len(learners) - 0.4
            values = [scored.npar10 for _, scored in points]
            panel.errorbar(
                [index + offset for index, _ in points],
                values,
                yerr=[
                    [max(scored.npar10 - scored.low, 0.0) for _, scored in points],
                    [max(scored.high - scored.npar10, 0.0) for _, scored in points],
                ],
                fmt="o" if name in LEARNERS else "x",
                color=colormaps["tab10"](place % 10),
                elinewidth=0.8,
                markersize=4.5,
                label=name,
            )
        panel.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
        panel.axhline(0.0, color="black", linewidth=0.8)
        panel.set_xticks(range(len(scenarios)), scenarios)
        panel.set_ylim(-0.05, 2.0)
        panel.set_ylabel("nPAR10 (0 oracle, 1 single best)")
        panel.set_title(f"{kind} folds; 95 % intervals by scene; crosses are peers")
    panels[0].legend(loc="upper left", ncols=5, fontsize=8)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    sys.exit(main())
