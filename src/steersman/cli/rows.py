"""Commands about teacher rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.common import JsonFlag, answer
from steersman.cli.progress import watching
from steersman.console import rows as looks
from steersman.teacher.dataset import Progress
from steersman.teacher.inspection import inspect_rows
from steersman.teacher.merging import convert_rows, merge_rows

__all__ = ["app", "convert_command", "inspect_command", "merge_command"]

app = typer.Typer(no_args_is_help=True, help="Look into teacher rows, convert and merge them.")

_Paths = Annotated[list[Path], typer.Argument(help="Files and folders of teacher rows.")]
_Output = Annotated[Path, typer.Option(help="The file to write, named .jsonl or .parquet.")]


@app.command("inspect")
def inspect_command(paths: _Paths, as_json: JsonFlag = False) -> None:
    """Tell what is in teacher rows, and where they contradict themselves."""
    with _reading(quiet=as_json) as progress:
        found = inspect_rows(paths, progress=progress)
    answer(found, as_json=as_json, render=lambda: looks.inspection_parts(found))


@app.command("convert")
def convert_command(
    source: Annotated[Path, typer.Argument(help="A file of teacher rows.")],
    output: _Output,
    as_json: JsonFlag = False,
) -> None:
    """Write the rows of a file as JSON lines or Parquet, every row in its place, with nothing lost."""
    written = convert_rows(source, output)
    answer(written, as_json=as_json, render=lambda: looks.written_facts(written))


@app.command("merge")
def merge_command(paths: _Paths, output: _Output, as_json: JsonFlag = False) -> None:
    """Write the distinct rows of many files into one, with the binding that they share beside it."""
    with _reading(quiet=as_json) as progress:
        written = merge_rows(paths, output, progress=progress)
    answer(written, as_json=as_json, render=lambda: looks.written_facts(written))


@contextmanager
def _reading(*, quiet: bool) -> Iterator[Progress]:
    with watching(quiet=quiet) as move:
        yield lambda done, total: move("read rows", done, total, in_bytes=True)
