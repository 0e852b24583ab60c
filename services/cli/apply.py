"""`waybill apply`: a tenant becomes what its file says."""

import asyncio
import os
from pathlib import Path

from services.cli.acts import record
from services.cli.beside import find_settings
from services.cli.exits import complain, show
from services.cli.key import KeySettings
from services.cli.store import open_store
from shared.sealing import Sealer
from shared.tenantfile.apply import Applied
from shared.tenantfile.apply import apply as apply_file


def apply(file: Path, *, check: bool, prune: bool, as_json: bool) -> None:
    """Apply ``file`` and print what changes; with ``check`` nothing is written."""
    settings, beside_up = find_settings(KeySettings)
    # Its sinks stand in for every sender: no credential is needed, as when it applies its examples itself.
    environ = None if beside_up else os.environ

    async def work() -> Applied:
        async with open_store(settings.database_url) as database:
            return await apply_file(
                database, Sealer(settings.master_keys), file, environ=environ, check_only=check, prune=prune
            )

    applied = asyncio.run(work())
    complain(*(f"warning: {warning}" for warning in applied.warnings))
    if applied.changed and not check:
        record("applied", tenant=applied.tenant_key, version=applied.version, pruned=prune)
    fields = {
        "tenant": applied.tenant_key,
        "version": applied.version,
        "changed": applied.changed,
        "applied": applied.changed and not check,
        "diff": applied.diff,
        "kept": applied.kept,
        "warnings": applied.warnings,
    }
    show(fields, as_json, *_say(applied, check))


def _say(applied: Applied, check: bool) -> list[str]:
    kept = [f"= {name} is not in the file and stays; --prune deletes it" for name in applied.kept]
    if not applied.changed:
        return [*kept, f"Nothing to change: {applied.tenant_key} is at version {applied.version}."]
    if check:
        return [*applied.diff, *kept, f"Nothing was changed; applied, this becomes version {applied.version}."]
    return [*applied.diff, *kept, f"{applied.tenant_key} is at version {applied.version}."]
