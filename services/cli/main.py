"""The `waybill` command line. Every command imports what it needs when it runs, so that --help is instant."""

import sys
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from services.cli.exits import UsageMistake, expected_errors, require_utf8
from shared.channel import Channel

app = typer.Typer(
    name="waybill",
    help="A notification delivery service that never loses what it accepted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
bounces = typer.Typer(help="Mails that came back.", no_args_is_help=True)
database = typer.Typer(help="The schema in Postgres.", no_args_is_help=True)
key = typer.Typer(help="API keys and inbox tokens.", no_args_is_help=True)
sender = typer.Typer(help="What a tenant's messages are signed with.", no_args_is_help=True)
schema = typer.Typer(help="The shapes of files, for editors.", no_args_is_help=True)
suppressions = typer.Typer(help="Addresses that a tenant writes to no more.", no_args_is_help=True)
tenant = typer.Typer(help="Tenants.", no_args_is_help=True)
app.add_typer(bounces, name="bounces")
app.add_typer(database, name="db")
app.add_typer(key, name="key")
app.add_typer(sender, name="sender")
app.add_typer(schema, name="schema")
app.add_typer(suppressions, name="suppressions")
app.add_typer(tenant, name="tenant")


class Service(StrEnum):
    """What `waybill run` can run."""

    INGEST = "ingest"
    ROUTER = "router"
    EMAIL = "email"
    PUSH = "push"
    INAPP = "inapp"
    ALL = "all"


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
TestHalf = Annotated[bool, typer.Option("--test", help="In the tenant's test half, which reaches nobody.")]
TenantKey = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's id, say campus.")]


def main() -> None:
    """Run the command line: 0 ok, 1 failed, 2 usage or settings, 3 unreachable."""
    with expected_errors():
        for place, argument in enumerate(sys.argv[1:], 1):
            require_utf8(f"argument {place}", argument)
        app()


@app.command()
def up() -> None:
    """Run everything on this machine: Postgres, all services, sinks for mail and push, and the example tenants."""
    from services.cli.up import up

    up()


@app.command()
def run(service: Annotated[Service, typer.Argument(help="The service, or all of them in one process.")]) -> None:
    """Run one service (or all) on the Postgres and RabbitMQ of the settings, until it is told to stop."""
    from services.cli.run import run

    run(service.value)


@database.command("migrate")
def database_migrate(as_json: AsJson = False) -> None:
    """Bring the database to this release's schema; safe to run twice, or by two at once."""
    from services.cli.db import migrate

    migrate(as_json)


@database.command("check")
def database_check(as_json: AsJson = False) -> None:
    """Say whether the database has this release's schema, to the column."""
    from services.cli.db import check

    check(as_json)


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(help="The tenant's file, say campus.yaml.")],
    check: Annotated[bool, typer.Option("--check", help="Print what would change, and change nothing.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Also delete what the file no longer has.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a tenant what its file says, in one transaction; running services follow within seconds."""
    from services.cli.apply import apply

    apply(file, check=check, prune=prune, as_json=as_json)


@tenant.command("list")
def tenant_list(as_json: AsJson = False) -> None:
    """List every tenant with the version of its file and its event types."""
    from services.cli.tenant import list_tenants

    list_tenants(as_json)


@schema.command("tenant")
def schema_tenant() -> None:
    """Print the JSON Schema of a tenant file: editors complete and check with it."""
    from services.cli.schema import print_tenant_schema

    print_tenant_schema()


@sender.command("vapid")
def sender_vapid(tenant: TenantKey, as_json: AsJson = False) -> None:
    """Print the public key that browsers subscribe with; the tenant's key pair is made the first time."""
    from services.cli.sender import vapid

    vapid(tenant, as_json=as_json)


@key.command("create")
def key_create(
    tenant: TenantKey,
    test: TestHalf = False,
    permission: Annotated[
        list[str] | None, typer.Option("--permission", help="What it may do; repeat it. Left out: everything.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Its life, say 90d. Left out: no end.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key. It is shown this once: only its hash is kept."""
    from services.cli.key import create

    life = None if expires is None else _duration("--expires", expires)
    create(tenant, test=test, permissions=permission, lifetime=life, as_json=as_json)


@key.command("list")
def key_list(
    tenant: Annotated[str | None, typer.Argument(metavar="TENANT", help="Of this tenant only.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the API keys with their number, how they begin, when they were made, last used and revoked."""
    from services.cli.issued import list_issued

    list_issued(tenant, as_json=as_json)


@key.command("revoke")
def key_revoke(
    named: Annotated[str, typer.Argument(metavar="KEY", help="Its number or beginning in `key list`, or all of it.")],
    as_json: AsJson = False,
) -> None:
    """Have an API key refused everywhere, within five seconds and for good."""
    from services.cli.issued import revoke

    revoke(named, as_json=as_json)


@key.command("subscriber")
def key_subscriber(
    tenant: TenantKey,
    recipient: Annotated[str, typer.Option(help="Whose inbox it opens: the recipient's id.")],
    test: TestHalf = False,
    lifetime: Annotated[str, typer.Option(metavar="DURATION", help="At most 24h.")] = "24h",
    as_json: AsJson = False,
) -> None:
    """Mint a token with which one end user reads their own inbox."""
    from services.cli.key import mint_subscriber

    life = _duration("--lifetime", lifetime)
    mint_subscriber(tenant, recipient=recipient, test=test, lifetime=life, as_json=as_json)


@app.command()
def bench(
    workers: Annotated[str, typer.Option(help="How many worker processes: a run for each number.")] = "1,2,4,8",
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Jobs of a run. Left out: enough for some seconds.")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(min=1, max=5_000, help="Sends at once in each process. Left out: 25 if slow, 500 if not."),
    ] = None,
    provider_ms: Annotated[int, typer.Option(min=1, max=10_000, help="How long the slow provider takes.")] = 100,
    database_url: Annotated[
        str | None,
        typer.Option(help="A Postgres to make databases on and drop them again. Left out: one that is thrown away."),
    ] = None,
    svg: Annotated[Path, typer.Option(help="Where the plot is written to.")] = Path("waybill-bench.svg"),
    as_json: AsJson = False,
) -> None:
    """Measure what more worker processes bring on this machine, with a slow provider and with an instant one."""
    from services.cli.bench import Wanted, bench, workers_in

    wanted = Wanted(workers_in(workers), jobs, slots, timedelta(milliseconds=provider_ms), database_url, svg)
    bench(wanted, as_json=as_json)


OneChannel = Annotated[Channel | None, typer.Option("--channel", help="On this channel only.")]
OneTenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="Of this tenant, both halves.")]
OneType = Annotated[
    str | None, typer.Option("--event-type", metavar="TYPE", help="Of this type: campus/reminder, or with --tenant.")
]


@app.command()
def pause(
    channel: OneChannel = None,
    tenant: OneTenant = None,
    event_type: OneType = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="A duration (2h) or an instant. Left out: until resumed.")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever looks.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing of it is being sent any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop sending on a channel, for a tenant or of an event type, within two seconds; jobs stay PENDING."""
    from services.cli.pause import Selectors, pause

    selectors = Selectors.read(channel, tenant, event_type)
    pause(selectors, until=until, reason=reason, wait=wait, as_json=as_json)


@app.command()
def resume(
    channel: OneChannel = None, tenant: OneTenant = None, event_type: OneType = None, as_json: AsJson = False
) -> None:
    """End a pause, named as it was paused."""
    from services.cli.pause import Selectors, resume

    resume(Selectors.read(channel, tenant, event_type), as_json=as_json)


@app.command()
def pauses(as_json: AsJson = False) -> None:
    """List what is paused, by an operator or because a provider refuses us."""
    from services.cli.pause import list_pauses

    list_pauses(as_json)


Addresses = Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="Email addresses.")]


@suppressions.command("list")
def suppressions_list(
    tenant: TenantKey,
    test: TestHalf = False,
    address: Annotated[str | None, typer.Option(help="Only this address.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the suppressed addresses with the reason of each, the last suppressed first."""
    from services.cli.suppressions import list_all

    list_all(tenant, test=test, address=address, as_json=as_json)


@suppressions.command("add")
def suppressions_add(
    tenant: TenantKey,
    addresses: Addresses,
    test: TestHalf = False,
    detail: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for whoever looks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write to addresses no more."""
    from services.cli.suppressions import add

    add(tenant, addresses, test=test, detail=detail, as_json=as_json)


@suppressions.command("remove")
def suppressions_remove(
    tenant: TenantKey, addresses: Addresses, test: TestHalf = False, as_json: AsJson = False
) -> None:
    """Write to addresses again."""
    from services.cli.suppressions import remove

    remove(tenant, addresses, test=test, as_json=as_json)


@bounces.command("read")
def bounces_read(
    source: Annotated[
        Path, typer.Argument(help="An mbox, a maildir, a folder of mails, a file with one, or - to read one.")
    ],
    as_json: AsJson = False,
) -> None:
    """Take in mails that came back: jobs and suppressions follow. Reading them twice changes nothing."""
    from services.cli.bounces import read

    read(source, as_json=as_json)


@app.command()
def settings(as_json: AsJson = False) -> None:
    """Print every setting there is, with its default and meaning."""
    from services.cli.settings import print_settings

    print_settings(as_json)


def _duration(option: str, text: str) -> timedelta:
    from shared.settings import parse_duration

    try:
        return parse_duration(text)
    except ValueError as exc:
        raise UsageMistake(f"{option} must be {exc}") from exc
