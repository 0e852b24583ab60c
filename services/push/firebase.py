"""The one file that imports firebase-admin, and is itself imported late: that costs 41 MiB and 0.75 s.

Private names it reaches for, which is why the version is pinned and a contract test holds them:
``messaging._get_messaging_service``, ``_async_client``, ``_fcm_url``.
"""

import itertools
import time
from datetime import UTC, datetime

import firebase_admin  # type: ignore[import-untyped]  # it ships no types
from firebase_admin import credentials, exceptions, messaging
from google.auth import jwt

from services.push.access import AccessToken
from services.push.client import Client
from services.push.connections import Connections
from services.push.message import Letter, write_message
from shared.serviceaccount import ServiceAccount

OAUTH_AUDIENCE = "https://oauth2.googleapis.com/token"
"""What google-auth itself names, wherever ``token_uri`` points."""
OAUTH_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
ASSERTION_SECONDS = 3600

_NUMBERS = itertools.count(1)


class Project:
    """One service account's firebase-admin app, sending through a client of ours.

    Making and closing one takes tens of milliseconds (keys, TLS contexts) and may start a loop: do it in a thread.
    """

    def __init__(self, account: ServiceAccount, connections: Connections, base_url: str | None) -> None:
        """``base_url`` replaces Google's. Raises ValueError or TypeError when the account's key is none that signs."""
        certificate = credentials.Certificate(dict(account.fields))
        self._account = account
        self._signer = certificate.signer
        self._sign()
        name = f"waybill-{next(_NUMBERS)}"
        self._app = firebase_admin.initialize_app(certificate, {"projectId": account.project_id}, name=name)
        service = messaging._get_messaging_service(self._app)  # noqa: SLF001 - no public way leads there; pinned, and under a contract test
        self.access = AccessToken(account.token_uri, self._sign, connections)
        service._async_client = Client(connections, self.access)  # noqa: SLF001 - no public way leads there; pinned, and under a contract test
        if base_url is not None:
            service._fcm_url = f"{base_url.rstrip('/')}/v1/projects/{account.project_id}/messages:send"  # noqa: SLF001 - no public way leads there; pinned, and under a contract test

    async def send(self, token: str, letter: Letter) -> None:
        """Send one message; what came of it stands in the context's Exchange. Raises ValueError for no message."""
        message = write_message(messaging, token, letter, datetime.now(UTC))
        try:
            await messaging.send_each_async([message], app=self._app)
        except exceptions.FirebaseError:
            # An answer it could not read, say a page of HTML under status 200. The Exchange has it.
            return

    def close(self) -> None:
        """Give the app back."""
        firebase_admin.delete_app(self._app)

    def _sign(self) -> str:
        now = int(time.time())
        claims = {
            "iss": self._account.client_email,
            "aud": OAUTH_AUDIENCE,
            "scope": OAUTH_SCOPE,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        }
        signed: bytes = jwt.encode(self._signer, claims)  # type: ignore[no-untyped-call]  # half typed
        return signed.decode()
