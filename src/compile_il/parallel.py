"""Several devices, of one host or of many: each takes an equal share of every batch, and all hold the same weights.

Which demonstrations a batch holds, and which noise is drawn for each, does not depend on the number of devices, so that
losses are the same up to rounding. Several hosts run the same program each, and find each other beforehand:

    join_hosts("first-host:1234", num_hosts=2, host=0)     # and 1 on the second host
    cil.fit(...)
"""

import math
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from compile_il.config import ConfigError

SHARES = "shares"
"""The name of the mesh's only axis."""


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
    """The devices that share batches: as many as asked for, or all that can have equal shares.

    Args:
      num_devices: how many, on all hosts together; None for all there are.
      batch_size: demonstrations to share out.
    """
    check_num_devices(num_devices)
    devices = jax.devices()
    wanted = num_devices or len(devices)
    count = math.gcd(wanted, batch_size)
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
    """For people who have several devices: how many of them work."""
    if num_there == 1:
        return None
    if num_used == num_there:
        return f"{num_used} devices share each batch."
    hint = f": to use all, make batch_size a multiple of {num_there}" if batch_size % num_there else ""
    return f"{num_used} of {num_there} devices share each batch{hint}."


def shared_out(mesh: Mesh, tree: Any, axis: int) -> Any:
    """Arrays that all hosts have, with one axis spread over the devices."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, SHARES))

    def place(leaf: Any) -> Array:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(place(jax.random.key_data(leaf)))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(place, tree)


def everywhere(mesh: Mesh, tree: Any) -> Any:
    """Arrays that all hosts have, on every device."""
    sharding = NamedSharding(mesh, PartitionSpec())

    def place(leaf: Any) -> Array:
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(place, tree)


def here(tree: Any) -> Any:
    """The copy, on one device of this host, of arrays that are everywhere."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf, tree)


def is_first_process() -> bool:
    """Whether this is the process that writes files and talks."""
    return bool(jax.process_index() == 0)


def from_first(tree: Any) -> Any:
    """What the first process has, on all; all must call this together, with trees of the same shapes."""
    return multihost_utils.broadcast_one_to_all(tree) if jax.process_count() > 1 else tree


def anywhere(condition: bool) -> bool:
    """Whether something is so in any process; all must ask together."""
    if jax.process_count() == 1:
        return condition
    return bool(np.any(multihost_utils.process_allgather(np.array(condition))))
