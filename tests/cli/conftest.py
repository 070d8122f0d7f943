"""What the tests of the command share."""

import os
import shutil
from pathlib import Path

import pytest

from compile_il.cli import main
from tests.cli.processes import SMALL_SETTINGS
from tests.inference.exact.small import vector_demos

SETTINGS = [*SMALL_SETTINGS, "--num-iterations", "2", "--num-seeds", "2"]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled programs of processes that may be killed while they write one: apart from those that are kept."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of small demonstrations, whose truth is not known, in a folder with a space in its name."""
    return vector_demos(20).save(tmp_path_factory.mktemp("some data") / "small.npz")


@pytest.fixture(scope="session")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of demonstrations whose truth is known."""
    path = tmp_path_factory.mktemp("symbols") / "symbols.npz"
    main(["generate", "symbols", "--num-demos", "12", "--num-tasks", "2", "--out", str(path)])
    return path


@pytest.fixture(scope="session")
def pristine_run(symbols: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended; not to be changed."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    main(["train", str(symbols), "--out", str(folder), *SETTINGS])
    return folder


@pytest.fixture
def run(pristine_run: Path, tmp_path: Path) -> Path:
    """The same, to play with."""
    return Path(shutil.copytree(pristine_run, tmp_path / "run"))
