"""The command that fits a policy to teacher rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from steersman.cli.common import JsonFlag, answer
from steersman.cli.paths import named_path
from steersman.cli.progress import watching

if TYPE_CHECKING:
    from steersman.training.progress import Progress, ProgressEvent

__all__ = ["FitCommand", "fit_command"]

_Teacher = Annotated[
    list[Path],
    typer.Option(
        "--teacher",
        parser=named_path,
        metavar="PATH...",
        help="Files and folders of teacher rows; several may follow.",
    ),
]
_Output = Annotated[Path, typer.Option(help="The checkpoint to write, a .safetensors file.")]
_Learner = Annotated[str, typer.Option(help="mlp, forest, or auto: whichever does better on inner folds.")]
_Loss = Annotated[str, typer.Option(help="What to aim at: squared, log, rank, mixed or pairwise.")]
_Inputs = Annotated[str, typer.Option(help="Of a network: plain, or ranked for features with long tails.")]
_Hidden = Annotated[int, typer.Option(help="Hidden units of the network.")]
_Epochs = Annotated[int, typer.Option(help="Epochs of the network; with --early-stopping at most so many.")]
_Rate = Annotated[float, typer.Option(help="The network's learning rate.")]
_Decay = Annotated[float, typer.Option(help="The network's weight decay.")]
_Trees = Annotated[int, typer.Option(help="Trees of a forest.")]
_Leaf = Annotated[int, typer.Option(help="Least rows in a leaf of a forest.")]
_Seed = Annotated[int, typer.Option(help="Split, weights and folds follow from it.")]
_Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")]
_Init = Annotated[Path | None, typer.Option(help="A checkpoint of a network to continue from.")]
_Fraction = Annotated[float, typer.Option(help="Share of the scenes to hold out; 0 holds none out.")]
_Scenes = Annotated[
    list[str] | None,
    typer.Option(
        "--validation-scene",
        metavar="SCENE...",
        help="A scene to hold out, instead of a share; several may follow.",
    ),
]
_Tolerance = Annotated[float, typer.Option(help="Regret up to it counts as best.")]
_Early = Annotated[bool, typer.Option("--early-stopping", help="Choose the epochs by inner folds.")]
_Search = Annotated[bool, typer.Option("--search", help="Choose the hyper-parameters by inner folds.")]
_Ensemble = Annotated[int, typer.Option(help="Fit so many seeds and play their mean.")]
_Folds = Annotated[int | None, typer.Option(help="Cross-validate by scene in so many folds.")]
_Weight = Annotated[float, typer.Option(help="Fit advantage - weight * cost.")]
_Pareto = Annotated[bool, typer.Option("--pareto", help="Fit a sweep of cost weights.")]
_Fallback = Annotated[
    bool, typer.Option("--fallback", help="Write the best fixed action unless the policy is shown better.")
]
_Report = Annotated[Path | None, typer.Option(help="A new folder for a page and pictures.")]
_Cache = Annotated[Path | None, typer.Option(help="A folder that keeps what was read, for the next time.")]

_SEVERAL = ("--teacher", "--validation-scene")


class FitCommand(TyperCommand):
    """Takes several words after one option, as a shell makes them of `--teacher rows/*.jsonl`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further value, which is what is understood."""
        return super().parse_args(ctx, _repeated(args))


def _repeated(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    option, has_value = None, False
    for word in words:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            option, has_value = name if name in _SEVERAL else None, bool(equals)
        elif option is not None:
            found += [option] if has_value else []
            has_value = True
        found.append(word)
    return found


def fit_command(
    teacher: _Teacher,
    output: _Output,
    learner: _Learner = "mlp",
    loss: _Loss = "squared",
    inputs: _Inputs = "plain",
    hidden_dim: _Hidden = 32,
    epochs: _Epochs = 100,
    learning_rate: _Rate = 1e-3,
    weight_decay: _Decay = 0.0,
    trees: _Trees = 300,
    min_leaf: _Leaf = 2,
    seed: _Seed = 0,
    device: _Device = "cpu",
    init_policy: _Init = None,
    holdout_fraction: _Fraction = 0.2,
    validation_scene: _Scenes = None,
    tie_tolerance: _Tolerance = 1e-4,
    early_stopping: _Early = False,
    search: _Search = False,
    ensemble: _Ensemble = 1,
    folds: _Folds = None,
    cost_weight: _Weight = 0.0,
    pareto: _Pareto = False,
    fallback: _Fallback = False,
    report: _Report = None,
    cache: _Cache = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit a policy to teacher rows, judge it on scenes held out, and write it as a checkpoint."""
    # Settings come without PyTorch, which takes seconds to import: a wrong one is told at once.
    from steersman.training.settings import FitSettings

    settings = FitSettings(
        learner=learner,
        loss=loss,
        inputs=inputs,
        hidden_dim=hidden_dim,
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        trees=trees,
        min_leaf=min_leaf,
        seed=seed,
        device=device,
        ensemble=ensemble,
        early_stopping=early_stopping,
        search=search,
        tie_tolerance=tie_tolerance,
    )
    from steersman.console.fit import fit_parts
    from steersman.usecases.fit import FitRequest, fit_policy

    request = FitRequest(
        teacher=tuple(teacher),
        output=output,
        settings=settings,
        holdout_fraction=holdout_fraction,
        validation_scene_ids=None if validation_scene is None else tuple(validation_scene),
        init_policy=init_policy,
        cost_weight=cost_weight,
        folds=folds,
        pareto=pareto,
        fallback=fallback,
        report=report,
        cache_dir=cache,
    )
    with _watching_fit(quiet=as_json) as progress:
        done = fit_policy(request, progress=progress)
    answer(done, as_json=as_json, render=lambda: fit_parts(done))


@contextmanager
def _watching_fit(*, quiet: bool) -> Iterator[Progress]:
    with watching(quiet=quiet) as move:

        def tell(event: ProgressEvent) -> None:
            move(event.stage, event.done, event.total, loss=event.loss, in_bytes=event.in_bytes)

        yield tell
