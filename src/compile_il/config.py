"""Declares settings as fields of frozen dataclasses, each with a range and a line of documentation, and checks them."""

import dataclasses
import difflib
import math
import numbers
from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, get_args

MAX_SEED = 2**32 - 1
"""Largest seed: JAX would leave out the bits above it, and two seeds would be the same."""
LEAST_TEMPERATURE = 1e-6
"""Smallest temperature allowed: a smaller divisor of relaxed samples would be lost in single precision."""
VALIDATION_SEED = 1_000_003
"""Seed of the levels on which settings are chosen."""
TEST_SEED = 11_000_027
"""Seed of the levels for scores that are reported; docs/results.md says which choices have seen them."""

Decoder = Literal["exact", "recognition"]
"""How segments are inferred: by sums over all segmentations, or one after the other by the recognition model."""
Best = Literal["boundaries", "path"]
"""What the exact decoder returns: the boundaries most likely to be right, or the most probable segmentation."""


class CompileError(ValueError):
    """Base of all errors of this package but those of files (`OSError`); the message says what to do."""


class ConfigError(CompileError):
    """Settings that cannot work; the message says what to change."""


class MissingExtraError(ImportError):
    """Names a library that is not installed, and the extra that brings it."""


class CompileWarning(UserWarning):
    """Base of all warnings of this package."""


class Range(NamedTuple):
    """The numbers that a setting may be, and the words for them in an error."""

    words: str = ""
    least: float = -math.inf
    most: float = math.inf


ANY = Range()
AT_LEAST_ONE = Range(" of at least 1", least=1)
NOT_NEGATIVE = Range(" of at least 0", least=0)
POSITIVE = Range(" above 0", least=math.ulp(0))
SEED = Range(f" from 0 to {MAX_SEED}", least=0, most=MAX_SEED)
TEMPERATURE = Range(f" of at least {LEAST_TEMPERATURE:g}", least=LEAST_TEMPERATURE)


def setting(default: Any, within: Range = ANY, only: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Declares a field of `Settings`, with the range of its numbers.

    It has an effect only if other settings, declared above it, have the values in `only`.
    """
    return dataclasses.field(default=default, metadata={"within": within, "only": only})


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of dataclasses of settings: numbers, Literals and bools, some of which may be None."""

    error: ClassVar[type[ValueError]] = ConfigError

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._checked(field, getattr(self, field.name)))
            for other, wanted in field.metadata.get("only", {}).items():
                if getattr(self, field.name) != field.default and (given := getattr(self, other)) != wanted:
                    raise self.error(
                        f'{field.name} has no meaning for {given} {other}: leave it out, or pass {other}="{wanted}".'
                    )

    def _checked(self, field: dataclasses.Field[Any], value: Any) -> Any:
        """Returns the value of a setting, numbers as plain ints or floats; refuses what it may not be."""
        kinds = [part for kind in get_args(field.type) or (field.type,) for part in get_args(kind) or (kind,)]
        words = {bool: (True, False), NoneType: (None,), int: (), float: ()}
        choices = [choice for kind in kinds for choice in words.get(kind, (kind,))]
        if any(isinstance(value, type(choice)) and value == choice for choice in choices):
            return value
        within, allowed = field.metadata.get("within", ANY), [repr(choice) for choice in choices]
        if int in kinds or float in kinds:
            wanted: Any = numbers.Integral if int in kinds else numbers.Real
            is_number = isinstance(value, wanted) and not isinstance(value, bool) and math.isfinite(value)
            if is_number and within.least <= value <= within.most:
                # A plain 1 stays one where any number will do: folders of trainings are named by their settings.
                return int(value) if int in kinds or type(value) is int else float(value)
            allowed = [f"a{' whole' if int in kinds else ''} number{within.words}", *allowed]
        raise self.error(f"{field.name} is {value!r}: use {' or '.join(allowed)}.")

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Returns a copy with some settings changed; unknown names are refused."""
        names = [field.name for field in dataclasses.fields(self)]
        for name in (name for name in changes if name not in names):
            close = difflib.get_close_matches(name, names, n=1)
            hint = f": did you mean {close[0]}?" if close else f": there are {', '.join(names)}."
            raise self.error(f"There is no setting {name}{hint}")
        return dataclasses.replace(self, **changes)

    @classmethod
    def given(cls, settings: Any, changes: Mapping[str, Any]) -> Self:
        """Returns given settings, or for None the default ones, with some of them changed."""
        if settings is not None and not isinstance(settings, cls):
            raise cls.error(
                f"config is a {type(settings).__name__}: pass {cls.__name__}(...), or settings by their "
                "names, such as seed=1; those in a dictionary as **settings."
            )
        return (settings or cls()).changed(changes)

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a dictionary of plain values."""
        return dataclasses.asdict(self)


