"""A service account as Google would issue it, for the push simulator."""

import json
from dataclasses import dataclass, field

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

PROJECT = "waybill-simulator"
_EMAIL = f"push@{PROJECT}.iam.gserviceaccount.com"
_AUDIENCES = ("https://oauth2.googleapis.com/token",)
"""What Google's own libraries name, wherever ``token_uri`` points."""


@dataclass(frozen=True, slots=True)
class IssuedAccount:
    """One account; ``text`` is the JSON file that its owner keeps secret."""

    text: str = field(repr=False)
    token_uri: str
    _public_key: rsa.RSAPublicKey = field(repr=False)

    @classmethod
    def make(cls, token_uri: str) -> "IssuedAccount":
        """A new account with a new key, whose access tokens come from ``token_uri``."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        fields = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "simulated",
            "private_key": pem,
            "client_email": _EMAIL,
            "client_id": "100000000000000000000",
            "token_uri": token_uri,
        }
        return cls(json.dumps(fields), token_uri, key.public_key())

    def signed(self, assertion: str) -> bool:
        """Whether ``assertion`` is a JWT of this account, as RFC 7523 wants it."""
        try:
            jwt.decode(
                assertion,
                self._public_key,
                algorithms=["RS256"],
                audience=[*_AUDIENCES, self.token_uri],
                issuer=_EMAIL,
                options={"require": ["iat", "exp", "aud", "iss"]},
            )
        except jwt.InvalidTokenError:
            return False
        return True
