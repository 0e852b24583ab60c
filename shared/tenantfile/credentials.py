"""Credentials of a tenant's senders: named in its file, read when it is applied, never kept or shown in the clear."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.channel import Channel
from shared.errors import AccountUnusable, SealError, VapidKeyUnusable
from shared.ids import TenantId
from shared.relay import parse_relay
from shared.sealing import Sealer
from shared.serviceaccount import parse_service_account
from shared.store.pauses import lift_of_sender
from shared.store.sender_secrets import FCM, RELAY, VAPID, bound_to, delete_secret, put_secret, secrets_of_tenant
from shared.suggestion import did_you_mean
from shared.tenant import Reference, Senders
from shared.tenantfile.nodes import Block, Place, Report, find_node
from shared.tenantfile.section import Section
from shared.vapid import parse_vapid_key

MOST_BYTES = 64 * 1024

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_reference(section: Section, key: str) -> Reference | None:
    """The reference under ``key``, which must be there: ``{env: NAME}`` or ``{file: path}``, or None and a mistake."""
    node = section.required(key)
    if node is None:
        return None
    wanted = "must be {env: NAME} or {file: path}"
    if not isinstance(node, Block):
        # Said without what stands there: it may well be the secret.
        section.report.add(node.place, f"{wanted}, never the credential itself")
        return None
    inner = Section(node, section.report)
    env, file = inner.text("env"), inner.text("file")
    inner.close()
    if ("env" in node.entries) == ("file" in node.entries):
        section.report.add(node.place, wanted)
        return None
    if env is not None and not _VARIABLE.fullmatch(env):
        section.report.add(node.entries["env"].place, "must be the name of an environment variable")
        return None
    return Reference(env, file) if env or file else None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of credential: its channel, where the file names it, and what is wrong with one.

    That is said in words that do not repeat it. ``stays``: no file takes it away, only another one takes its place.
    """

    word: str
    channel: Channel
    path: tuple[str, ...]
    reference_of: Callable[[Senders], Reference | None]
    problem: Callable[[bytes], str | None]
    stays: bool = False


def _relay_of(senders: Senders) -> Reference | None:
    return None if senders.email is None or senders.email.relay is None else senders.email.relay.url


def _relay_problem(secret: bytes) -> str | None:
    try:
        parse_relay(secret.decode())
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except ValueError as exc:
        return f"it must be {exc}"
    return None


def _account_of(senders: Senders) -> Reference | None:
    return None if senders.push is None or senders.push.fcm is None else senders.push.fcm.service_account


def _account_problem(secret: bytes) -> str | None:
    try:
        parse_service_account(secret)
    except AccountUnusable as exc:
        return str(exc)
    return None


def _vapid_key_of(senders: Senders) -> Reference | None:
    return None if senders.push is None or senders.push.webpush is None else senders.push.webpush.vapid_key


def _vapid_key_problem(secret: bytes) -> str | None:
    try:
        parse_vapid_key(secret)
    except VapidKeyUnusable as exc:
        return str(exc)
    return None


KINDS = (
    Kind(RELAY, Channel.EMAIL, ("senders", "email", "relay", "url"), _relay_of, _relay_problem),
    Kind(FCM, Channel.PUSH, ("senders", "push", "fcm", "service_account"), _account_of, _account_problem),
    # Every browser subscribed with it, and it may have been made here, where no file names it.
    Kind(
        VAPID, Channel.PUSH, ("senders", "push", "webpush", "vapid_key"), _vapid_key_of, _vapid_key_problem, stays=True
    ),
)


def read_credentials(
    senders: Senders, root: Block, folder: Path, environ: Mapping[str, str], report: Report
) -> dict[str, bytes]:
    """The credentials that ``senders`` refer to, by the word of their kind; what is missing or none is reported.

    Places are those in ``root``, the file's own nodes. A file's name begins at ``folder``.
    """
    found: dict[str, bytes] = {}
    for kind in KINDS:
        reference = kind.reference_of(senders)
        if reference is None:
            continue
        place = find_node(root, kind.path)[0].place
        secret = _read(reference, place, folder, environ, report)
        if secret is None:
            continue
        if problem := kind.problem(secret):
            report.add(place, f"what {_written(reference)} holds cannot be used: {problem}")
        found[kind.word] = secret
    return found


def _read(reference: Reference, place: Place, folder: Path, environ: Mapping[str, str], report: Report) -> bytes | None:
    if reference.env is not None:
        value = environ.get(reference.env, "").strip()
        if not value:
            hint = did_you_mean(reference.env, (name for name in environ if name != reference.env))
            state = "is empty" if reference.env in environ else f"is not set{hint}"
            report.add(place, f"the environment variable {reference.env} {state}")
        return value.encode(errors="surrogateescape") or None
    try:
        with (folder / str(reference.file)).open("rb") as file:
            content = file.read(MOST_BYTES + 1).strip()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "it is no file name"
        report.add(place, f"the file {reference.file} cannot be read: {why}")
        return None
    if not content or len(content) > MOST_BYTES:
        report.add(place, f"the file {reference.file} {'is empty' if not content else 'is far too large'}")
        return None
    return content


def _written(reference: Reference) -> str:
    return f"{{env: {reference.env}}}" if reference.env is not None else f"{{file: {reference.file}}}"


async def store_credentials(
    connection: AsyncConnection,
    sealer: Sealer,
    tenant_id: TenantId,
    senders: Senders,
    found: Mapping[str, bytes],
    *,
    check_only: bool,
) -> list[str]:
    """Keep what was ``found``, sealed for the tenant, and forget what ``senders`` no longer refer to.

    The path of every credential that is not what it was, or was not there. With ``check_only`` nothing is written.
    """
    stored = await secrets_of_tenant(connection, tenant_id)
    changed = []
    for kind in KINDS:
        sealed, secret = stored.get(kind.word), found.get(kind.word)
        if kind.reference_of(senders) is None:
            if sealed is not None and not kind.stays and not check_only:
                await delete_secret(connection, tenant_id, kind.word)
            continue
        # A sender that the file leaves out stays, and its credential with it.
        if secret is None or secret == _open(sealer, sealed, bound_to(tenant_id, kind.word)):
            continue
        changed.append(".".join(kind.path))
        if not check_only:
            await put_secret(connection, tenant_id, kind.word, sealer.seal(secret, bound_to(tenant_id, kind.word)))
            await lift_of_sender(connection, tenant_id, kind.channel)
    return changed


def _open(sealer: Sealer, sealed: bytes | None, bound: str) -> bytes | None:
    """What was sealed; None as well when no master key opens it any more: then it is to be stored anew."""
    try:
        return None if sealed is None else sealer.open(sealed, bound)
    except SealError:
        return None
