"""How often a fit that is no better is called better, with confidence: the level of the verdict.

Run with `python -m benchmarks.verdict`. Scenes differ by numbers of mean 0, so each verdict but "not shown" is false;
nominally 2.5 % are on either side. Each figure is over 2000 samples, with 1000 draws each. Beside the interval in use
stand those that it was chosen from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.support import Lines, machine
from steersman.training.intervals import Interval, ratio_intervals

_SAMPLES, _DRAWS = 2000, 1000
_SCENES = (8, 12, 20, 40)
_MOST = 0.06  # false claims on one side that are still near the nominal level

_Floats = NDArray[np.float64]
_Shape = Callable[[np.random.Generator, int], _Floats]

# Differences of regret to the best fixed action, less their mean: negative is better.
_SHAPES: Mapping[str, _Shape] = {
    "normal": lambda draw, scenes: draw.normal(size=scenes),
    "Student's t, 2.5 degrees": lambda draw, scenes: draw.standard_t(2.5, size=scenes),
    "seven in ten alike": lambda draw, scenes: draw.normal(size=scenes) * (draw.random(scenes) < 0.3),
    "exponential: few are much worse": lambda draw, scenes: draw.exponential(size=scenes) - 1.0,
    "lognormal: few are far worse": lambda draw, scenes: draw.lognormal(size=scenes) - np.exp(0.5),
}
_WITHOUT_AIM = "lognormal: few are far worse"  # what no sample of few scenes shows, no interval can know


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    lines = Lines(
        f"False claims of better / worse, % of {_SAMPLES} samples ({machine()})",
        ["differences", "scenes", "in use", "quantiles of the draws", "Student"],
    )
    for name, shape in _SHAPES.items():
        for scenes in _SCENES:
            shares = _false_claims(shape, scenes)
            cells = [f"{better:.1%} / {worse:.1%}" for better, worse in shares]
            aim = "" if name == _WITHOUT_AIM else f"at most {_MOST:.0%}"
            lines.add(name, str(scenes), *cells, aim=aim, met=not aim or max(shares[0]) <= _MOST)
    lines.print()
    return int(bool(lines.missed))


def _false_claims(shape: _Shape, scenes: int) -> list[tuple[float, float]]:
    """Return the shares of intervals wholly below 0 and wholly above, for each kind of interval."""
    draw = np.random.default_rng(11)
    ones = np.ones((scenes, 1))
    counts = np.zeros((3, 2))
    for _ in range(_SAMPLES):
        sample = shape(draw, scenes)
        (used,) = ratio_intervals(sample[:, np.newaxis], ones, draws=_DRAWS, generator=draw)
        for kind, interval in enumerate((used, _quantiles(sample, draw), _student(sample))):
            counts[kind] += (interval.high < 0.0, interval.low > 0.0)
    return [(float(better), float(worse)) for better, worse in counts / _SAMPLES]


def _quantiles(sample: _Floats, draw: np.random.Generator) -> Interval:
    means = draw.choice(sample, size=(_DRAWS, len(sample))).mean(axis=1)
    return Interval(*np.quantile(means, [0.025, 0.975]).tolist())


def _student(sample: _Floats) -> Interval:
    half = float(stats.t(len(sample) - 1).ppf(0.975) * stats.sem(sample))
    return Interval(float(sample.mean()) - half, float(sample.mean()) + half)


if __name__ == "__main__":
    raise SystemExit(main())
