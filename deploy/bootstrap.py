"""What `make` runs: brings .venv up to date, then becomes the program asked for.

It and what it imports use the standard library only, for there is nothing else yet.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True  # `make clean` would not find what it leaves behind

from deploy.environment import Environment, say  # noqa: E402 - found through the line above
from shared import flock  # noqa: E402
from shared.errors import CannotStart  # noqa: E402
from shared.store.place import discard  # noqa: E402

HOME = ROOT / ".waybill"
CHECKS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
    ("lint-imports",),
    ("hadolint", "deploy/Dockerfile"),
    ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"),
)
TESTS = ("pytest", "--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder")
"""Half of the suite's time is waiting for brokers and processes: three parts side by side keep two cores busy.

In the order of the folders, that is the long files first: by itself the plugin keeps files of few tests for the end,
and one part then waits for the others.
"""
LOCK = ("uv", "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade")
LOCK_STYLE = ("--no-header", "--no-annotate", "--quiet", "pyproject.toml", "--extra", "build")
LOCKS = {
    "requirements.lock": (),
    "requirements-dev.lock": ("--extra", "dev", "--constraint", "requirements.lock"),
}
CACHES = (".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache")
_OTHER_MAKE_SECONDS = 1800


def main(verb: str) -> None:
    """Do what one target of the Makefile says; never returns for those that become another program."""
    os.chdir(ROOT)
    os.environ.pop("PYTHONHOME", None)
    os.environ.pop("PYTHONPATH", None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))  # ends what we are running, too
    more = shlex.split(os.environ.pop("ARGS", ""))
    match verb:
        case "up":
            become(ready(for_development=False), "waybill", "up", *more)
        case "test":
            become(ready(for_development=True), *TESTS, *more)
        case "bench":
            become(ready(for_development=True), "python", "-m", "tests.benchmarks", *more)
        case "fuzz":
            become(ready(for_development=True), "python", "-m", "tests.prove", "fuzz", *more)
        case "prove":
            become(ready(for_development=True), "python", "-m", "tests.prove", *more)
        case "check":
            check(ready(for_development=True))
        case "lock":
            lock(ready(for_development=True))
        case "clean":
            clean()
        case _:
            raise CannotStart(f"there is no {verb}: up, test, check, bench, fuzz, prove, clean and lock are")


def ready(*, for_development: bool) -> Environment:
    """The environment, up to date; two makes at once take turns."""
    environment = Environment(ROOT)
    if environment.is_ready(for_development=for_development):
        return environment
    HOME.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
    making = HOME / "environment.lock"
    if flock.is_taken(making):
        say("waiting for another make that prepares .venv")
    held = flock.take(making, _OTHER_MAKE_SECONDS)
    if held is None:
        raise CannotStart(f"another make has held {making} for {_OTHER_MAKE_SECONDS // 60} minutes: end it first")
    try:
        environment.make_ready(held, for_development=for_development)
    finally:
        os.close(held)
    return environment


def become(environment: Environment, program: str, *arguments: str) -> None:
    """Replace this process, so that signals and the exit code are the program's own."""
    sys.stdout.flush()
    # By its whole path: a Python called by its name alone looks for its environment along PATH.
    found = environment.program(program)
    os.execv(found, [str(found), *arguments])  # noqa: S606 - no shell wanted


def check(environment: Environment) -> None:
    """Run every check, also after one has failed; exits with 1 when any has."""
    failed = []
    for name, *arguments in CHECKS:
        shown = " ".join([name, *arguments])
        say(shown)
        if subprocess.run([environment.program(name), *arguments]).returncode != 0:  # noqa: S603 - our own
            failed.append(shown)
    if failed:
        raise CannotStart(f"failed: {', '.join(failed)}")
    say("every check passed")


def lock(environment: Environment) -> None:
    """Resolve the dependencies anew; what is for development goes by the first lock."""
    command = [str(environment.program(LOCK[0])), *LOCK[1:], *LOCK_STYLE]
    for output, more in LOCKS.items():
        say(f"resolving {output}")
        if subprocess.run([*command, *more, "--output-file", output]).returncode != 0:  # noqa: S603 - our own
            raise CannotStart(f"{output} could not be resolved, see above")


def clean() -> None:
    """Remove everything that is not in git and was made here; refused while this clone's servers run."""
    discard(HOME)
    leftovers = [ROOT / ".venv", *(ROOT / cache for cache in CACHES), *ROOT.glob("*.egg-info")]
    for top in ("deploy", "services", "shared", "tests"):
        leftovers += (ROOT / top).rglob("__pycache__")
    for folder in leftovers:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main(" ".join(sys.argv[1:]))
    except CannotStart as refusal:
        say(str(refusal))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
