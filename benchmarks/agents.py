"""Measures environment steps a second of reinforcement learning, with learning and without, and of the world alone.

    python -m benchmarks.agents [--skills MODEL] [--half-precision] [--out FILE]

Steps are low-level ones, those inside of skills counted. Iterations follow each other without waiting. Skills come from
a saved model, or are untrained ones of the paper's sizes: they cost the same, but run for random numbers of steps, so
that the learner sees other numbers of decisions. Acting alone is the same program without updates; the world alone
makes steps with observations under random actions.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import tyro
from rich.console import Console
from rich.table import Table

import compile_il as cil
from benchmarks.worlds import random_steps, rate
from compile_il.config import Config
from compile_il.data.spaces import scaling_of, space_of
from compile_il.evaluation.results import Measurement
from compile_il.inference.engines import ENGINES
from compile_il.rl.config import AgentConfig
from compile_il.rl.trainer import AgentTrainer, TrainerState
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.grid import NUM_RL_STEPS, GridWorld

NUM_MAPS, NUM_UNITS = 64, 128
"""Feature maps and hidden units of untrained skills, as in the paper."""


def untrained(demos: cil.Demonstrations, config: Config) -> cil.Model:
    """Returns a model whose skills are untrained."""
    config = config.resolved()
    make = functools.partial(ENGINES[config.inference].make_skills, config, space_of(demos), scaling_of(demos))
    return cil.Model(eqx.filter_jit(make)(jax.random.key(0)), config, config, 3.0)


def steps_a_second(step: Callable[[Any, int], tuple[Any, Any]], start: Any, repeats: int) -> tuple[float, Any]:
    """Returns the rate of many iterations in a row, and the last result; two iterations before them compile."""
    state, last = start, None
    for iteration in range(2):
        state, last = step(state, iteration)
    jax.block_until_ready(last)
    began = time.perf_counter()
    for iteration in range(2, 2 + repeats):
        state, last = step(state, iteration)
    jax.block_until_ready(last)
    assert last is not None, "at least one iteration is made"
    return repeats * int(last.num_steps.sum()) / (time.perf_counter() - began), last


def acting_alone(training: AgentTrainer) -> Callable[[TrainerState, int], tuple[TrainerState, Any]]:
    """Returns a function that makes iterations without the updates."""
    config = training.config
    arrays, static = eqx.partition(training.env, eqx.is_array)

    @jax.jit
    def act(state: TrainerState, arrays: Any, iteration: int) -> tuple[TrainerState, Any]:
        env = eqx.combine(arrays, static)

        def one_seed(state: TrainerState, key: Any) -> tuple[TrainerState, Any]:
            keys = jax.random.split(key, (config.num_environments, config.num_ticks))
            agent = training.learner.agent(state.learner.params)
            envs, steps = jax.vmap(functools.partial(env.unroll, agent))(state.envs, keys)
            return TrainerState(state.learner, envs), steps.reward.sum()

        return jax.vmap(one_seed)(state, jax.random.split(jax.random.key(iteration), config.num_seeds))

    return lambda state, iteration: act(state, arrays, iteration)


def measure(config: AgentConfig, world: GridWorld, model: cil.Model | None, repeats: int) -> dict[str, float]:
    """Returns steps a second with learning and without, and the mean number of steps of a decision."""
    training = AgentTrainer(config, world, model)
    learning, last = steps_a_second(training.step, training.start(), repeats)
    act = acting_alone(training)

    def step(state: TrainerState, iteration: int) -> tuple[TrainerState, Any]:
        state, total = act(state, iteration)
        return state, last._replace(total_reward=total)

    acting, _ = steps_a_second(step, training.start(), repeats)
    return {
        "with learning": learning,
        "acting alone": acting,
        "updates": learning / int(last.num_steps.sum()) * config.num_environments / config.batch_size,
        "steps a decision": float(last.num_steps.sum() / last.num_decisions.sum()),
    }


def world_alone(world: GridWorld, num_environments: int, num_steps: int, repeats: int) -> float:
    """Returns steps a second with observations, under random actions."""
    levels = draw_levels(world, jax.random.key(0), num_environments)

    def work() -> int:
        jax.block_until_ready(random_steps(world, levels, jax.random.key(0), num_steps, True)[0])
        return num_environments * num_steps

    return rate(work, repeats)


@dataclasses.dataclass(frozen=True)
class Run:
    """Measure environment steps a second of each kind of agent."""

    skills: Path | None = None
    """Saved model with the skills; by default untrained skills of both engines."""
    repeats: int = 30
    """Number of timed iterations."""
    out: Path | None = None
    """Result file."""
    config: Annotated[AgentConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=AgentConfig)


def main(run: Run) -> None:
    """Measures all agents and the world alone, prints a table, and writes the result file."""
    measurement, config = Measurement(), run.config
    world = GridWorld(kind="pickup", num_tasks=5, reward="sparse", max_steps=NUM_RL_STEPS)
    agents: dict[str, tuple[Any, cil.Model | None]] = {"low-level": ("low-level", None)}
    if run.skills is not None:
        agents["hierarchical"] = ("hierarchical", cil.load(run.skills))
    else:
        demos, exact = cil.demonstrate(world, num_demos=64), Config(num_maps=NUM_MAPS, hidden_dim=NUM_UNITS)
        relaxed = dataclasses.replace(exact, inference="relaxed")
        agents["hierarchical, exact"] = ("hierarchical", untrained(demos, exact))
        agents["hierarchical, relaxed"] = ("hierarchical", untrained(demos, relaxed))
        whole = dataclasses.replace(relaxed, num_skills=128, num_segments=1)
        agents["bc"] = ("bc", untrained(demos, whole))
    rows = {
        name: measure(dataclasses.replace(config, agent=agent), world, model, run.repeats)
        for name, (agent, model) in agents.items()
    }
    alone = world_alone(world, config.num_environments * config.num_seeds, config.num_ticks, run.repeats)
    columns = next(iter(rows.values()))
    table = Table("environment steps a second", *columns, title=str(jax.devices()[0]))
    for name, row in rows.items():
        table.add_row(name, *(f"{value:,.0f}" if value > 100 else f"{value:.2f}" for value in row.values()))
    table.add_row("the world alone", f"{alone:,.0f}")
    Console().print(table)
    if run.out:
        skills = str(run.skills or f"untrained, {NUM_MAPS} maps, {NUM_UNITS} units")
        about = config.to_json() | {"skills": skills}
        figures = {"agents": rows, "world alone": alone}
        measurement.write(run.out, config=about, seeds=[config.seed], figures=figures)


if __name__ == "__main__":
    main(tyro.cli(Run))
