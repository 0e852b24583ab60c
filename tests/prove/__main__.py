"""``python -m tests.prove NAME … [OPTIONS]``: prove, print one line of JSON per proof, exit with 1 when one failed."""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import uvloop

from tests.benchmarks.harness import ROOT, Bench, Result, bench, report
from tests.fakes.rabbit import fresh_vhost, throw_away_node
from tests.prove.fuzz import POOL_SIZE, fuzz_seed
from tests.prove.guards import GUARDS, take_out
from tests.prove.oracle import Harm
from tests.prove.outage import Outage
from tests.prove.outage import fcm_outage as live_through
from tests.prove.relay import relay_outage as mend_relay
from tests.prove.storm import Weather
from tests.prove.storm import storm as ride

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


async def storm(place: Bench, orders: argparse.Namespace) -> tuple[Result, bool]:
    """A whole installation whose processes are killed one after the other while products post."""
    weather = Weather(orders.seconds, orders.pace, orders.kill_every)
    with throw_away_node(ROOT / ".waybill") as node, fresh_vhost(node.management, node.url) as amqp_url:
        async with place.databases.fresh() as database_url:
            survived = await ride(database_url, amqp_url, place.folder, weather, place.say)
    log, findings = survived.log, survived.findings
    for complaint in findings.complaints:
        place.say(complaint)
    told = {name: count for name, count in asdict(findings).items() if name != "complaints"}
    result = {
        "proof": "storm",
        "events": log.event_count,
        "accepted": len(log.accepted),
        "given_up": log.given_up,
        "posted_again": log.repeats,
        "kills": log.kills,
        **told,
        "seconds": round(survived.seconds, 1),
    }
    return result, findings.is_good and not log.given_up


async def fcm_outage(place: Bench, orders: argparse.Namespace) -> tuple[Result, bool]:
    """Firebase refusing, then silent, for minutes, while events go on coming."""
    outage = Outage(seconds=orders.minutes * 60, pace=orders.pace)
    with throw_away_node(ROOT / ".waybill") as node, fresh_vhost(node.management, node.url) as amqp_url:
        async with place.databases.fresh() as database_url:
            survived = await live_through(database_url, amqp_url, place.folder, outage, place.say)
    told = asdict(survived)
    return {"proof": "fcm_outage", "minutes": orders.minutes, **told.pop("harm"), **told}, survived.is_good


async def relay_outage(place: Bench, orders: argparse.Namespace) -> tuple[Result, bool]:
    """A relay away, blocking us and refusing our login, while mail goes on coming."""
    async with place.database(POOL_SIZE) as database:
        mended = await mend_relay(database, orders.relay_seconds, orders.pace, place.say)
    return {"proof": "relay_outage", **asdict(mended)}, mended.is_good


async def guards(place: Bench, orders: argparse.Namespace) -> tuple[Result, bool]:
    """The guards of the invariants taken out one by one: a test must fail without each."""
    taken_out = await asyncio.to_thread(take_out, GUARDS, place.say)
    missed = [f"{one.guard.invariant} {one.guard.says}: {test}" for one in taken_out for test in one.missed]
    tests = sum(len(one.guard.tests) for one in taken_out)
    return {"proof": "guards", "guards": len(GUARDS), "tests": tests, "missed": missed}, not missed


PROOFS: dict[str, Callable[[Bench, argparse.Namespace], Awaitable[tuple[Result, bool]]]] = {
    "fuzz": fuzz,
    "storm": storm,
    "fcm_outage": fcm_outage,
    "relay_outage": relay_outage,
    "guards": guards,
}


def orders() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"which of {', '.join(PROOFS)}; all without a name")
    parser.add_argument("--seed", action="append", help="of the fuzz; may be given several times")
    parser.add_argument("--claims", type=int, default=CLAIMS, help="of the fuzz, for each seed")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the storm blows")
    parser.add_argument("--pace", type=float, default=50.0, help="events a second in storm and outages")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds between two kills in the storm")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long Firebase is away")
    parser.add_argument("--relay-seconds", type=float, default=120.0, help="how long the relay is in each trouble")
    given = parser.parse_args()
    if unknown := set(given.name) - set(PROOFS):
        parser.error(f"no proof {', '.join(sorted(unknown))}: there are {', '.join(PROOFS)}")
    return given


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
