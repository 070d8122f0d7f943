"""`learn`: from a world, and from skills that were found before, to an agent."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from compile_il.config import VALIDATION_SEED
from compile_il.model.files import named_leaves
from compile_il.model.model import Model
from compile_il.rl.config import AgentConfig, HierarchyError
from compile_il.rl.environment import TaskWorld
from compile_il.rl.player import Player
from compile_il.rl.ray_actors import NobodyActsError, RayTrainer
from compile_il.rl.trainer import AgentTrainer, Statistics
from compile_il.training.checkpoints import Checkpoint
from compile_il.training.loop import ProgressBar, StopRequest, TrainingLoop
from compile_il.training.runs import CHECKPOINT_SECONDS, open_run
from compile_il.worlds import make_world
from compile_il.worlds.grid import NUM_RL_STEPS

Actors = Literal["device", "ray"]
NUM_ROWS = 200
"""Least number of rows in the log of a run, if it has as many iterations."""
NUM_VALIDATION = 256
"""Number of levels on which the agents of several seeds are compared at the end."""


class LogRow(NamedTuple):
    """Row of a learning log: how it went since the row before, for one seed or on average over several."""

    iteration: int
    seconds: float
    seed: int
    """Number of the seed, from 0; in an average, of the one with the most success."""
    success: float
    """Share of the finished episodes in which all tasks were done, while the agent explored."""
    reward: float
    """Mean undiscounted reward of the finished episodes."""
    steps: float
    """Number of low-level steps of one seed since the beginning, those inside of skills included."""
    steps_per_second: float
    """Low-level steps per second of all seeds together."""
    skill_share: float
    """Share of skills among all options that were called."""
    entropy: float
    baseline_loss: float

    def in_words(self) -> str:
        """Success and speed as text beside the progress bar."""
        return f"success {100 * self.success:.1f} %  {self.steps_per_second / 1e3:,.0f}k steps/s"


class Learning(NamedTuple):
    """Content of a checkpoint, with the log row under way, so that a resumed run has the log of an unbroken one."""

    state: Any
    """State of the training, as its `start` and `step` return it."""
    happened: Statistics
    """Statistics of the iterations since the last row of the log, added up."""
    num_iterations: Int[Array, ""]
    """Number of iterations since the last row of the log."""


class Players(NamedTuple):
    """Trained agents of all seeds, and which of them is kept."""

    of_seeds: list[Player]
    kept: int
    """Index in `of_seeds` of the best agent, the one that is kept."""

    @property
    def best(self) -> Player:
        """Agent that is kept: the best one."""
        return self.of_seeds[self.kept]


def learn(
    world: str | TaskWorld,
    model: Model | None = None,
    *,
    config: AgentConfig | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    actors: Actors = "device",
    num_actors: int = 2,
    address: str | None = None,
    **settings: Any,
) -> Player:
    """Teaches an agent to do tasks, with skills as options.

    Args:
      world: where the agent acts; the name of a world stands for episodes of 50 steps there, as in the paper.
      model: model whose skills the agent can call; None for a low-level agent.
      config: all settings at once; those given one by one change it.
      out: a folder for the log, for checkpoints and for the agent; nothing is written if None.
      resume: whether to go on with the run in `out`, from its last checkpoint.
      progress: whether to show a bar; by default, where there is a terminal.
      checkpoint_seconds: time between checkpoints.
      actors: who acts: the "device" that learns, in the same program; or processes on CPUs, through "ray".
      num_actors: for Ray: how many processes.
      address: for Ray: address of a cluster, or "auto" for one on this machine; one is started if None.
      **settings: single settings, such as `agent="low-level"`; see `AgentConfig`.

    Returns:
      An agent that acts; of several seeds, the one with the most success on levels that training never saw.
    """
    if resume and out is None:
        raise ValueError("There is nothing to resume: give the folder of the run as out.")
    config = _changed(config, settings)
    where = _world(world)
    training: AgentTrainer | RayTrainer
    if address is not None and actors != "ray":
        raise HierarchyError(f'address is {address!r}, which is for actors="ray" (--actors ray).')
    if actors == "ray":
        training = RayTrainer(config, where, model, num_actors=num_actors, address=address)
    elif actors == "device":
        training = AgentTrainer(config, where, model)
    else:
        raise HierarchyError(f'actors is {actors!r}: use "device" or "ray".')
    players = run_training(
        training, model, out, resume=resume, progress=progress, checkpoint_seconds=checkpoint_seconds
    )
    return players.best


def run_training(
    training: AgentTrainer | RayTrainer,
    model: Model | None,
    out: str | os.PathLike[str] | None,
    *,
    resume: bool = False,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Players:
    """Runs a training that is set up, as `learn` does; returns the agents of all seeds, and which one is kept."""
    with contextlib.closing(training):
        data = f"{training.world} with {_fingerprint(model)} and {training.ACTORS}"
        return _run(training, data, out, resume=resume, progress=progress, checkpoint_seconds=checkpoint_seconds)


def _run(
    training: AgentTrainer | RayTrainer,
    data: str,
    out: str | os.PathLike[str] | None,
    *,
    resume: bool,
    progress: bool | None,
    checkpoint_seconds: float,
) -> Players:
    config = training.config
    with contextlib.ExitStack() as stack:
        request, outputs = None, None
        if out is not None:
            run = open_run(out, config, data, resume=resume, checkpoint_seconds=checkpoint_seconds)
            outputs, request = stack.enter_context(run), stack.enter_context(StopRequest())
        start = _begin(training)
        last = Checkpoint(start) if outputs is None else outputs.checkpoints.latest(start)
        return _learn(training, TrainingLoop(*last, request, outputs), out, progress)


def _begin(training: AgentTrainer | RayTrainer) -> Learning:
    return _new_row(training.start(), training.config.num_seeds)


def _new_row(state: Any, num_seeds: int) -> Learning:
    nothing = Statistics(*(jnp.zeros(num_seeds, int),) * 5, *(jnp.zeros(num_seeds),) * 4)
    return Learning(state, nothing, jnp.array(0))


def _learn(
    training: AgentTrainer | RayTrainer,
    loop: TrainingLoop[Learning],
    out: str | os.PathLike[str] | None,
    progress: bool | None,
) -> Players:
    total = training.config.num_iterations
    every = max(1, total // NUM_ROWS)
    since = _moment(training, loop)

    def step(so_far: Learning, iteration: int) -> tuple[Learning, Statistics]:
        try:
            return _step(training, so_far, iteration)
        except NobodyActsError:
            loop.stop_if_requested(total)  # with what there was before this iteration
            raise

    def report(_: Statistics) -> None:
        nonlocal since
        bar.advance()
        if loop.iteration % every == 0 or loop.iteration == total:
            jax.block_until_ready(loop.state.happened)
            loop.update_seconds()
            now = _moment(training, loop)
            _tell(loop, _rows(training, loop, now.steps_per_second(since)), bar)
            loop.state, since = _new_row(loop.state.state, training.config.num_seeds), now

    def save(players: Players, iteration: int) -> None:
        done = dataclasses.replace(players.best.config, num_iterations=iteration)  # people look there for it
        assert out is not None, "there are outputs"
        dataclasses.replace(players.best, config=done).save(Path(out), overwrite=True)

    with ProgressBar(total, loop.iteration, progress) as bar:
        return loop.train(total, step, report, lambda state: _compared(training, state.state, bar.say), save)


def _step(training: AgentTrainer | RayTrainer, so_far: Learning, iteration: int) -> tuple[Learning, Statistics]:
    """Next state, with this iteration's statistics added to those since the last row; and these statistics."""
    state, now = training.step(so_far.state, iteration)
    happened = jax.tree.map(lambda a, b: a + b, so_far.happened, now)
    return Learning(state, happened, so_far.num_iterations + 1), now


