"""What a model is and how it is trained: frozen, validated when built, plain enough for a JSON file."""

import dataclasses
import difflib
import math
import numbers
from typing import Any, Literal, Self

WHOLE = ("max_segments", "num_skills", "num_iterations", "batch_size", "hidden_dim", "num_maps", "num_seeds", "seed")
WHOLE_OR_NONE = ("num_segments", "longest_segment")
REAL = ("learning_rate", "sigma_floor", "segment_cost")
REAL_OR_NONE = ("duration_weight", "duration_rate", "termination_weight")
"""Settings by the numbers that they take."""


class ConfigError(ValueError):
    """Settings that cannot work; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of `fit`, each documented in one line."""

    num_segments: int | None = 3
    """Segments of each demonstration; None where that is not known, and is to be found."""
    max_segments: int = 12
    """Most segments that are considered where their number is not known."""
    num_skills: int = 10
    """Skills to be found."""
    inference: Literal["exact"] = "exact"
    """How boundaries and skills are inferred."""
    num_iterations: int = 500
    """Steps of training."""
    batch_size: int = 32
    """Demonstrations in each step."""
    hidden_dim: int = 64
    """Units of hidden layers; the paper has 256."""
    num_maps: int = 16
    """Feature maps of convolutions; the paper has 64."""
    learning_rate: float = 1e-3
    """Of Adam."""
    duration_weight: float | None = None
    """Weight of the Poisson factor on segment lengths; 0.3 if None, and 0 where the number of segments is not known."""
    duration_rate: float | None = None
    """Expected length of a segment; the mean length of demonstrations over their number of segments if None."""
    longest_segment: int | None = None
    """Segments longer than this are not considered."""
    shared_termination: bool | None = None
    """Whether all skills share one termination rule; if None, where the number of segments is not known."""
    termination_weight: float | None = None
    """Weight of the termination rule in the likelihood; 1 if None, and 3 where the number of segments is not known."""
    sigma_floor: float = 0.5
    """Least spread of continuous actions, in standard deviations of the data's actions."""
    segment_cost: float = 0.0
    """Log-probability that each further segment costs where their number is not known."""
    half_precision: bool = False
    """Whether networks for grids are trained in bfloat16; worth it on accelerators."""
    num_seeds: int = 1
    """Models trained at once; the one with the best held-out likelihood is kept."""
    seed: int = 0
    """Of initial weights, batches and fresh demonstrations."""

    def __post_init__(self) -> None:
        self._check_numbers()
        for name in WHOLE:
            if name != "seed" and getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: use at least 1.")
        if self.num_segments is not None and self.num_segments < 1:
            raise ConfigError(f"num_segments is {self.num_segments}: use at least 1, or None if it is not known.")
        if self.inference != "exact":
            raise ConfigError(f"inference is {self.inference!r}: use 'exact'.")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}: use a positive number.")
        if not self.sigma_floor > 0:
            raise ConfigError(f"sigma_floor is {self.sigma_floor}: use a positive number, such as 0.5.")
        if self.duration_weight is not None and not self.duration_weight >= 0:
            raise ConfigError(f"duration_weight is {self.duration_weight}: use 0 or more.")
        if self.termination_weight is not None and not self.termination_weight > 0:
            raise ConfigError(f"termination_weight is {self.termination_weight}: use a positive number, such as 1.")
        for name in ("duration_rate", "longest_segment"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}: use at least 1, or None.")

    def _check_numbers(self) -> None:
        for name in (*WHOLE, *WHOLE_OR_NONE, *REAL, *REAL_OR_NONE):
            value = getattr(self, name)
            if value is None and name in (*WHOLE_OR_NONE, *REAL_OR_NONE):
                continue
            kind = numbers.Integral if name in (*WHOLE, *WHOLE_OR_NONE) else numbers.Real
            if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
                what = "a whole number" if kind is numbers.Integral else "a number"
                raise ConfigError(f"{name} is {value!r}: use {what}.")

    @property
    def expected_segments(self) -> int:
        """Segments of a demonstration, or a guess at them where they are not known."""
        return self.num_segments or 3

    def settled(self) -> Self:
        """The same with a value for every setting whose default depends on what is known.

        Where the number of segments is told, the likelihood needs no help. Where it is not, cutting once more is worth
        the price of a code wherever a policy is unsure, and cutting once less where one code can serve two tasks. What
        sets a real boundary apart is that it can be told from the event itself: so there, one rule ends all skills, and
        its predictions weigh more than those of actions (docs/decisions.md, "Unknown number of segments").
        """
        known = self.num_segments is not None
        defaults: dict[str, Any] = {
            "duration_weight": 0.3 if known else 0.0,
            "shared_termination": not known,
            "termination_weight": 1.0 if known else 3.0,
        }
        return dataclasses.replace(self, **{n: v for n, v in defaults.items() if getattr(self, n) is None})

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Reads what `to_json` gave; unknown settings are refused."""
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ConfigError(f"Unknown settings {sorted(unknown)}: the file was written by another version.")
        return cls(**values)


def changed(config: Config, settings: dict[str, Any]) -> Config:
    """The same with some settings changed; names that there are not are refused."""
    known = [field.name for field in dataclasses.fields(Config)]
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {close[0]}?" if close else f": there are {', '.join(known)}."
            raise ConfigError(f"There is no setting {name}{hint}")
    return dataclasses.replace(config, **settings)
