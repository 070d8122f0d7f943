"""Where the time of one training step of the exact engine goes, at the paper's sizes.

    python -m benchmarks.exact [--world grid-pickup] [--num-seeds 5] [--half-precision] [--out FILE]

Steps are timed as training makes them, one after the other without waiting, fresh demonstrations included; each other
row is the median of several calls that are waited for. The floor is the arithmetic of the networks, forwards and
backwards, at the rate that a large matrix product reaches on the same device in the same precision and run.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from compile_il.batches import draw_batch
from compile_il.config import Config
from compile_il.exact.objective import exact_loss, score_batch
from compile_il.exact.recursion import exactly, log_likelihood
from compile_il.results import write_result
from compile_il.sources import make_source
from compile_il.train import Trainer


def milliseconds(work: Callable[[], Any], repeats: int = 30) -> float:
    """Median time of one call, after a first one that compiles."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[1:])


def milliseconds_in_a_row(work: Callable[[], Any], warm_up: int, repeats: int) -> float:
    """Time of one call among many that nobody waits for."""
    for _ in range(warm_up):
        last = work()
    jax.block_until_ready(last)
    began = time.perf_counter()
    for _ in range(repeats):
        last = work()
    jax.block_until_ready(last)
    return 1e3 * (time.perf_counter() - began) / repeats


def matmul_rate(size: int, half_precision: bool) -> float:
    """Floating-point operations a second of a large product."""
    a = jax.random.normal(jax.random.key(0), (size, size), jnp.bfloat16 if half_precision else jnp.float32)
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / (milliseconds(lambda: product(a), 10) / 1e3)


def network_operations(config: Config, num_frames: int) -> float:
    """Multiplications and additions of the networks for a grid world, forwards (1) and backwards (2)."""
    maps, hidden, skills, actions = config.num_maps, config.hidden_dim, config.num_skills, 8
    convolutions = 8 * 8 * 9 * 12 * maps + 6 * 6 * 9 * maps * maps
    heads = skills * (hidden * hidden + hidden * actions)
    stopping = (2 * hidden + actions) * hidden + hidden * skills
    return 3 * 2.0 * num_frames * (convolutions + 36 * maps * hidden + heads + stopping)


def measure(world_name: str, config: Config) -> dict[str, float]:
    """Milliseconds of the whole step and of its parts."""
    source = make_source(world_name, config)
    assert source.world is not None
    world, num_frames, seeds = source.world, source.num_frames, config.num_seeds
    trainer = Trainer(config, source)
    state = [trainer.start()]
    calls = iter(range(10**9))
    on_device = jax.default_backend() != "cpu"

    def whole() -> Any:
        state[0], losses = trainer.step(state[0], next(calls))
        return losses

    draw = jax.jit(
        lambda key: jax.vmap(lambda k: draw_batch(world, k, config.batch_size, num_frames, source.max_length))(
            jax.random.split(key, seeds)
        )
    )
    batches = draw(jax.random.key(1))
    model = trainer.models(state[0])[0]
    params, static = eqx.partition(model.skills, eqx.is_inexact_array)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), params)
    priors, log_count = model.priors(source.max_length), exactly(3, 3)

    def skills_of(params: Any) -> Any:
        skills = eqx.combine(params, static)
        return skills.in_half_precision() if config.half_precision else skills

    def loss(params: Any, batch: Any) -> Any:
        return exact_loss(skills_of(params), batch, priors, log_count)

    gradient = jax.jit(jax.vmap(jax.grad(loss)))
    forwards = jax.jit(jax.vmap(lambda p, b: score_batch(skills_of(p), b)))
    scored = forwards(stacked, batches)

    def recursion(steps: Any, known: Any) -> Any:
        each = jax.vmap(log_likelihood, in_axes=(0, None, 0, None))
        return jnp.mean(each(steps, priors, known, log_count))

    backwards = jax.jit(jax.vmap(jax.grad(recursion)))
    times = {
        "whole step": milliseconds_in_a_row(whole, 64, 512) if on_device else milliseconds_in_a_row(whole, 2, 32),
        "fresh demonstrations": milliseconds(lambda: draw(jax.random.key(next(calls)))),
        "loss and gradient": milliseconds(lambda: gradient(stacked, batches)),
        "networks, forwards": milliseconds(lambda: forwards(stacked, batches)),
        "recursion and gradient": milliseconds(lambda: backwards(*scored)),
    }
    if world_name.startswith("grid"):
        rate = matmul_rate(8192 if on_device else 1024, config.half_precision)
        times["floor: network arithmetic"] = 1e3 * seeds * network_operations(config, num_frames) / rate
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="grid-pickup")
    parser.add_argument("--half-precision", action="store_true")
    parser.add_argument("--num-seeds", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--hidden-dim", type=int, default=256)
    parser.add_argument("--num-maps", type=int, default=64)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    sizes = {name: getattr(options, name) for name in ("batch_size", "hidden_dim", "num_maps", "half_precision")}
    columns = {seeds: measure(options.world, Config(num_seeds=seeds, **sizes)) for seeds in options.num_seeds}
    table = Table("milliseconds", *(f"{seeds} seeds" for seeds in columns), title=f"exact engine on {jax.devices()[0]}")
    for part in next(iter(columns.values())):
        table.add_row(part, *(f"{column[part]:.2f}" for column in columns.values()))
    Console().print(table)
    if options.out:
        wall_time = time.perf_counter() - began
        write_result(
            options.out, config={"world": options.world, **sizes}, seeds=[0], wall_time=wall_time, figures=columns
        )


if __name__ == "__main__":
    main()
