"""Trains an agent in a world, with the skills of a model as options: `learn`."""

import contextlib
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from compile_il.config import VALIDATION_SEED, CompileError
from compile_il.data.files import checksum
from compile_il.model.files import named_leaves
from compile_il.model.model import Model
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.environment import TaskWorld
from compile_il.rl.player import Player
from compile_il.rl.ray_actors import RayTrainer
from compile_il.rl.trainer import AgentTrainer, Statistics
from compile_il.training.checkpoints import Checkpoint
from compile_il.training.loop import ProgressBar, StopRequest, TrainingLoop
from compile_il.training.runs import CHECKPOINT_SECONDS, open_run
from compile_il.worlds import make_world
from compile_il.worlds.grid import NUM_RL_STEPS

NUM_ROWS = 200
"""Least number of rows in the log of a run, if it has as many iterations."""
NUM_VALIDATION = 256
"""Number of levels on which the agents of several seeds are compared at the end."""


def learn(
    world: str | TaskWorld,
    model: Model | None = None,
    *,
    config: AgentConfig | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    actors: Literal["device", "ray"] = "device",
    num_actors: int = 2,
    address: str | None = None,
    **settings: Any,
) -> Player:
    """Trains an agent to do tasks, with skills as options.

    Args:
      world: a world, or the name of one, with episodes of 50 steps as in the paper.
      model: model whose skills the agent can call; None for a low-level agent.
      config: all settings at once; single `settings` change it.
      out: folder for the log, for checkpoints and for the agent; None to write nothing.
      resume: whether to go on with the run in `out`, from its last checkpoint.
      progress: whether to show a bar; by default, where there is a terminal.
      checkpoint_seconds: time between checkpoints.
      actors: "device" to act on the device that learns, "ray" to act in processes on CPUs.
      num_actors: number of processes on Ray.
      address: address of a Ray cluster, or "auto" for one on this machine; None to start one.
      **settings: single settings, such as `agent="low-level"`; see `AgentConfig`.

    Returns:
      The agent; of several seeds, the one with the most success on unseen levels.
    """
    if resume and out is None:
        raise CompileError("There is nothing to resume: give the folder of the run as out.")
    config = AgentConfig.given(config, settings)
    task_world: Any = make_world(world) if isinstance(world, str) else world
    if not (hasattr(task_world, "step") and hasattr(task_world, "num_types")):
        raise AgentError(f"{task_world!r} has no tasks to act on: use a grid world, such as 'grid-pickup'.")
    if isinstance(world, str):
        task_world = dataclasses.replace(task_world, max_steps=NUM_RL_STEPS)
    if address is not None and actors != "ray":
        raise AgentError(f'address is {address!r}, which is for actors="ray" (--actors ray).')
    trainer: AgentTrainer | RayTrainer
    if actors == "ray":
        trainer = RayTrainer(config, task_world, model, num_actors=num_actors, address=address)
    elif actors == "device":
        trainer = AgentTrainer(config, task_world, model)
    else:
        raise AgentError(f'actors is {actors!r}: use "device" or "ray".')
    return run_training(trainer, out, resume=resume, progress=progress, checkpoint_seconds=checkpoint_seconds)[1]


class RunState(NamedTuple):
    """State of a training and of the next row of its log, so that a resumed run has the log of an unbroken one."""

    trainer: Any
    """State of the trainer, as its `start` and `step` return it."""
    statistics: Statistics
    """Statistics of the iterations since the last row of the log, added up."""
    num_iterations: Int[Array, ""]
    """Number of iterations since the last row of the log."""
    num_steps: Float[Array, ""]
    """Number of low-level steps of one seed so far; a float, as JAX's integers end at two billion."""


