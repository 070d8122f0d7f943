"""Ray's actors, of which some die, and clusters that cannot be used."""

import contextlib
import dataclasses
import functools
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.rl import ray_actors as crew
from compile_il.rl import ray_actors as ray_cluster
from compile_il.rl.agent import AgentInput
from compile_il.rl.config import AgentConfig, HierarchyError
from compile_il.rl.learn import learn, run_training
from compile_il.rl.player import load_player
from compile_il.rl.ray_actors import MakeEnv, NobodyActsError, RayTrainer, check_address, stage_of
from compile_il.training.log import read_log
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.gym import env_of
from tests.rl.test_env_actor import PICK, SMALL, assert_the_same
from tests.rl.test_options import untrained

CARTPOLE = functools.partial(gymnasium.make, "CartPole-v1")
VISIT = GridWorld(kind="visit", size=5, num_tasks=3, num_objects=3, max_steps=15, wall_rate=0.0)


@pytest.fixture(scope="module")
def cluster() -> Any:
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


ANY_WARNING = pytest.mark.filterwarnings("ignore")  # Ray's own


def curve(training: RayTrainer, happens: Callable[[int], None] = lambda iteration: None) -> tuple[float, float]:
    """Mean reward of an episode in the first and in the last quarter of training."""
    rewards, episodes = [], []
    learned = training.start()
    for iteration in range(training.config.num_iterations):
        happens(iteration)
        learned, statistics = training.step(learned, iteration)
        rewards.append(float(statistics.total_reward[0]))
        episodes.append(int(statistics.num_episodes[0]))
    quarter = training.config.num_iterations // 4
    first, last = (sum(rewards[part]) / sum(episodes[part]) for part in (slice(quarter), slice(-quarter, None)))
    print(f"reward {first:.3f}, then {last:.3f}")
    return first, last


