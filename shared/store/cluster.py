"""The files of one embedded Postgres: its cluster folder, its password, and the wheel's programs run on them."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from shared.errors import CannotStart
from shared.store.place import Place

USER = "waybill"
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
"""What Postgres' programs see: nothing of ours, where PGOPTIONS and the like would change what they do."""
_CLUSTER = ("-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-locale")
_PROGRAM_SECONDS = 60


class Cluster:
    """A folder with Postgres' data in ``cluster`` and its password in ``password``, both made at once."""

    def __init__(self, place: Place, folder: Path) -> None:
        """Nothing is written yet."""
        self._place = place
        self.folder = folder
        self.data = folder / "cluster"
        self._password_file = folder / "password"

    def url(self, port: int, database: str) -> str:
        """The URL of one of its databases when it listens on ``port``."""
        return f"postgresql://{USER}:{self._password_file.read_text()}@127.0.0.1:{port}/{database}"

    def sql(self, port: int, statement: str) -> subprocess.CompletedProcess[str]:
        """Run one statement over a connection of its own in database ``postgres``."""
        target = f"host=127.0.0.1 port={port} user={USER} dbname=postgres"
        return self._run("psql", "-X", "-w", "-A", "-t", "-d", target, "-c", statement)

    def make_if_missing(self, *, durable: bool, held_lock: int) -> None:
        """Make the cluster; one half made by a start that was killed is thrown away."""
        version = self.data / "PG_VERSION"
        if version.exists():
            self._require_same_major(version.read_text().strip())
            return
        unfinished, password = self.folder / "cluster.new", self.folder / "password.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        password.unlink(missing_ok=True)
        unfinished.mkdir(mode=0o700)
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        if (account := self._place.account) is not None:
            for path in (unfinished, password):
                os.chown(path, account.user_id, account.group_id)
        done = self._run(
            *("initdb", "-D", str(unfinished), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}"),
            *(*_CLUSTER, *(() if durable else ("--no-sync",))),
            as_account=True,
            held_lock=held_lock,
        )
        if done.returncode != 0:
            raise CannotStart(f"initdb failed in {unfinished}: {last_line(done.stderr)}")
        os.chown(password, os.geteuid(), os.getegid())
        password.rename(self._password_file)
        unfinished.rename(self.data)

    def forget_stale_pid(self) -> None:
        """Remove a pid file nobody stands behind; call it holding the folder's lock.

        Postgres itself believes a pid file whose number belongs to any process alive, as after a restart of a
        container.
        """
        pid_file = self.data / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = pid_file.read_text().partition("\n")[0].strip()
        if pid.isdigit() and str(self.data) in _command_line(int(pid)):
            raise CannotStart(f"process {pid} runs Postgres on {self.data}: stop it first (kill -INT {pid})")
        pid_file.unlink()

    def has_library(self, name: str) -> bool:
        """Whether the wheel brings this extension's library."""
        return any((self._place.postgres_bin.parent / "lib").glob(f"**/{name}.*"))

    def _require_same_major(self, theirs: str) -> None:
        # "postgres (PostgreSQL) 18.6"  # noqa: ERA001 - an example, not code
        ours = self._run("postgres", "--version", as_account=True).stdout.split()[-1].split(".")[0]
        if theirs != ours:
            raise CannotStart(
                f"{self.data} holds data of Postgres {theirs}, this release brings Postgres {ours}: dump it with the"
                " release that made it, or run `make clean` to start anew"
            )

    def _run(
        self, program: str, *arguments: str, as_account: bool = False, held_lock: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        account = self._place.account if as_account else None
        environment = ENVIRONMENT
        if program == "psql":
            environment = {**ENVIRONMENT, "PGPASSWORD": self._password_file.read_text(), "PGCONNECT_TIMEOUT": "5"}
        return subprocess.run(  # noqa: S603 - the wheel's own programs
            [self._place.postgres_bin / program, *arguments],
            user=None if account is None else account.user_id,
            group=None if account is None else account.group_id,
            extra_groups=None if account is None else [],
            # initdb outlives a kill of ours: who comes next waits for the lock until it has ended.
            pass_fds=() if held_lock is None else (held_lock,),
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROGRAM_SECONDS,
        )


def last_line(text: str) -> str:
    """What a program said last, which is where Postgres' programs say what is wrong."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def _command_line(pid: int) -> str:
    """How a process was called, or '' when there is none (or it is not ours to see)."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(  # noqa: S603 - a number
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, timeout=10
    )
    return shown.stdout
