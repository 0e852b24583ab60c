"""Problems as HTTP clients see them: RFC 9457, with a stable code and every mistake at once."""

import msgspec

from shared.errors import FieldError, Problem, StoreUnavailable
from shared.web.codes import PROBLEM_CODES

PROBLEM_PAGE = "/problems"
"""Where every HTTP service of ours explains the codes; ``type`` points there."""
PROBLEM_MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2
MOST_ERRORS = 50
"""An answer lists no more mistakes than this: a hostile body must not make a large one."""


class ProblemOut(msgspec.Struct):
    """What went wrong, after RFC 9457: a stable ``code``, and every mistake found in the request."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: list[FieldError]


def problem(
    code: str, detail: str, errors: list[FieldError] | None = None, headers: dict[str, str] | None = None
) -> Problem:
    """The problem called ``code``, with the status the table gives it; to be raised."""
    return Problem(PROBLEM_CODES[code].status, code, detail, errors, headers)


def unauthorized(code: str, detail: str) -> Problem:
    """A 401 with the challenge that RFC 6750 asks for."""
    error = "" if code.endswith("_missing") else ', error="invalid_token"'
    return problem(code, detail, headers={"WWW-Authenticate": f'Bearer realm="waybill"{error}'})


def validation_failed(errors: list[FieldError]) -> Problem:
    """A 422 with all ``errors``."""
    return problem("validation_failed", _sum_up(errors), errors)


def malformed_json(errors: list[FieldError]) -> Problem:
    """A 400 with all ``errors``."""
    return problem("malformed_json", _sum_up(errors), errors)


def unavailable(_cause: StoreUnavailable) -> Problem:
    """A 503 that says when to come back."""
    return problem(
        "unavailable",
        "The database does not answer. Nothing is known to be lost: send the same request again.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def encode_problem(problem: Problem, request_id: str) -> bytes:
    """``problem`` as the body of an answer."""
    told = ProblemOut(
        type=f"{PROBLEM_PAGE}#{problem.code}",
        title=PROBLEM_CODES[problem.code].title,
        status=problem.status,
        code=problem.code,
        detail=problem.detail,
        request_id=request_id,
        errors=problem.errors[:MOST_ERRORS],
    )
    return msgspec.json.encode(told)


def _sum_up(errors: list[FieldError]) -> str:
    first = errors[0]
    where = f"{first.pointer}: " if first.pointer else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}{first.detail}{more}"
