"""Applying a tenant file: one transaction, and nothing is deleted that the file merely leaves out."""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path

from shared.errors import TenantFileError
from shared.ids import ScopeId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.tenantfiles import find_file, insert_file
from shared.store.tenants import (
    create_if_missing_and_lock,
    create_missing_scopes,
    find_tenant,
    set_file_version,
)
from shared.tenant import Tenant
from shared.tenantfile.check import Checked, check_file
from shared.tenantfile.diff import diff
from shared.tenantfile.preview import refusals

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a tenant file.

    ``diff`` has one line per change, ``kept`` names what the file leaves out and prune would delete. With
    ``check_only`` nothing was written, and ``version`` is the one that would be.
    """

    tenant_key: str
    version: int
    changed: bool
    diff: list[str]
    kept: list[str]
    warnings: list[str]


async def apply(
    database: Database, sealer: Sealer, source_path: Path, *, check_only: bool = False, prune: bool = False
) -> Applied:
    """Make the file at ``source_path`` the one that applies; applying it again changes nothing.

    What the file leaves out (event types, categories, senders) stays as it was, unless ``prune``.
    Raises TenantFileError with every mistake, StoreUnavailable.
    """
    checked = await asyncio.to_thread(check_file, source_path)
    new = checked.tenant
    async with database.begin() as connection:
        if check_only:
            stored = await find_tenant(connection, new.key)
        else:
            stored = await create_if_missing_and_lock(connection, new.key, new.name)
            await create_missing_scopes(connection, stored.tenant_id, lambda scope_id: _secret(sealer, scope_id))
        version = 0 if stored is None else stored.file_version
        old = None if stored is None else await find_file(connection, stored.tenant_id, version)
        model, kept = (new, []) if prune or old is None else _keep(old.model, new, source_path.name)
        lines = diff(None if old is None else old.model, model)
        changed = old is None or model != old.model or checked.source != old.source
        if changed and not lines:
            lines = ["~ only the wording of the file: comments, order or layout"]
        if changed and not check_only and stored is not None:
            await insert_file(connection, stored.tenant_id, version + 1, checked.source, model)
            await set_file_version(connection, stored.tenant_id, new.name, version + 1)
    return _applied(checked, version + 1 if changed else version, changed, lines, kept)


def _applied(checked: Checked, version: int, changed: bool, lines: list[str], kept: list[str]) -> Applied:
    return Applied(checked.tenant.key, version, changed, lines, kept, checked.warnings)


def _secret(sealer: Sealer, scope_id: ScopeId) -> bytes:
    return sealer.seal(os.urandom(SECRET_BYTES), f"scope:{scope_id}")


def _keep(old: Tenant, new: Tenant, file_name: str) -> tuple[Tenant, list[str]]:
    """``new`` with what only ``old`` has, and the names of that."""
    event_types = {name: rule for name, rule in old.event_types.items() if name not in new.event_types}
    categories = {name: entry for name, entry in old.categories.items() if name not in new.categories}
    keeps_sender = new.senders.email is None and old.senders.email is not None
    merged = replace(
        new,
        event_types={**new.event_types, **event_types},
        categories={**new.categories, **categories},
        senders=old.senders if keeps_sender else new.senders,
    )
    broken = [
        f"{file_name}:1:1 event_types.{name}: is not in the file and kept, but no longer works with it "
        f"({problem}); put it back, or apply with --prune"
        for name, event_type in event_types.items()
        for problem in refusals(event_type, merged)[:1]
    ]
    if broken:
        raise TenantFileError(broken)
    kept = [f"event_types.{name}" for name in event_types] + [f"categories.{name}" for name in categories]
    return merged, kept + (["senders.email"] if keeps_sender else [])
