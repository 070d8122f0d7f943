"""Which models, or other methods, each table and figure needs, at three scales."""

import dataclasses
from typing import Any, Literal, get_args

from compile_il.baselines import surprisal_settings, vae_bc_settings
from compile_il.config import Config
from compile_il.hierarchy.settings import AgentConfig, AgentKind
from compile_il.reproduce.agents import AgentPart
from compile_il.reproduce.names import TITLES, Scale, StudyName
from compile_il.reproduce.older import Method, OlderPart
from compile_il.reproduce.parts import Part
from compile_il.reproduce.portraits import DrawnPart
from compile_il.worlds.world import Reward

PAPER_SIZES: dict[str, Any] = {"batch_size": 256, "hidden_dim": 256, "num_maps": 64, "num_seeds": 5}
SMOKE_SIZES: dict[str, Any] = {"batch_size": 8, "hidden_dim": 16, "num_maps": 4, "num_seeds": 2, "num_iterations": 2}
SMOKE_TEST = 16
"""Demonstrations on which smoke is scored."""
TRAINING: dict[Scale, dict[str, dict[str, Any]]] = {
    "smoke": {},
    "short": {
        "relaxed grid": {"num_iterations": 7_000, "learning_rate": 5e-4, "cooldown": 0.3},
        "relaxed reacher": {"num_iterations": 5_000, "learning_rate": 1e-3, "cooldown": 0.3},
        "exact grid": {"num_iterations": 8_000},
        "exact reacher": {"num_iterations": 2_000},
    },
    "paper": {
        "relaxed grid": {"num_iterations": 50_000},
        "relaxed reacher": {"num_iterations": 500_000},
        "exact grid": {"num_iterations": 20_000},
        "exact reacher": {"num_iterations": 20_000},
    },
}
"""Steps by engine and world. The paper's model takes 50,000, and 500,000 for the reacher, at a small rate that stays;
short trainings have a larger one that falls in the end (docs/decisions.md, "Short trainings")."""
AGENT_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **{"num_iterations": 2, "num_environments": 8, "batch_size": 8, "num_ticks": 4, "num_levels": 8},
        **{"hidden_dim": 8, "num_maps": 2, "embed_dim": 2, "num_seeds": 2},
    },
    "short": {"num_iterations": 600, "half_precision": True, "num_seeds": 3},
    "paper": {"num_iterations": 4_000, "learning_rate": 1e-3, "half_precision": True, "num_seeds": 3},
}
"""Of agents; the paper does not say how long its agents learn."""
VISIT_SKILLS = 32
"""Of either engine, where the paper has 10. In a trial of the exact one, one call of the best of 10 skills arrived at
96 % of all things, of 32 at 99 %."""
AGENT_SKILL_UNITS = 128
"""Hidden units of the models whose skills agents have, as in the paper."""
AGENT_SKILL_STEPS = 10
"""Of a skill at most; nine in ten of those that end by themselves have ended by then. One that is called where there is
nothing to do would run to the end of the episode."""
AGENT_DECISIONS = 32
"""In 64 steps, of agents with skills. A choice at random among 8 actions and 10 skills of 6 steps takes 3.8 on average,
which makes 17."""
EARLY = 100
"""A model that is looked at early has had one in so many of the steps."""
NUM_LEVELS = 1000
"""Levels that show where skills stop (paper, appendix "Qualitative results")."""


@dataclasses.dataclass(frozen=True)
class Study:
    """A table or a figure of the paper."""

    name: StudyName
    title: str
    parts: tuple[Part, ...]

    @property
    def num_seeds(self) -> int:
        """Models, or agents, of each part."""
        first = self.parts[0]
        return first.agent.num_seeds if isinstance(first, AgentPart) else first.config.num_seeds


def make_study(name: StudyName, scale: Scale) -> Study:
    """The models that a table or a figure needs."""
    parts = {
        "table1": _reacher("categorical"),
        "table2": _reacher("gaussian"),
        "table3": _sweeps(),
        "figure4": _grids("categorical"),
        "figure5": _agents(),
        "figure7": _grids("gaussian"),
        "qualitative": _portraits(),
        "classic": _older(),
    }[name]
    return Study(name, TITLES[name], tuple(at_scale(part, scale) for part in parts))


