"""Short trainings in a process of its own, which may have many devices or be one of two.

python -m tests.training.parallel_run devices OUT                  # eight simulated devices
python -m tests.training.parallel_run processes OUT PROCESS PORT   # one of two processes with one device each
python -m tests.training.parallel_run refusals OUT PROCESS PORT    # one of two that cannot train together
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {"batch_size": 8, "hidden_dim": 16, "num_skills": 3, "num_iterations": 2, "num_seeds": 2}


def losses_of(source: Any, engine: str, num_devices: int | None) -> dict[str, Any]:
    """Losses of two steps, and Adam's mean of the gradients of all weights of the second seed.

    Weights themselves would not do: where a gradient is zero but for rounding, Adam takes a whole step to either side.
    """
    import jax
    import numpy as np

    from compile_il.config import Config
    from compile_il.training.sources import make_source
    from compile_il.training.trainer import Trainer

    config = Config(inference=engine, num_devices=num_devices, **SIZES)  # type: ignore[arg-type]
    trainer = Trainer(config, make_source(source, config))
    state, losses, awaited = trainer.start(), [], []
    for iteration in range(2):
        state, loss = trainer.step(state, iteration)
        awaited.append(bool(loss.total.is_ready()))
        losses.append(np.asarray(loss.total).tolist())
    gradients = np.concatenate([np.ravel(leaf[1]) for leaf in jax.tree.leaves(state.optimiser[0].mu)]).tolist()
    return {"losses": losses, "gradients": gradients, "devices": trainer.mesh.size, "awaited": awaited}


def some_data(seed: int = 0) -> Any:
    """Twenty random walks, one of which is long."""
    import numpy as np

    from compile_il.data.demonstrations import Demonstrations

    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 9, 20)
    lengths[3] = 60
    frames = [rng.normal(size=(n + 1, 2)).astype(np.float32) for n in lengths]
    return Demonstrations.from_arrays(frames, [rng.integers(0, 3, n) for n in lengths], num_actions=3)


def both_engines(num_devices: int | None) -> dict[str, dict[str, Any]]:
    """Either engine, one with a world and one with data, on so many devices or on all."""
    sources = {"relaxed": "symbols", "exact": some_data()}
    return {engine: losses_of(source, engine, num_devices) for engine, source in sources.items()}


def devices(out: Path) -> None:
    """Either engine on many devices."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    out.write_text(json.dumps(both_engines(None)))


def processes(out: Path, process: str, port: str) -> None:
    """Two hosts that train together; the first writes the folders of runs."""
    from compile_il.training.devices import join_hosts

    join_hosts(f"localhost:{port}", num_hosts=2, host=int(process))

    found: dict[str, Any] = {"engines": both_engines(None)}
    found |= stopped_and_resumed(out.parent, process)
    out.with_suffix(f".{process}.json").write_text(json.dumps(found))


def stopped_and_resumed(folder: Path, process: str) -> dict[str, Any]:
    """Where Ctrl-C in the second process stops both, and what comes of going on beside what comes without a stop."""
    import numpy as np

    from compile_il.config import Config
    from compile_il.training import loop as under_way
    from compile_il.training.fit import fit
    from compile_il.training.trainer import Trainer

    under_way.AGREE_EVERY = 2
    config, step = Config(**(SIZES | {"num_iterations": 4, "num_seeds": 1})), Trainer.step

    def interrupted(self: Any, state: Any, iteration: int) -> Any:
        if iteration == 1 and process == "1":
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    def weights(model: Any) -> list[float]:
        return np.ravel(model.skills.policies.heads.layers[0].weight).tolist()

    whole = fit(some_data(), config=config, out=folder / "whole")
    Trainer.step = interrupted  # type: ignore[method-assign]
    where = "nowhere"
    try:
        fit(some_data(), config=config, out=folder / "stopped")
    except under_way.Stopped as stopped:
        where = stopped.where
    Trainer.step = step  # type: ignore[method-assign]
    resumed = fit(some_data(), config=config, out=folder / "stopped", resume=True)
    return {"model": repr(whole), "stopped": where, "whole": weights(whole), "resumed": weights(resumed)}


def refusals(out: Path, process: str, port: str) -> None:
    """Two hosts that cannot train together: the error that each of them raises, and how the command ends."""
    from compile_il.cli import main
    from compile_il.config import Config
    from compile_il.training.devices import join_hosts
    from compile_il.training.fit import fit
    from compile_il.training.trainer import Trainer

    def too_late(*_: Any) -> None:
        raise AssertionError("something was made ready for training")

    def refusal(seed: int = 0, folder: str = "new", **settings: Any) -> str:
        try:
            fit(some_data(seed), config=Config(**(SIZES | settings)), out=out.parent / folder)
        except (ValueError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return "none"

    Trainer.__init__ = too_late  # type: ignore[method-assign, assignment]
    join_hosts(f"localhost:{port}", num_hosts=2, host=int(process))
    found = {
        "data": refusal(seed=int(process)),
        "settings": refusal(num_skills=3 + int(process), learning_rate=0.01 + int(process)),
        "folder": refusal(folder="taken"),
    }
    out.with_suffix(f".{process}.json").write_text(json.dumps(found))
    main(["train", ["symbols", "missing.npz"][int(process)], "--out", str(out.parent / "new")])


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    {"devices": devices, "processes": processes, "refusals": refusals}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
