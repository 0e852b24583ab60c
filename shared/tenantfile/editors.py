"""The JSON Schema of a tenant file, for editors: it completes keys and marks what is misspelt while one writes.

The check says more than any schema can (templates, examples, what belongs together); a test holds the two together.
"""

from typing import Any, get_args

from shared.channel import BUILT_CHANNELS
from shared.content import Urgency
from shared.retry import OnUnknown
from shared.tenantfile.senders import LEAST_PER_SECOND, MOST_PER_SECOND
from shared.tenantfile.terms import LANES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
DURATION: Schema = {"type": "string", "pattern": "^[0-9]{1,9}[smhd]$", "description": "Say 60s, 30m, 24h or 90d."}


def tenant_schema() -> Schema:
    """The schema of the whole file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A tenant of Waybill",
        **_object(
            {
                "waybill": {"const": 1, "description": "The format of this file."},
                "tenant": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,62}$"},
                "name": TEXT,
                "website": {
                    "type": "string",
                    "pattern": "^https://",
                    "description": "Links that begin with / do here.",
                },
                "app_link_schemes": {"type": "array", "items": TEXT},
                "locales": {"type": "array", "items": TEXT, "description": "The first is what everybody else gets."},
                "timezone": TEXT,
                "retention": _object({"events": DURATION, "content": DURATION}),
                "senders": _senders(),
                "email_layout": _source(
                    "A template around every mail: {{ content }} in it, and {{ unsubscribe }} where that link goes."
                ),
                "partials": _named({"$ref": "#/$defs/texts"}),
                "categories": _named(_category()),
                "defaults": _object(_options()),
                "event_types": _named(_event_type()),
            },
            "waybill",
            "tenant",
            "name",
            "event_types",
        ),
        "$defs": {"texts": _texts(), "reference": _reference(), "link": _link()},
    }


def _senders() -> Schema:
    reference = {"$ref": "#/$defs/reference"}
    fcm = _object({"service_account": reference}, "service_account")
    email = {
        "from": {**TEXT, "description": "Say Campus <hello@campus.example>."},
        "reply_to": TEXT,
        "relay": _object({"url": reference}, "url"),
        "per_second": {
            "type": "number",
            "minimum": LEAST_PER_SECOND,
            "maximum": MOST_PER_SECOND,
            "description": "How many mails a second each email process hands over at most.",
        },
    }
    webpush = _object({"contact": {**TEXT, "description": "Say mailto:ops@campus.example."}, "vapid_key": reference})
    return _object({"email": _object(email, "from"), "push": _object({"fcm": fcm, "webpush": webpush})})


def _category() -> Schema:
    properties = {
        "title": {"$ref": "#/$defs/texts"},
        "critical": {"type": "boolean", "description": "Nobody can switch it off."},
        "default_channels": {"type": "array", "items": {"enum": list(BUILT_CHANNELS)}},
    }
    return _object(properties, "title")


def _event_type() -> Schema:
    texts, link = {"$ref": "#/$defs/texts"}, {"$ref": "#/$defs/link"}
    to = _object({"id": TEXT, "name": TEXT, "email": TEXT}, "id")
    properties = {
        "title": TEXT,
        "category": TEXT,
        "to": {**to, "description": "Whom its events go to, whoever posts them."},
        "payload": {"type": "object", "description": "A JSON Schema 2020-12 with type: object."},
        "example": {"type": "object", "description": "A payload that fits."},
        "message": _object({"title": texts, "body": texts, "link": link}),
        "channels": {**_object({"inapp": _inapp(), "email": _email(), "push": _push()}), "minProperties": 1},
    }
    return _object(properties | _options(), "channels")


def _inapp() -> Schema:
    return _object(_words() | {"icon": TEXT, "data": _named(TEXT)} | _options())


def _email() -> Schema:
    texts = {"$ref": "#/$defs/texts"}
    words = dict.fromkeys(("subject", "title", "preheader", "markdown", "html", "text"), texts)
    return _object({**words, "link": {"$ref": "#/$defs/link"}, "reply_to": TEXT} | _options())


def _push() -> Schema:
    properties = {
        "data": _named(TEXT),
        "badge": {"enum": ["unread"]},
        "urgency": {"enum": list(get_args(Urgency))},
        "ttl": DURATION,
        "collapse": TEXT,
        "android": _object({"channel_id": TEXT, "icon": TEXT}),
        "apple": _object({"sound": TEXT, "thread_id": TEXT}),
        "web": _object({"icon": TEXT}),
    }
    return _object(_words() | properties | _options())


def _words() -> Schema:
    texts = {"$ref": "#/$defs/texts"}
    return {"title": texts, "body": texts, "link": {"$ref": "#/$defs/link"}}


def _options() -> Schema:
    retry = {
        "attempts": {"type": "integer", "minimum": 1, "maximum": 50},
        "backoff": DURATION,
        "multiplier": {"type": "number", "minimum": 1, "maximum": 10},
        "jitter": {"type": "string", "pattern": "^[0-9]{1,2}%$"},
    }
    return {
        "lane": {"enum": list(LANES)},
        "expires_after": DURATION,
        "on_unknown": {"enum": list(get_args(OnUnknown))},
        "retry": _object(retry),
    }


def _link() -> Schema:
    texts = {"$ref": "#/$defs/texts"}
    return _object({"url": texts, "label": texts, "app": texts}, "url")


def _texts() -> Schema:
    source = _source("A Liquid template.")
    per_locale = {"type": "object", "propertyNames": {"not": {"const": "file"}}, "additionalProperties": source}
    return {"anyOf": [*source["anyOf"], per_locale], "description": "One text, or one for each locale."}


def _source(description: str) -> Schema:
    return {"anyOf": [TEXT, _object({"file": TEXT}, "file")], "description": description}


def _reference() -> Schema:
    one = [_object({"env": TEXT}, "env"), _object({"file": TEXT}, "file")]
    return {"oneOf": one, "description": "Where `waybill apply` finds it; never the credential itself."}


def _named(each: Schema) -> Schema:
    return {"type": "object", "additionalProperties": each}


def _object(properties: Schema, *required: str) -> Schema:
    described: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return described | ({"required": list(required)} if required else {})
