"""Commands about checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.checkpoints.format import load_checkpoint
from steersman.checkpoints.inspect import checkpoint_facts, describe_checkpoint
from steersman.cli.common import JsonFlag, answer

__all__ = ["app", "inspect_command"]

app = typer.Typer(no_args_is_help=True, help="Look into checkpoints.")


@app.command("inspect")
def inspect_command(
    file: Annotated[Path, typer.Argument(help="A checkpoint, a .safetensors file.")],
    whole: Annotated[bool, typer.Option("--all", help="Shorten no list and no table.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check a checkpoint as a loader does, and print what it is worth, where it is from and what it holds."""
    loaded = load_checkpoint(file)
    answer(checkpoint_facts(loaded), as_json=as_json, render=lambda: describe_checkpoint(loaded, whole=whole))
