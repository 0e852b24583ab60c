"""Keys of later releases: known by name, so that nobody hunts for a typing mistake, and refused until built."""

LATER_EVERYWHERE = {
    "after": "fallback channels are not built in this release",
    "attachments": "attachments are not built in this release",
    "condition": "conditions are not built in this release",
    "conditions": "conditions are not built in this release",
    "digest": "digests are not built in this release",
    "fallback": "fallback channels are not built in this release",
    "if": "conditions are not built in this release",
    "quiet_hours": "quiet hours are not built in this release",
    "throttle": "throttling is not built in this release",
    "topic": "topics are not built in this release",
    "topics": "topics are not built in this release",
    "when": "conditions and fallback channels are not built in this release",
}

LATER_AT_TOP = {
    "delivery": "delivery modes are not built in this release",
    "webhooks": "status webhooks are not built in this release",
}

LATER_EMAIL_SENDER = {"dkim": "DKIM signing is not built in this release; sign at the relay"}

LATER_CHANNELS = {
    "sms": "text messages are not built in this release",
    "webhook": "webhooks are not built in this release",
}

LATER_EMAIL = {"layout": "a layout per event type is not built in this release; set email_layout for all of them"}
