"""The demo: companies that learn to negotiate, in a database that is verified at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from steersman.cli.common import DatabaseOption, JsonFlag, answer, counting, opened, tell
from steersman.console.grid import grid
from steersman.console.health import verification_parts
from steersman.console.plain import plain
from steersman.domain.answers import Verification
from steersman.usecases.verify import verify

if TYPE_CHECKING:
    from steersman.integrations.negmas.results import NewcomerResult, TournamentResult

__all__ = ["demo_command"]

_POINTS = 10  # of a curve in a table


_LEGEND = """\
First and last fifth: while it learned. Learned, best card and uniform: on the same fresh negotiations, with
nothing learned any more. Gain: learned less the best card, which the last column names.
"""


@dataclass(frozen=True, slots=True)
class _Demo:
    """What the demo came to, and where its files are."""

    result: TournamentResult
    verification: Verification
    seconds: float
    database: str
    curves: Path
    numbers: Path


def demo_command(
    output: Annotated[
        Path | None, typer.Option(help="A folder for what it writes. [default: a new one in demo-output]")
    ] = None,
    domains: Annotated[
        Path | None,
        typer.Option(help="A folder of Genius XML domains to negotiate about. [default: camping goods]"),
    ] = None,
    negotiations: Annotated[int, typer.Option(min=10, help="How many a company learns from.")] = 900,
    fresh: Annotated[int, typer.Option(min=1, help="How many fresh ones it is measured on.")] = 300,
    seed: Annotated[int, typer.Option(help="What is negotiated, and against whom, follows from it.")] = 0,
    processes: Annotated[int, typer.Option(min=1, help="How many processes negotiate.")] = 2,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Watch companies learn which negotiation card to play, in a database; exit 1 when it does not verify."""
    # NegMAS is an extra, and takes a second to import.
    from steersman.integrations.negmas.curves import check_can_draw, draw_curves
    from steersman.integrations.negmas.tournament import Tournament, run_tournament

    check_can_draw()
    folder = output or Path("demo-output") / time.strftime("%Y-%m-%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    url = database or str(folder / "steersman.db")
    if not as_json:
        tell(f"Four companies negotiate and learn in {url}. On two idle cores it takes under two minutes.")
    begin = time.perf_counter()
    tournament = Tournament(
        url, seed=seed, negotiations=negotiations, fresh=fresh, domains=domains, processes=processes
    )
    with counting("negotiating", quiet=as_json) as move:
        result = run_tournament(tournament, progress=move)
    curves, numbers = folder / "curves.png", folder / "numbers.json"
    draw_curves(result, curves)
    with opened(url) as store, counting("verifying", quiet=as_json) as move:
        verification = verify(store, progress=move)
    demo = _Demo(result, verification, time.perf_counter() - begin, url, curves, numbers)
    shown = _numbers(demo)
    numbers.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    answer(shown, as_json=as_json, render=lambda: _parts(demo))
    if verification.count:
        raise typer.Exit(1)


def _numbers(demo: _Demo) -> dict[str, Any]:
    """Return every figure as JSON."""
    companies = [
        plain(company)
        | {
            "first_fifth": company.first_fifth,
            "last_fifth": company.last_fifth,
            "best_card": company.best_card,
            "gain": company.gain,
        }
        for company in demo.result.companies
    ]
    newcomer = plain(demo.result.newcomer) | {"reached_after": demo.result.newcomer.reached_after}
    return {
        "seed": demo.result.seed,
        "companies": companies,
        "newcomer": newcomer,
        "skipped_domains": plain(demo.result.skipped),
        "verified": {"rows": demo.verification.rows, "differences": demo.verification.count},
        "seconds": round(demo.seconds, 1),
        "database": demo.database,
        "curves": str(demo.curves),
        "numbers": str(demo.numbers),
    }


def _parts(demo: _Demo) -> list[RenderableType]:
    result = demo.result
    columns = ["company", "first fifth", "last fifth", "learned", "best card", "uniform", "gain", "that card"]
    rows = [
        [
            company.name,
            *map(_figure, (company.first_fifth, company.last_fifth, company.learned)),
            _figure(company.cards[company.best_card]),
            _figure(company.uniform),
            f"{company.gain:+.3f}",
            company.best_card,
        ]
        for company in result.companies
    ]
    title = "Mean outcome of a negotiation"
    parts: list[RenderableType] = [
        grid(title, columns, rows, numbers=columns[1:-1]),
        _LEGEND,
        _newcomer_table(result.newcomer),
        _reached(result.newcomer),
    ]
    parts += [f"skipped {name}: {reason}" for name, reason in result.skipped]
    parts += [f"curves: {demo.curves}", f"numbers: {demo.numbers}", f"database: {demo.database}"]
    parts += [*verification_parts(demo.verification), f"{demo.seconds:.0f} s"]
    return [*parts, "How to read the figures, and what to expect: docs/negotiation.md"]


def _newcomer_table(newcomer: NewcomerResult) -> RenderableType:
    size = max(1, len(newcomer.warm) // _POINTS)
    ends = list(range(size, len(newcomer.warm) + 1, size))
    curves = {
        f"{newcomer.name} from the base": newcomer.warm,
        f"{newcomer.name} empty": newcomer.cold,
        "the usual card": newcomer.usual,
    }
    rows = [[name, *(_mean(curve[end - size : end]) for end in ends)] for name, curve in curves.items()]
    columns = ["mean outcome, negotiations up to", *map(str, ends)]
    return grid("A newcomer, warm and cold, on the same negotiations", columns, rows, numbers=columns[1:])


def _reached(newcomer: NewcomerResult) -> str:
    after = newcomer.reached_after
    when = "not yet" if after is None else f"after {after} of {len(newcomer.warm)} negotiations"
    return f"The company that started from the base plays as well as the empty one does at its end: {when}."


def _mean(outcomes: Sequence[float]) -> str:
    return _figure(sum(outcomes) / len(outcomes))


def _figure(value: float) -> str:
    return f"{value:.3f}"
