"""Defines trained agents, which are evaluated on unseen levels, choose options one by one, and can be saved."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from compile_il.config import TEST_SEED
from compile_il.model import files as model_files
from compile_il.model.files import AGENT_FOLDER, ModelError, fill_shapes, load_arrays, save_arrays
from compile_il.model.model import Model
from compile_il.rl.agent import NO_TASK, TASK_KINDS, Agent, AgentInput, GreedyAgent
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.environment import EnvState, OptionEnv, TaskWorld
from compile_il.rl.options import make_options
from compile_il.worlds import WORLDS, GridWorld, make_world, name_of
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.world import key_of

if TYPE_CHECKING:
    import gymnasium

_run = eqx.filter_jit(Agent.__call__)
AGENT_FORMAT = 3
"""Version of the files of agents."""
SKILLS_FOLDER = "skills"


class EpisodeResult(NamedTuple):
    """Result of one episode, or of several, stacked; `PlayerScores` are their means."""

    success: Bool[Array, ""]
    reward: Float[Array, ""]
    num_steps: Int[Array, ""]
    num_decisions: Int[Array, ""]
    num_skills: Int[Array, ""]


@eqx.filter_jit
def run_episodes(env: OptionEnv, agent: Agent | GreedyAgent, key: PRNGKeyArray) -> EpisodeResult:
    """Runs one episode on each level of an environment."""

    def step(carry: tuple[EnvState, Any], key: PRNGKeyArray) -> tuple[tuple[EnvState, Any], EpisodeResult]:
        state, over = carry
        after, result = env.step(agent, state, key)
        row = EpisodeResult(
            success=result.success,
            reward=jnp.where(result.over, result.episode_reward, 0.0),
            num_steps=jnp.array(1),
            num_decisions=result.ended.astype(int),
            num_skills=(result.ended & (state.decision.option >= env.options.num_actions)).astype(int),
        )
        counted: EpisodeResult = jax.tree.map(lambda leaf: jnp.where(over, jnp.zeros_like(leaf), leaf), row)
        return (after, over | result.over), counted

    def run(level_index: Int[Array, ""], key: PRNGKeyArray) -> EpisodeResult:
        keys = jax.random.split(key, env.world.max_steps + 1)
        _, rows = jax.lax.scan(step, (env.start_on(level_index, agent, keys[0]), jnp.array(False)), keys[1:])
        total: EpisodeResult = jax.tree.map(jnp.sum, rows)
        return total._replace(success=total.success > 0)

    return jax.vmap(run)(jnp.arange(env.num_levels), jax.random.split(key, env.num_levels))


class PlayerScores(NamedTuple):
    """Scores of an agent: means over episodes on unseen levels."""

    success: float
    """Share of levels on which all tasks were done."""
    reward: float
    """Undiscounted reward of an episode."""
    num_steps: float
    """Number of low-level steps of an episode."""
    num_decisions: float
    """Number of options in an episode."""
    skill_share: float
    """Share of skills among all options."""


@dataclasses.dataclass(frozen=True)
class Player:
    """A trained agent with its settings, its world if it is of this package, and the model whose skills it calls."""

    agent: Agent
    config: AgentConfig
    world: TaskWorld | None
    model: Model | None

    def evaluate(self, *, num_levels: int = 1024, seed: int = TEST_SEED, sample: bool = True) -> PlayerScores:
        """Runs one episode on each of `num_levels` unseen levels; `seed` is that of levels and options.

        Options are drawn with the agent's probabilities, as in training; if `sample` is false, the most probable one is
        taken. An agent that takes the same action whenever it is in the same state may stay there for ever.
        """
        if self.world is None:
            raise AgentError("This agent's environment has no levels to draw: play it there, with choose(observation).")
        if isinstance(num_levels, bool) or not isinstance(num_levels, int | np.integer) or num_levels < 1:
            raise AgentError(f"num_levels is {num_levels!r}: use a whole number, at least 1.")
        options = make_options(self.config.agent, self.world, self.model)
        env = OptionEnv(options, draw_levels(self.world, key_of(seed), num_levels), self.world, self.config)
        agent = self.agent if sample else GreedyAgent(self.agent)
        episodes = jax.tree.map(np.asarray, run_episodes(env, agent, key_of(seed)))
        means = [float(values.mean()) for values in episodes[:4]]
        return PlayerScores._make([*means, float(episodes.num_skills.sum() / episodes.num_decisions.sum())])

    def choose(
        self,
        observation: NDArray[Any],
        tasks: Sequence[int] | NDArray[np.integer] = (0,),
        *,
        kind: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> int:
        """Chooses an option, by its number: first the environment's actions, then the skills, as `SkillEnv` runs them.

        Args:
          observation: observation of the environment.
          tasks: object types of the tasks that remain, the current one first; (0,) in environments without tasks.
          kind: type of the tasks, "visit" or "pickup"; by default that of the agent's world.
          rng: draws the option with the agent's probabilities, as in training; None for the most probable one.
        """
        if np.shape(observation) != self.agent.observation_shape:
            needed = f"The agent needs observations of shape {self.agent.observation_shape}"
            raise AgentError(f"{needed}, and this one has {np.shape(observation)}.")
        kind = getattr(self.world, "kind", TASK_KINDS[0]) if kind is None else kind
        if kind not in TASK_KINDS:
            raise AgentError(f"There are no tasks of kind {kind!r}: use one of {', '.join(TASK_KINDS)}.")
        remaining, num_types = np.asarray(tasks), self.agent.shapes["num_types"]
        valid = np.issubdtype(remaining.dtype, np.integer) and remaining.ndim == 1 and remaining.size
        if not valid or not ((remaining >= 0) & (remaining < num_types)).all():
            raise AgentError(f"tasks are {tasks}: give object types from 0 to {num_types - 1}, at least one.")
        padded = pad_tasks(remaining.tolist(), self.agent.num_input_tasks)
        inputs = AgentInput(jnp.asarray(observation), jnp.array(TASK_KINDS.index(kind)), jnp.array(padded))
        probs = np.asarray(jax.nn.softmax(_run(self.agent, inputs).logits), np.float64)
        return int(probs.argmax() if rng is None else rng.choice(len(probs), p=probs / probs.sum()))

    def make_env(self, render_mode: Literal["rgb_array", "ansi"] | None = None) -> "gymnasium.Env[Any, Any]":
        """Makes a Gymnasium environment of the agent's world, whose actions are the options that `choose` numbers."""
        from compile_il.rl.skill_env import SkillEnv
        from compile_il.worlds.gym import env_of

        if not isinstance(self.world, GridWorld):
            raise AgentError("This agent acts in an environment of your own: wrap that one, with SkillEnv.")
        env = env_of(self.world, render_mode)
        if self.model is None:
            return env
        return SkillEnv(env, self.model, discount=self.config.discount, max_steps=self.config.max_skill_steps)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes `agent/` and, where there are some, `skills/` into a folder; `load_player` reads them."""
        target, world, name = Path(folder), None, name_of(self.world)
        if name is not None:  # a file cannot hold worlds of others
            options = {field.name: getattr(self.world, field.name) for field in dataclasses.fields(WORLDS[name])}
            options.pop("kind", None)
            world = {"name": name, "options": options}
        settings, shapes = self.config.to_json(), self.agent.shapes
        description = {"format": AGENT_FORMAT, "settings": settings, "world": world, "shapes": shapes}
        if self.model is not None:
            self.model.save(target / SKILLS_FOLDER, overwrite=overwrite)
        save_arrays(self.agent, description, target / AGENT_FOLDER, overwrite=overwrite)
        return target


def pad_tasks(tasks: Sequence[int], num_tasks: int) -> NDArray[np.int32]:
    """Returns the first `num_tasks` of a list of tasks, padded with `NO_TASK`."""
    return np.array([*tasks, *[NO_TASK] * num_tasks][:num_tasks], np.int32)


def load_player(folder: str | os.PathLike[str]) -> Player:
    """Reads the agent of a run, or of `Player.save`, and checks its files."""
    place = Path(folder) / AGENT_FOLDER
    if not place.is_dir():
        raise ModelError(f"{folder} holds no agent: give the folder of a run of `compile-il rl` that has ended.")
    description, arrays = load_arrays(place, AGENT_FORMAT)
    try:
        config, options, shapes = (description[name] for name in ("settings", "world", "shapes"))
        config = AgentConfig().changed(config)
        world = None if options is None else cast(TaskWorld, make_world(options["name"], **options["options"]))
        model = None if config.agent == "low-level" else model_files.load(Path(folder) / SKILLS_FOLDER)
        if world is not None:
            make_options(config.agent, world, model)  # refuses what does not go together
        shapes["observation_shape"] = tuple(shapes["observation_shape"])
        agent = eqx.filter_eval_shape(functools.partial(Agent, config, **shapes), key=key_of(0))
    except (KeyError, TypeError, ValueError) as error:
        raise error if isinstance(error, ModelError) else ModelError.no_model(place, error) from error
    return Player(fill_shapes(agent, arrays, place), config, world, model)