def run_training(
    trainer: AgentTrainer | RayTrainer,
    out: str | os.PathLike[str] | None,
    *,
    resume: bool = False,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> tuple[list[Player], Player]:
    """Trains as `learn` does, and ends actors on Ray; returns the agents of all seeds, and the best of them."""
    total, num_seeds = trainer.config.num_iterations, trainer.config.num_seeds
    blank = Statistics(*(jnp.zeros(num_seeds, int),) * 5, *(jnp.zeros(num_seeds),) * 4)
    with contextlib.ExitStack() as stack:
        if isinstance(trainer, RayTrainer):
            stack.enter_context(trainer)
        request, outputs = None, None
        if out is not None:
            skills = "no skills"
            if trainer.model is not None:
                arrays = named_leaves(eqx.filter(trainer.model.skills, eqx.is_array)).items()
                parts = [part for name, array in arrays for part in (name, np.asarray(array))]
                skills = f"skills {checksum(str(trainer.model.config), *parts)[:16]}"
            data = f"{trainer.world} with {skills} and {trainer.ACTORS}"
            run = open_run(out, trainer.config, data, resume=resume, checkpoint_seconds=checkpoint_seconds)
            outputs = stack.enter_context(run)
            request = stack.enter_context(StopRequest(announce=progress is not False))
        start = RunState(trainer.start(), blank, jnp.array(0), jnp.array(0.0))
        last = Checkpoint(start) if outputs is None else outputs.checkpoints.latest(start)
        loop = TrainingLoop(*last, request, outputs)
        bar = stack.enter_context(ProgressBar(total, loop.iteration, progress))
        row_began = loop.seconds
        many = trainer.config.num_environments >= AgentConfig.num_environments
        if many and isinstance(trainer, AgentTrainer) and jax.default_backend() == "cpu":
            bar.say("There is no accelerator, and an iteration can take a minute: lower num_environments.")

        def step(state: RunState, iteration: int) -> tuple[RunState, None]:
            try:
                after, statistics = trainer.step(state.trainer, iteration)
            except TimeoutError:
                loop.stop_if_requested(total)  # with what there was before this iteration
                raise
            added = jax.tree.map(jnp.add, state.statistics, statistics)
            num_steps = state.num_steps + statistics.num_steps[0]
            return RunState(after, added, state.num_iterations + 1, num_steps), None

        def report(_: None) -> None:
            nonlocal row_began
            bar.advance()
            if loop.iteration % max(1, total // NUM_ROWS) == 0 or loop.iteration == total:
                jax.block_until_ready(loop.state.statistics)
                loop.update_seconds()
                row = _log_row(loop, loop.seconds - row_began)
                bar.show(f"success {100 * row['success']:.1f} %  {row['steps_per_second'] / 1e3:,.0f}k steps/s")
                if outputs is not None and outputs.log is not None:
                    outputs.log.write(row)
                loop.state, row_began = loop.state._replace(statistics=blank, num_iterations=jnp.array(0)), loop.seconds

        def choose(state: RunState) -> tuple[list[Player], Player]:
            players = trainer.players(state.trainer)
            return players, _best_of(players, bar.say)

        def save(agents: tuple[list[Player], Player], iteration: int) -> None:
            _, best = agents
            done = dataclasses.replace(best.config, num_iterations=iteration)  # the ones that were made
            dataclasses.replace(best, config=done).save(Path(out or "."), overwrite=True)

        return loop.train(total, step, report, choose, save)


def _log_row(loop: TrainingLoop[RunState], seconds: float) -> dict[str, Any]:
    """Returns a row of the log for the `seconds` since the last one: means over seeds, and each `by_seed`.

    success, reward  share of episodes with all tasks done, and mean undiscounted reward of an episode
    steps            low-level steps of one seed since the beginning, those inside of skills included
    skill_share      share of skills among all options
    seed             number of the seed, from 0; in a mean, of the one with the most success
    """
    sums = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), loop.state.statistics)
    episodes = np.where(sums.num_episodes > 0, sums.num_episodes, np.nan)
    # Where no option has ended, the losses have no meaning.
    decisions = np.where(sums.num_decisions > 0, sums.num_decisions, np.nan)
    updated = np.where(sums.num_decisions > 0, float(loop.state.num_iterations), np.nan)
    columns = {
        "success": sums.num_successes / episodes,
        "reward": sums.total_reward / episodes,
        "skill_share": sums.num_skills / decisions,
        "entropy": sums.entropy / updated,
        "baseline_loss": sums.baseline_loss / updated,
    }
    shared = {"iteration": loop.iteration, "seconds": round(loop.seconds, 2), "steps": float(loop.state.num_steps)}
    shared["steps_per_second"] = sums.num_steps.sum() / max(seconds, 1e-9)
    by_seed = [
        {"seed": seed, **shared, **{name: float(values[seed]) for name, values in columns.items()}}
        for seed in range(len(episodes))
    ]
    best = int(np.argmax(np.nan_to_num(columns["success"], nan=-1.0)))
    return by_seed[best] | {name: float(np.mean(values)) for name, values in columns.items()} | {"by_seed": by_seed}


def _best_of(players: list[Player], say: Callable[[str], None]) -> Player:
    """Returns the agent with the most success on validation levels."""
    if len(players) == 1:
        return players[0]
    success = [player.evaluate(num_levels=NUM_VALIDATION, seed=VALIDATION_SEED).success for player in players]
    order = sorted(range(len(players)), key=lambda seed: -success[seed])
    best, *others = [f"{100 * success[seed]:.1f}" for seed in order]
    say(f"Kept seed {order[0]} of {len(players)}: success {best} % on validation levels, others {', '.join(others)}.")
    return players[order[0]]
