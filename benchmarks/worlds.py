"""Measures steps and demonstrations a second of worlds, beside their plain-Python twins in the same run.

    python -m benchmarks.worlds [--out results/speed-worlds-cpu.json]

Rates of one run compare with each other; across machines they do not. Each is the median of `--repeats` measurements.
"""

import functools
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import tyro
from jaxtyping import Array
from rich.console import Console
from rich.table import Table

from compile_il.data.batch import frame_budget
from compile_il.evaluation.results import Measurement
from compile_il.training.sources import TRAINING_STEPS
from compile_il.worlds.demonstrate import demonstrate, draw_batch, draw_levels
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.reacher import ReacherWorld
from compile_il.worlds.world import select
from tests.twins import grid_twin, reacher_twin

WORLDS: dict[str, GridWorld | ReacherWorld] = {
    "grid-pickup": GridWorld(kind="pickup", max_steps=TRAINING_STEPS),
    "grid-visit": GridWorld(kind="visit", max_steps=TRAINING_STEPS),
    "reacher": ReacherWorld(),
}


def rate(work: Callable[[], int], repeats: int) -> float:
    """Returns units of work a second, the median over measurements; one before them warms up and is not counted."""
    rates = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        units = work()
        rates.append(units / (time.perf_counter() - began))
    return statistics.median(rates[1:])


@functools.partial(jax.jit, static_argnames=("world", "num_steps", "with_observations"))
def random_steps(world: Any, levels: Any, key: Array, num_steps: int, with_observations: bool) -> Any:
    """Makes random steps in many episodes at once; an episode that ends starts over on its level."""
    starts = jax.vmap(world.start)(levels)
    num = jax.tree.leaves(levels)[0].shape[0]

    def advance(states: Any, step_key: Array) -> tuple[Any, Any]:
        if world.num_actions is None:
            actions = jax.random.uniform(step_key, (num, 2), minval=-3.0, maxval=3.0)
        else:
            actions = jax.random.randint(step_key, (num,), 0, world.num_actions)
        step = jax.vmap(world.step)(levels, states, actions)
        seen = jax.vmap(world.observe)(levels, step.state) if with_observations else ()
        states = jax.vmap(select)(step.terminated | step.truncated, starts, step.state)
        return states, (step.reward, seen)

    return jax.lax.scan(advance, starts, jax.random.split(key, num_steps))


def measure(name: str, batch: int, num_levels: int, repeats: int) -> dict[str, float]:
    """Returns demonstrations a second to the host and on the device, and steps a second with and without frames."""
    world = WORLDS[name]
    levels = draw_levels(world, jax.random.key(0), num_levels)
    num_frames = frame_budget(demonstrate(world, num_demos=1024).lengths, batch)
    seeds = iter(range(10**6))

    @functools.partial(jax.jit, static_argnums=1)
    def keys_of(seed: int, count: int) -> Any:
        return jax.random.split(jax.random.key(seed), count)

    def to_host() -> int:
        return len(demonstrate(world, num_demos=4 * batch, seed=next(seeds)))

    def on_device() -> int:
        jax.block_until_ready(draw_batch(world, keys_of(next(seeds), batch), num_frames, world.max_steps))
        return batch

    def steps(num_steps: int, with_observations: bool) -> int:
        key = jax.random.key(next(seeds))
        jax.block_until_ready(random_steps(world, levels, key, num_steps, with_observations))
        return num_steps * num_levels

    return {
        "demonstrations_to_host": rate(to_host, repeats),
        "demonstrations_on_device": rate(on_device, repeats),
        "steps": rate(lambda: steps(256, False), repeats),
        "steps_with_observations": rate(lambda: steps(8, True), repeats),
    }


def measure_twin(name: str, num_demos: int, repeats: int) -> dict[str, float]:
    """Returns the same rates of the plain-Python twin.

    It too steps on levels that were drawn before. Its expert plans anew at every step.
    """
    rng = random.Random(0)
    kind = name.removeprefix("grid-")

    def draw_level() -> Any:
        if name == "reacher":
            return reacher_twin.TwinReacherLevel.random(rng, 3)
        return grid_twin.TwinLevel.random(rng, kind=kind, num_tasks=3)

    levels = [draw_level() for _ in range(num_demos)]

    def begin(level: Any) -> Any:
        if name == "reacher":
            return reacher_twin.TwinReacher(level)
        return grid_twin.TwinGrid(level, kind=kind, max_steps=TRAINING_STEPS)

    def demonstrations() -> int:
        for _ in range(num_demos):
            if name == "reacher":
                reacher_twin.demonstrate(draw_level())
            else:
                grid_twin.demonstrate(draw_level(), kind=kind, max_steps=TRAINING_STEPS)
        return num_demos

    def steps(with_observations: bool) -> int:
        num_steps = 0
        for level in levels:
            world = begin(level)
            while not (world.terminated or world.truncated):
                world.step((rng.uniform(-3, 3), rng.uniform(-3, 3)) if name == "reacher" else rng.randrange(8))
                if with_observations:
                    world.observation()
                num_steps += 1
        return num_steps

    on_twin = rate(demonstrations, repeats)
    return {
        "demonstrations_to_host": on_twin,
        "demonstrations_on_device": on_twin,
        "steps": rate(lambda: steps(False), repeats),
        "steps_with_observations": rate(lambda: steps(True), repeats),
    }


def main(out: Path | None = None, repeats: int = 9) -> None:
    """Measures worlds and twins, prints a table, and writes the result file `out`."""
    accelerator = jax.default_backend() != "cpu"
    batch, num_levels = (16384, 131072) if accelerator else (1024, 4096)
    measurement = Measurement()
    table = Table("world", "what", "a second", "twin, a second", "ratio", title=f"worlds on {jax.devices()[0]}")
    figures: dict[str, Any] = {}
    for name in WORLDS:
        ours = measure(name, batch, num_levels, repeats)
        twin = measure_twin(name, 100, 3)
        figures[name] = {"ours": ours, "twin": twin, "ratio": {what: ours[what] / twin[what] for what in ours}}
        for what in ours:
            row = f"{ours[what]:,.0f}", f"{twin[what]:,.0f}", f"{ours[what] / twin[what]:,.0f}"
            table.add_row(name, what.replace("_", " "), *row)
    Console().print(table)
    if out:
        config = {"batch": batch, "num_levels": num_levels, "repeats": repeats, "max_steps": TRAINING_STEPS}
        measurement.write(out, config=config, seeds=[0], figures=figures)


if __name__ == "__main__":
    tyro.cli(main)
