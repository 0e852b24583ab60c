"""The look of the unsubscribe page: one question or one answer, no script, at home on a telephone and in the dark."""

import html
from dataclasses import dataclass

_STYLE = """
:root { color-scheme: light dark; --page: #f1f3f5; --card: #fff; --text: #1f2933; --quiet: #52606d; --line: #9aa5b1;
  --strong: #1d4ed8; --focus: #1d4ed8; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181c; --card: #1f242a; --text: #e4e7eb; --quiet: #cbd2d9; --line: #7b8794; --strong: #2f5fe0;
    --focus: #8ab4ff; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 12vh 16px 32px; background: var(--page); color: var(--text); overflow-wrap: anywhere;
  font: 1rem/1.5 -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 30rem; margin: 0 auto; }
.sender { margin: 0 0 12px; padding: 0 32px; color: var(--quiet); font-size: .9375rem; font-weight: 600; }
.card { padding: 32px; border-radius: 8px; background: var(--card); }
h1 { margin: 0 0 12px; font-size: 1.375rem; line-height: 1.3; text-wrap: balance; }
p { margin: 0; }
form { margin: 24px 0 0; }
button { min-height: 48px; padding: 12px 24px; border: 2px solid var(--strong); border-radius: 6px; font: inherit;
  font-weight: 600; background: var(--strong); color: #fff; cursor: pointer; }
button.quiet { border-color: var(--line); background: none; color: var(--text); }
button:hover { filter: brightness(1.1); }
button:focus-visible { outline: 3px solid var(--focus); outline-offset: 3px; }
@media (max-width: 480px) {
  body { padding-top: 24px; }
  .sender { padding: 0 24px; }
  .card { padding: 24px; }
  button { width: 100%; }
}
""".strip()


@dataclass(frozen=True, slots=True)
class Button:
    """What stands on the page's one button, and the ``name=value`` that it posts to the page's own address."""

    label: str
    posts: str
    quiet: bool = False
    """It takes back what was done, and is not what people come for."""


@dataclass(frozen=True, slots=True)
class View:
    """What one page says; ``sender`` '' where nobody knows whose mail it is about."""

    language: str
    title: str
    text: str
    sender: str = ""
    button: Button | None = None


def show_page(view: View) -> str:
    """The page as HTML."""
    title, sender = html.escape(view.title), html.escape(view.sender)
    of_sender, above = (f" – {sender}", f'<p class="sender" dir="auto">{sender}</p>\n') if sender else ("", "")
    return (
        f'<!doctype html>\n<html lang="{html.escape(view.language)}">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}{of_sender}</title>\n<style>\n{_STYLE}\n</style>\n<main>\n{above}"
        f'<div class="card">\n<h1>{title}</h1>\n<p>{html.escape(view.text)}</p>\n{_form(view.button)}</div>\n'
        "</main>\n</html>\n"
    )


def _form(button: Button | None) -> str:
    if button is None:
        return ""
    name, _, value = button.posts.partition("=")
    look = ' class="quiet"' if button.quiet else ""
    return (
        f'<form method="post">\n<button{look} name="{html.escape(name)}" value="{html.escape(value)}">'
        f"{html.escape(button.label)}</button>\n</form>\n"
    )
