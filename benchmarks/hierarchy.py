"""Environment steps a second of reinforcement learning, learning included, and of the world alone.

    python -m benchmarks.hierarchy [--skills MODEL] [--half-precision] [--num-environments 4096] [--out FILE]

Steps are low-level ones, those inside of skills counted. Iterations follow each other without waiting. Skills are
those of a saved model, or untrained ones of the paper's sizes: they cost the same, but how long they run, and so how
many decisions the learner sees, is up to chance. Acting alone is the same program without updates; the world alone
makes steps with observations under random actions.
"""

import argparse
import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from rich.console import Console
from rich.table import Table

import compile_il as cil
from benchmarks.worlds import random_steps, rate
from compile_il.config import Config
from compile_il.data.spaces import scaling_of, space_of
from compile_il.evaluation.results import Measurement
from compile_il.inference.engines import engine_of
from compile_il.rl.config import AgentConfig
from compile_il.rl.trainer import AgentTrainer, TrainerState
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.grid import NUM_RL_STEPS, GridWorld


def untrained(demos: cil.Demonstrations, config: Config) -> cil.Model:
    """Skills that have learned nothing."""
    config = config.resolved()
    make = functools.partial(engine_of(config).make_skills, config, space_of(demos), scaling_of(demos))
    return cil.Model(eqx.filter_jit(make)(jax.random.key(0)), config, config, 3.0)


def steps_a_second(step: Callable[[Any, int], tuple[Any, Any]], start: Any, repeats: int) -> tuple[float, Any]:
    """The rate of many iterations in a row, and what the last one did; the first ones compile and warm up."""
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
    """Iterations without the updates."""
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
    """Steps a second with learning and without, and how many steps a decision takes."""
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
    """Steps a second with observations, under random actions."""
    levels = draw_levels(world, jax.random.key(0), num_environments)

    def work() -> int:
        jax.block_until_ready(random_steps(world, levels, jax.random.key(0), num_steps, True)[0])
        return num_environments * num_steps

    return rate(work, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=Path, help="a saved model; by default untrained skills of both engines")
    parser.add_argument("--agents", nargs="+", help="only these rows, such as low-level")
    parser.add_argument("--num-environments", type=int, default=4096)
    parser.add_argument("--num-ticks", type=int, default=AgentConfig.num_ticks)
    parser.add_argument("--num-decisions", type=int)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--num-levels", type=int, default=1 << 16)
    parser.add_argument("--num-seeds", type=int, default=1)
    parser.add_argument("--half-precision", action="store_true")
    parser.add_argument("--skill-maps", type=int, default=64, help="feature maps of untrained skills")
    parser.add_argument("--skill-units", type=int, default=128, help="hidden units of untrained skills")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    measurement = Measurement()
    names = ("num_environments", "num_ticks", "num_decisions", "batch_size", "num_levels", "num_seeds")
    config = AgentConfig(half_precision=options.half_precision, **{name: getattr(options, name) for name in names})
    world = GridWorld(kind="pickup", num_tasks=5, reward="sparse", max_steps=NUM_RL_STEPS)
    sizes = Config(num_maps=options.skill_maps, hidden_dim=options.skill_units)
    agents: dict[str, tuple[Any, cil.Model | None]] = {"low-level": ("low-level", None)}
    if options.skills is not None:
        agents["hierarchical"] = ("hierarchical", cil.load(options.skills))
    else:
        demos = cil.demonstrate(world, num_demos=64)
        relaxed = dataclasses.replace(sizes, inference="relaxed")
        whole = dataclasses.replace(relaxed, num_skills=128, num_segments=1)
        agents["hierarchical, exact"] = ("hierarchical", untrained(demos, sizes))
        agents["hierarchical, relaxed"] = ("hierarchical", untrained(demos, relaxed))
        agents["bc"] = ("bc", untrained(demos, whole))
    agents = {name: agent for name, agent in agents.items() if options.agents is None or name in options.agents}
    rows = {
        name: measure(dataclasses.replace(config, agent=agent), world, model, options.repeats)
        for name, (agent, model) in agents.items()
    }
    alone = world_alone(world, config.num_environments * config.num_seeds, config.num_ticks, options.repeats)
    columns = next(iter(rows.values()))
    table = Table("environment steps a second", *columns, title=str(jax.devices()[0]))
    for name, row in rows.items():
        table.add_row(name, *(f"{value:,.0f}" if value > 100 else f"{value:.2f}" for value in row.values()))
    table.add_row("the world alone", f"{alone:,.0f}")
    Console().print(table)
    if options.out:
        skills = str(options.skills or f"untrained, {options.skill_maps} maps, {options.skill_units} units")
        measurement.write(
            options.out,
            config=config.to_json() | {"skills": skills},
            seeds=[config.seed],
            figures={"agents": rows, "world alone": alone},
        )


if __name__ == "__main__":
    main()