def at_scale(part: Part, scale: Scale) -> Part:
    """The same part with the scale's sizes."""
    if isinstance(part, OlderPart):
        return _tiny_older(part) if scale == "smoke" else part
    sized = _tiny(part) if scale == "smoke" else _full(part, TRAINING[scale])
    if isinstance(part, AgentPart):
        units = sized.config.hidden_dim if scale == "smoke" else AGENT_SKILL_UNITS
        config = dataclasses.replace(sized.config, num_seeds=1, hidden_dim=units)
        if scale == "short" and config.inference == "exact":
            # Agents are no better than their skills, and one training serves all panels of a world.
            config = dataclasses.replace(config, **TRAINING["paper"]["exact grid"])
        agent = dataclasses.replace(part.agent, **AGENT_SIZES[scale])
        if scale != "smoke" and agent.agent != "low-level":
            agent = dataclasses.replace(agent, num_decisions=AGENT_DECISIONS)
        return dataclasses.replace(part, config=config, agent=agent, num_test=sized.num_test)
    if not isinstance(part, DrawnPart):
        return sized
    # One model is enough to look at. So early the rate has not begun to fall: these are the very first steps of it.
    few = max(sized.config.num_iterations // EARLY, 1)
    early: dict[str, Any] = {"num_iterations": few, "cooldown": 0.0} if part.early else {}
    return dataclasses.replace(sized, config=dataclasses.replace(sized.config, num_seeds=1, **early))


def _tiny(part: Part) -> Part:
    return dataclasses.replace(part, config=dataclasses.replace(part.config, **SMOKE_SIZES), num_test=SMOKE_TEST)


def _tiny_older(part: OlderPart) -> OlderPart:
    few: dict[str, Any] = {"num_train": SMOKE_TEST, "num_test": SMOKE_TEST, "num_restarts": 1, "num_states": (2,)}
    return dataclasses.replace(part, config=Config(num_seeds=SMOKE_SIZES["num_seeds"]), **few)


def _full(part: Part, training: dict[str, dict[str, Any]]) -> Part:
    grid = part.world.startswith("grid")
    # A baseline is trained as long as the paper's model.
    engine = "relaxed" if part.surprisal else part.config.inference
    chosen = training[f"{engine} {'grid' if grid else 'reacher'}"]
    config = dataclasses.replace(part.config, **PAPER_SIZES, **chosen, half_precision=True)
    return dataclasses.replace(part, config=config)


def relaxed(world: str, **settings: Any) -> Config:
    """The paper's settings: a rate of 1e-4 that stays, a temperature of 1, policies of two layers for the reacher."""
    layers = 1 if world.startswith("grid") else 2
    return Config(inference="relaxed", learning_rate=1e-4, cooldown=0.0, policy_layers=layers, **settings)


def _surprisal(name: str, world: str) -> Part:
    return Part(name, world, surprisal_settings(relaxed(world)), surprisal=True)


def _reacher(codes: Literal["categorical", "gaussian"]) -> list[Part]:
    parts = [
        _surprisal("LSTM surprisal", "reacher"),
        Part("CompILE", "reacher", relaxed("reacher", codes=codes)),
        Part("z-CompILE", "reacher", relaxed("reacher", codes=codes, supervision="z")),
        Part("b-CompILE", "reacher", relaxed("reacher", codes=codes, supervision="b")),
    ]
    if codes == "categorical":
        parts += [Part("exact", "reacher", Config()), Part("exact, effects", "reacher", Config(effects=True))]
    return parts


def _sweeps() -> list[Part]:
    by_count = [
        Part(f"M={count}", "reacher", relaxed("reacher", num_segments=count), (3,), as_trained=True)
        for count in (3, 4, 5)
    ]
    by_temperature = [
        Part(f"temperature={tau}", "reacher", relaxed("reacher", temperature=tau), (3,)) for tau in (1.0, 0.1, 0.01)
    ]
    # The exact engine is told no more than the paper's model is: that there are at most so many segments.
    exact = [
        Part(f"exact, at most {count}", "reacher", Config(num_segments=None, max_segments=count), (3,))
        for count in (3, 4, 5)
    ]
    return [*by_count, *by_temperature, *exact]


def _grids(codes: Literal["categorical", "gaussian"]) -> list[Part]:
    parts = []
    for world in ("grid-pickup", "grid-visit"):
        parts += [
            _surprisal(f"{world}, LSTM surprisal", world),
            Part(f"{world}, CompILE", world, relaxed(world, codes=codes)),
            Part(f"{world}, b-CompILE", world, relaxed(world, codes=codes, supervision="b")),
            Part(f"{world}, z-CompILE", world, relaxed(world, codes=codes, supervision="z")),
            Part(f"{world}, VAE-BC", world, vae_bc_settings(relaxed(world)), as_trained=True, unending=True),
        ]
        if codes == "categorical":
            parts.append(Part(f"{world}, exact", world, Config(num_skills=32, policy_layers=2)))
            parts.append(Part(f"{world}, exact, effects", world, Config(effects=True, policy_layers=2)))
    return parts


def _older() -> list[Part]:
    five = Config(num_seeds=PAPER_SIZES["num_seeds"])
    return [
        OlderPart(f"{world}, {method}", world, five, method=method)
        for world in ("grid-pickup", "grid-visit", "reacher")
        for method in get_args(Method)
    ]


def _agents() -> list[Part]:
    """Eight panels, each with the paper's agents and one that has skills of the exact engine."""
    parts: list[Part] = []
    for world in ("grid-visit", "grid-pickup"):
        exact = {"num_skills": VISIT_SKILLS} if world == "grid-visit" else {"effects": True}
        skills = {
            "hierarchical, exact": Config(**exact, policy_layers=2),
            "hierarchical, CompILE": relaxed(world, num_skills=VISIT_SKILLS if world == "grid-visit" else 10),
            "VAE-BC": relaxed(world, num_segments=1, num_skills=128),
            "low-level": Config(),
        }
        kinds: dict[str, AgentKind] = {"VAE-BC": "bc", "low-level": "low-level"}
        for reward in get_args(Reward):
            for tasks in (3, 5):
                for name, config in skills.items():
                    agent = AgentConfig(agent=kinds.get(name, "hierarchical"))
                    if agent.agent == "hierarchical":
                        agent = dataclasses.replace(agent, max_skill_steps=AGENT_SKILL_STEPS)
                    panel = f"{world}, {tasks} tasks, {reward}"
                    parts.append(
                        AgentPart(f"{panel}: {name}", world, config, agent=agent, num_tasks=tasks, reward=reward)
                    )
    return parts


def _portraits() -> list[Part]:
    def drawn(name: str, config: Config, *, early: bool = False) -> Part:
        return DrawnPart(name, "grid-pickup", config, (3,), NUM_LEVELS, early=early)

    return [
        drawn("CompILE", relaxed("grid-pickup")),
        drawn("exact", Config()),
        drawn("CompILE, early", relaxed("grid-pickup"), early=True),
        drawn("exact, early", Config(), early=True),
    ]
