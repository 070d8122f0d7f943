"""Measures the time of one training step and of its parts, at the paper's sizes.

    python -m benchmarks.training [--inference relaxed] [--seeds 5] [--half-precision] [--out FILE]

Steps are timed as training makes them, one after the other without waiting, fresh demonstrations included; each other
row is the median of several calls, each waited for. The floor is the arithmetic of the networks, forwards and
backwards, at the rate that a large matrix product reaches on the same device in the same precision and run.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro
from rich.console import Console
from rich.table import Table

from compile_il.config import Config
from compile_il.evaluation.results import Measurement
from compile_il.inference.engines import ENGINES
from compile_il.inference.exact.engine import constraints_of_batch, make_priors
from compile_il.inference.exact.likelihood import log_likelihood
from compile_il.inference.exact.segment_scores import point_mass, score_segments
from compile_il.inference.relaxed.recognition import infer_all
from compile_il.inference.relaxed.supervision import supervision_of_batch
from compile_il.training.feeds import WorldBatches
from compile_il.training.sources import TRAINING_STEPS, make_source
from compile_il.training.trainer import Trainer
from compile_il.worlds.demonstrate import draw_batch

AT_PAPER_SIZES = Config(batch_size=256, hidden_dim=256, num_maps=64)


def milliseconds(work: Callable[[], Any], repeats: int = 30) -> float:
    """Returns the median time of one call, after a first one that compiles."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[1:])


def milliseconds_in_a_row(work: Callable[[], Any], warm_up: int, repeats: int) -> float:
    """Returns the mean time of one call among many in a row, without waiting for each."""
    for _ in range(warm_up):
        last = work()
    jax.block_until_ready(last)
    began = time.perf_counter()
    for _ in range(repeats):
        last = work()
    jax.block_until_ready(last)
    return 1e3 * (time.perf_counter() - began) / repeats


def matmul_rate(size: int, half_precision: bool) -> float:
    """Returns floating-point operations a second of a large matrix product."""
    a = jax.random.normal(jax.random.key(0), (size, size), jnp.bfloat16 if half_precision else jnp.float32)
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / (milliseconds(lambda: product(a), 10) / 1e3)


def network_operations(config: Config, num_frames: int, max_length: int) -> float:
    """Counts multiplications and additions of the networks for a grid world, forwards (1) and backwards (2)."""
    maps, hidden, skills, actions = config.num_maps, config.hidden_dim, config.num_skills, 8
    convolutions = 8 * 8 * 9 * 12 * maps + 6 * 6 * 9 * maps * maps + 36 * maps * hidden
    heads = skills * (hidden * hidden + hidden * actions)
    if config.inference == "exact":
        stopping = (2 * hidden + actions) * hidden + hidden * skills
        return 3 * 2.0 * num_frames * (convolutions + heads + stopping)
    # Recognition and termination each pass over all times once for every segment; inputs meet the gates once.
    times = config.batch_size * (max_length + 1)
    gates = 4 * hidden * (2 * hidden + hidden + actions)
    passes = (config.num_segments or 1) * (2 * 4 * hidden * hidden + 3 * hidden * hidden + hidden * skills)
    return 3 * 2.0 * (num_frames * (3 * convolutions + heads) + times * (gates + passes))


class Parts(NamedTuple):
    """Parameters and batches of several seeds, with which parts of a step are timed."""

    skills_of: Callable[[Any], Any]
    stacked: Any
    batches: Any

    def gradient(self, loss: Callable[..., Any]) -> Callable[[], Any]:
        """Returns a call of the gradient of a loss of the skills and a batch."""
        take = jax.jit(jax.vmap(jax.grad(lambda params, batch: loss(self.skills_of(params), batch))))
        return lambda: take(self.stacked, self.batches)

    def forwards(self, part: Callable[..., Any]) -> Callable[[], Any]:
        """Returns a call of a part of the model."""
        run = jax.jit(jax.vmap(lambda params, batch: part(self.skills_of(params), batch)))
        return lambda: run(self.stacked, self.batches)


def exact_parts(parts: Parts, trainer: Trainer) -> dict[str, Callable[[], Any]]:
    """Returns calls of the networks, and of the sum over segmentations with its gradient."""
    model, log_count = trainer.models(trainer.start())[0], point_mass(3, 3)
    priors = make_priors(model.resolved, model.skills, model.duration_rate, trainer.source.max_length)
    networks = parts.forwards(
        lambda skills, batch: (skills.score_steps(batch), constraints_of_batch(batch, skills.num_skills))
    )
    scored = networks()

    def recursion(steps: Any, constraints: Any) -> Any:
        def each(steps: Any, constraints: Any) -> Any:
            return log_likelihood(score_segments(steps, priors, constraints, log_count))

        return jnp.mean(jax.vmap(each)(steps, constraints))

    backwards = jax.jit(jax.vmap(jax.grad(recursion)))
    return {
        "networks, forwards": networks,
        "recursion and gradient": lambda: backwards(*scored),
    }


