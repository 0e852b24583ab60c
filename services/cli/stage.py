"""What `waybill up` sets up before the curtain rises: Postgres, schema, the demo's tenants and keys, and all parts."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from services.cli import demo
from services.cli.banner import say
from services.cli.compose import ALL, build_parts
from services.cli.db import bring_to_head
from services.cli.embedded import embedded_postgres
from services.cli.exits import CommandFailed
from services.cli.ground import Ground, Sinks, stand_on
from services.cli.kept import NAME as KEPT
from services.cli.kept import Kept, load_or_make, save
from services.cli.readiness import Curtain, readyz_route
from services.cli.run import admin_part
from services.cli.sandbox.mailcatcher import MailCatcher
from services.cli.sandbox.messages import message_routes
from services.cli.sandbox.pushes import PushSimulator
from services.push.fcm import load as load_firebase
from shared.errors import SealError
from shared.lifecycle import Part
from shared.serviceaccount import parse_service_account
from shared.settings import PREFIX, ProcessSettings, listed
from shared.web.server import HttpPart

ADMIN_PORT = f"{PREFIX}ADMIN_PORT"
MASTER_KEYS = f"{PREFIX}MASTER_KEYS"
EMAIL_PORT = 8082
HERE = "127.0.0.1"
ANYWHERE = {"0.0.0.0": HERE, "::": "::1"}  # noqa: S104 - only turned into an address one can connect to


class UpSettings(ProcessSettings):
    """What `up` itself reads."""

    database_url: str | None = listed("DATABASE_URL", optional=True)
    data_dir: Path | None = listed("DATA_DIR", optional=True)
    port: int = listed("PORT")
    inbox_port: int = listed("INBOX_PORT")
    email_port: int | None = listed("EMAIL_PORT", optional=True)
    bounce_port: int | None = listed("BOUNCE_PORT", optional=True)
    smtp_sink_port: int = listed("SMTP_SINK_PORT")

    @property
    def email_page_port(self) -> int:
        """Where the unsubscribe page is, the bounces' webhook beside it."""
        return EMAIL_PORT if self.email_port is None else self.email_port

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self.bind or HERE

    @property
    def reached_at(self) -> str:
        """The address at which a program on this machine reaches it."""
        return ANYWHERE.get(self.host, self.host)


@dataclass(frozen=True)
class Stage:
    """All parts, not running yet, and what ``up.json`` will say once they do."""

    parts: Sequence[Part]
    told: dict[str, Any]
    curtain: Curtain

    async def listening(self) -> bool:
        """True, once every HTTP server among the parts answers."""
        for part in self.parts:
            if isinstance(part, HttpPart):
                await part.answering.wait()
        return True


async def raise_stage(stack: AsyncExitStack, settings: UpSettings, home: Path) -> Stage:
    """Everything ready to run; ``stack`` has what must be closed afterwards."""
    # Most of a second, better spent while Postgres starts than on the first push.
    loading = asyncio.create_task(asyncio.to_thread(load_firebase))
    url, watches = await _find_postgres(stack, settings, home)
    say(f"Schema {await bring_to_head(url)}")
    kept = load_or_make(home)
    catcher, simulator = MailCatcher(), await asyncio.to_thread(PushSimulator)
    sink = catcher.part(settings.host, settings.smtp_sink_port)
    environ = _environment(kept, url, f"smtp://{in_url(settings.reached_at)}:{sink.port}", simulator.base_url)
    environ[f"{PREFIX}EMAIL_PORT"] = str(settings.email_page_port)
    operator_token = environ[f"{PREFIX}OPERATOR_TOKEN"]
    sinks = Sinks(parse_service_account(simulator.account.text.encode()))
    ground = await stack.enter_async_context(stand_on(environ, name="waybill up", host=settings.host, sinks=sinks))
    kept = await _set_up_demo(ground, kept, home, prune=settings.database_url is None)
    tenants = {tenant: await _tell_tenant(ground, kept, tenant) for tenant in demo.TENANTS}
    curtain = Curtain()
    checks = {"up": curtain.check, "postgres": ground.check_schema}
    ground.extra_routes.extend(
        [readyz_route(checks), *message_routes(catcher.newest, simulator.newest, operator_token)]
    )
    parts = [*watches, sink, simulator.part(), *ground.parts(), *build_parts(ALL, ground)]
    parts.append(admin_part(ground, int(environ.get(ADMIN_PORT, "0")), parts))
    told = {
        **_addresses(parts, settings.reached_at),
        "smtp_port": sink.port,
        "operator_token": operator_token,
        "database_url": url,
        "master_keys_file": str(home / KEPT) if environ[MASTER_KEYS] == kept.master_key else None,
        "tenants": tenants,
        "example_event": demo.example_event(),
    }
    await loading
    return Stage(parts, told, curtain)


async def _find_postgres(stack: AsyncExitStack, settings: UpSettings, home: Path) -> tuple[str, list[Part]]:
    if settings.database_url is not None:
        return settings.database_url, []
    say(f"Starting Postgres, its data stays in {home}")
    url, watch = await stack.enter_async_context(embedded_postgres(home))
    return url, [watch]


def _environment(kept: Kept, url: str, sink_url: str, firebase_url: str) -> dict[str, str]:
    """The environment the services read: the given one, with what `up` brings along.

    The sinks take the place of any relay and any Firebase that are given: a demo writes to nobody, and rings nobody.
    """
    made = {"DATABASE_URL": url, "MASTER_KEYS": kept.master_key, "OPERATOR_TOKEN": kept.operator_token}
    given = {name: value for name, value in os.environ.items() if value}
    sinks = {f"{PREFIX}SMTP_URL": sink_url, f"{PREFIX}FCM_BASE_URL": firebase_url}
    return {PREFIX + name: value for name, value in made.items()} | given | sinks


async def _set_up_demo(ground: Ground, kept: Kept, home: Path, *, prune: bool) -> Kept:
    """The example tenants applied, their keys made or reused, bob's phone registered; what is kept from now on."""
    say(f"Tenants {await demo.apply_examples(ground.database, ground.sealer, prune=prune)}")
    await ground.tenants.load()
    keys = {tenant: await demo.keys_of(ground.database, tenant, kept.keys.get(tenant)) for tenant in demo.TENANTS}
    kept = msgspec.structs.replace(kept, keys=kept.keys | keys)
    save(home, kept)
    await demo.register_phone(ground.database)
    await demo.make_vapid_keys(ground.database, ground.sealer)
    return kept


async def _tell_tenant(ground: Ground, kept: Kept, tenant: str) -> dict[str, str]:
    keys = kept.keys[tenant]
    try:
        token = await demo.bobs_token(ground.database, ground.sealer, tenant)
    except SealError as exc:
        raise CommandFailed(f"{exc}: set {PREFIX}MASTER_KEYS to those this database was made with") from exc
    return {"live_key": keys.live, "test_key": keys.test, "subscriber_token": token}


def _addresses(parts: Sequence[Part], host: str) -> dict[str, str]:
    ports = {part.name: part.port for part in parts if isinstance(part, HttpPart)}
    names = {"api_url": "ingest", "inbox_url": "inapp-http", "admin_url": "admin"}
    return {name: f"http://{in_url(host)}:{ports[part]}" for name, part in names.items()}


def in_url(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
