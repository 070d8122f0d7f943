"""Acting in Gymnasium environments: what an actor on a CPU does, wherever it runs.

An actor has some environments, each at an option of its own. The agent chooses for all of them at once; then each
option is run to its end, one environment after the other. So a trajectory has the same number of decisions everywhere,
and none of them is still running.

All that is drawn comes from seeds: each episode begins with one of its own, and the choices of one unroll have a key of
their own. So where an environment is follows from its episode's number and the options that it took since, and another
actor with the same seed can be brought there.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from compile_il.hierarchy.agents import NO_TASK, TASK_KINDS, Agent, Choice, Situation
from compile_il.hierarchy.learner import Learner
from compile_il.hierarchy.settings import AgentConfig, HierarchyError
from compile_il.hierarchy.skill_env import SkillEnv
from compile_il.hierarchy.trajectories import Outcomes, Trajectory
from compile_il.model import Model
from compile_il.worlds.gym import WorldEnv
from compile_il.worlds.world import key_of

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class Stage(NamedTuple):
    """Sizes and kinds of what an agent sees, does and is told in some environments, which all share them."""

    observation_shape: tuple[int, ...]
    num_actions: int
    kind: int
    """Type of the tasks, as an index into `TASK_KINDS`."""
    num_types: int
    """Number of types of the objects that tasks are about."""
    num_told: int
    """Number of tasks that the agent is told of, the current one included."""

    def agent_maker(self, config: AgentConfig, model: Model | None) -> Callable[..., Agent]:
        """Function that makes an agent for this stage, given a `key`."""
        num_skills = 0 if model is None else model.config.num_skills

        def make(*, key: Any) -> Agent:
            return Agent(
                config,
                observation_shape=self.observation_shape,
                num_types=self.num_types,
                num_told=self.num_told,
                num_options=self.num_actions + num_skills,
                key=key,
            )

        return make


def stage_of(env: gymnasium.Env[Any, Any], config: AgentConfig) -> Stage:
    """Stage of an environment; without tasks as ours have, it counts as having one that is always the same."""
    world = env.unwrapped.world if isinstance(env.unwrapped, WorldEnv) else None
    kind = getattr(world, "kind", TASK_KINDS[0])
    if not isinstance(env.action_space, gymnasium.spaces.Discrete) or env.action_space.start != 0:
        raise HierarchyError(
            f"The environment's actions are {env.action_space}: an agent chooses among a number of discrete ones."
        )
    return Stage(
        observation_shape=tuple(env.observation_space.shape or ()),
        num_actions=int(env.action_space.n),
        kind=TASK_KINDS.index(kind),
        num_types=getattr(world, "num_types", 1),
        num_told=getattr(world, "num_tasks", 1) if config.agent == "bc" else 1,
    )


class ActingCounts(NamedTuple):
    """Counts of what happened while acting, which can be added up."""

    num_steps: int = 0
    num_decisions: int = 0
    num_skills: int = 0
    num_episodes: int = 0
    num_successes: int = 0
    total_reward: float = 0.0
    """Undiscounted reward of all episodes that ended."""

    def plus(self, other: "ActingCounts") -> "ActingCounts":
        """Sum of these counts and others."""
        total: ActingCounts = jax.tree.map(lambda a, b: a + b, self, other)
        return total


class EpisodeSoFar(NamedTuple):
    """How far an environment has come: all that is needed to bring another one to the same place."""

    number: int = 0
    """Number of the episode among those of its environment, from 0."""
    options: tuple[int, ...] = ()
    """Options taken in the episode so far; in the result of an unroll, only those taken in that unroll."""

    def then(self, later: "EpisodeSoFar") -> "EpisodeSoFar":
        """How far an environment has come after an unroll whose result is `later`."""
        return later if later.number != self.number else EpisodeSoFar(self.number, self.options + later.options)


class Unrolled(NamedTuple):
    """Result of one unroll by an actor."""

    trajectory: Trajectory
    """One trajectory of each environment, stacked along the first axis."""
    counts: ActingCounts
    episodes: list[EpisodeSoFar]
    """How far each environment has come in the unroll."""


class EnvActor:
    """Some environments, and an agent that acts in them with the parameters that it is given.

    Args:
      make_env: makes an environment.
      model: whose skills are options; None where there are none.
      config: the settings.
      num_environments: how many of them.
      seed: of the environments and of the agent's choices.
      episodes: where another actor with this seed has left its environments, and these are to go on; None to begin.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        model: Model | None,
        config: AgentConfig,
        num_environments: int,
        seed: int,
        episodes: Sequence[EpisodeSoFar] | None = None,
    ):
        self._config, self._seed, self._key = config, seed, key_of(seed)
        envs = [make_env() for _ in range(num_environments)]
        self._stage = stage_of(envs[0], config)
        # What others put into `info` may have the same names and mean something else.
        self._has_tasks, self._has_skills = isinstance(envs[0].unwrapped, WorldEnv), model is not None
        learner = Learner(config, self._stage.agent_maker(config, model))
        self._treedef = jax.tree.structure(jax.eval_shape(learner.start, self._key).params)
        if model is not None:
            limit = config.max_skill_steps
            envs = [SkillEnv(env, model, discount=config.discount, max_steps=limit) for env in envs]
        self._envs = envs
        self._seen: list[tuple[Any, dict[str, Any]]] = [(None, {})] * num_environments
        self._earned, self._episode_numbers = np.zeros(num_environments), [0] * num_environments
        self._taken: list[list[int]] = [[] for _ in envs]
        for number, episode in enumerate(episodes or [EpisodeSoFar()] * num_environments):
            self._replay(number, episode)

        def choose(params: Any, situations: Situation, key: Any, tick: Any) -> Choice:
            agent, key = learner.agent(params), jax.random.fold_in(key, tick)
            return jax.vmap(agent.choose)(situations, jax.random.split(key, num_environments))

        self._choose = jax.jit(choose)

    def unroll(self, leaves: list[Any], item: int) -> Unrolled:
        """Acts for one trajectory in each environment.

        Args:
          leaves: the agent's parameters, in the order of their tree.
          item: another number each time; what is chosen depends on it, and not on what was unrolled before.
        """
        params = jax.tree.unflatten(self._treedef, [jnp.asarray(leaf) for leaf in leaves])
        key, self._taken = jax.random.fold_in(self._key, item), [[] for _ in self._envs]
        situations, choices, results, total = [self._situations()], [], [], ActingCounts()
        for tick in range(self._config.trajectory_length):
            choice: Choice = jax.tree.map(np.asarray, self._choose(params, situations[-1], key, tick))
            steps = [self._run(number, int(option)) for number, option in enumerate(choice.option)]
            choices.append(choice)
            results.append([(reward, discount) for reward, discount, _ in steps])
            for _, _, counts in steps:
                total = total.plus(counts)
            situations.append(self._situations())
        rewards, discounts = np.moveaxis(np.array(results, np.float32), 0, 1).transpose(2, 0, 1)
        stacked: Situation = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *situations)
        trajectory = Trajectory(
            situations=stacked,
            options=np.stack([choice.option for choice in choices], axis=1),  # type: ignore[arg-type]
            log_probs=np.stack([choice.log_prob for choice in choices], axis=1),  # type: ignore[arg-type]
            outcomes=Outcomes(rewards, discounts, np.ones(rewards.shape, bool)),  # type: ignore[arg-type]
        )
        episodes = [EpisodeSoFar(*ep) for ep in zip(self._episode_numbers, map(tuple, self._taken), strict=True)]
        return Unrolled(trajectory, total, episodes)

    def _begin(self, number: int, episode_number: int) -> None:
        """Begins an episode of an environment, from a seed that follows from the actor's and from both numbers."""
        seed = np.random.SeedSequence([self._seed, number, episode_number]).generate_state(1)[0]
        self._seen[number] = self._envs[number].reset(seed=int(seed))
        self._earned[number], self._episode_numbers[number], self._taken[number] = 0.0, episode_number, []

    def _replay(self, number: int, episode: EpisodeSoFar) -> None:
        """Brings an environment to where another one was, whose episode had not ended.

        If this one ends, then its seed does not determine it, and there is no such place: the next episode has begun.
        """
        self._begin(number, episode.number)
        for option in episode.options:
            _, _, counts = self._run(number, option)
            if counts.num_episodes:
                return

    def _run(self, number: int, option: int) -> tuple[float, float, ActingCounts]:
        """Runs an option to its end, begins anew after an episode's; returns the option's reward, discount, counts."""
        env = self._envs[number]
        observation, reward, terminated, truncated, info = env.step(option)
        over = bool(terminated or truncated)
        about = info if self._has_skills else {}
        self._earned[number] += about.get("total_reward", reward)
        self._taken[number].append(option)
        counts = ActingCounts(
            num_steps=about.get("num_steps", 1),
            num_decisions=1,
            num_skills=int(option >= self._stage.num_actions),
            num_episodes=int(over),
            num_successes=int(over and bool(info.get("success", False))),
            total_reward=float(self._earned[number]) if over else 0.0,
        )
        self._seen[number] = (observation, info)
        if over:
            self._begin(number, self._episode_numbers[number] + 1)
        return float(reward), 0.0 if over else float(about.get("discount", self._config.discount)), counts

    def _situations(self) -> Situation:
        stage, num = self._stage, len(self._envs)
        tasks = [_remaining(info if self._has_tasks else {}, stage.num_told) for _, info in self._seen]
        return Situation(
            observation=np.stack([observation for observation, _ in self._seen]),  # type: ignore[arg-type]
            kind=np.full(num, stage.kind, np.int32),  # type: ignore[arg-type]
            tasks=np.stack(tasks),  # type: ignore[arg-type]
        )


def _remaining(info: dict[str, Any], num_told: int) -> np.ndarray:
    """Next `num_told` tasks of an environment's list, `NO_TASK` behind its end; type 0 if there is no list."""
    if "tasks" not in info:
        return np.zeros(num_told, np.int32)
    left = np.asarray(info["tasks"], np.int32)[info["task_index"] :][:num_told]
    return np.pad(left, (0, num_told - len(left)), constant_values=NO_TASK)
