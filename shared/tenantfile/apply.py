"""Applying a tenant file: one transaction, and nothing is deleted that the file merely leaves out."""

import asyncio
import os
from collections.abc import Mapping
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
from shared.tenantfile.check import Checked, check_file, sender_warnings
from shared.tenantfile.credentials import read_credentials, store_credentials
from shared.tenantfile.diff import credential_lines, diff
from shared.tenantfile.nodes import Report
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
    database: Database,
    sealer: Sealer,
    source_path: Path,
    *,
    environ: Mapping[str, str] | None = None,
    check_only: bool = False,
    prune: bool = False,
) -> Applied:
    """Make the file at ``source_path`` the one that applies; applying it again changes nothing.

    What the file leaves out (event types, categories, senders) stays as it was, unless ``prune``. Credentials
    are read from ``environ`` and from files; with None none is read, and those that are stored stay.
    Raises TenantFileError with every mistake, StoreUnavailable.
    """
    checked = await asyncio.to_thread(check_file, source_path)
    found = None if environ is None else await asyncio.to_thread(_read_credentials, checked, source_path, environ)
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
        if old is None or model != old.model or checked.source != old.source:
            version += 1
            lines = lines or ["~ only the wording of the file: comments, order or layout"]
            if stored is not None and not check_only:
                await insert_file(connection, stored.tenant_id, version, checked.source, model)
                await set_file_version(connection, stored.tenant_id, new.name, version)
        if stored is not None and found is not None:
            changed = await store_credentials(
                connection, sealer, stored.tenant_id, model.senders, found, check_only=check_only
            )
            if old is not None:
                lines += credential_lines(changed, lines)
    return Applied(new.key, version, bool(lines), lines, kept, checked.warnings + sender_warnings(model))


def _read_credentials(checked: Checked, source_path: Path, environ: Mapping[str, str]) -> dict[str, bytes]:
    report = Report(source_path.name)
    found = read_credentials(checked.tenant.senders, checked.root, source_path.parent, environ, report)
    report.raise_if_any()
    return found


def _secret(sealer: Sealer, scope_id: ScopeId) -> bytes:
    return sealer.seal(os.urandom(SECRET_BYTES), f"scope:{scope_id}")


def _keep(old: Tenant, new: Tenant, file_name: str) -> tuple[Tenant, list[str]]:
    """``new`` with what only ``old`` has, and the names of that."""
    event_types = {name: rule for name, rule in old.event_types.items() if name not in new.event_types}
    categories = {name: entry for name, entry in old.categories.items() if name not in new.categories}
    senders = [
        channel
        for channel in ("email", "push")
        if getattr(new.senders, channel) is None and getattr(old.senders, channel) is not None
    ]
    merged = replace(
        new,
        event_types={**new.event_types, **event_types},
        categories={**new.categories, **categories},
        senders=replace(new.senders, **{channel: getattr(old.senders, channel) for channel in senders}),
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
    return merged, kept + [f"senders.{channel}" for channel in senders]
