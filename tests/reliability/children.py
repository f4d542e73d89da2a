"""Other processes, and what is said between them and the test."""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from typing import Any

__all__ = ["PROCESSES", "hear", "say", "spawn", "tell_parent"]

PROCESSES = multiprocessing.get_context("forkserver")
"""Children come from a server that has imported everything and has no threads, so they start in milliseconds."""
PROCESSES.set_forkserver_preload(["psycopg", "tests.reliability.clients", "tests.reliability.crowd"])

_PATIENCE = 300.0  # seconds, for a child to say something


def spawn(function: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> list[Pipe]:
    """Run `function(*each, pipe)` in a child for each of `arguments`; return our ends once all have said `ready`."""
    pipes = []
    for each in arguments:
        ours, theirs = PROCESSES.Pipe()
        PROCESSES.Process(target=_guarded, args=(function, each, theirs), daemon=True).start()
        theirs.close()
        pipes.append(ours)
    assert hear(pipes) == ["ready"] * len(pipes)
    return pipes


def hear(pipes: Sequence[Pipe]) -> list[Any]:
    """Return the next thing that each child says; raise AssertionError when one has failed."""
    heard = []
    for pipe in pipes:
        assert pipe.poll(_PATIENCE)
        what, content = json.loads(pipe.recv_bytes())
        assert what == "said", content
        heard.append(content)
    return heard


def say(pipes: Sequence[Pipe], word: bytes) -> None:
    """Say a word to every child."""
    for pipe in pipes:
        pipe.send_bytes(word)


def tell_parent(pipe: Pipe, content: object) -> None:
    """Say something from a child. Up to the size of a page it reaches the pipe whole or not at all."""
    pipe.send_bytes(json.dumps(["said", content]).encode())


def _guarded(function: Callable[..., None], arguments: tuple[Any, ...], pipe: Pipe) -> None:
    try:
        function(*arguments, pipe)
    except Exception:
        pipe.send_bytes(json.dumps(["failed", traceback.format_exc()]).encode())
        raise
