"""What a model is and how it is trained: frozen, validated when built, plain enough for a JSON file."""

import dataclasses
import difflib
import math
import numbers
from typing import Any, Literal, Self, get_args, get_origin

WHOLE = (
    *("max_segments", "num_skills", "code_dim", "num_iterations", "batch_size", "hidden_dim", "num_maps"),
    *("policy_layers", "num_seeds", "seed"),
)
WHOLE_OR_NONE = ("num_segments", "longest_segment", "num_devices")
REAL = (
    *("learning_rate", "cooldown", "segment_cost", "effect_spread"),
    *("beta_codes", "beta_boundaries", "temperature"),
)
REAL_OR_NONE = ("duration_weight", "duration_rate", "termination_weight", "sigma_floor", "final_temperature")
"""Settings by the numbers that they take."""
EXACT_ONLY = (
    *("duration_weight", "longest_segment", "shared_termination", "termination_weight", "segment_cost"),
    *("effects", "effect_spread"),
)
RELAXED_ONLY = (
    *("forgetful", "codes", "code_dim", "readout", "boundary_term", "beta_codes", "beta_boundaries"),
    *("temperature", "final_temperature"),
)
"""Settings that say nothing to the other way of inference."""
LEAST_TEMPERATURE = 1e-6
"""Below it what a sample is divided by is lost in single precision."""
PAPER_RATE = 3.0
"""The paper's rate of the Poisson prior over lengths, in all of its experiments."""


_HINTS = {"num_segments": ", or None if it is not known; `fit` also takes a list with one for each demonstration"}
"""What else people may have meant."""


