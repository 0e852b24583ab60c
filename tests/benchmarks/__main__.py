"""``python -m tests.benchmarks [NAME …]``: measure, and print one line of JSON per benchmark."""

import sys
from collections.abc import Awaitable, Callable

import uvloop

from tests.benchmarks.claims import claim_flat_backlog, claim_flat_tenants, claim_old_snapshot
from tests.benchmarks.drain import drain_noop, inapp_drain
from tests.benchmarks.harness import Bench, Result, bench, report
from tests.benchmarks.ingest import ingest_group_commit
from tests.benchmarks.mails import smtp_once, smtp_pool
from tests.benchmarks.noisy import noisy_tenant
from tests.benchmarks.peers import drain_beside_peers
from tests.benchmarks.roads import events_end_to_end, latency_rabbitmq
from tests.benchmarks.scaling import database_pressure_scaling, slow_provider_scaling

BENCHES: dict[str, Callable[[Bench], Awaitable[Result]]] = {
    "ingest_group_commit": ingest_group_commit,
    "drain_noop": drain_noop,
    "drain_beside_peers": drain_beside_peers,
    "inapp_drain": inapp_drain,
    "claim_flat_backlog": claim_flat_backlog,
    "claim_flat_tenants": claim_flat_tenants,
    "claim_old_snapshot": claim_old_snapshot,
    "noisy_tenant": noisy_tenant,
    "smtp_pool": smtp_pool,
    "smtp_once": smtp_once,
    "slow_provider_scaling": slow_provider_scaling,
    "database_pressure": database_pressure_scaling,
    "latency_rabbitmq": latency_rabbitmq,
    "events_end_to_end": events_end_to_end,
}


async def measure(names: list[str]) -> None:
    """Run the benchmarks called ``names``, all when there are none."""
    unknown = set(names) - set(BENCHES)
    if unknown:
        raise SystemExit(f"no benchmark {', '.join(sorted(unknown))}: there are {', '.join(BENCHES)}")
    async with bench() as place:
        for name in names or BENCHES:
            report(await BENCHES[name](place))


uvloop.run(measure(sys.argv[1:]))
