"""An agent that has learned, with the options that it chooses among: the product of a training.

How well an agent does on levels that it has never seen.
"""

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
from compile_il.model.files import AGENT_FOLDER, ModelError, fill_shapes, load_arrays, no_model, save_arrays
from compile_il.model.model import Model
from compile_il.rl.agent import NO_TASK, TASK_KINDS, Agent, AgentInput, Choice
from compile_il.rl.config import AgentConfig, HierarchyError
from compile_il.rl.environment import Chooser, EnvState, OptionEnv, TaskWorld
from compile_il.rl.options import Options, make_options, observation_of
from compile_il.worlds import WORLDS, GridWorld, make_world, name_of
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.world import key_of

if TYPE_CHECKING:
    import gymnasium


class Greedy(eqx.Module):
    """Agent that no longer explores: it takes its most probable option."""

    agent: Agent

    def choose(self, situation: AgentInput, key: PRNGKeyArray) -> Choice:
        """Most probable option in a situation; the key is not used."""
        del key
        return self.agent.choose_best(situation)


class EpisodeResult(NamedTuple):
    """Result of one episode, from its beginning to its end; of several, stacked."""

    success: Bool[Array, ""]
    """Whether all tasks were done."""
    reward: Float[Array, ""]
    """Undiscounted reward of the episode."""
    num_steps: Int[Array, ""]
    """Number of low-level steps in the episode."""
    num_decisions: Int[Array, ""]
    """Number of options that were called in the episode."""
    num_skills: Int[Array, ""]
    """Number of skills among the options that were called."""


def play(arena: OptionEnv, chooser: Chooser, level_index: Int[Array, ""], key: PRNGKeyArray) -> EpisodeResult:
    """Plays one episode on one level of an arena."""
    keys = jax.random.split(key, arena.world.max_steps + 1)

    def tick(carry: tuple[EnvState, Any], key: PRNGKeyArray) -> tuple[tuple[EnvState, Any], EpisodeResult]:
        now, over = carry
        after, tick = arena.tick(chooser, now, key)
        by_skill = now.decision.option >= arena.options.num_actions
        row = EpisodeResult(
            success=tick.success,
            reward=jnp.where(tick.over, tick.episode_reward, 0.0),
            num_steps=jnp.array(1),
            num_decisions=tick.ended.astype(int),
            num_skills=(tick.ended & by_skill).astype(int),
        )
        counted: EpisodeResult = jax.tree.map(lambda leaf: jnp.where(over, jnp.zeros_like(leaf), leaf), row)
        return (after, over | tick.over), counted

    start = arena.begin_on(level_index, chooser, keys[0]), jnp.array(False)
    _, rows = jax.lax.scan(tick, start, keys[1:])
    total: EpisodeResult = jax.tree.map(jnp.sum, rows)
    return total._replace(success=total.success > 0)


@eqx.filter_jit
def play_all(arena: OptionEnv, chooser: Chooser, key: PRNGKeyArray) -> EpisodeResult:
    """Plays one episode on each level of an arena."""
    keys = jax.random.split(key, arena.num_levels)
    return jax.vmap(functools.partial(play, arena, chooser))(jnp.arange(arena.num_levels), keys)


FORMAT = 1
"""Version of the files of agents, raised whenever older ones can no longer be read."""


SKILLS_FOLDER = "skills"


class PlayerScores(NamedTuple):
    """Scores of an agent: means over episodes on levels that it has never seen."""

    success: float
    """Share of levels on which all tasks were done."""
    reward: float
    """Undiscounted reward of an episode."""
    num_steps: float
    """Number of low-level steps of an episode."""
    num_decisions: float
    """Number of options that were called in an episode."""
    skill_share: float
    """Share of skills among all options that were called."""