class _Moment(NamedTuple):
    seconds: float
    steps: float
    """Low-level steps of all seeds so far."""

    def steps_per_second(self, since: "_Moment") -> float:
        return (self.steps - since.steps) / max(self.seconds - since.seconds, 1e-9)


def _moment(training: AgentTrainer | RayTrainer, run: TrainingLoop[Learning]) -> _Moment:
    return _Moment(run.seconds, training.config.num_seeds * training.num_steps(run.state.state, run.iteration))


def _rows(training: AgentTrainer | RayTrainer, run: TrainingLoop[Learning], steps_per_second: float) -> list[LogRow]:
    """Rows of the log for what happened since the last ones, one for each seed."""
    found = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), run.state.happened)
    episodes = np.where(found.num_episodes > 0, found.num_episodes, np.nan)
    # Where no option has ended, there was nothing to learn from, and nothing to say.
    decisions = np.where(found.num_decisions > 0, found.num_decisions, np.nan)
    learned = np.where(found.num_decisions > 0, float(run.state.num_iterations), np.nan)
    return [
        LogRow(
            iteration=run.iteration,
            seconds=round(run.seconds, 2),
            seed=seed,
            success=float((found.num_successes / episodes)[seed]),
            reward=float((found.total_reward / episodes)[seed]),
            steps=float(training.num_steps(run.state.state, run.iteration)),
            steps_per_second=steps_per_second,
            skill_share=float((found.num_skills / decisions)[seed]),
            entropy=float((found.entropy / learned)[seed]),
            baseline_loss=float((found.baseline_loss / learned)[seed]),
        )
        for seed in range(training.config.num_seeds)
    ]


