"""The page that the ``type`` of every problem points to: each code in words."""

import html

from litestar import Response, get

from shared.web.codes import FIELD_CODES, PROBLEM_CODES
from shared.web.problems import PROBLEM_PAGE


@get(PROBLEM_PAGE, include_in_schema=False, sync_to_thread=False)
def problem_page() -> Response[str]:
    """Every code of an answer and of a mistake in it, each with an anchor of its own."""
    return Response(PAGE, media_type="text/html")


def _describe_problems() -> str:
    rows = [
        f'<dt id="{code}"><code>{code}</code> {known.status}: {html.escape(known.title)}</dt>'
        f"<dd>{html.escape(known.meaning)}</dd>"
        for code, known in PROBLEM_CODES.items()
    ]
    return "\n".join(rows)


def _describe_fields() -> str:
    rows = [
        f'<dt id="{code}"><code>{code}</code></dt><dd>{html.escape(meaning)}</dd>'
        for code, meaning in FIELD_CODES.items()
    ]
    return "\n".join(rows)


PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Waybill: problems</title>
<h1>Problems</h1>
<p>The <code>code</code> of an answer:</p>
<dl>
{_describe_problems()}
</dl>
<p>The <code>code</code> of one mistake in <code>errors</code>:</p>
<dl>
{_describe_fields()}
</dl>
</html>
"""
