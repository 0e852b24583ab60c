"""The embedded Postgres that `waybill up` and the tests bring along, running and ending with this process."""

import os
import shutil
import signal
import time
from pathlib import Path

from shared import flock
from shared.errors import CannotStart
from shared.keeper import Ending, KeptProcess
from shared.ports import free_ports
from shared.store.cluster import ENVIRONMENT, Cluster, last_line
from shared.store.place import Place

DATABASE = "waybill"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "jit": "off",  # our statements are short: planning a compilation costs more than it gives
    "autovacuum_naptime": "10s",  # the queue's dead rows must go quickly
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_error_verbosity": "terse",  # DETAIL lines carry values of rows
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_ENDINGS = (
    Ending(signal.SIGINT, 5),  # fast shutdown: sessions are cut, a checkpoint is written
    Ending(signal.SIGQUIT, 2),  # immediate: the next start recovers
    Ending(signal.SIGKILL, 1),
)
_PORT_TRIES = 3


class EmbeddedPostgres:
    """One cluster in one folder of a place, run by this process and ending with it."""

    def __init__(
        self,
        place: Place,
        *,
        name: str = "postgres",
        durable: bool = True,
        ready_within_seconds: float = 60,
        handover_seconds: float = 12,
    ) -> None:
        """``durable=False`` (no fsync) is for databases that are thrown away, never for `waybill up`.

        ``handover_seconds``: how long a start waits for a server whose owner was killed to finish its shutdown.
        """
        self._place = place
        self._folder = place.ground / name
        self._cluster = Cluster(place, self._folder)
        self._durable = durable
        self._ready_within = ready_within_seconds
        self._handover = handover_seconds
        self._lock: int | None = None
        self._server: KeptProcess | None = None

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._folder / "postgres.log"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs."""
        return self._server.pid if self._server is not None and self._server.alive() else None

    def alive(self) -> bool:
        """Whether the server runs."""
        return self.pid is not None

    def start(self) -> str:
        """Start the server; the URL of its database ``waybill``, made when missing, once it answers.

        Raises CannotStart with one line when the folder is in use, of another Postgres, or the server does not
        answer in time.
        """
        self._folder.mkdir(exist_ok=True)
        self._folder.chmod(0o700 if self._place.account is None else 0o711)
        self._lock = flock.take(self._folder / "postgres.lock", self._handover)
        if self._lock is None:
            raise CannotStart(f"{self._folder} is in use by another waybill: stop it first")
        try:
            self._cluster.make_if_missing(durable=self._durable, held_lock=self._lock)
            self._cluster.forget_stale_pid()
            port = self._launch()
            self._make_database_if_missing(port)
        except BaseException:
            self.stop()
            raise
        return self._cluster.url(port, DATABASE)

    def stop(self) -> None:
        """Shut the server down, within 8 seconds at the worst; nothing happens when it does not run."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Stop the server and delete its folder with everything in it."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self) -> int:
        settings = _SETTINGS | ({} if self._durable else _NOT_DURABLE)
        if self._cluster.has_library("pg_stat_statements"):
            settings["shared_preload_libraries"] = "pg_stat_statements"
        for _ in range(_PORT_TRIES):
            [port] = free_ports(1)
            if self.log.exists():
                self.log.replace(self.log.with_suffix(".log.1"))
            self._server = KeptProcess(
                [
                    *(self._place.postgres_bin / "postgres", "-D", self._cluster.data, "-p", str(port)),
                    *(f"--{key}={value}" for key, value in settings.items()),
                ],
                log=self.log,
                endings=_ENDINGS,
                environment=ENVIRONMENT,
                account=self._place.account,
                held_lock=self._lock,
            )
            if self._await_ready(self._server, port):
                return port
            self._server.stop()
        raise CannotStart(f"Postgres found no free port in {_PORT_TRIES} tries; its log is {self.log}")

    def _await_ready(self, server: KeptProcess, port: int) -> bool:
        """True once a real connection works; False when somebody took the port between our look and its start."""
        deadline = time.monotonic() + self._ready_within
        said = ""
        while time.monotonic() < deadline:
            if not server.alive():
                if "Address already in use" in self.log.read_text(errors="replace"):
                    return False
                raise CannotStart(f"Postgres ended at once: {last_line(self.log.read_text(errors='replace'))}")
            answer = self._cluster.sql(port, "SELECT 1")
            if answer.returncode == 0:
                return True
            said = last_line(answer.stderr)
            if "password authentication failed" in said and not server.wait(1):
                raise CannotStart(f"the password in {self._folder} does not fit its data: run `make clean`")
            server.wait(0.05)
        raise CannotStart(f"Postgres did not answer within {self._ready_within:g} s ({said}); its log is {self.log}")

    def _make_database_if_missing(self, port: int) -> None:
        found = self._cluster.sql(port, "SELECT datname FROM pg_database")
        if found.returncode == 0 and DATABASE in found.stdout.split():
            return
        made = self._cluster.sql(port, f"CREATE DATABASE {DATABASE}")
        if made.returncode != 0:
            raise CannotStart(f"database {DATABASE} could not be made: {last_line(made.stderr)}")
