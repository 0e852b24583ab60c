"""Rendered content and the terms it was promised under, as they are stored beside the job."""

from functools import lru_cache
from typing import assert_never

import msgspec

from shared.channel import Channel
from shared.content import Content, EmailContent, InappContent, PushContent
from shared.retry import Terms


def encode_content(content: Content) -> str:
    """``content`` as the JSON text of ``content.body``."""
    return msgspec.json.encode(content).decode()


def decode_content(channel: Channel, body: str) -> Content:
    """The content in ``content.body`` of a job on ``channel``; raises msgspec.ValidationError on a foreign shape."""
    match channel:
        case Channel.INAPP:
            return _INAPP.decode(body)
        case Channel.EMAIL:
            return _EMAIL.decode(body)
        case Channel.PUSH:
            return _PUSH.decode(body)
        case _:
            assert_never(channel)


def encode_terms(terms: Terms) -> str:
    """``terms`` as the JSON text of ``content.terms``; durations as ISO 8601."""
    return msgspec.json.encode(terms).decode()


@lru_cache(maxsize=1024)  # there are as many as event types
def decode_terms(text: str) -> Terms:
    """The terms in ``content.terms``."""
    return _TERMS.decode(text)


_INAPP = msgspec.json.Decoder(InappContent)
_EMAIL = msgspec.json.Decoder(EmailContent)
_PUSH = msgspec.json.Decoder(PushContent)
_TERMS = msgspec.json.Decoder(Terms)
