"""Several devices, of one host or of many: each takes an equal share of every batch, and all hold the same weights.

Which demonstrations a batch holds, and which noise is drawn for each, does not depend on the number of devices, so that
losses are the same up to rounding. Several hosts run the same program each, and find each other beforehand:

    join_hosts("first-host:1234", num_hosts=2, host=0)     # and 1 on the second host
    cil.fit(...)
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from compile_il.config import CompileError, ConfigError

SHARES = "shares"
"""The name of the mesh's only axis."""


class HostError(CompileError):
    """Hosts that cannot train together; the message says why, and which ones."""


def join_hosts(coordinator: str, *, num_hosts: int | None = None, host: int | None = None) -> None:
    """Waits for the other hosts, before anything else is computed; their devices count as one's own from then on.

    Args:
      coordinator: `address:port` of the first host, or `auto` where a cluster's scheduler tells JAX who is who.
      num_hosts: how many there are.
      host: which one this is, from 0.
    """
    if coordinator == "auto":
        jax.distributed.initialize()
        return
    address, _, port = coordinator.rpartition(":")
    if not address or not port.isdecimal():
        raise ConfigError(f"coordinator is {coordinator!r}: name the first host and a free port, first-host:1234.")
    if num_hosts is None or num_hosts < 1:
        raise ConfigError(f"num_hosts is {num_hosts}: say how many hosts train together.")
    if host is None or not 0 <= host < num_hosts:
        raise ConfigError(f"host is {host}: number the hosts from 0 to {num_hosts - 1}; the coordinator is 0.")
    # Only processors ask for it: accelerators bring collectives of their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, num_processes=num_hosts, process_id=host)


def check_num_devices(num_devices: int | None) -> None:
    """Refuses more devices than there are."""
    there = len(jax.devices())
    if num_devices is not None and num_devices > there:
        raise ConfigError(f"num_devices is {num_devices}, and there are {there}: use at most so many, or None.")


def make_mesh(num_devices: int | None, batch_size: int) -> Mesh:
    """Makes the mesh of devices that share batches: as many as asked for, or the most that can have equal shares.

    Args:
      num_devices: how many, on all hosts together; None for all there are.
      batch_size: demonstrations to share out.
    """
    check_num_devices(num_devices)
    devices = jax.devices()
    wanted = num_devices or len(devices)
    count = next(number for number in range(wanted, 0, -1) if batch_size % number == 0)
    everyone = num_devices is not None or jax.process_count() > 1
    if everyone and count != wanted:
        raise ConfigError(
            f"A batch of {batch_size} cannot be shared equally by {wanted} devices: make batch_size a multiple of "
            f"{wanted}."
        )
    if jax.process_count() > 1 and count != len(devices):
        raise ConfigError(f"num_devices is {num_devices}: with several hosts use all {len(devices)}, or None.")
    return Mesh(np.array(devices[:count]), (SHARES,))


def shares_in_words(num_used: int, num_there: int, batch_size: int) -> str | None:
    """A sentence on how many of several devices share each batch; None where there is only one device."""
    if num_there == 1:
        return None
    if num_used == num_there:
        return f"{num_used} devices share each batch."
    hint = f": to use all, make batch_size a multiple of {num_there}" if batch_size % num_there else ""
    return f"{num_used} of {num_there} devices share each batch{hint}."


def shared_out(mesh: Mesh, tree: Any, axis: int) -> Any:
    """Spreads one axis of every array in a tree, which all hosts have, over the devices of the mesh."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, SHARES))

    def place(leaf: Any) -> Array:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(place(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(place, tree)


def replicate(mesh: Mesh, tree: Any) -> Any:
    """Replicates a tree, which all hosts have, on every device of the mesh."""
    sharding = NamedSharding(mesh, PartitionSpec())

    def place(leaf: Any) -> Array:
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(place, tree)


def local_copy(tree: Any) -> Any:
    """This host's copy, from one of its devices, of a tree that `replicate` replicated."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf, tree)


def is_first_process() -> bool:
    """Whether this is the process that writes files and talks."""
    return bool(jax.process_index() == 0)


def broadcast(tree: Any) -> Any:
    """Sends the first process's tree to all; all must call this together, with trees of the same shapes."""
    return multihost_utils.broadcast_one_to_all(tree) if jax.process_count() > 1 else tree


def any_host(condition: bool) -> bool:
    """Whether a condition holds in any process; all must call this together."""
    return bool(_processes_where(condition))


def _processes_where(condition: bool) -> list[int]:
    """Indices of the processes in which a condition holds; all must call this together."""
    if jax.process_count() == 1:
        return [0] if condition else []
    return np.flatnonzero(multihost_utils.process_allgather(np.array(condition))).tolist()


@contextlib.contextmanager
def fail_together() -> Iterator[None]:
    """A block that fails in all processes if it fails in any; without it, the others would wait for that one in vain.

    All processes must leave such a block together, or be in `check_other_hosts` when one does.
    """
    try:
        yield
    except Exception:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # others that are gone must not hide why this one goes
            _processes_where(True)
        raise
    check_other_hosts()


def check_other_hosts() -> None:
    """Waits until all processes have come this far, and fails if one of them has left `fail_together` with an error."""
    failed = _processes_where(False)
    if failed:
        raise HostError(
            f"Training could not begin on {_hosts_in_words(failed)}: see the error there, fix it, and restart all "
            "hosts."
        )


def check_same(things: dict[str, str]) -> None:
    """Raises an error in all processes unless all have the same things; all must call this together.

    Args:
      things: what must be the same, by name.
    """
    if jax.process_count() == 1:
        return
    text = json.dumps(things).encode()
    digests = multihost_utils.process_allgather(np.frombuffer(hashlib.sha256(text).digest(), np.uint8))
    if np.any(digests != digests[0]):
        differences = differences_in_words([json.loads(other) for other in _texts_of_all(text)])
        raise HostError(
            f"Hosts that train together need the same data and settings, and these differ: {differences}. Start all "
            "hosts again with the same."
        )


def _texts_of_all(text: bytes) -> list[bytes]:
    """Gathers the texts of all processes, which may be of different lengths."""
    sizes = multihost_utils.process_allgather(np.array(len(text)))
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: len(text)] = np.frombuffer(text, np.uint8)
    rows = multihost_utils.process_allgather(padded)
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def differences_in_words(hosts: list[dict[str, str]]) -> str:
    """A phrase that names what is not the same on all hosts, with each value and the hosts that have it."""
    words = []
    for name in dict.fromkeys(name for things in hosts for name in things):
        holders: dict[str, list[int]] = {}
        for host, things in enumerate(hosts):
            holders.setdefault(things.get(name, "not known"), []).append(host)
        if len(holders) > 1:
            values = [f"{value} on {_hosts_in_words(numbers)}" for value, numbers in holders.items()]
            words.append(f"{name} is {' and '.join(values)}")
    return "; ".join(words)


def _hosts_in_words(numbers: list[int]) -> str:
    return f"{'host' if len(numbers) == 1 else 'hosts'} {', '.join(map(str, numbers))}"
