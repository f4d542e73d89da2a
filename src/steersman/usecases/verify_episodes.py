"""Verifying episodes: each is held against the decisions that were made in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from steersman.store.connection import Connection
from steersman.store.hot.text import Row
from steersman.store.ledger import archived_chain_stream, chain_stream, episode_stream
from steersman.usecases.findings import Findings, Mismatch, unreadable
from steersman.usecases.merging import merged

__all__ = ["episode_mismatches", "verify_episodes"]

_EPISODES, _CHAINS, _ARCHIVED = range(3)


def verify_episodes(connection: Connection, tenant: str, found: Findings, tick: Callable[[], None]) -> None:
    """Hold every episode of a tenant against its decisions."""
    streams = [
        (episode_stream(connection, tenant), lambda row: row[1:2]),
        (chain_stream(connection, tenant), lambda row: row[:1]),
        (archived_chain_stream(connection, tenant), lambda row: row[:1]),
    ]
    with merged(streams) as groups:
        for (episode,), items in groups:
            stored: Row | None = None
            chain: Row = (episode, 0, 0, 0, None, None, 0, 0)
            archived: Row = (episode, 0, 0)
            for stream, row in items:
                if stream == _EPISODES:
                    tick()
                    stored = row
                elif stream == _CHAINS:
                    chain = row
                else:
                    archived = row
            if archived[1]:
                found.add(tenant, "episode", episode, _archived_mismatches(stored, chain))
                # Which of them a close has learned is not known any more.
                chain = (*archived, 0, 0, archived[1] - 1, 0, 0)
            found.add(tenant, "episode", episode, episode_mismatches(stored, chain))


def _archived_mismatches(stored: Row | None, chain: Row) -> Iterator[Mismatch]:
    """Yield how an episode of which decisions were archived is not one that was closed and archived as a whole."""
    if chain[1]:
        yield "decisions", chain[1], 0
    if stored is not None and stored[2] != "closed":
        yield "status", stored[2], "closed"


def episode_mismatches(stored: Row | None, chain: Row) -> Iterator[Mismatch]:
    """Yield how an episode's row differs from its decisions, of which `chain` is a row of `chain_stream`.

    Times say nothing here: clocks differ between machines, step back, and may be too coarse to tell two calls apart.
    """
    if stored is None:
        yield "row", None, "present"
        return
    bad = unreadable("episodes", stored)
    if bad:
        yield from bad
        return
    _, _, status, steps, opened_at, _, outcome, kind, decisions, learned, closed_at = stored
    _, made, acted, still_open, first, last, only_by_close, by_reward = chain
    if steps != made:
        yield "steps", steps, made
    if made and (first, last) != (0, made - 1):
        yield "steps", (first, last), (0, made - 1)
    if status == "closed":
        if decisions != acted:
            yield "decisions", decisions, acted
        if learned is None or not only_by_close <= learned <= acted - by_reward:
            yield "learned", learned, f"{only_by_close} to {acted - by_reward}"
        if still_open:
            yield "status", status, "open"
        if kind not in {"close", "default"}:
            yield "kind", kind, "close"
        if closed_at is None:
            yield "closed_at", closed_at, opened_at
    elif status != "open" or (outcome, kind, decisions, learned, closed_at) != (None,) * 5:
        yield "status", status, "open" if closed_at is None else "closed"
