"""Shares every batch equally among devices, of one host or of many, which all hold the same weights.

Which demonstrations a batch holds, and which noise is drawn for each, does not depend on the number of devices, so that
losses are the same up to rounding. Several hosts run the same program each, and find each other beforehand:

    join_hosts("first-host:1234", num_hosts=2, host=0)     # and 1 on the second host
    cil.fit(...)
"""

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from compile_il.config import CompileError, ConfigError

SHARES = "shares"
"""Name of the mesh's only axis."""


class HostError(CompileError):
    """Hosts that cannot train together; the message says why, and which ones."""


def join_hosts(coordinator: str, *, num_hosts: int | None = None, host: int | None = None) -> None:
    """Waits for the other hosts, before anything else is computed; their devices count as one's own from then on.

    The coordinator is `address:port` of host 0, or `auto` where JAX gets addresses from a cluster's scheduler.
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


def make_mesh(num_devices: int | None, batch_size: int) -> Mesh:
    """Makes the mesh of devices that share batches: so many on all hosts together, or the most with equal shares."""
    devices = jax.devices()
    if num_devices is not None and num_devices > len(devices):
        raise ConfigError(f"num_devices is {num_devices}, and there are {len(devices)}: use at most so many, or None.")
    wanted = num_devices or len(devices)
    count = next(number for number in range(wanted, 0, -1) if batch_size % number == 0)
    if count != wanted and (num_devices is not None or jax.process_count() > 1):
        raise ConfigError(
            f"A batch of {batch_size} cannot be shared equally by {wanted} devices: make batch_size a multiple of "
            f"{wanted}."
        )
    if jax.process_count() > 1 and count != len(devices):
        raise ConfigError(f"num_devices is {num_devices}: with several hosts use all {len(devices)}, or None.")
    return Mesh(np.array(devices[:count]), (SHARES,))


def shares_in_words(num_used: int, num_devices: int, batch_size: int) -> str | None:
    """Says how many of several devices share each batch; None where there is only one device."""
    if num_devices == 1:
        return None
    of_all = "" if num_used == num_devices else f" of {num_devices}"
    hint = f": to use all, make batch_size a multiple of {num_devices}" if of_all and batch_size % num_devices else ""
    return f"{num_used}{of_all} devices share each batch{hint}."


def place(mesh: Mesh, tree: Any, split: int | None = None) -> Any:
    """Places every array of a tree, which all hosts have, on the mesh: one axis split among devices, or a copy each."""
    if mesh.size == 1:
        return tree
    spec = PartitionSpec() if split is None else PartitionSpec(*[None] * split, SHARES)

    def place_leaf(leaf: Any) -> Array:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(place_leaf(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, NamedSharding(mesh, spec), lambda index: host[index])

    return jax.tree.map(place_leaf, tree)


def local_copy(tree: Any) -> Any:
    """Returns this host's copy of a tree of which all devices have one."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf, tree)


def is_first_process() -> bool:
    """Returns whether this is the process that writes files and prints."""
    return jax.process_index() == 0


def broadcast(tree: Any) -> Any:
    """Sends the first process's tree to all; all must call this together, with trees of the same shapes."""
    return multihost_utils.broadcast_one_to_all(tree) if jax.process_count() > 1 else tree


def hosts_where(condition: bool) -> list[int]:
    """Returns the processes in which a condition holds; all must call this together."""
    if jax.process_count() == 1:
        return [0] if condition else []
    return np.flatnonzero(multihost_utils.process_allgather(np.array(condition))).tolist()


@contextlib.contextmanager
def fail_together() -> Iterator[None]:
    """Fails in all processes if the block fails in any, for which the others would wait in vain."""
    try:
        yield
    except Exception:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # others that are gone must not hide why this one goes
            hosts_where(True)
        raise
    if failed := hosts_where(False):
        raise HostError(
            f"Training could not begin on host {', '.join(map(str, failed))}: see the error there, fix it, and restart "
            "all hosts."
        )


def check_same(values: dict[str, str]) -> None:
    """Raises an error in all processes, with each one's own values of what differs, unless all have the same."""
    if jax.process_count() == 1:
        return
    sums = np.array([zlib.crc32(value.encode()) for value in values.values()], np.uint32)
    differ = np.ptp(multihost_utils.process_allgather(sums), axis=0) > 0
    if differ.any():
        pairs = zip(values.items(), differ, strict=True)
        words = [f"{name} is {value} here" for (name, value), is_other in pairs if is_other]
        raise HostError(
            f"Hosts that train together need the same data and settings, and these differ: {', '.join(words)}. Start "
            "all hosts again with the same."
        )
