"""Where the time of one training step of the exact engine goes, at the paper's sizes.

    python -m benchmarks.exact [--num-seeds 5] [--batch-size 256] [--hidden-dim 256] [--num-maps 64] [--out FILE]

Each row is the median of several calls. The floor is the arithmetic of the networks, forwards and backwards, at the
rate that a large matrix product reaches on the same device in the same run.
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
from compile_il.fit import Trainer, make_source
from compile_il.results import write_result


def milliseconds(work: Callable[[], Any], repeats: int = 30) -> float:
    """Median time of one call, after a first one that compiles."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[1:])


def matmul_rate(size: int) -> float:
    """Floating-point operations a second of a large product in JAX's default precision."""
    a = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / (milliseconds(lambda: product(a), 10) / 1e3)


def network_operations(config: Config, num_frames: int) -> float:
    """Multiplications and additions of the networks for a grid world, forwards (1) and backwards (2)."""
    maps, hidden, skills, actions = config.num_maps, config.hidden_dim, config.num_skills, 8
    convolutions = 8 * 8 * 9 * 12 * maps + 6 * 6 * 9 * maps * maps
    heads = skills * (hidden * hidden + hidden * actions)
    stopping = (2 * hidden + actions) * hidden + hidden * skills
    return 3 * 2.0 * num_frames * (convolutions + 36 * maps * hidden + heads + stopping)


def measure(config: Config) -> dict[str, float]:
    """Milliseconds of the whole step and of its parts."""
    source = make_source("grid-pickup", config)
    assert source.world is not None
    world, num_frames, seeds = source.world, source.num_frames, config.num_seeds
    trainer = Trainer(config, source)
    state = [trainer.start()]
    calls = iter(range(10**9))

    def whole() -> Any:
        state[0], losses = trainer.step(state[0], next(calls))
        return losses

    draw = jax.jit(
        lambda key: jax.vmap(lambda k: draw_batch(world, k, config.batch_size, num_frames))(
            jax.random.split(key, seeds)
        )
    )
    batches = draw(jax.random.key(1))
    model = trainer.models(state[0])[0]
    params, static = eqx.partition(model.skills, eqx.is_inexact_array)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), params)
    priors, log_count = model.priors(source.max_length), exactly(3, 3)

    def loss(params: Any, batch: Any) -> Any:
        return exact_loss(eqx.combine(params, static), batch, priors, log_count)

    gradient = jax.jit(jax.vmap(jax.grad(loss)))
    forwards = jax.jit(jax.vmap(lambda p, b: score_batch(eqx.combine(p, static), b)))
    scored = forwards(stacked, batches)

    def recursion(steps: Any, known: Any) -> Any:
        each = jax.vmap(log_likelihood, in_axes=(0, None, 0, None))
        return jnp.mean(each(steps, priors, known, log_count))

    backwards = jax.jit(jax.vmap(jax.grad(recursion)))
    operations = seeds * network_operations(config, num_frames)
    return {
        "whole step": milliseconds(whole),
        "fresh demonstrations": milliseconds(lambda: draw(jax.random.key(next(calls)))),
        "loss and gradient": milliseconds(lambda: gradient(stacked, batches)),
        "networks, forwards": milliseconds(lambda: forwards(stacked, batches)),
        "recursion and gradient": milliseconds(lambda: backwards(*scored)),
        "floor: network arithmetic": 1e3 * operations / matmul_rate(8192 if jax.default_backend() != "cpu" else 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-seeds", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--hidden-dim", type=int, default=256)
    parser.add_argument("--num-maps", type=int, default=64)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    sizes = {name: getattr(options, name) for name in ("batch_size", "hidden_dim", "num_maps")}
    columns = {seeds: measure(Config(num_seeds=seeds, **sizes)) for seeds in options.num_seeds}
    table = Table("milliseconds", *(f"{seeds} seeds" for seeds in columns), title=f"exact engine on {jax.devices()[0]}")
    for part in next(iter(columns.values())):
        table.add_row(part, *(f"{column[part]:.2f}" for column in columns.values()))
    Console().print(table)
    if options.out:
        wall_time = time.perf_counter() - began
        write_result(options.out, config=sizes, seeds=[0], wall_time=wall_time, figures=columns)


if __name__ == "__main__":
    main()