class ConfigError(ValueError):
    """Settings that cannot work; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of `fit`, each documented in one line."""

    num_segments: int | None = 3
    """Segments of each demonstration; None where that is not known, and is to be found."""
    max_segments: int = 12
    """Most segments that are considered where their number is not known."""
    counts_told: bool = False
    """Whether labels tell the number of segments of each demonstration, where they differ; `fit` sees that by
    itself."""
    num_skills: int = 10
    """Skills to be found."""
    inference: Literal["exact", "relaxed"] = "exact"
    """How boundaries and skills are inferred: summed out, or by the paper's recognition model with relaxed samples."""
    supervision: Literal["none", "b", "z", "bz"] = "none"
    """What a world tells of its fresh demonstrations: boundaries, codes in order; data is used with its own labels."""
    num_iterations: int = 500
    """Steps of training."""
    batch_size: int = 32
    """Demonstrations in each step."""
    hidden_dim: int = 64
    """Units of hidden layers; the paper has 256."""
    num_maps: int = 16
    """Feature maps of convolutions; the paper has 64."""
    policy_layers: int = 1
    """Hidden layers of each policy; the paper has 2 for the reacher."""
    recurrent: bool = False
    """Whether policies remember what was seen, for worlds that are seen in part."""
    forgetful: bool = False
    """Relaxed: whether policies that remember forget, where a skill begins, all that came before."""
    learning_rate: float = 1e-3
    """Of Adam."""
    cooldown: float = 0.2
    """Share of the iterations, the last ones, in which the learning rate falls to zero along a line."""
    duration_weight: float | None = None
    """Weight of the Poisson factor on segment lengths; if None it is learned, and 0 where their number is not known."""
    duration_rate: float | None = None
    """Expected length of a segment; if None the paper's 3 for relaxed inference, and else the mean in the data."""
    longest_segment: int | None = None
    """Segments longer than this are not considered."""
    shared_termination: bool | None = None
    """Whether all skills share one termination rule; if None, where the number of segments is not known."""
    termination_weight: float | None = None
    """Weight of the termination rule in the likelihood; 1 if None, and 3 where the number of segments is not known."""
    sigma_floor: float | None = None
    """Least spread of continuous actions, in standard deviations of the data's; if None 0.5, and 0.25 for relaxed."""
    segment_cost: float = 0.0
    """Log-probability that each further segment costs where their number is not known."""
    effects: bool = False
    """Whether skills are told apart by what they change too, so that each stands for a thing and not for a place."""
    effect_spread: float = 0.2
    """Deviation of such changes, in things of a grid or in spreads of a vector's columns; smaller makes them count."""
    codes: Literal["categorical", "gaussian"] = "categorical"
    """Relaxed: whether the code of a segment is one of the skills, or a vector with a Gaussian prior."""
    code_dim: int = 32
    """Relaxed: entries of a Gaussian code."""
    readout: Literal["last", "attentive"] = "last"
    """Relaxed: where the code of a segment is read, softly at its last step or where attention says."""
    boundary_term: Literal["first", "lengths"] = "first"
    """Relaxed: the prior over boundaries as M times the first one's divergence, or on each segment's soft length."""
    beta_codes: float = 0.1
    """Relaxed: weight of the codes' divergence from their prior."""
    beta_boundaries: float = 0.1
    """Relaxed: weight of the boundaries' divergence from their prior."""
    temperature: float = 1.0
    """Relaxed: of the samples of boundaries and codes."""
    final_temperature: float | None = None
    """Relaxed: the temperature falls to this in the course of training; if None it stays as it is."""
    half_precision: bool = False
    """Whether networks are trained in bfloat16; worth it on accelerators."""
    num_devices: int | None = None
    """Devices that share each batch; all there are if None, or as many as can have equal shares."""
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
        self._check_choices()
        self._check_inference()
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}: use a positive number.")
        if not 0 <= self.cooldown <= 1:
            raise ConfigError(f"cooldown is {self.cooldown}: use a share between 0 and 1.")
        if self.sigma_floor is not None and not self.sigma_floor > 0:
            raise ConfigError(f"sigma_floor is {self.sigma_floor}: use a positive number, such as 0.5.")
        if self.duration_weight is not None and not self.duration_weight >= 0:
            raise ConfigError(f"duration_weight is {self.duration_weight}: use 0 or more.")
        if self.termination_weight is not None and not self.termination_weight > 0:
            raise ConfigError(f"termination_weight is {self.termination_weight}: use a positive number, such as 1.")
        if not self.effect_spread > 0:
            raise ConfigError(f"effect_spread is {self.effect_spread}: use a positive number, such as 0.2.")
        if self.duration_rate is not None and not self.duration_rate > 0:
            raise ConfigError(f"duration_rate is {self.duration_rate}: use a positive number, such as 3, or None.")
        for name in ("longest_segment", "num_devices"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}: use at least 1, or None.")

    def _check_choices(self) -> None:
        for field in dataclasses.fields(self):
            choices = get_args(field.type) if get_origin(field.type) is Literal else ()
            value = getattr(self, field.name)
            yes_or_no = (True, False, None) if field.default is None else (True, False)
            if field.type in (bool, bool | None) and not any(value is choice for choice in yes_or_no):
                raise ConfigError(f"{field.name} is {value!r}: use {' or '.join(map(repr, yes_or_no))}.")
            if choices and value not in choices:
                raise ConfigError(f"{field.name} is {value!r}: use {' or '.join(map(repr, choices))}.")

    def _check_inference(self) -> None:
        """What goes together, and what does not."""
        others = EXACT_ONLY if self.inference == "relaxed" else RELAXED_ONLY
        for field in dataclasses.fields(self):
            if field.name in others and getattr(self, field.name) != field.default:
                wanted = "exact" if self.inference == "relaxed" else "relaxed"
                raise ConfigError(
                    f"{field.name} has no meaning for {self.inference} inference: leave it out, or pass "
                    f'inference="{wanted}".'
                )
        if self.inference == "exact":
            return
        if self.forgetful and not self.recurrent:
            raise ConfigError("forgetful is True: only policies that remember can forget; pass recurrent=True too.")
        if self.num_segments is None:
            raise ConfigError('num_segments is None: relaxed inference must be told it; or pass inference="exact".')
        for name in ("beta_codes", "beta_boundaries"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: use 0 or more.")
        for name in ("temperature", "final_temperature"):
            value = getattr(self, name)
            if value is not None and not value >= LEAST_TEMPERATURE:
                raise ConfigError(f"{name} is {value}: use at least {LEAST_TEMPERATURE:g}, such as 1.")
        if self.final_temperature is not None and self.final_temperature > self.temperature:
            raise ConfigError(
                f"final_temperature is {self.final_temperature} and temperature {self.temperature}: temperatures fall "
                "in the course of training; make the final one smaller, or leave it out."
            )

    def _check_numbers(self) -> None:
        for name in (*WHOLE, *WHOLE_OR_NONE, *REAL, *REAL_OR_NONE):
            value = getattr(self, name)
            if value is None and name in (*WHOLE_OR_NONE, *REAL_OR_NONE):
                continue
            kind = numbers.Integral if name in (*WHOLE, *WHOLE_OR_NONE) else numbers.Real
            if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
                what = "a whole number" if kind is numbers.Integral else "a number"
                raise ConfigError(f"{name} is {value!r}: use {what}{_HINTS.get(name, '')}.")

    @property
    def num_codes(self) -> int:
        """Codes that can be told: one for each skill, or for each entry of a Gaussian code."""
        return self.num_skills if self.codes == "categorical" else self.code_dim

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
        if self.inference == "relaxed":
            defaults: dict[str, Any] = {"duration_rate": PAPER_RATE, "sigma_floor": 0.25}
        else:
            known = self.num_segments is not None or self.counts_told
            defaults = {
                "duration_weight": None if known else 0.0,
                "shared_termination": not known,
                "termination_weight": 1.0 if known else 3.0,
                "sigma_floor": 0.5,
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