@dataclasses.dataclass(frozen=True)
class Player:
    """An agent that has learned.

    Args:
      agent: its networks.
      config: the settings it learned with.
      world: where it acts; None where that is no world of this package.
      model: whose skills it calls; None where it has none.
    """

    agent: Agent
    config: AgentConfig
    world: TaskWorld | None
    model: Model | None

    def evaluate(self, *, num_levels: int = 1024, seed: int = TEST_SEED, sample: bool = True) -> PlayerScores:
        """Plays one episode on each of some levels that no training has seen.

        Args:
          num_levels: number of levels, one episode on each.
          seed: seed of the levels and of the options that are drawn.
          sample: whether options are drawn with the agent's probabilities, as while it learned. Else the most probable
            one is called; an agent that always does the same in the same place may never get away from it.
        """
        if self.world is None:
            raise HierarchyError(
                "This agent acts in an environment that has no levels to draw: play it there, with choose(observation)."
            )
        if isinstance(num_levels, bool) or not isinstance(num_levels, int | np.integer) or num_levels < 1:
            raise HierarchyError(f"num_levels is {num_levels!r}: use a whole number, at least 1.")
        options = make_options(self.config.agent, self.world, self.model)
        levels = draw_levels(self.world, key_of(seed), num_levels)
        arena = make_arena(self.config, self.world, options, levels)
        chooser: Chooser = self.agent if sample else Greedy(self.agent)
        games = jax.tree.map(np.asarray, play_all(arena, chooser, key_of(seed)))
        return PlayerScores(
            success=float(games.success.mean()),
            reward=float(games.reward.mean()),
            num_steps=float(games.num_steps.mean()),
            num_decisions=float(games.num_decisions.mean()),
            skill_share=float(games.num_skills.sum() / games.num_decisions.sum()),
        )

    def choose(
        self,
        observation: NDArray[Any],
        tasks: Sequence[int] | NDArray[np.integer] = (0,),
        *,
        kind: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> int:
        """The option that the agent chooses, by its number: first the environment's actions, then the skills.

        `compile_il.rl.skill_env.SkillEnv` runs what it chooses.

        Args:
          observation: what is seen.
          tasks: the object types of the tasks that remain, the current one first; environments without have one.
          kind: type of the tasks, "visit" or "pickup"; by default that of the agent's world.
          rng: draws the option with the agent's probabilities, as while it learned; None for the most probable one.
        """
        if np.shape(observation) != self.agent.observation_shape:
            raise HierarchyError(
                f"The agent sees observations of shape {self.agent.observation_shape}, and this one has "
                f"{np.shape(observation)}."
            )
        kind = getattr(self.world, "kind", TASK_KINDS[0]) if kind is None else kind
        if kind not in TASK_KINDS:
            raise HierarchyError(f"There are no tasks of kind {kind!r}: use one of {', '.join(TASK_KINDS)}.")
        remaining, num_types = np.asarray(tasks), self.agent.shapes["num_types"]
        whole = np.issubdtype(remaining.dtype, np.integer) and remaining.ndim == 1 and remaining.size
        if not whole or not ((remaining >= 0) & (remaining < num_types)).all():
            raise HierarchyError(f"tasks are {tasks}: give object types from 0 to {num_types - 1}, at least one.")
        told = [*remaining.tolist(), *[NO_TASK] * self.agent.num_told][: self.agent.num_told]
        given = (jnp.asarray(observation), jnp.array(TASK_KINDS.index(kind)), jnp.array(told, jnp.int32))
        probs = np.asarray(_option_probs(self.agent, AgentInput(*given)), np.float64)
        return int(probs.argmax() if rng is None else rng.choice(len(probs), p=probs / probs.sum()))

    def make_env(self, render_mode: Literal["rgb_array", "ansi"] | None = None) -> "gymnasium.Env[Any, Any]":
        """The agent's world as a Gymnasium environment, whose actions are the options that `choose` numbers."""
        from compile_il.rl.skill_env import SkillEnv
        from compile_il.worlds.gym import env_of

        if not isinstance(self.world, GridWorld):
            raise HierarchyError("This agent acts in an environment of your own: wrap that one, with SkillEnv.")
        env = env_of(self.world, render_mode)
        if self.model is None:
            return env
        return SkillEnv(env, self.model, discount=self.config.discount, max_steps=self.config.max_skill_steps)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes `agent/` and, where it has some, `skills/` into a folder; `load_player` reads them.

        Args:
          folder: where to write.
          overwrite: whether an agent that is there may be replaced.
        """
        target = Path(folder)
        world = _describe(self.world)
        description = {"format": FORMAT, "settings": self.config.to_json(), "world": world, "shapes": self.agent.shapes}
        if self.model is not None:
            self.model.save(target / SKILLS_FOLDER, overwrite=overwrite)
        save_arrays(self.agent, description, target / AGENT_FOLDER, overwrite=overwrite)
        return target


@eqx.filter_jit
def _option_probs(agent: Agent, situation: AgentInput) -> Array:
    return jax.nn.softmax(agent(situation).logits)


def load_player(folder: str | os.PathLike[str]) -> Player:
    """Reads what `Player.save` wrote, or the agent of a run, and checks all of it."""
    place = Path(folder) / AGENT_FOLDER
    if not place.is_dir():
        raise ModelError(f"{folder} holds no agent: give the folder of a run of `compile-il rl` that has ended.")
    description, arrays = load_arrays(place, FORMAT)
    try:
        config = AgentConfig.from_json(description["settings"])
        world = _world_of(description["world"])
        model = None if config.agent == "low-level" else model_files.load(Path(folder) / SKILLS_FOLDER)
        make = _maker_of(config, description["shapes"]) if world is None else agent_maker(config, world, model)
        shapes = eqx.filter_eval_shape(make, key=key_of(0))
    except (KeyError, TypeError, ValueError) as error:
        raise error if isinstance(error, ModelError) else no_model(place, error) from error
    return Player(fill_shapes(shapes, arrays, place), config, world, model)


def agent_maker(config: AgentConfig, world: TaskWorld, model: Model | None) -> "functools.partial[Agent]":
    """Function that makes an agent for a world and its options, given a `key`."""
    return functools.partial(
        Agent,
        config,
        observation_shape=observation_of(world).shape,
        num_types=world.num_types,
        num_told=num_told(config, world),
        num_options=make_options(config.agent, world, model).num_options,
    )


def make_arena(config: AgentConfig, world: TaskWorld, options: Options, levels: Any) -> OptionEnv:
    """Arena in which an agent with these settings acts: world, levels and options."""
    return OptionEnv(options, levels, world, config.discount, num_told(config, world), config.max_skill_steps)


def num_told(config: AgentConfig, world: TaskWorld) -> int:
    """Number of tasks that an agent is told of: all of a list for "bc", else the current one only."""
    return world.num_tasks if config.agent == "bc" else 1


def _describe(world: TaskWorld | None) -> dict[str, Any] | None:
    """A world of this package by its name and options; None for others, which a file cannot bring back."""
    name = name_of(world)
    if name is None:
        return None
    options = {field.name: getattr(world, field.name) for field in dataclasses.fields(WORLDS[name])}
    options.pop("kind", None)
    return {"name": name, "options": options}


def _world_of(description: dict[str, Any] | None) -> TaskWorld | None:
    if description is None:
        return None
    return cast(TaskWorld, make_world(description["name"], **description["options"]))


def _maker_of(config: AgentConfig, shapes: dict[str, Any]) -> "functools.partial[Agent]":
    return functools.partial(Agent, config, **shapes | {"observation_shape": tuple(shapes["observation_shape"])})