def _tell(run: TrainingLoop[Any], rows: list[LogRow], bar: ProgressBar) -> None:
    best = max(rows, key=lambda row: np.nan_to_num(row.success, nan=-1.0))
    names = ("success", "reward", "skill_share", "entropy", "baseline_loss")
    means = {name: float(np.mean([getattr(row, name) for row in rows])) for name in names}
    average = LogRow(**(best._asdict() | means))
    bar.show(average.in_words())
    if run.outputs is not None and run.outputs.log is not None:
        run.outputs.log.write(average._asdict() | {"by_seed": [row._asdict() for row in rows]})


def _compared(training: AgentTrainer | RayTrainer, state: Any, say: Callable[[str], None]) -> Players:
    """Agents of all seeds, of which that with the most success on levels for choosing is kept."""
    players = training.players(state)
    if len(players) == 1:
        return Players(players, 0)
    success = [player.evaluate(num_levels=NUM_VALIDATION, seed=VALIDATION_SEED).success for player in players]
    order = sorted(range(len(players)), key=lambda seed: -success[seed])
    values = [f"{100 * success[seed]:.1f}" for seed in order]
    say(
        f"Kept seed {order[0]} of {len(players)}: success {values[0]} % on levels for choosing, the others "
        f"{', '.join(values[1:])}."
    )
    return Players(players, order[0])


def _changed(config: AgentConfig | None, settings: dict[str, Any]) -> AgentConfig:
    if not (config is None or isinstance(config, AgentConfig)):
        raise HierarchyError(
            f"config is a {type(config).__name__}: pass an AgentConfig, or give settings one by one, such as "
            'agent="low-level"; those in a dictionary as **settings.'
        )
    return (config or AgentConfig()).changed(settings)


def _world(world: str | TaskWorld) -> TaskWorld:
    found: Any = make_world(world) if isinstance(world, str) else world
    if not (hasattr(found, "step") and hasattr(found, "num_types")):
        raise HierarchyError(f"{world!r} has no tasks to act on: use a grid world, such as 'grid-pickup'.")
    return dataclasses.replace(found, max_steps=NUM_RL_STEPS) if isinstance(world, str) else found


def _fingerprint(model: Model | None) -> str:
    if model is None:
        return "no skills"
    digest = hashlib.sha256(str(model.config).encode())
    for name, array in named_leaves(eqx.filter(model.skills, eqx.is_array)).items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return f"skills {digest.hexdigest()[:16]}"
