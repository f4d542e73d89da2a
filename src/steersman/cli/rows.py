"""Commands about teacher rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from steersman.cli.common import JsonFlag, answer
from steersman.cli.paths import named_path
from steersman.cli.progress import watching
from steersman.console import rows as looks
from steersman.console.grid import facts
from steersman.integrations.aslib.rows import ScenarioRows, convert_scenario
from steersman.teacher.dataset import Progress
from steersman.teacher.inspection import inspect_rows
from steersman.teacher.merging import convert_rows, merge_rows

__all__ = ["app", "convert_command", "from_aslib_command", "inspect_command", "merge_command"]

app = typer.Typer(no_args_is_help=True, help="Look into teacher rows, convert and merge them.")

_Paths = Annotated[
    list[Path],
    typer.Argument(parser=named_path, metavar="paths", help="Files and folders of teacher rows."),
]
_Output = Annotated[Path, typer.Option(help="The file to write, named .jsonl or .parquet.")]


@app.command("inspect")
def inspect_command(paths: _Paths, as_json: JsonFlag = False) -> None:
    """Tell what is in teacher rows, and where they contradict themselves."""
    with _reading(quiet=as_json) as progress:
        found = inspect_rows(paths, progress=progress)
    answer(found, as_json=as_json, render=lambda: looks.inspection_parts(found))


@app.command("convert")
def convert_command(
    source: Annotated[
        Path, typer.Argument(parser=named_path, metavar="source", help="A file of teacher rows.")
    ],
    output: _Output,
    as_json: JsonFlag = False,
) -> None:
    """Write the rows of a file as JSON lines or Parquet, every row in its place, with nothing lost."""
    with _reading(quiet=as_json) as progress:
        written = convert_rows(source, output, progress=progress)
    answer(written, as_json=as_json, render=lambda: looks.written_facts(written))


@app.command("merge")
def merge_command(paths: _Paths, output: _Output, as_json: JsonFlag = False) -> None:
    """Write the distinct rows of many files into one, with the binding that they share beside it."""
    with _reading(quiet=as_json) as progress:
        written = merge_rows(paths, output, progress=progress)
    answer(written, as_json=as_json, render=lambda: looks.written_facts(written))


@app.command("from-aslib")
def from_aslib_command(
    scenario: Annotated[Path, typer.Argument(help="The folder of an ASlib scenario.")],
    output: Annotated[Path, typer.Option(help="The folder for rows.jsonl and metadata.json.")],
    families: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file with the columns instance_id and family. [default: scenes are the official folds]"
        ),
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Take the logarithm of runtimes as loss.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Turn a scenario of algorithm selection into teacher rows: an action for each algorithm."""
    written = convert_scenario(scenario, output, families=families, log_scale=log)
    answer(written, as_json=as_json, render=lambda: _scenario_facts(written))


def _scenario_facts(written: ScenarioRows) -> RenderableType:
    counts = {
        "rows": written.rows,
        "scenes": written.scenes,
        "actions": written.actions,
        "features": written.features,
        "presolved, left out": written.presolved,
        "solved by no algorithm": written.unsolved,
    }
    shown = {name: f"{value:,}" for name, value in counts.items()}
    return facts(f"Scenario {written.scenario_id}", shown | {"folder": str(written.output)})


@contextmanager
def _reading(*, quiet: bool) -> Iterator[Progress]:
    with watching(quiet=quiet) as move:
        yield lambda done, total: move("read rows", done, total, in_bytes=True)
