"""``python -m tests.prove NAME … [OPTIONS]``: prove, print one line of JSON per proof, exit with 1 when one failed."""

import argparse
import secrets
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import uvloop

from tests.benchmarks.harness import Bench, Result, bench, report
from tests.prove.fuzz import POOL_SIZE, fuzz_seed
from tests.prove.oracle import Harm

SEEDS = 3
CLAIMS = 30_000


async def fuzz(place: Bench, orders: argparse.Namespace) -> tuple[Result, bool]:
    """The engine under fuzz, once per seed."""
    seeds = orders.seed or [secrets.token_hex(4) for _ in range(SEEDS)]
    harm, claims, seconds = Harm(), 0, 0.0
    for seed in seeds:
        place.say(f"seed {seed}: begins")
        async with place.database(POOL_SIZE) as database:
            one = await fuzz_seed(database, seed, orders.claims, place.say)
        place.say(f"seed {seed}: {one.claims} claims in {one.seconds:.0f} s, {one.harm or 'no harm'}")
        harm, claims, seconds = harm + one.harm, claims + one.claims, seconds + one.seconds
    return {"proof": "fuzz", "claims": claims, **asdict(harm), "seeds": seeds, "seconds": round(seconds, 1)}, not harm


PROOFS: dict[str, Callable[[Bench, argparse.Namespace], Awaitable[tuple[Result, bool]]]] = {"fuzz": fuzz}


def orders() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[[], *PROOFS], help="which proofs; all without a name")
    parser.add_argument("--seed", action="append", help="of the fuzz; may be given several times")
    parser.add_argument("--claims", type=int, default=CLAIMS, help="of the fuzz, for each seed")
    return parser.parse_args()


async def prove(given: argparse.Namespace) -> bool:
    """Whether every proof asked for held."""
    held = True
    async with bench() as place:
        for name in given.name or PROOFS:
            result, good = await PROOFS[name](place, given)
            report(result)
            held &= good
    return held


if __name__ == "__main__":
    sys.exit(not uvloop.run(prove(orders())))
