"""Notes for `docs/results.md` on what its readers could misunderstand; they take their numbers from result files."""

from collections.abc import Callable
from typing import Any

from compile_il.reproduce.names import PaperName
from compile_il.reproduce.scales import TRAINING

OLD_REACHER = (
    "When this was made, the reacher's observation had a constant 1 besides its 32 numbers; it has since been removed."
)
GOOD_BASELINE = (
    "LSTM surprisal does far better here than in the paper, and better than CompILE without labels: "
    "[experiments.md](experiments.md#the-reacher-next-to-the-paper) has what is known about it."
)
OLD_SCORES = (
    "Reconstruction is over the steps of all demonstrations together, where the paper, and now `compile-il evaluate`, "
    "take the mean over demonstrations of each one's share."
)
HISTORY: dict[str, dict[PaperName, str]] = {
    "a92cec8e9879": {"table1": f"{GOOD_BASELINE} {OLD_REACHER}"},
    "cf83baf397b1": {
        "table3": "Networks of the paper's width reach its figures for both low temperatures if gradients are clipped, "
        "and for 0.01 the learning rate is lower: one seed each, with batches of 32 "
        "([experiments.md](experiments.md#low-temperatures)). With the paper's batches of 256 this was not run. "
        f"{OLD_REACHER} Samples at low temperatures are drawn more exactly now.",
        "figure4": OLD_SCORES,
    },
    "53908908c2e5": {
        "figure5": "The time is more than it takes: some parts were begun at that rate first, and for a while two "
        "commands counted the same seconds."
    },
    "da60d07333c6": {
        "table2": "The boundaries that z-CompILE misses are a step off, in some seeds more than in others: a small "
        "copy has them a step early where the expert slows down before a touch, and not where it does not; at the "
        "paper's width this has not been shown ([experiments.md](experiments.md#told-gaussian-codes)).",
        "figure7": "Wall time is more than it takes: another training, which is not counted, ran on the same "
        "accelerator.",
    },
}
"""Notes on results that one version of the program made, by its commit and the name of the study."""
FEW_RIGHT = 0.95
"""Share of demonstrations; a seed that finds the right number of segments in fewer is one that leaves some out."""


def note_on(name: PaperName, result: dict[str, Any]) -> str:
    """Returns the note on one study; empty where there is nothing to be said."""
    made_by = dict.fromkeys(part["commit"] for part in result["figures"].values())
    history = [HISTORY.get(commit, {}).get(name, "") for commit in made_by]
    return " ".join(words for words in (NOTES[name](result) if name in NOTES else "", *history) if words)


def _table3(result: dict[str, Any]) -> str:
    return (
        "M=3 and temperature 1 are trained as CompILE of table 1 is, with the same seeds; where numbers differ, it was "
        "by another version of the program. The exact engine's rows are without a factor for lengths, which was the "
        "default then (`duration_weight=0`)."
    )


def _figure4(result: dict[str, Any]) -> str:
    exact, relaxed = (longest_training(result).get(engine) for engine in ("exact", "relaxed"))
    if exact is None or relaxed is None:
        return ""
    ours, papers = relaxed["num_iterations"], TRAINING["paper"]["relaxed grid"]["num_iterations"]
    fewer = f", where the paper has {papers:,}; with all of them it comes to more ([relaxed.md](relaxed.md#training))"
    return (
        "The exact engine's models have larger policies and, without effects, more skills than CompILE's, which has "
        f"the paper's sizes; they were trained for {exact['num_iterations']:,} iterations and CompILE for {ours:,}"
        f"{fewer if ours < papers else ''}."
    )


def _figure5(result: dict[str, Any]) -> str:
    agents = [part for part in result["config"]["parts"].values() if part["agent"]["agent"] == "hierarchical"]
    skills = sorted({(part["config"]["num_skills"], part["world"]) for part in agents})
    numbers = " and ".join(f"{count} for {world}" for count, world in skills)
    steps = " or ".join(str(most) for most in sorted({part["agent"]["max_skill_steps"] for part in agents}))
    rates = " or ".join(f"{rate:g}" for rate in sorted({part["agent"]["learning_rate"] for part in agents}))
    of_skills = f"; there are {numbers}, of either engine, and they end after {steps} steps" if agents else ""
    of_rates = f" before {rates} was taken for all" if agents else ""
    return (
        "Agents draw options with their own probabilities, as while they learned; the file also has their success "
        "with the most probable one. Seeds are those of agents: all have the skills of one model, and "
        "with the exact engine so have all panels of a world. "
        "Skills of the exact engine were trained longer, with larger policies and, for pick-up, with "
        f"effects{of_skills}. "
        "Settings were chosen on other levels, but for one: some agents had been scored on these at a higher rate"
        f"{of_rates} ([decisions.md](decisions.md#hierarchical-reinforcement-learning))."
    )


def _figure7(result: dict[str, Any]) -> str:
    """Returns a note on the seeds of CompILE that leave out segments of five tasks on pick-up; empty without any."""
    seeds = result["figures"].get("grid-pickup, CompILE", {"scores": {}})["scores"].get("5", [])
    seeds = [seed for seed in seeds if seed["count_accuracy"] is not None]  # of those that diverged it is
    fewer = [seed for seed in seeds if seed["count_accuracy"] < FEW_RIGHT]
    others = [seed for seed in seeds if seed not in fewer]
    if not fewer:
        return ""
    wrong = _range([1 - seed["count_accuracy"] for seed in fewer])
    rest = f"; of the others, {_range([seed['online'] for seed in others])}" if others else ""
    return (
        f"{len(fewer)} of {len(seeds)} seeds of CompILE on pick-up leave out a segment in {wrong} of the "
        f"demonstrations of five tasks, and solve {_range([seed['online'] for seed in fewer])} of such levels "
        f"online{rest}."
    )


def _qualitative(result: dict[str, Any]) -> str:
    parts = result["config"]["parts"].values()
    early = " or ".join(
        f"{part['config']['num_iterations']:,} iterations of {part['config']['inference']} training"
        for part in parts
        if part["early"]
    )
    return f"One model of each kind, after all of its training{f', or after {early}' if early else ''}."


def longest_training(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the settings of the longest training of each engine; the baseline LSTM surprisal is left out."""
    longest: dict[str, dict[str, Any]] = {}
    for part in result["config"]["parts"].values():
        if not part["surprisal"]:
            config = part["config"]
            last = longest.setdefault(config["inference"], config)
            longest[config["inference"]] = max(last, config, key=lambda one: int(one["num_iterations"]))
    return longest


def _range(shares: list[float]) -> str:
    """Returns the range of some shares in per cent, such as "98 %" or "17 to 19 %"."""
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


NOTES: dict[PaperName, Callable[[dict[str, Any]], str]] = {
    "table3": _table3,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure7": _figure7,
    "qualitative": _qualitative,
}
