"""What an agent is and how it learns: frozen, validated when built, plain enough for a JSON file."""

import dataclasses
import difflib
from typing import Any, Literal, Self, get_args

from compile_il.setting import NUMBERS, is_whole, plain_number

AgentKind = Literal["hierarchical", "low-level", "bc"]
"""The paper's three agents: with skills, without, and with skills that are whole demonstrations."""


class HierarchyError(ValueError):
    """Settings, skills or a world that do not go together; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """Settings of reinforcement learning; the defaults are the paper's where it gives them."""

    agent: AgentKind = "hierarchical"
    """Who learns: "hierarchical" chooses among actions and skills, "low-level" among actions, "bc" as hierarchical, but
    with skills of whole demonstrations, and told all tasks that remain."""
    num_iterations: int = 1000
    """Times that all environments are stepped and the agent learns from it. The rate and the entropy's cost fall in the
    course of them, so that a run which is resumed with more goes on with those of the longer run."""
    num_environments: int = 4096
    """Environments that are stepped at once, for each seed."""
    num_ticks: int = 64
    """Steps that each environment makes before the agent learns."""
    num_decisions: int | None = None
    """Decisions in a trajectory at most, later ones of the same steps are left out; None where all are to be kept."""
    max_skill_steps: int | None = None
    """Steps after which a skill ends that has not ended by itself; None, as in the paper, where it then runs to the end
    of the episode."""
    batch_size: int = 256
    """Trajectories in each update."""
    num_levels: int = 1 << 16
    """Levels that are drawn beforehand; an episode begins on one of them."""
    learning_rate: float = 3e-4
    """Of Adam, at first; the paper has 0.001 (docs/decisions.md, "The learning rate falls")."""
    final_learning_rate: float | None = 1e-4
    """Of the last update, to which the rate falls by the same factor from one update to the next; None, as in the
    paper, where it stays the same (docs/decisions.md, "The learning rate falls")."""
    max_change: float | None = 0.2
    """Share by which a choice may become less or more probable than when it was made before it is pushed no further;
    None, as in the paper, for no limit (docs/decisions.md, "A choice is not pushed far by the same trajectories")."""
    entropy_cost: float = 0.0005
    """Weight of the policy's entropy."""
    first_entropy_cost: float | None = None
    """A larger weight at first, which falls to `entropy_cost` by half of training; None where it stays the same. An
    agent that is punished for most skills before it knows which one to call must not give them up."""
    baseline_cost: float = 0.5
    """Weight of the baseline's error."""
    discount: float = 0.99
    """γ, for each step of the world."""
    hidden_dim: int = 128
    """Units of the two hidden layers."""
    num_maps: int = 32
    """Feature maps of the two convolutions."""
    embed_dim: int = 16
    """Entries of the embeddings of task type and object type, each."""
    half_precision: bool = False
    """Whether networks for grids compute in bfloat16; worth it on accelerators."""
    num_seeds: int = 1
    """Agents that learn at once."""
    seed: int = 0
    """Of initial weights, levels and all that is drawn while acting."""

    def __post_init__(self) -> None:
        if self.agent not in get_args(AgentKind):
            close = difflib.get_close_matches(str(self.agent), get_args(AgentKind), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise HierarchyError(f"There is no agent {self.agent!r}: use {_listed(get_args(AgentKind))}.{hint}")
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._checked(field.name, field.type))
        if self.seed >= 1 << 63:
            raise HierarchyError(f"seed is {self.seed}: use one below 2^63.")
        if not 0 <= self.discount <= 1:
            raise HierarchyError(f"discount is {self.discount}: use a number between 0 and 1, such as 0.99.")
        for name in ("learning_rate", "final_learning_rate"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise HierarchyError(f"{name} is {getattr(self, name)}: use a positive number.")
        if self.final_learning_rate is not None and self.final_learning_rate > self.learning_rate:
            raise HierarchyError(
                f"final_learning_rate is {self.final_learning_rate}, above learning_rate, {self.learning_rate}: use a "
                "smaller one, or None for a rate that stays."
            )
        if self.num_environments % self.batch_size:
            raise HierarchyError(
                f"{self.num_environments} environments cannot be shared out into batches of {self.batch_size}: make "
                "num_environments a multiple of batch_size."
            )
        if self.num_decisions is not None and self.num_decisions > self.num_ticks:
            raise HierarchyError(
                f"num_decisions is {self.num_decisions}, and {self.num_ticks} steps hold no more than {self.num_ticks} "
                "decisions: use fewer, or None for all."
            )

    def _checked(self, name: str, kind: Any) -> Any:
        """A setting as it is kept, with a plain number in place of one of NumPy."""
        value = getattr(self, name)
        if kind is bool and not isinstance(value, bool):
            raise HierarchyError(f"{name} is {value!r}: use True or False.")
        if kind not in NUMBERS or (value is None and kind not in (int, float)):
            return value
        number, whole = plain_number(value, kind), is_whole(kind)
        if number is None:
            raise HierarchyError(f"{name} is {value!r}: use {'a whole' if whole else 'a'} number.")
        least = 1 if whole and name != "seed" else 0
        if number < least:
            raise HierarchyError(f"{name} is {number}: use at least {least}.")
        return number

    @property
    def num_updates(self) -> int:
        """Of all iterations."""
        return self.num_iterations * (self.num_environments // self.batch_size)

    @property
    def trajectory_length(self) -> int:
        """Decisions in a trajectory at most."""
        return self.num_ticks if self.num_decisions is None else self.num_decisions

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Reads what `to_json` gave; unknown settings are refused."""
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise HierarchyError(f"Unknown settings {sorted(unknown)}: the file was written by another version.")
        return cls(**values)


def _listed(words: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
