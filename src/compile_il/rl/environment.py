"""Steps environments in which options run, and collects trajectories of decisions.

A loop that runs each option to its end would wait for the longest one in thousands of environments. So each step is one
in every environment, whose state holds the option that is running; where it ends, the agent's next choice begins.

The outcome of an option that takes n steps (semi-Markov decisions; Sutton, Precup and Singh, 1999) is

    reward    Σ_{i<n} γ^i r_i
    discount  γ^n, and 0 where the episode is over

An episode is over at its limit of steps too, which the paper counts among the "termination criteria".
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from compile_il.rl.agent import NO_TASK, TASK_KINDS, Agent, AgentInput, GreedyAgent
from compile_il.rl.config import AgentConfig
from compile_il.rl.options import Options
from compile_il.worlds import ActingWorld
from compile_il.worlds.world import select


@runtime_checkable
class TaskWorld(ActingWorld, Protocol):
    """A world whose tasks are about objects of some types."""

    @property
    def num_types(self) -> int:
        """Number of object types."""


class Decision(NamedTuple):
    """A chosen option and the state it was chosen in, from which its observation is computed again."""

    level_index: Int[Array, ""]
    state: Any
    option: Int[Array, ""]
    log_prob: Float[Array, ""]
    """Log-probability of the option under the policy that chose it."""


class EnvState(NamedTuple):
    """State of one environment between two steps, with the option that is running in it."""

    level_index: Int[Array, ""]
    state: Any
    memory: Any
    decision: Decision
    earned: Float[Array, ""]
    """Σ γ^i r_i over the n steps that the running option has taken so far."""
    discount: Float[Array, ""]
    """γ^n."""
    num_steps: Int[Array, ""]
    """n."""
    episode_reward: Float[Array, ""]
    """Undiscounted reward of the whole episode so far."""


class StepResult(NamedTuple):
    """Result of one step in one environment."""

    ended: Bool[Array, ""]
    """Whether the option ended; if not, `reward` and `discount` are no outcome yet."""
    reward: Float[Array, ""]
    discount: Float[Array, ""]
    decision: Decision
    """Next decision, where the option ended; else that of the running option."""
    over: Bool[Array, ""]
    """Whether the episode ended."""
    success: Bool[Array, ""]
    """Whether the episode ended with all of its tasks done."""
    episode_reward: Float[Array, ""]
    """Undiscounted reward of the episode up to this step."""


class OptionEnv(eqx.Module):
    """Environment of an agent: a world, levels, and options."""

    options: Options
    levels: Any
    world: TaskWorld = eqx.field(static=True)
    config: AgentConfig = eqx.field(static=True)

    @property
    def num_levels(self) -> int:
        """Number of levels on which episodes begin."""
        return jax.tree.leaves(self.levels)[0].shape[0]

    def agent_input(self, level_index: Int[Array, ""], state: Any) -> AgentInput:
        """Returns the input of an agent in a state of a level."""
        level = self._level(level_index)
        kind = TASK_KINDS.index(getattr(self.world, "kind", TASK_KINDS[0]))
        tasks = next_tasks(level.tasks, state.task_index, self.config.num_input_tasks(self.world.num_tasks))
        return AgentInput(self.world.observe(level, state), jnp.array(kind), tasks)

    def start(self, agent: Agent | GreedyAgent, key: PRNGKeyArray) -> EnvState:
        """Starts an environment's first episode on a random level; see `start_on`."""
        level_key, choice_key = jax.random.split(key)
        return self.start_on(self._draw_level(level_key), agent, choice_key)

    def start_on(self, level_index: Int[Array, ""], agent: Agent | GreedyAgent, key: PRNGKeyArray) -> EnvState:
        """Starts an episode on a level, and chooses its first option."""
        state = self.world.start(self._level(level_index))
        inputs = self.agent_input(level_index, state)
        return EnvState(
            level_index=level_index,
            state=state,
            memory=self.options.init(inputs.observation),
            decision=Decision(level_index, state, *agent.choose(inputs, key)),
            earned=jnp.zeros(()),
            discount=jnp.ones(()),
            num_steps=jnp.array(0),
            episode_reward=jnp.zeros(()),
        )

    def step(self, agent: Agent | GreedyAgent, env: EnvState, key: PRNGKeyArray) -> tuple[EnvState, StepResult]:
        """Takes one step with the running option; draws the next one where it ends, and a level after an episode."""
        level_key, choice_key = jax.random.split(key)
        option = env.decision.option
        action = self.options.act(env.memory, option)
        step = self.world.step(self._level(env.level_index), env.state, action)
        over = step.terminated | step.truncated
        earned, discount = env.earned + env.discount * step.reward, env.discount * self.config.discount
        episode_reward = env.episode_reward + step.reward

        level_index = jnp.where(over, self._draw_level(level_key), env.level_index)
        state = select(over, self.world.start(self._level(level_index)), step.state)
        inputs = self.agent_input(level_index, state)
        memory = self.options.observe(env.memory, action, inputs.observation)
        num_steps = env.num_steps + 1
        ended = over | self.options.done(memory, option)
        if self.config.max_skill_steps is not None:
            ended |= num_steps >= self.config.max_skill_steps
        memory = select(ended, self.options.switch_skill(memory, inputs.observation), memory)
        memory = select(over, self.options.init(inputs.observation), memory)
        decision = select(ended, Decision(level_index, state, *agent.choose(inputs, choice_key)), env.decision)
        after = EnvState(
            level_index=level_index,
            state=state,
            memory=memory,
            decision=decision,
            earned=jnp.where(ended, 0.0, earned),
            discount=jnp.where(ended, 1.0, discount),
            num_steps=jnp.where(ended, 0, num_steps),
            episode_reward=jnp.where(over, 0.0, episode_reward),
        )
        success = over & (step.state.task_index == self.world.num_tasks)
        return after, StepResult(ended, earned, jnp.where(over, 0.0, discount), decision, over, success, episode_reward)

    def unroll(self, agent: Agent, env: EnvState, keys: Key[Array, " steps"]) -> tuple[EnvState, StepResult]:
        """Takes one step for each key; returns the last state and all results, stacked."""
        return jax.lax.scan(lambda env, key: self.step(agent, env, key), env, keys)

    def _level(self, index: Int[Array, ""]) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], self.levels)

    def _draw_level(self, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.randint(key, (), 0, self.num_levels, jnp.int32)


def next_tasks(tasks: Int[Array, " M"], task_index: Int[Array, ""], num_tasks: int) -> Int[Array, " tasks"]:
    """Returns the next tasks of a task list, `NO_TASK` behind its end."""
    index = task_index + jnp.arange(num_tasks)
    return jnp.where(index < tasks.shape[0], tasks[jnp.minimum(index, tasks.shape[0] - 1)], NO_TASK)


class Outcomes(NamedTuple):
    """Rewards and discounts of N successive decisions."""

    rewards: Float[Array, " N"]
    discounts: Float[Array, " N"]
    valid: Bool[Array, " N"]
    """Whether the option of each decision has ended; those come first, and the others do not count."""


class Trajectory(NamedTuple):
    """N successive decisions with outcomes; bootstraps with the value of the state after the last valid one."""

    inputs: AgentInput
    """Inputs of the decisions, and the one after the last of them: N + 1."""
    options: Int[Array, " N"]
    log_probs: Float[Array, " N"]
    """Log-probability of each option under the policy that chose it, which may be older."""
    outcomes: Outcomes


def collect(before: Decision, steps: StepResult, num_decisions: int) -> tuple[Decision, Outcomes]:
    """Collects the decisions among the steps of one environment, N + 1 of them, and their N outcomes.

    The first decision is that of the option that ran before the first step. The end of the n-th option is the outcome
    of decision n and the place of decision n + 1. An option that is still running is the first of the next trajectory.
    Of more than N decisions the first ones are taken.
    """
    order = jnp.argsort(~steps.ended, stable=True)[:num_decisions]
    ends = jax.tree.map(lambda leaf: leaf[order], steps)
    decisions = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), before, ends.decision)
    valid = jnp.arange(num_decisions) < jnp.sum(steps.ended)
    return decisions, Outcomes(ends.reward, ends.discount, valid)


def make_trajectory(env: OptionEnv, decisions: Decision, outcomes: Outcomes) -> Trajectory:
    """Makes the trajectory of decisions and outcomes; computes observations again from levels and states."""
    inputs = jax.vmap(env.agent_input)(decisions.level_index, decisions.state)
    return Trajectory(inputs, decisions.option[:-1], decisions.log_prob[:-1], outcomes)
