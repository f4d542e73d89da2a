"""The tournament: companies learn, a base is built, a newcomer starts with it and without, all are measured."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Self

from steersman.integrations.negmas.cards import CARDS
from steersman.integrations.negmas.companies import BASE, COMPANIES, NEWCOMER, Company, declaration
from steersman.integrations.negmas.domains import DomainFolder, camping_domains, read_domains
from steersman.integrations.negmas.matches import Match, Player, draw_matches, play
from steersman.integrations.negmas.players import FrozenPlayer, LearningPlayer, OneCardPlayer, UniformPlayer
from steersman.integrations.negmas.results import CompanyResult, NewcomerResult, TournamentResult
from steersman.integrations.negmas.standing import STATES
from steersman.library import Steersman
from steersman.policies.tabular import QTable, StateRow, UCBQTablePolicy
from steersman.usecases.show import show

__all__ = ["USUAL_CARD", "Tournament", "learned_policy", "run_tournament"]

USUAL_CARD = "boulware"
"""The card that a newcomer's curves are held against: the one that many negotiators would always play."""

_PATIENCE = 0.25  # seconds between two looks at how far the processes are


@dataclass(frozen=True, slots=True)
class Tournament:
    """What to run. All that is drawn follows from the seed, but for what each tenant's own secret decides."""

    database: str  # URL or file
    seed: int = 0
    negotiations: int = 900  # that each company learns from
    fresh: int = 300  # that it is measured on
    domains: Path | None = None  # a folder of Genius XML; None for camping goods
    processes: int = 2


def learned_policy(library: Steersman, tenant: str) -> UCBQTablePolicy:
    """Return what `tenant` has learned so far as a policy in memory, which then stays as it is.

    Raises NotFoundError.
    """
    table = show(library.database, tenant, limit=STATES.size)
    version = next(v for v in library.list_versions(tenant) if v.number == table.version)
    rows = {
        state.state: StateRow(
            [cell.q for cell in state.cells],
            [cell.visits for cell in state.cells],
            [cell.updates for cell in state.cells],
            [cell.borrowed for cell in state.cells],
        )
        for state in table.states
    }
    return UCBQTablePolicy(version.actions, version.settings, QTable(rows))


def run_tournament(
    tournament: Tournament, *, progress: Callable[[int, int], None] | None = None
) -> TournamentResult:
    """Run everything on an empty database, in `processes` processes, and return what it came to.

    Three companies learn, each in its own market; the base is built from the two that contribute; the newcomer
    starts once from it and once empty. On fresh negotiations what was learned plays greedily, and every single
    card and uniform choice play the very same ones. `progress` is called with (negotiations played, in all).
    Raises InvalidInputError for a folder without domains, ConflictError when the database has these tenants.
    """
    skipped = _domains(tournament.domains).skipped
    with Steersman.open(tournament.database) as library:
        _declare(library)
        with _Workers(tournament, progress) as workers:
            return _run(library, workers, tournament, skipped)


def _declare(library: Steersman) -> None:
    library.create_base(BASE, declaration())
    for company in COMPANIES:
        base = BASE if company.contributes else None
        library.create_tenant(company.name, declaration(base=base, contributes=company.contributes))
    library.create_tenant(_WARM, declaration(base=BASE))
    library.create_tenant(_COLD, declaration())


_WARM, _COLD = f"{NEWCOMER.name}-warm", f"{NEWCOMER.name}-cold"


def _run(
    library: Steersman,
    workers: _Workers,
    tournament: Tournament,
    skipped: tuple[tuple[str, str], ...],
) -> TournamentResult:
    lessons = {company.name: workers.learn(company.name, company) for company in _contributors_first()}
    usual = workers.play(NEWCOMER, OneCardPlayer(USUAL_CARD), fresh=False)
    rivals = {company.name: _submit_rivals(workers, company) for company in COMPANIES}
    workers.wait([lessons[company.name] for company in COMPANIES if company.contributes])
    library.build_base(BASE)
    warm, cold = workers.learn(_WARM, NEWCOMER), workers.learn(_COLD, NEWCOMER)
    learned = {}
    for company in COMPANIES:
        workers.wait([lessons[company.name]])
        player = FrozenPlayer(learned_policy(library, company.name))
        learned[company.name] = workers.play(company, player, fresh=True)
    companies = []
    for company in COMPANIES:
        *cards, uniform = (statistics.fmean(workers.result(future)) for future in rivals[company.name])
        companies.append(
            CompanyResult(
                name=company.name,
                outcomes=workers.result(lessons[company.name]),
                learned=statistics.fmean(workers.result(learned[company.name])),
                cards=dict(zip((card.id for card in CARDS), cards, strict=True)),
                uniform=uniform,
            )
        )
    newcomer = NewcomerResult(
        NEWCOMER.name, workers.result(warm), workers.result(cold), workers.result(usual)
    )
    return TournamentResult(tournament.seed, tuple(companies), newcomer, skipped)