@ANY_WARNING
def test_two_actors_learn_and_one_that_dies_is_replaced(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Rewards rise; that a death does not change them is shown below."""
    config = AgentConfig(
        agent="low-level", num_environments=32, batch_size=32, num_ticks=16, hidden_dim=32, num_maps=4,
        learning_rate=3e-3, final_learning_rate=None, num_iterations=80,
    )  # fmt: skip
    with RayTrainer(config, VISIT, num_actors=2) as training:

        def kill(iteration: int) -> None:
            if iteration == 25:
                cluster.kill(training.actors[0])

        first, last = curve(training, kill)
        assert len(training.actors) == 2
    assert "An actor died and is replaced." in capsys.readouterr().err
    assert last > 1.25 * first, "rewards do not rise"


@ANY_WARNING
def test_agents_learn_in_environments_of_others(cluster: Any) -> None:
    """A pole is balanced for twenty steps by chance."""
    config = AgentConfig(
        agent="low-level", num_environments=32, batch_size=32, num_ticks=16, hidden_dim=32,
        learning_rate=3e-3, final_learning_rate=None, num_iterations=320,
    )  # fmt: skip
    with RayTrainer(config, None, make_env=CARTPOLE, num_actors=2) as training:
        first, last = curve(training)
    assert first < 30
    assert last > 60


def fragile(world: GridWorld, flag: Path) -> MakeEnv:
    """Environments of which the first one that steps while there is a certain file takes its process with it."""

    def make_env() -> Any:
        env = env_of(world)
        step = env.step

        def step_or_die(action: Any) -> Any:
            with contextlib.suppress(FileNotFoundError):
                flag.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return step(action)

        env.step = step_or_die  # type: ignore[method-assign]
        return env

    return make_env


@ANY_WARNING
@pytest.mark.parametrize("agent", ["low-level", "hierarchical"])
def test_deaths_change_nothing(agent: Any, cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs are the same to the last bit, though in one of them two actors die: at work, and after it is done."""
    config = dataclasses.replace(SMALL, agent=agent, batch_size=2, learning_rate=3e-3, num_iterations=8)
    model = None if agent == "low-level" else untrained(inference="exact", recurrent=True)
    world = dataclasses.replace(PICK, kind="visit", max_steps=11)
    flag = tmp_path / "die"

    def run(happens: Callable[[RayTrainer, int], None]) -> list[Any]:
        with RayTrainer(config, world, model, make_env=fragile(world, flag), num_actors=2) as training:
            learned, found = training.start(), []
            for iteration in range(config.num_iterations):
                happens(training, iteration)
                learned, statistics = training.step(learned, iteration)
                found.append(statistics)
            return [learned, found]

    def kill(training: RayTrainer, iteration: int) -> None:
        if iteration != 4:
            return
        slots = training._crew._slots  # type: ignore[union-attr]
        for slot in slots:
            assert min(episode.number for episode in slot.episodes) > 1
            assert max(len(episode.options) for episode in slot.episodes) > 1
        cluster.wait([slot.under_way for slot in slots], num_returns=2)
        cluster.kill(training.actors[1])  # what it has sent is not taken yet
        flag.touch()  # which the other one will see as soon as it goes on

    undisturbed = run(lambda training, iteration: None)
    assert "died" not in capsys.readouterr().err
    disturbed = run(kill)
    assert capsys.readouterr().err.count("An actor died and is replaced.") == 2
    assert_the_same(disturbed, undisturbed)
    assert sum(int(statistics.num_episodes[0]) for statistics in undisturbed[1]) > 10


@ANY_WARNING
def test_more_actors_than_the_cluster_has_room_for_are_refused(cluster: Any) -> None:
    assert cluster.cluster_resources()["CPU"] == 2
    config = dataclasses.replace(SMALL, agent="low-level")
    with pytest.raises(HierarchyError, match="has 2 CPUs, and each of 4 actors needs one"):
        RayTrainer(config, PICK, num_actors=4)


@ANY_WARNING
def test_an_agent_of_another_environment_is_kept(cluster: Any, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, agent="low-level", num_iterations=1)
    training = RayTrainer(config, None, make_env=functools.partial(gymnasium.make, "CartPole-v1"), num_actors=1)
    player = run_training(training, None, tmp_path / "run", progress=False).best
    read = load_player(tmp_path / "run")
    assert (read.world, read.config) == (None, config)
    seen = np.array([0.1, -0.2, 0.05, 0.3], np.float32)
    best = player.agent.choose_best(AgentInput(jnp.array(seen), jnp.array(0), jnp.zeros(1, int))).option
    assert read.choose(seen) == player.choose(seen) == int(best)
    with pytest.raises(HierarchyError, match=r"of shape \(4,\), and this one has \(3,\)"):
        read.choose(seen[:3])


@ANY_WARNING
def test_a_learner_that_was_stopped_goes_on(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, steps = RayTrainer.step, []

    def interrupted(self: RayTrainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    monkeypatch.setattr(RayTrainer, "step", interrupted)
    monkeypatch.setattr(crew, "STOP_SECONDS", 600.0)  # a busy machine may take longer than usual to start actors
    config = dataclasses.replace(SMALL, agent="low-level", num_iterations=3, half_precision=True)
    settings: dict[str, Any] = {"config": config, "actors": "ray", "progress": False}
    with pytest.raises(KeyboardInterrupt, match="after iteration 1 of 3"):
        learn(PICK, out=tmp_path / "run", **settings)
    with pytest.raises(ValueError, match=r"and actors on Ray, and this is .* and actors on the device that learns"):
        learn(PICK, out=tmp_path / "run", resume=True, **settings | {"actors": "device"})
    player = learn(PICK, out=tmp_path / "run", resume=True, **settings)
    assert steps == [0, 1, 2]
    last = read_log(tmp_path / "run")[-1]
    assert last["iteration"] == 3
    assert last["steps"] >= 3 * config.num_environments * config.trajectory_length  # those before the stop included
    assert load_player(tmp_path / "run").world == player.world == PICK


@ANY_WARNING
def test_what_was_learned_is_saved_where_nobody_acts(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second iteration waits for actors that never come, and somebody asks to stop."""
    step = RayTrainer.step

    def in_vain(self: RayTrainer, state: Any, iteration: int) -> Any:
        if iteration == 0:
            return step(self, state, iteration)
        os.kill(os.getpid(), signal.SIGTERM)
        raise NobodyActsError("No actor has sent anything for 20 s.")

    monkeypatch.setattr(RayTrainer, "step", in_vain)
    config = dataclasses.replace(SMALL, agent="low-level", num_iterations=3)
    settings: dict[str, Any] = {"config": config, "actors": "ray", "progress": False, "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt, match="after iteration 1 of 3; all is saved"):
        learn(PICK, **settings)
    monkeypatch.setattr(RayTrainer, "step", step)
    learn(PICK, resume=True, **settings)
    assert [row["iteration"] for row in read_log(tmp_path / "run")] == [1, 2, 3]


@pytest.mark.parametrize(("where", "mode"), [("file", "token"), ("variable", "token"), ("nowhere", None)])
def test_a_token_is_shown_where_there_is_one(
    where: str, mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_MODE", *ray_cluster.TOKEN_VARIABLES):
        # Set before it is taken away, so that it is put back to what it was, whatever is done to it in between.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(ray_cluster, "TOKEN_FILE", tmp_path / "token")
    if where == "file":
        (tmp_path / "token").write_text("a secret")
    if where == "variable":
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a secret")
    ray_cluster.show_token()
    assert os.environ.get("RAY_AUTH_MODE") == mode
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray_cluster.show_token()
    assert os.environ["RAY_AUTH_MODE"] == "disabled", "who says so has the last word"


@ANY_WARNING
def test_actors_that_cannot_live_are_not_replaced_forever(cluster: Any) -> None:
    def make_env() -> Any:
        if os.getpid() != parent:
            os._exit(1)
        return env_of(VISIT)

    parent = os.getpid()
    config = dataclasses.replace(SMALL, agent="low-level")
    die = pytest.raises(HierarchyError, match="die as soon as they are started")
    with RayTrainer(config, VISIT, make_env=make_env, num_actors=1) as training, die:
        training.step(training.start(), 0)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nobody", "nowhere.invalid:80"])
def test_an_address_that_does_not_answer_is_told_within_seconds(address: str) -> None:
    began = time.monotonic()
    with pytest.raises(HierarchyError, match="Nobody answers at"):
        check_address(address)
    assert time.monotonic() - began < 10


def test_somebody_who_says_nothing_or_something_else_is_not_ray() -> None:
    began = time.monotonic()
    with socket.socket() as silent:
        silent.bind(("localhost", 0))
        silent.listen()
        with pytest.raises(HierarchyError, match=r"Nobody answers at localhost:\d+ \(timed out\)"):
            check_address(f"localhost:{silent.getsockname()[1]}")
    with socketserver.TCPServer(("localhost", 0), WebServer) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        with pytest.raises(HierarchyError, match="what answers is not Ray"):
            check_address(f"localhost:{other.server_address[1]}")
    assert time.monotonic() - began < 10


class WebServer(socketserver.BaseRequestHandler):
    """One that speaks an older language."""

    def handle(self) -> None:
        self.request.recv(100)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@ANY_WARNING
def test_a_cluster_answers(cluster: Any) -> None:
    check_address(cluster.get_runtime_context().gcs_address)


@pytest.mark.parametrize(
    ("agent", "make_env", "skills", "message"),
    [
        ("low-level", None, False, "There is no environment"),
        ("low-level", functools.partial(gymnasium.make, "Pendulum-v1"), False, "chooses among a number of discrete"),
        ("hierarchical", CARTPOLE, False, "A hierarchical agent has skills: give a model"),
        ("low-level", CARTPOLE, True, "A low-level agent has no skills: leave the model out"),
        ("hierarchical", CARTPOLE, True, "The environment has 2 actions, and the model's skills have 8 actions"),
    ],
)
def test_environments_of_others_are_checked_too(agent: Any, make_env: Any, skills: bool, message: str) -> None:
    config, model = dataclasses.replace(SMALL, agent=agent), untrained(inference="exact") if skills else None
    with pytest.raises(HierarchyError, match=message):
        RayTrainer(config, None, model, make_env=make_env)


def test_an_address_is_for_ray() -> None:
    with pytest.raises(HierarchyError, match='which is for actors="ray"'):
        learn(VISIT, config=SMALL, agent="low-level", address="auto")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_actors": 0}, "num_actors is 0"),
        ({"num_actors": 3}, "cannot be shared out to 3 actors: make num_environments a multiple of"),
        ({"num_seeds": 2}, "one agent learns at a time"),
        ({"actors": "cloud"}, '\'cloud\': use "device" or "ray"'),
        ({"agent": "hierarchical"}, "needs skills"),
    ],
)
def test_what_cannot_be_run_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(HierarchyError, match=message):
        learn(VISIT, config=SMALL, **{"actors": "ray", "agent": "low-level", **settings})


def test_ray_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HierarchyError, match=r'pip install "compile-il\[ray\]"'):
        learn(VISIT, config=SMALL, agent="low-level", actors="ray")


def test_an_agent_elsewhere_has_no_levels_to_be_scored_on() -> None:
    config = dataclasses.replace(SMALL, agent="low-level")
    maker = stage_of(env_of(VISIT), config).agent_maker(config, None)
    player = cil.hierarchy.Player(maker(key=jax.random.key(0)), config, None, None)
    with pytest.raises(HierarchyError, match="no levels to draw"):
        player.evaluate()
