"""Connecting to a Ray cluster, or starting one on this machine."""

import os
import socket
import warnings
from pathlib import Path
from typing import Any

from compile_il.hierarchy.settings import HierarchyError

CONNECT_SECONDS = 5.0
TOKEN_VARIABLES = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_FILE = Path("~/.ray/auth_token")
"""File in which Ray keeps the token that it shows to clusters."""
HTTP2_SETTINGS = 4
"""Type of the HTTP/2 frame that either side sends first; it stands in the fourth byte of the frame's header."""
HTTP2_HEADER = 9
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, HTTP2_SETTINGS, 0, 0, 0, 0, 0])


def require_ray() -> Any:
    """Imports Ray, or raises an error that says how to get it."""
    show_token()
    try:
        import ray
    except ImportError as error:
        raise HierarchyError('Ray is not installed: pip install "compile-il[ray]", or act on the device.') from error
    return ray


def show_token() -> None:
    """Lets Ray send the token that this machine has, if any, to clusters that ask for it; others do not mind.

    Newer versions start such clusters where there is a token; a program that names an address sends none, unless Ray
    was told to before it was imported.
    """
    has_token = any(name in os.environ for name in TOKEN_VARIABLES) or TOKEN_FILE.expanduser().exists()
    if has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def connect(ray: Any, address: str | None, num_cpus: int) -> bool:
    """Connects Ray to a cluster, or to one that is started on this machine if there is no address.

    Args:
      ray: the module; if it is connected already, it stays so.
      address: address of a cluster, or "auto" for one on this machine.
      num_cpus: processors of one that is started here, as many as there are actors.

    Returns:
      Whether a cluster was started here, which is then to be shut down.
    """
    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is to be sent to anybody
        with warnings.catch_warnings():
            # JAX warns of forks; Ray's are followed by the start of another program at once, which is no danger.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            # An actor that waits for a processor of its own would wait forever.
            ray.init("local", num_cpus=num_cpus, include_dashboard=False, **quiet)
        return True
    check_address(address)
    try:
        ray.init(address=address, **quiet)
    except Exception as error:  # Ray has several classes for it
        raise HierarchyError(
            f"No Ray at {address} lets us in ({error}): start one with `ray start --head`. If it asks for a token, "
            f"bring its {TOKEN_FILE} here, or set RAY_AUTH_MODE=disabled before you start it."
        ) from error
    return False


def check_address(address: str) -> None:
    """Refuses an address where nobody answers, within seconds; Ray itself would wait for a minute."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as connection:
            _greet(connection)
    except (OSError, ValueError) as error:
        raise HierarchyError(
            f"Nobody answers at {address} ({error}): give host:port of a Ray cluster's head, or auto, or leave it out."
        ) from error


def _greet(connection: socket.socket) -> None:
    """Begins to speak HTTP/2, as gRPC does, which Ray is built on: somebody may take the call and say nothing."""
    connection.sendall(HTTP2_GREETING)
    answer = b""
    while len(answer) < HTTP2_HEADER and (more := connection.recv(HTTP2_HEADER - len(answer))):
        answer += more
    if len(answer) < HTTP2_HEADER or answer[3] != HTTP2_SETTINGS:
        raise OSError("what answers is not Ray")