def relaxed_parts(parts: Parts, trainer: Trainer) -> dict[str, Callable[[], Any]]:
    """Returns calls of the networks of frames, of the recognition passes and of the termination passes."""
    num_segments = trainer.config.resolved().num_segments or 3

    def frames(skills: Any, batch: Any) -> Any:
        read = skills.read(batch)
        return sum(
            jnp.mean(read_by.astype(jnp.float32)) for read_by in (read.inputs, read.evidence, read.termination_inputs)
        )

    def masks(batch: Any) -> Any:
        return jnp.full((batch.lengths.shape[0], num_segments, batch.boundary_labels.shape[1] + 1), 0.5)

    def recognise(skills: Any, batch: Any) -> Any:
        inputs = jnp.ones((*masks(batch).shape[::2], 2 * trainer.config.hidden_dim))
        ends = supervision_of_batch(batch, num_segments).ends
        found = infer_all(skills.recognition, inputs, batch.lengths, 0 * masks(batch), ends, temperature=1.0)
        return jnp.mean(found.code_logits) + jnp.mean(jnp.exp(found.log_segments))

    def terminate(skills: Any, batch: Any) -> Any:
        seen = jnp.ones((*masks(batch).shape[::2], trainer.config.hidden_dim))
        done = jnp.ones((*masks(batch).shape[::2], skills.policies.actions.width))
        return jnp.mean(skills.termination.logits(seen, done, masks(batch), batch.lengths))

    return {
        "networks of frames and gradient": parts.gradient(frames),
        "recognition passes and gradient": parts.gradient(recognise),
        "termination passes and gradient": parts.gradient(terminate),
    }


def measure(world_name: str, config: Config) -> dict[str, float]:
    """Returns milliseconds of the whole step and of its parts."""
    source = make_source(world_name, config)
    assert source.world is not None
    if config.inference == "relaxed" and world_name.startswith("grid"):
        source = source._replace(max_length=TRAINING_STEPS)  # the paper's T, which no sample of demonstrations reaches
    world, seeds = source.world, config.num_seeds
    trainer = Trainer(config, source)
    assert isinstance(trainer.batches, WorldBatches), "its source is a world"
    num_frames = trainer.batches.num_frames
    state = [trainer.start()]
    calls = iter(range(10**9))
    on_device = jax.default_backend() != "cpu"

    def whole() -> Any:
        state[0], loss = trainer.step(state[0], next(calls))
        return loss

    @jax.jit
    def draw(key: Any) -> Any:
        keys = jax.random.split(key, (seeds, config.batch_size))
        return jax.vmap(lambda keys: draw_batch(world, keys, num_frames, source.max_length))(keys)

    params, static = eqx.partition(trainer.models(state[0])[0].skills, eqx.is_inexact_array)

    def skills_of(params: Any) -> Any:
        skills = eqx.combine(params, static)
        return skills.in_half_precision() if config.half_precision else skills

    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), params)
    parts = Parts(skills_of, stacked, draw(jax.random.key(1)))
    losses = ENGINES[trainer.config.inference].make_losses(trainer.config.resolved(), trainer.rate)
    noise = jax.random.split(jax.random.key(0), config.batch_size)
    warm_up, repeats = (64, 128) if on_device else (2, 2)
    steps = [milliseconds_in_a_row(whole, warm_up, repeats) for _ in range(4)]
    times = {
        "whole step": statistics.mean(steps),
        "whole step, slowest of four stretches": max(steps),
        "fresh demonstrations": milliseconds(lambda: draw(jax.random.key(next(calls)))),
        "loss and gradient": milliseconds(
            parts.gradient(lambda skills, batch: jnp.mean(losses(skills, batch, noise, jnp.array(0)).total))
        ),
    }
    further = exact_parts if config.inference == "exact" else relaxed_parts
    times |= {name: milliseconds(work) for name, work in further(parts, trainer).items()}
    if world_name.startswith("grid"):
        rate = matmul_rate(8192 if on_device else 1024, config.half_precision)
        operations = network_operations(config, num_frames, source.max_length)
        times["floor: network arithmetic"] = 1e3 * seeds * operations / rate
    return times


@dataclasses.dataclass(frozen=True)
class Run:
    """Measure a training step and its parts."""

    world: str = "grid-pickup"
    """Name of the world."""
    seeds: tuple[int, ...] = (1, 5)
    """Numbers of seeds that are trained at once, a column each."""
    out: Path | None = None
    """Result file."""
    config: Annotated[Config, tyro.conf.arg(name="")] = AT_PAPER_SIZES


def main(run: Run) -> None:
    """Measures each number of seeds, prints a table, and writes the result file."""
    measurement, columns = Measurement(), dict[int, dict[str, float]]()
    for seeds in run.seeds:
        columns[seeds] = measure(run.world, dataclasses.replace(run.config, num_seeds=seeds))
        print(f"{seeds} seeds: {columns[seeds]['whole step']:.2f} ms a step", flush=True)
    title = f"{run.config.inference} engine on {jax.devices()[0]}"
    table = Table("milliseconds", *(f"{seeds} seeds" for seeds in columns), title=title)
    for part in next(iter(columns.values())):
        table.add_row(part, *(f"{column[part]:.2f}" for column in columns.values()))
    Console().print(table)
    if run.out:
        config = {"world": run.world, **run.config.resolved().to_json(), "num_seeds": list(run.seeds)}
        measurement.write(run.out, config=config, seeds=[0], figures=columns)


if __name__ == "__main__":
    main(tyro.cli(Run))
