"""Every code an HTTP client may meet: one table for the answers, the page /problems and the documents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """The ``code`` of a whole answer: its status, its title and what it means to whoever gets it."""

    status: int
    title: str
    meaning: str


PROBLEM_CODES: dict[str, ProblemCode] = {
    "malformed_json": ProblemCode(
        400, "The body is not sound JSON", "The body could not be read. `errors` says where and why; nothing was kept."
    ),
    "bad_request": ProblemCode(400, "The request is not sound HTTP", "The request could not be understood at all."),
    "key_missing": ProblemCode(
        401, "An API key is needed", "Send the key as `Authorization: Bearer wb_live_…` or `wb_test_…`."
    ),
    "key_malformed": ProblemCode(
        401, "That is no API key", "The key does not have the form of one, or a character of it was lost in copying."
    ),
    "key_unknown": ProblemCode(401, "Nobody knows this API key", "The key was never issued by this installation."),
    "key_expired": ProblemCode(401, "The API key has expired", "Create a new key and use that."),
    "key_revoked": ProblemCode(401, "The API key was revoked", "Create a new key and use that."),
    "token_missing": ProblemCode(
        401, "A subscriber token is needed", "Send the recipient's token as `Authorization: Bearer …`."
    ),
    "token_invalid": ProblemCode(
        401, "The subscriber token is not valid", "Mint a new token; `detail` says what is wrong."
    ),
    "token_expired": ProblemCode(
        401, "The subscriber token has expired", "Mint a new token: they live for a day at most."
    ),
    "operator_token_missing": ProblemCode(
        401, "The operator's token is needed", "Send the operator's token as `Authorization: Bearer …`."
    ),
    "operator_token_invalid": ProblemCode(
        401, "That is not the operator's token", "Use the token that `up` wrote to up.json, or WAYBILL_OPERATOR_TOKEN."
    ),
    "signature_missing": ProblemCode(
        401, "A signature is needed", "Sign the body with the shared secret; `detail` names the header."
    ),
    "signature_invalid": ProblemCode(
        401, "The signature is not right", "Sign this body anew: another secret, another body or an old time was used."
    ),
    "permission_missing": ProblemCode(
        403, "The API key may not do this", "Create a key with the permission that `detail` names."
    ),
    "not_found": ProblemCode(404, "There is nothing at this address", "Check the path against the API's reference."),
    "event_not_found": ProblemCode(
        404, "There is no such event", "The id is none of this key's tenant and mode, or the event was purged."
    ),
    "job_not_found": ProblemCode(
        404, "There is no such job", "The id is none of this key's tenant and mode, or the job was purged."
    ),
    "method_not_allowed": ProblemCode(
        405, "This address does not take this method", "The header `Allow` says which methods it takes."
    ),
    "body_too_slow": ProblemCode(408, "The body did not arrive in time", "Send the whole body within 30 seconds."),
    "not_cancellable": ProblemCode(
        409,
        "Nothing of it can be cancelled",
        "Everything has ended already, or a worker is sending it at this moment. `detail` says which.",
    ),
    "job_not_failed": ProblemCode(
        409,
        "Only a job that FAILED can be retried",
        "The job is in another status: perhaps somebody else has retried it just now. `detail` says in which.",
    ),
    "job_expired": ProblemCode(
        409,
        "The job has expired",
        "Retry it with `extend`: a duration from now, or an instant, until which it is of use.",
    ),
    "content_gone": ProblemCode(
        409,
        "What the job was to send is not there",
        "Its content was purged, or it failed at routing and still cannot be rendered. `detail` says which.",
    ),
    "changes_gone": ProblemCode(
        410,
        "These changes are purged",
        "You were away for longer than changes are kept. `detail` has the oldest `seq` there is; go on from there.",
    ),
    "body_too_large": ProblemCode(413, "The body is too large", "`detail` says how large it may be."),
    "unsupported_media_type": ProblemCode(
        415, "The body must be JSON", "Send `Content-Type: application/json`, in UTF-8 and not compressed."
    ),
    "validation_failed": ProblemCode(
        422, "The request does not fit", "`errors` has every mistake with a pointer to its place; nothing was kept."
    ),
    "idempotency_key_reused": ProblemCode(
        422,
        "The idempotency key belongs to another event",
        "An event with this key and another body exists. Use a new key for a new event.",
    ),
    "internal_error": ProblemCode(
        500, "Something went wrong on our side", "Report it with the `request_id`. The same idempotency key is safe."
    ),
    "unavailable": ProblemCode(
        503,
        "The service cannot answer just now",
        "Try again after `Retry-After` seconds. With the same idempotency key that is safe even if it was kept.",
    ),
}

FIELD_CODES: dict[str, str] = {
    "not_utf8": "The body is not UTF-8.",
    "byte_order_mark": "The body begins with a byte order mark.",
    "syntax": "The body breaks the grammar of JSON.",
    "too_deep": "Arrays and objects are nested more than 100 deep.",
    "duplicate_key": "An object has the same key twice.",
    "nul_character": "A text or key has the character U+0000 in it.",
    "lone_surrogate": "A text or key has half of a surrogate pair in it, which is no character.",
    "number_out_of_range": "A number is larger than any program could read.",
    "not_a_number": "NaN and Infinity are no JSON.",
    "missing": "The field must be given.",
    "unknown_field": "There is no such field.",
    "type": "The field is of the wrong type.",
    "too_short": "The text is too short.",
    "too_long": "The text is too long.",
    "invalid": "The value cannot be used (in the payload: it breaks the event type's JSON Schema); `detail` says why.",
    "idempotency_key_conflict": "The headers, or the header and the body, carry different idempotency keys.",
    "unknown_event_type": "The tenant has no event type of this name.",
    "recipient_fixed": "Whom events of this type go to is fixed in the tenant's file; the event must not say it.",
    "address": "This is no mail address that can be sent to.",
    "locale": "Nobody knows this locale.",
    "timezone": "Nobody knows this time zone.",
    "instant": "This is no instant of RFC 3339 with an offset.",
    "too_far_ahead": "The instant is more than 365 days ahead.",
    "expires_too_early": "The event or job would expire before it could be sent.",
    "until": "This is neither an instant of RFC 3339 with an offset nor a duration such as 2h.",
    "too_old": "What was at this place is purged.",
    "no_other_address": "The recipient has no other address than the one that the job has.",
}
"""The ``code`` of one mistake in ``errors``, and what it means."""