class SegmentCounts(NamedTuple):
    """Summary of the numbers of segments that labels of the data give, where the settings leave them open."""

    largest: int = 0
    """Largest number of segments that labels give for any demonstration; 0 if they give none."""
    of_all: bool = False
    """Whether labels give the number of segments of every demonstration."""


NO_COUNTS = SegmentCounts()

EXACT = {"inference": "exact"}
RELAXED = {"inference": "relaxed"}
GAUSSIAN = {"inference": "relaxed", "codes": "gaussian"}
if TYPE_CHECKING:
    Count = int | None
else:  # what may be given, on the command line too; None is what is kept of "unknown"
    Count = int | Literal["unknown"] | None


@dataclasses.dataclass(frozen=True)
class Config(Settings):
    """Settings of `fit`, each documented in one line."""

    num_segments: Count = setting(3, AT_LEAST_ONE)
    """Number of segments in each demonstration; None, or "unknown", if labels give it or it is to be inferred."""
    max_segments: int = setting(12, AT_LEAST_ONE)
    """Most segments considered where their number is not known; raised to the largest number that labels give."""
    num_skills: int = setting(10, AT_LEAST_ONE)
    """Number of skills."""
    inference: Literal["exact", "relaxed"] = "exact"
    """How boundaries and skills are inferred: summed out, or by the paper's recognition model with relaxed samples."""
    supervision: Literal["none", "b", "z", "bz"] = "none"
    """Labels on fresh demonstrations of a world: boundaries (b), codes in order (z) or both; data has its own."""
    num_iterations: int = setting(500, AT_LEAST_ONE)
    """Number of training steps."""
    batch_size: int = setting(32, AT_LEAST_ONE)
    """Number of demonstrations in each training step."""
    hidden_dim: int = setting(64, AT_LEAST_ONE)
    """Number of units in each hidden layer; the paper has 256."""
    num_maps: int = setting(16, AT_LEAST_ONE)
    """Number of feature maps of each convolution; the paper has 64."""
    policy_layers: int = setting(1, AT_LEAST_ONE)
    """Number of hidden layers of each policy; the paper has 2 for the reacher."""
    recurrent: bool = False
    """Whether policies have a memory (an LSTM) of earlier states and actions, for partially observed worlds."""
    forgetful: bool = setting(False, only=RELAXED)
    """Relaxed: whether the memory of recurrent policies is cleared wherever a skill begins."""
    learning_rate: float = setting(1e-3, POSITIVE)
    """Learning rate of Adam."""
    cooldown: float = setting(0.2, Range(" from 0 to 1", least=0, most=1))
    """Share of the iterations, at the end, over which the learning rate falls linearly to zero."""
    max_gradient: float | None = setting(None, POSITIVE)
    """Norm to which gradients are clipped, over all parameters of a model; None for no limit."""
    duration_weight: float | None = setting(None, NOT_NEGATIVE, only=EXACT)
    """Weight of the Poisson factor on lengths; if None learned, or 1 where the number of segments is not known."""
    duration_rate: float | None = setting(None, POSITIVE)
    """Expected steps of a segment; if None the data's mean, learned for unknown numbers; relaxed in worlds: 3."""
    longest_segment: int | None = setting(None, AT_LEAST_ONE, only=EXACT)
    """Most steps of a segment, beyond which it is not considered; None for no limit."""
    change_rule: bool = setting(True, only=EXACT)
    """Whether a termination rule of all skills that reads the change of the observation is added to theirs."""
    shared_termination: bool | None = setting(None, only=EXACT)
    """Whether all skills share one termination rule; if None, only where the number of segments is not known."""
    termination_weight: float | None = setting(None, POSITIVE, only=EXACT)
    """Weight of the termination rule in the likelihood; if None 1, or 3 where the number of segments is unknown."""
    sigma_floor: float | None = setting(None, POSITIVE)
    """Least spread of policies' continuous actions, in standard deviations of the data's; if None 0.5, relaxed 0.25."""
    uniform_share: float | None = setting(None, Range(" from 0 to below 1", least=0, most=1 - 1e-6))
    """Share of a uniform distribution in policies over discrete actions; if None 0.05, relaxed 0."""
    segment_cost: float = setting(0.0, only=EXACT)
    """Log-probability subtracted for each segment after the first, if their number is not known."""
    effects: bool = setting(False, only=EXACT)
    """Whether skills also differ in what they change, so that each stands for an object instead of a location."""
    effect_spread: float = setting(0.2, POSITIVE, only=EXACT)
    """Deviation of a skill's effect, in largest entries of a channel or deviations of a column; smaller counts more."""
    codes: Literal["categorical", "gaussian"] = setting("categorical", only=RELAXED)
    """Relaxed: whether the code of a segment is one of the skills, or a vector with a Gaussian prior."""
    code_dim: int = setting(32, AT_LEAST_ONE, only=GAUSSIAN)
    """Relaxed: number of entries of a Gaussian code."""
    readout: Literal["last", "attentive"] = setting("last", only=RELAXED)
    """Relaxed: where the code of a segment is read: softly at its last step, or weighted by attention."""
    boundary_term: Literal["first", "lengths"] = setting("first", only=RELAXED)
    """Relaxed: the prior over boundaries as M times the first one's divergence, or on each segment's soft length."""
    beta_codes: float = setting(0.1, NOT_NEGATIVE, only=RELAXED)
    """Relaxed: weight of the divergence of codes from their prior."""
    beta_boundaries: float = setting(0.1, NOT_NEGATIVE, only=RELAXED)
    """Relaxed: weight of the divergence of boundaries from their prior."""
    temperature: float = setting(1.0, TEMPERATURE, only=RELAXED)
    """Relaxed: temperature of the samples of boundaries and codes."""
    final_temperature: float | None = setting(None, TEMPERATURE, only=RELAXED)
    """Relaxed: temperature at the end of training, to which it falls exponentially; if None it does not change."""
    half_precision: bool = False
    """Whether networks compute in bfloat16 during training; worth it on accelerators."""
    num_devices: int | None = setting(None, AT_LEAST_ONE)
    """Number of devices that share each batch; if None all, or the most that can have equal shares."""
    num_seeds: int = setting(1, AT_LEAST_ONE)
    """Number of models trained at once; the one with the best held-out likelihood is kept."""
    seed: int = setting(0, SEED)
    """Seed of all that is random in training: initial weights, batches, noise and fresh demonstrations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.num_segments, str):
            object.__setattr__(self, "num_segments", None)
        if self.forgetful and not self.recurrent:
            raise ConfigError("forgetful is True: only policies that remember can forget; pass recurrent=True too.")
        if self.final_temperature is not None and self.final_temperature > self.temperature:
            raise ConfigError(
                f"final_temperature is {self.final_temperature} and temperature {self.temperature}: temperatures fall "
                "in the course of training; make the final one smaller, or leave it out."
            )

    @property
    def num_codes(self) -> int:
        """Number of codes that labels can name: one for each skill, or for each entry of a Gaussian code."""
        return self.num_skills if self.codes == "categorical" else self.code_dim

    def resolved(self, labels: SegmentCounts = NO_COUNTS) -> Self:
        """Replaces each None whose default follows from the inference or from what gives the number of segments.

        Where nothing gives it, one rule ends all skills, and its predictions weigh more than those of actions: what
        sets a real boundary apart is the event itself (docs/decisions.md, "Unknown number of segments").
        """
        known = self.num_segments is not None or labels.of_all
        if self.inference == "relaxed":
            defaults: dict[str, Any] = {"num_segments": labels.largest if labels.of_all else None}
            defaults |= {"sigma_floor": 0.25, "uniform_share": 0.0}
        else:
            defaults = {
                "duration_weight": None if known else 1.0,
                "shared_termination": not known,
                "termination_weight": 1.0 if known else 3.0,
                "sigma_floor": 0.5,
                "uniform_share": 0.05,
            }
        unset = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return dataclasses.replace(self, max_segments=max(self.max_segments, labels.largest), **unset)