def _contributors_first() -> list[Company]:
    return sorted(COMPANIES, key=lambda company: not company.contributes)


def _submit_rivals(workers: _Workers, company: Company) -> list[Future[tuple[float, ...]]]:
    players: list[Player] = [*(OneCardPlayer(card.id) for card in CARDS), UniformPlayer()]
    return [workers.play(company, player, fresh=True) for player in players]


class _Workers:
    """Processes that play, and a count of how far they are."""

    def __init__(self, tournament: Tournament, progress: Callable[[int, int], None] | None) -> None:
        context = get_context("spawn")
        self._tournament = tournament
        self._progress = progress
        self._played: Queue[tuple[int, int]] = context.Queue()  # (job, negotiations since it last told)
        self._jobs: dict[Future[tuple[float, ...]], int] = {}
        self._sizes: list[int] = []  # negotiations of each job
        self._counts: list[int] = []  # of these played
        self._pool = ProcessPoolExecutor(
            tournament.processes, mp_context=context, initializer=_start_worker, initargs=(self._played,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def learn(self, tenant: str, company: Company) -> Future[tuple[float, ...]]:
        return self._submit(self._tournament.negotiations, _learn, tenant, company)

    def play(self, company: Company, player: Player, *, fresh: bool) -> Future[tuple[float, ...]]:
        size = self._tournament.fresh if fresh else self._tournament.negotiations
        return self._submit(size, _play, company, player, fresh)

    def wait(self, futures: Sequence[Future[tuple[float, ...]]]) -> None:
        """Return when all `futures` are done; raise the first error among them at once."""
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_PATIENCE)
            self._look(done)
            for future in done:
                future.result()

    def result(self, future: Future[tuple[float, ...]]) -> tuple[float, ...]:
        self.wait([future])
        return future.result()

    def _submit(
        self, size: int, work: Callable[..., tuple[float, ...]], *arguments: object
    ) -> Future[tuple[float, ...]]:
        job = len(self._sizes)
        self._sizes.append(size)
        self._counts.append(0)
        future = self._pool.submit(work, job, self._tournament, *arguments)
        self._jobs[future] = job
        return future

    def _look(self, done: Iterable[Future[tuple[float, ...]]]) -> None:
        while True:
            try:
                job, played = self._played.get_nowait()
            except Empty:
                break
            self._counts[job] = min(self._sizes[job], self._counts[job] + played)
        # A result can overtake what its process told last.
        for future in done:
            self._counts[self._jobs[future]] = self._sizes[self._jobs[future]]
        if self._progress is not None:
            self._progress(sum(self._counts), sum(self._sizes))


_counters: list[Queue[tuple[int, int]]] = []


def _start_worker(played: Queue[tuple[int, int]]) -> None:
    _counters.append(played)


def _tell(job: int, played: int) -> None:
    _counters[0].put((job, played))


@cache
def _domains(folder: Path | None) -> DomainFolder:
    return DomainFolder(camping_domains(), ()) if folder is None else read_domains(folder)


def _draw(tournament: Tournament, company: Company, *, fresh: bool) -> list[Match]:
    """Return the matches of a company: those that it learns from, or fresh ones that share nothing with them."""
    stream = f"{tournament.seed} {company.name} {'fresh' if fresh else 'learning'}"
    return draw_matches(
        _domains(tournament.domains).domains,
        company.mix,
        count=tournament.fresh if fresh else tournament.negotiations,
        generator=random.Random(stream),
    )


def _learn(job: int, tournament: Tournament, tenant: str, company: Company) -> tuple[float, ...]:
    with Steersman.open(tournament.database) as library:
        player = LearningPlayer(library, tenant)
        matches = _draw(tournament, company, fresh=False)
        return tuple(play(matches, player, progress=partial(_tell, job)))


def _play(
    job: int,
    tournament: Tournament,
    company: Company,
    player: Player,
    fresh: bool,  # noqa: FBT001  (it goes to another process as it is)
) -> tuple[float, ...]:
    return tuple(play(_draw(tournament, company, fresh=fresh), player, progress=partial(_tell, job)))
