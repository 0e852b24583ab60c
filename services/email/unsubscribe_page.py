"""The look of the unsubscribe page: one question or one answer, no script, readable on a telephone."""

import html

_STYLE = """
:root { color-scheme: light dark; font: 1.0625rem/1.5 system-ui, sans-serif; }
body { max-width: 32rem; margin: 15vh auto; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; }
button { font: inherit; padding: .75rem 1.5rem; border: 0; border-radius: .5rem; background: #1d4ed8; color: #fff; }
button:focus-visible { outline: 3px solid #93c5fd; outline-offset: 2px; }
""".strip()


def show_page(title: str, text: str, button: tuple[str, str] | None = None) -> str:
    """The page; ``button`` is what stands on it, and the ``name=value`` that it posts to the page's own address."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n"
        f"<main>\n<h1>{html.escape(title)}</h1>\n<p>{html.escape(text)}</p>\n{_form(button)}</main>\n</html>\n"
    )


def _form(button: tuple[str, str] | None) -> str:
    if button is None:
        return ""
    label, (name, _, value) = button[0], button[1].partition("=")
    return (
        '<form method="post">\n'
        f'<button name="{html.escape(name)}" value="{html.escape(value)}">{html.escape(label)}</button>\n</form>\n'
    )
