"""Makes tables of how long things take from the files under `results/`."""

import functools
from statistics import mean, stdev

from compile_il.evaluation.results import read_result
from experiments.tables.markdown import TABLES, markdown_table, table


@table
def speed() -> str:
    """Makes a table of the speeds that matter most, on one accelerator."""
    exact, relaxed, agents, worlds = (
        read_result(f"speed-{name}-h200") for name in ("exact", "relaxed", "hierarchy", "worlds")
    )
    rows = [
        [f"a training step, {name} inference, {count} seed{'s' if count > 1 else ''}", f"{found:.1f} ms"]
        for name, result in (("exact", exact), ("relaxed", relaxed))
        for count in (1, 5)
        for found in [result["figures"][str(count)]["whole step"]]
    ]
    rows += [
        [f"low-level steps per second, {name} agents, while learning", f"{agents['figures']['agents'][key][rate]:,.0f}"]
        for name, key in (("hierarchical", "hierarchical, exact"), ("low-level", "low-level"))
        for rate in ["with learning"]
    ]
    made = worlds["figures"]["grid-pickup"]["ours"]["demonstrations_on_device"]
    rows.append(["demonstrations of grid-pickup per second", f"{made:,.0f}"])
    return markdown_table(["", f"one {exact['hardware']['device']}"], rows)


@table
def speed_worlds() -> str:
    """Makes a table of demonstrations and steps per second, on each machine that was measured."""
    cpu, gpu = read_result("speed-worlds-cpu"), read_result("speed-worlds-h200")
    rows = []
    for world, figures in cpu["figures"].items():
        for what, key in (
            ("demonstrations, in host memory", "demonstrations_to_host"),
            ("demonstrations, on the device", "demonstrations_on_device"),
            ("steps with observations", "steps_with_observations"),
            ("steps", "steps"),
        ):
            twin, ours, on_gpu = figures["twin"][key], figures["ours"][key], gpu["figures"][world]["ours"][key]
            rows.append([f"{world}: {what}", f"{twin:,.0f}", f"{ours:,.0f}", f"{ours / twin:,.0f}x", f"{on_gpu:,.0f}"])
    cores, device = cpu["hardware"]["num_cores"], gpu["hardware"]["device"]
    return markdown_table(["a second", "plain Python", f"{cores} CPU cores", "ratio", f"one {device}"], rows)


def speed_of_training(inference: str) -> str:
    """Makes a table of the milliseconds of a training step, at the paper's sizes."""
    result = read_result(f"speed-{inference}-h200")
    columns = list(result["figures"].values())
    rows = [[part, *(f"{column[part]:.2f}" for column in columns)] for part in columns[0]]
    seeds = [f"{count} seed{'s' if int(count) > 1 else ''}" for count in result["figures"]]
    return markdown_table([f"milliseconds, one {result['hardware']['device']}", *seeds], rows)


TABLES |= {f"speed-{name}": functools.partial(speed_of_training, name) for name in ("exact", "relaxed")}


@table
def speed_agents() -> str:
    """Makes a table of environment steps per second in reinforcement learning, those inside of skills counted."""
    result = read_result("speed-hierarchy-h200")
    rows = [
        [name, *(f"{found[rate]:,.0f}" for rate in ("with learning", "acting alone", "updates"))]
        for name, found in result["figures"]["agents"].items()
    ]
    rows.append(["the world alone", "-", f"{result['figures']['world alone']:,.0f}", "-"])
    headings = [f"a second, one {result['hardware']['device']}", "steps, with learning", "steps, acting alone"]
    return markdown_table([*headings, "updates"], rows)


@table
def first_minute() -> str:
    """Makes a table of how fast training without labels gets to 99 % of boundaries on the processor."""
    result = read_result("first-minute-cpu")
    rows = [
        [
            f"seed {seed}",
            f"{run['seconds_to_goal']:.0f}",
            f"{run['iterations']:,}",
            *(f"{100 * run['scores'][name]:.1f}" for name in ("boundary_accuracy", "exact_match", "online")),
        ]
        for seed, run in zip(result["seeds"], result["figures"], strict=True)
    ]
    cores = result["hardware"]["num_cores"]
    headings = [f"grid-pickup, {cores} cores", "seconds to 99 % of boundaries", "iterations in a minute"]
    return markdown_table([*headings, "then: boundaries", "exact match", "online success"], rows)


@table
def symbols() -> str:
    """Makes a table of iterations and time to the official toy's criterion, beside a plain loop in three forms."""
    figures = read_result("symbols")["figures"]
    rows = []
    for compared in figures["comparisons"]:
        ours, plain = compared["ours"], compared["plain"]
        for name, side, timed in (
            ("this engine", ours, ours),
            ("plain loop, its LSTM's step compiled", plain, figures["plain_forms"]["cell"]),
            ("plain loop, single operations", plain, figures["plain_forms"]["eager"]),
            ("plain loop, unrolled and compiled as a whole", plain, plain),
        ):
            seeds = side["seeds"]
            typical = timed.get("typical_seconds") or mean(seed["typical_seconds"] for seed in seeds)
            counts = [seed["iterations"] for seed in seeds]
            reached = sum(seed["reached"] for seed in seeds)
            error = stdev(counts) / len(counts) ** 0.5
            enough = f"{mean(counts):.1f} ± {error:.1f} ({min(counts)} to {max(counts)})"
            iterations = enough if reached == len(seeds) else f"{reached} of {len(seeds)} seeds within {max(counts)}"
            seconds = f"{'' if reached == len(seeds) else 'over '}{mean(counts) * typical:.1f}"
            weights = "{codes:g}, {boundaries:g}".format(**side["betas"])
            rows.append([name, weights, iterations, f"{1e3 * typical:.0f}", seconds, f"{timed['compile_seconds']:.0f}"])
    return markdown_table(
        ["symbols", "β_z, β_b", "iterations", "milliseconds each", "seconds", "seconds to compile"], rows
    )
