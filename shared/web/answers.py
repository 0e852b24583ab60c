"""Errors as answers: everything that goes wrong in a request becomes one problem, the framework's own included."""

from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from shared.errors import Problem, StoreUnavailable
from shared.logs import get_logger
from shared.web.edge import request_id_of
from shared.web.problems import PROBLEM_MEDIA_TYPE, encode_problem, problem, unavailable

log = get_logger()

_BY_STATUS = {
    400: ("bad_request", "The request could not be understood."),
    401: ("key_missing", "An API key is needed."),
    403: ("permission_missing", "The API key may not do this."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "This address does not take this method."),
    415: ("unsupported_media_type", "Content-Type must be application/json."),
}


def answer_error(request: Request[Any, Any, Any], exc: Exception) -> Response[bytes]:
    """The answer to a ``request`` that ended in ``exc``, logged with its code."""
    found = _problem_of(request, exc)
    if isinstance(exc, StoreUnavailable):
        # The pool tells of the outage, once; here it would be a line for every request of it.
        log.debug("request.failed", code=found.code, error=str(exc))
    elif found.status >= 500:
        log.error("request.failed", code=found.code, exc_info=exc if found.code == "internal_error" else None)
    else:
        # Codes only: a pointer repeats keys of the body.
        log.info("request.refused", code=found.code, mistakes=sorted({error.code for error in found.errors}))
    return Response(
        encode_problem(found, request_id_of(request.scope)),
        status_code=found.status,
        media_type=PROBLEM_MEDIA_TYPE,
        headers=found.headers,
    )


def _problem_of(request: Request[Any, Any, Any], exc: Exception) -> Problem:
    match exc:
        case Problem():
            return exc
        case StoreUnavailable():
            return unavailable(exc)
        case HTTPException(status_code=413):
            limit = request.route_handler.resolve_request_max_body_size()
            return problem("body_too_large", f"The body may have {limit:,} bytes at most.")
        case HTTPException() if exc.status_code < 500:
            code, detail = _BY_STATUS.get(exc.status_code, _BY_STATUS[400])
            return problem(code, detail, headers=exc.headers)
        case _:
            return problem("internal_error", "It was logged under this request's id.")
