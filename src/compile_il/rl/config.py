"""Declares the settings of agents and of their training."""

import dataclasses
from typing import Literal

from compile_il.config import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SEED, CompileError, Settings, setting

AgentKind = Literal["hierarchical", "low-level", "bc"]
"""Kinds of agents in the paper: with skills, without, and with skills that are whole demonstrations."""
DISCOUNT = POSITIVE._replace(words=" above 0 and up to 1", most=1)


class AgentError(CompileError):
    """Error for settings, skills or a world that do not go together; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class AgentConfig(Settings):
    """Settings of reinforcement learning; the defaults are the paper's where it gives them."""

    error = AgentError

    agent: AgentKind = "hierarchical"
    """Kind of agent: "hierarchical" chooses among actions and skills, "low-level" among actions; "bc" is
    hierarchical with skills of whole demonstrations, and with all remaining tasks as input."""
    num_iterations: int = setting(1000, AT_LEAST_ONE)
    """Number of iterations, in each of which all environments are stepped and the agent learns from it. Learning rate
    and entropy cost fall over all of them; resuming with more iterations raises both again."""
    num_environments: int = setting(4096, AT_LEAST_ONE)
    """Number of environments that are stepped at once, for each seed."""
    num_ticks: int = setting(64, AT_LEAST_ONE)
    """Number of steps that each environment makes in an iteration; with actors on Ray, number of decisions."""
    num_decisions: int | None = setting(None, AT_LEAST_ONE)
    """Largest number of decisions in a trajectory, of which the first are kept; None for all. With actors on Ray,
    number of decisions in place of num_ticks."""
    max_skill_steps: int | None = setting(None, AT_LEAST_ONE)
    """Number of steps after which a skill is ended that has not ended by itself; None, as in the paper, to let it run
    to the end of the episode."""
    batch_size: int = setting(256, AT_LEAST_ONE)
    """Number of trajectories in each update."""
    num_levels: int = setting(1 << 16, AT_LEAST_ONE)
    """Number of levels that are drawn beforehand; an episode begins on one of them."""
    learning_rate: float = setting(3e-4, POSITIVE)
    """Learning rate of Adam at the start; the paper has 0.001 (docs/decisions.md, "The learning rate falls")."""
    final_learning_rate: float | None = setting(1e-4, POSITIVE)
    """Learning rate of Adam at the end, to which it falls exponentially; None, as in the paper, for a constant one
    (docs/decisions.md, "The learning rate falls")."""
    max_change: float | None = setting(0.2, NOT_NEGATIVE)
    """Largest share by which updates make a choice less or more probable than it was when made; None, as in the paper,
    for no limit (docs/decisions.md, "A choice is not pushed far by the same trajectories")."""
    entropy_cost: float = setting(0.0005, NOT_NEGATIVE)
    """Weight of the policy's entropy in the loss."""
    first_entropy_cost: float | None = setting(None, NOT_NEGATIVE)
    """Weight of the policy's entropy at the start, which falls to `entropy_cost` by half of training; None for a
    constant one. A larger one keeps agents from giving up skills that fail at first."""
    baseline_cost: float = setting(0.5, NOT_NEGATIVE)
    """Weight of the baseline's error in the loss."""
    discount: float = setting(0.99, DISCOUNT)
    """Discount of rewards for each step of the world, γ."""
    hidden_dim: int = setting(128, AT_LEAST_ONE)
    """Number of units of the encoder's linear layer and of each of the two hidden layers."""
    num_maps: int = setting(32, AT_LEAST_ONE)
    """Number of feature maps of each of the two convolutions."""
    embed_dim: int = setting(16, AT_LEAST_ONE)
    """Length of the embedding vectors of task type and object type, each."""
    half_precision: bool = False
    """Whether networks for grids compute in bfloat16; worth it on accelerators."""
    num_seeds: int = setting(1, AT_LEAST_ONE)
    """Number of agents that learn at once, each from a random start of its own."""
    seed: int = setting(0, SEED)
    """Seed of initial weights, levels and all samples while acting."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.final_learning_rate is not None and self.final_learning_rate > self.learning_rate:
            raise AgentError(
                f"final_learning_rate is {self.final_learning_rate}, above learning_rate, {self.learning_rate}: use a "
                "smaller one, or None for a constant rate."
            )
        if self.num_environments % self.batch_size:
            raise AgentError(
                f"{self.num_environments} environments cannot be divided into batches of {self.batch_size}: make "
                "num_environments a multiple of batch_size."
            )
        if self.num_decisions is not None and self.num_decisions > self.num_ticks:
            raise AgentError(
                f"num_decisions is {self.num_decisions}, and {self.num_ticks} steps hold no more than {self.num_ticks} "
                "decisions: use fewer, or None for all."
            )

    @property
    def trajectory_length(self) -> int:
        """Largest number of decisions in a trajectory."""
        return self.num_ticks if self.num_decisions is None else self.num_decisions

    def num_input_tasks(self, num_tasks: int) -> int:
        """Returns the number of tasks in the agent's input: all `num_tasks` for "bc", else the current one only."""
        return num_tasks if self.agent == "bc" else 1
