"""The progress bar of a long run: its stage, how far it is, loss, rate and time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from steersman.console.terminal import UntrustingConsole

__all__ = ["Move", "watching"]

_BAR = 14  # cells, so that a line fits into 80
_MEGABYTE = 1_000_000


class Move(Protocol):
    """Moves a progress bar, which begins anew with each stage."""

    def __call__(
        self, stage: str, done: int, total: int, *, loss: float | None = None, in_bytes: bool = False
    ) -> None:
        """Show that `done` of `total` steps, or bytes, of the stage are done."""


@contextmanager
def watching(*, quiet: bool) -> Iterator[Move]:
    """Yield a function that moves a bar on the standard error; there is no bar where that is no terminal."""
    console = UntrustingConsole(stderr=True)
    texts = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("share", "loss", "rate")]
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_BAR),
        *texts,
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task("", total=None, share="", loss="", rate="")

        def move(
            stage: str, done: int, total: int, *, loss: float | None = None, in_bytes: bool = False
        ) -> None:
            if bar.tasks[0].description != stage:
                bar.reset(task, total=None, description=stage)
            if total > 1:  # of one step, only that it goes on can be shown
                bar.update(task, total=total)
            speed = bar.tasks[0].speed
            bar.update(
                task,
                completed=done,
                share=f"{done / total:.0%}" if total > 1 else "",
                loss="" if loss is None else f"loss {loss:.4g}",
                rate="" if not speed else _rate(speed, in_bytes=in_bytes),
            )

        yield move


def _rate(speed: float, *, in_bytes: bool) -> str:
    if in_bytes:
        return f"{speed / _MEGABYTE:,.1f} MB/s"
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
