"""`waybill tenant`: the tenants there are."""

import asyncio

from services.cli.beside import read_settings
from services.cli.db import DatabaseSettings
from services.cli.exits import show
from services.cli.store import open_store
from shared.tenant import ScopedTenant
from shared.tenantfile.current import Tenants


def list_tenants(as_json: bool) -> None:
    """Print every tenant with the version of its file and its event types."""
    url = read_settings(DatabaseSettings).database_url

    async def work() -> list[ScopedTenant]:
        async with open_store(url) as database:
            tenants = Tenants(database)
            await tenants.load()
            return list(tenants.all().values())

    # Both halves of a tenant have one file.
    found = {half.tenant.key: half for half in asyncio.run(work())}
    listed = [found[key] for key in sorted(found)]
    fields = [
        {
            "tenant": one.tenant.key,
            "name": one.tenant.name,
            "version": one.file_version,
            "event_types": list(one.tenant.event_types),
        }
        for one in listed
    ]
    show(fields, as_json, *([_line(one) for one in listed] or ["There is no tenant yet: `waybill apply` a file."]))


def _line(one: ScopedTenant) -> str:
    return f"{one.tenant.key} ({one.tenant.name}), version {one.file_version}: {', '.join(one.tenant.event_types)}"
