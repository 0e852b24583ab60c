"""A RabbitMQ node of our own: its own name, ports, data and epmd, ending with this process however that ends."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from deploy.rabbitmq.find import Distribution
from deploy.rabbitmq.management import Management
from shared.errors import CannotStart
from shared.keeper import Ending, KeptProcess
from shared.ports import free_ports

USER = "waybill"
_AT_ONCE = (Ending(signal.SIGKILL, 5),)
"""How a node ends when its owner is gone: nobody will read what it could still write."""
_STOP_SECONDS = 20
_CONTROL_SECONDS = 60
_REGISTERED_SECONDS = 5
_CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{amqp}
management.tcp.ip = 127.0.0.1
management.tcp.port = {management}
default_user = {user}
default_pass = {password}
"""
_LOG_TAIL_LINES = 15


class RabbitNode:
    """One node of a distribution with everything of its own under ``home``; ports and data outlive a stop."""

    def __init__(self, distribution: Distribution, home: Path, *, ready_within_seconds: float = 90) -> None:
        """Choose name and ports; nothing runs yet."""
        self.distribution = distribution
        self._home = home
        self._ready_within = ready_within_seconds
        self._name = f"waybill-{secrets.token_hex(4)}@localhost"
        self._link = Path(tempfile.gettempdir()) / self._name.partition("@")[0]
        self._amqp_port, self._dist_port, self._epmd_port, management_port = free_ports(4)
        self.management = Management("127.0.0.1", management_port, USER, secrets.token_urlsafe(16))
        self._epmd: KeptProcess | None = None
        self._beam: KeptProcess | None = None
        self._frozen = False

    @property
    def url(self) -> str:
        """The node's AMQP URL; its path, the vhost, is ``/``."""
        return self.vhost_url("/")

    @property
    def management_url(self) -> str:
        """Where the management API and its console listen."""
        return f"http://127.0.0.1:{self.management.port}"

    @property
    def log(self) -> Path:
        """What the node printed and logged."""
        return self._home / "rabbitmq.log"

    def vhost_url(self, vhost: str) -> str:
        """The AMQP URL of one vhost."""
        path = "%2F" if vhost == "/" else vhost
        return f"amqp://{USER}:{self.management.password}@127.0.0.1:{self._amqp_port}/{path}"

    def create_vhost(self, name: str) -> str:
        """Make a vhost; its AMQP URL."""
        self.management.create_vhost(name)
        return self.vhost_url(name)

    def alive(self) -> bool:
        """Whether the node's process runs (it may be frozen, or still starting)."""
        return self._beam is not None and self._beam.alive()

    def start(self) -> None:
        """Start the node; returns when it takes connections. Nothing happens when it runs.

        Raises CannotStart with the end of its log when it ends, or does not answer in time.
        """
        if self.alive():
            return
        self._home.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        deadline = time.monotonic() + self._ready_within
        if self._epmd is None or not self._epmd.alive():
            self._epmd = self._keep("epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1")
            self._await(lambda: _accepts(self._epmd_port), self._epmd, deadline)
        self._reap()
        self._beam = self._keep(str(self._scripts() / "rabbitmq-server"))
        self._await(lambda: _accepts(self._amqp_port) and self.management.answers(), self._beam, deadline)

    def stop(self) -> None:
        """Stop the node in order and its epmd with it; nothing happens when it does not run."""
        if self._beam is not None:
            self.thaw()
            self._beam.signal(signal.SIGTERM)
            self._beam.wait(_STOP_SECONDS)
            self._reap()
        self._end_epmd()

    def kill(self) -> None:
        """Kill the node without warning; `start` brings it back with its data."""
        if self._beam is not None:
            self._await_registered_queues()
            self._beam.signal(signal.SIGKILL)
            self._reap()

    def freeze(self) -> None:
        """Stop the node's process without ending it: connections stay open, nothing is answered."""
        if self._beam is not None:
            self._await_registered_queues()
            self._beam.signal(signal.SIGSTOP)
            self._frozen = True

    def thaw(self) -> None:
        """Let a frozen node go on."""
        if self._beam is not None:
            self._beam.signal(signal.SIGCONT)
            self._frozen = False

    def alarm(self) -> None:
        """Have the node believe that its memory is full: whoever publishes is blocked, whoever consumes is not."""
        self._set_watermark("0.00001", alarmed=True)

    def all_clear(self) -> None:
        """End the alarm; nothing happens when there is none, or no node."""
        if self.alive() and self._is_alarmed():
            self._set_watermark("0.4", alarmed=False)

    def _set_watermark(self, share: str, *, alarmed: bool) -> None:
        self._control("set_vm_memory_high_watermark", share)
        deadline = time.monotonic() + _CONTROL_SECONDS
        while self._is_alarmed() != alarmed:
            if time.monotonic() > deadline:
                raise CannotStart(f"RabbitMQ's memory alarm did not follow within {_CONTROL_SECONDS} s")
            time.sleep(0.1)

    def _is_alarmed(self) -> bool:
        return any(node.get("mem_alarm") for node in self.management.call("GET", "/nodes"))

    def wipe(self) -> None:
        """End the node and delete its data; the next `start` begins empty."""
        self._reap()
        self._end_epmd()
        shutil.rmtree(self._home, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        done = subprocess.run(  # noqa: S603 - the distribution's own program
            [self._scripts() / "rabbitmqctl", *arguments],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CONTROL_SECONDS,
        )
        if done.returncode != 0:
            raise CannotStart(f"rabbitmqctl {arguments[0]} failed: {done.stdout}{done.stderr}")

    def _await_registered_queues(self) -> None:
        # A quorum queue declared less than a second ago is not yet in the file that lists them (rabbitmq/ra#443,
        # mended in RabbitMQ 3.13.3): killed now, it would come back without a leader and never answer again.
        if self._frozen or not self.management.answers():
            return
        queues = [
            f"{queue['vhost'].replace('/', '%2F')}_{queue['name']}"
            for queue in self.management.call("GET", "/queues")
            if queue.get("type") == "quorum"
        ]
        deadline = time.monotonic() + _REGISTERED_SECONDS
        while time.monotonic() < deadline:
            listed = b"".join(path.read_bytes() for path in self._home.glob("data/*/quorum/*/names.dets"))
            if all(name.encode() in listed for name in queues):
                return
            time.sleep(0.05)

    def _reap(self) -> None:
        if self._beam is not None:
            self._beam.stop()
            self._beam = None
            self._frozen = False

    def _end_epmd(self) -> None:
        if self._epmd is not None:
            self._epmd.stop()
            self._epmd = None
        self._link.unlink(missing_ok=True)

    def _scripts(self) -> Path:
        scripts = self.distribution.scripts
        if " " not in str(scripts):
            return scripts
        # RabbitMQ's scripts do not quote their own folder: a link without spaces leads to it.
        if not self._link.is_symlink():
            self._link.symlink_to(scripts.parent)
        return self._link / scripts.name

    def _keep(self, program: str, *arguments: str) -> KeptProcess:
        found = shutil.which(program, path=f"{self.distribution.erlang_bin}:{os.defpath}")
        if found is None:
            raise CannotStart(f"{program} is missing in {self.distribution.erlang_bin}")
        return KeptProcess([found, *arguments], log=self.log, endings=_AT_ONCE, environment=self._environment())

    def _environment(self) -> dict[str, str]:
        environment = {
            "PATH": f"{self.distribution.erlang_bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self._home),  # the cookie lies there
            "LC_ALL": "C.UTF-8",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the node, instead of standing between it and us
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._amqp_port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self._home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._home / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._home / "data"),
            "RABBITMQ_LOG_BASE": str(self._home / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        if self.distribution.libraries:
            environment["LD_LIBRARY_PATH"] = ":".join(str(folder) for folder in self.distribution.libraries)
        return environment

    def _write_configuration(self) -> None:
        configuration = self._home / "rabbitmq.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            _CONFIGURATION.format(
                amqp=self._amqp_port,
                management=self.management.port,
                user=USER,
                password=self.management.password,
            )
        )
        (self._home / "enabled_plugins").write_text("[rabbitmq_management].\n")

    def _await(self, ready: Callable[[], bool], process: KeptProcess, deadline: float) -> None:
        while not ready():
            ended = process.wait(0.1)
            if ended or time.monotonic() > deadline:
                self._reap()
                self._end_epmd()
                what = "ended at once" if ended else f"did not answer within {self._ready_within:g} s"
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
                raise CannotStart(f"RabbitMQ {what}; the end of {self.log}:\n{tail}")


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False
