"""A Google service account: the JSON file that lets a tenant's pushes go out through its Firebase project."""

import hashlib
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from shared.errors import AccountUnusable


class _Fields(msgspec.Struct):
    """What Google puts in the file; more stands in it, and is handed on as it is."""

    type: str
    project_id: str
    client_email: str
    token_uri: str
    private_key: str


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """One service account. ``fingerprint`` tells two apart, ``fields`` is the whole file for firebase-admin."""

    project_id: str
    client_email: str
    token_uri: str
    fingerprint: str
    fields: dict[str, object] = field(repr=False, compare=False)

    @property
    def circuit(self) -> str:
        """Its name in breakers and pauses, where people read it; another key of the project is another circuit."""
        return f"fcm {self.project_id} ({self.fingerprint[:8]})"


def parse_service_account(raw: bytes) -> ServiceAccount:
    """The service account in the JSON file that Google issued. Raises AccountUnusable, which names the field."""
    try:
        known = msgspec.json.decode(raw, type=_Fields)
        whole = msgspec.json.decode(raw, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise AccountUnusable(f"this is no service account: {exc}") from exc
    if known.type != "service_account":
        raise AccountUnusable("this is no service account: `type` is not service_account")
    if urlsplit(known.token_uri).scheme not in ("https", "http"):
        raise AccountUnusable("this is no service account: `token_uri` is no URL")
    if not known.project_id:
        raise AccountUnusable("this is no service account: `project_id` is empty")
    return ServiceAccount(known.project_id, known.client_email, known.token_uri, hashlib.sha256(raw).hexdigest(), whole)
