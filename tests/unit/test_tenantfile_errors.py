"""What the check of a tenant file says: every mistake at once, each with its place."""

from pathlib import Path
from textwrap import dedent

import pytest

from shared.errors import TenantFileError
from shared.tenantfile.check import check_file
from tests.tenantfiles import HEAD, file_saying, file_with_type, mistakes_in, read_file

ROOT = Path(__file__).resolve().parents[2]


def type_mistakes(event_type: str) -> list[str]:
    """The mistakes of an event type, without line and column."""
    return [line.split(" ", 1)[1] for line in mistakes_in(file_with_type(event_type))]


def test_the_shipped_files_are_right() -> None:
    files = [path for path in (ROOT / "examples").glob("*/*.yaml") if path.stem == path.parent.name]
    assert [path.stem for path in sorted(files)] == ["campus", "portfolio", "storefront"]
    for path in files:
        assert mistakes_in(path.read_text("utf-8"), path.parent) == []


def test_every_mistake_is_found_at_once_with_line_column_and_path() -> None:
    text = dedent("""
        waybill: 1
        tenant: acme
        nmae: Acme
        locales: [en, no, xx]
        timezone: Europe/Berln
        categories:
          news: {title: {en: News, no: Nytt}, critical: yes}
        defaults: {expires_after: 24, retry: {attempts: 0, jitter: 0.2}}
        event_types:
          hello:
            category: new
            expires_after: 24 hours
            payload:
              type: object
              required: [course]
              properties:
                course: {type: string, maxLenght: 3}
            message:
              title: {en: "{{ payload.cuorse }}", no: Hei}
            channels:
              inapp: {body: "{{ payload.course | upcas }}"}
              emial: {}
    """)
    assert mistakes_in(text) == [
        "1:1: name is missing",
        "3:1 nmae: unknown key nmae, did you mean name?",
        "4:19 locales[2]: unknown locale xx; write it like de or de-AT",
        "5:1 timezone: unknown time zone Europe/Berln, did you mean Europe/Berlin?",
        "7:39 categories.news.critical: must be true or false, not text",
        "8:12 defaults.expires_after: must be a duration with its unit, like 60s, 30m, 24h or 90d, 24 of what?",
        "8:39 defaults.retry.attempts: must be a whole number from 1 to 50",
        "8:52 defaults.retry.jitter: must be a share from 0% to 90%, like 20%",
        "11:5 event_types.hello.category: must be one of news, did you mean news?",
        "12:5 event_types.hello.expires_after: must be a duration with its unit, like 60s, 30m, 24h or 90d",
        "17:32 event_types.hello.payload.properties.course.maxLenght: unknown keyword maxLenght, "
        "did you mean maxLength?",
        "21:15 event_types.hello.channels.inapp.body: unknown filter upcas, did you mean upcase?",
        "22:7 event_types.hello.channels.emial: unknown key emial, did you mean email?",
    ]


def test_a_misspelt_variable_names_the_right_one_at_its_key() -> None:
    titles = '{en: "{{ payload.course }}", de: "{{ payload.cuorse }}"}'
    text = file_with_type(f"message: {{title: {titles}, body: B}}\nchannels: {{inapp: {{}}}}")
    (mistake,) = mistakes_in(text)
    line = text.splitlines().index(next(line for line in text.splitlines() if "cuorse" in line))
    assert mistake == (
        f"{line}:{text.splitlines()[line].index('de:') + 1} event_types.made.message.title.de: "
        "unknown variable payload.cuorse, did you mean payload.course?"
    )


def test_the_line_of_a_longer_text_is_named() -> None:
    (mistake,) = mistakes_in(file_saying("one\ntwo {{ payload.cuorse }}\nthree"))
    assert "inapp.body: line 2: unknown variable payload.cuorse" in mistake


@pytest.mark.parametrize(
    ("where", "key"),
    [
        *(("top", key) for key in ("quiet_hours", "topics", "throttle", "digest", "sms", "webhooks")),
        ("senders.email", "dkim"),
        *(("type", key) for key in ("when", "conditions", "throttle", "digest", "quiet_hours", "attachments")),
        *(("channels", key) for key in ("sms", "webhook")),
        *(("inapp", key) for key in ("when", "after", "throttle")),
        *(("email", key) for key in ("attachments", "when", "layout")),
    ],
)
def test_keys_of_later_releases_are_refused_as_not_yet(where: str, key: str) -> None:
    holes = dict.fromkeys(("top", "senders", "senders.email", "type", "channels", "inapp", "email"), "")
    holes[where] = f"{key}: {{x: 1}}, "
    text = f"""{{
      waybill: 1, tenant: acme, name: Acme, {holes["top"]}
      senders: {{{holes["senders"]} email: {{{holes["senders.email"]} from: a@b.example}}}},
      event_types: {{made: {{{holes["type"]} message: {{title: T, body: B}}, channels: {{
        {holes["channels"]} inapp: {{{holes["inapp"]}}}, email: {{{holes["email"]}}}
      }}}}}}
    }}"""
    (mistake,) = mistakes_in(text)
    assert f"{key}: not yet: " in mistake


def test_default_channels_are_those_there_are() -> None:
    text = HEAD + "categories: {news: {title: News, default_channels: [inapp, push, sms, emial]}}\nevent_types: {}\n"
    assert [line.split(" ", 1)[1] for line in mistakes_in(text)] == [
        "categories.news.default_channels[2]: not yet: text messages are not built in this release",
        "categories.news.default_channels[3]: unknown channel emial, did you mean email?",
    ]


@pytest.mark.parametrize(
    ("event_type", "what"),
    [
        ("channels: {}", "channels: needs at least one channel"),
        ("title: x", "event_types.made: channels is missing"),
        ("channels: {inapp: {}}", "inapp: title is missing: neither here nor in message"),
        ("channels: {email: {}}", "email: subject is missing, and message has no title"),
        ("channels: {email: {subject: S}}", "email: markdown is missing, and message has no body"),
        ("channels: {email: {subject: S, html: x}}", "email: html needs text beside it"),
        ("channels: {email: {subject: S, html: x, text: x, markdown: x}}", "not both"),
        ("channels: {inapp: {title: {en: T}, body: B}}", "title: has no text for de"),
        ("channels: {inapp: {title: {en: T, dee: T, de: T}, body: B}}", "dee: unknown locale dee, did you mean de?"),
        ("channels: {inapp: {title: 3, body: B}}", "title: must be text, not the number 3; put it in quotes"),
        ("channels: {inapp: {title: '', body: B}}", "title: is empty"),
        ("channels: {inapp: {title: '{% if payload.kind == 3 %}x{% endif %}', body: B}}", "comes out empty"),
        ("channels: {inapp: }", "inapp: must be a mapping, not empty"),
        ("channels: {inapp: {title: T, body: B, data: {x: [1]}}}", "data.x: must be text, not a list"),
        ("message: {link: {}}\nchannels: {inapp: {title: T, body: B}}", "message.link: url is missing"),
        ("message: {link: {url: 'http://x.example'}}\nchannels: {inapp: {title: T, body: B}}", "link.url: must begin"),
        ("message: {link: {url: '{{ payload.course }}'}}\nchannels: {inapp: {title: T, body: B}}", "link.url: it must"),
        ("message: {link: {url: /a, app: 'other://x'}}\nchannels: {inapp: {title: T, body: B}}", "link.app: it must"),
        ("lane: express\nchannels: {inapp: {title: T, body: B}}", "lane: must be one of transactional, bulk"),
        ("category: x\nchannels: {inapp: {title: T, body: B}}", "category: names something this file does not have"),
        ("on_unknown: rsend\nchannels: {inapp: {title: T, body: B}}", "resend, hold, did you mean resend?"),
        (
            "expires_after: 1h\nchannels: {inapp: {title: T, body: B, expires_after: 2h}}",
            "inapp.expires_after: a channel cannot wait longer",
        ),
        ("channels: {inapp: {title: T, body: \"{{ 'x' | money: 'EUR' }}\"}}", "body: fails with the example: body.en"),
    ],
)
def test_an_event_type_that_cannot_work_is_refused(event_type: str, what: str) -> None:
    assert any(what in mistake for mistake in type_mistakes(event_type)), type_mistakes(event_type)


@pytest.mark.parametrize(
    ("written", "is_right"),
    [
        *((f"{number}{unit}", True) for number in (1, 90) for unit in "smhd"),
        *((wrong, False) for wrong in ("24", "24 h", "1h30m", "h", "-1h", "0s", "1.5h", "24H", "P1D", "'24'", "9999d")),
    ],
)
def test_durations_have_a_unit(written: str, is_right: bool) -> None:
    found = mistakes_in(file_with_type(f"expires_after: {written}\nchannels: {{inapp: {{title: T, body: B}}}}"))
    assert (found == []) is is_right


@pytest.mark.parametrize(
    ("head", "what"),
    [
        ("tenant: Acme Inc", "tenant: begins with a small letter"),
        ("website: http://acme.example", "website: must be an address that begins with https://"),
        ("website: https://acme.example/?a=b", "website: must end with its path"),
        ("app_link_schemes: [javascript]", "app_link_schemes[0]: javascript cannot be an app's scheme"),
        ("app_link_schemes: acme", "app_link_schemes: must be a list, not text"),
        ("locales: [en, en]", "locales[1]: en is given twice"),
        ("locales: [no, 3]", "locales[1]: must be text, not the number 3"),
        ("retention: {events: 30d, content: 90d}", "retention: content cannot be kept longer"),
        ("senders: {email: {reply_to: a@b.example}}", "senders.email: from is missing"),
        ("senders: {email: {from: Acme}}", "senders.email.from: the address needs an @"),
        ("senders: {email: {from: a@b.example, reply_to: x}}", "senders.email.reply_to: needs an @"),
        ("waybill: 2", "waybill: must be a whole number from 1 to 1"),
        ("categories: {a b: {title: T}}", "categories.a b: a name begins with a letter"),
        ("event_types: {a b: {}}", "event_types.a b: a name begins with a letter"),
    ],
)
def test_what_stands_around_the_event_types_is_checked(head: str, what: str) -> None:
    key = head.split(":", 1)[0]
    lines = [line for line in f"{HEAD}event_types: {{}}\n".splitlines() if not line.startswith(f"{key}:")]
    assert any(what in mistake for mistake in mistakes_in("\n".join([*lines, head])))


def test_the_norwegian_locale_is_a_locale() -> None:
    tenant = read_file(HEAD.replace("[en, de]", "[no, en]") + "event_types: {}\n")
    assert tenant.locales == ("no", "en")


def test_a_locale_of_a_region_may_speak_its_language() -> None:
    text = HEAD.replace("[en, de]", "[en, de, de-AT]")
    text += "event_types: {a: {channels: {inapp: {title: {en: E, de: D}, body: {en: E, de: D, de-AT: A}}}}}\n"
    rule = read_file(text).event_types["a"].inapp
    assert rule is not None
    assert rule.title == {"en": "E", "de": "D", "de-AT": "D"}
    assert rule.body == {"en": "E", "de": "D", "de-AT": "A"}


def test_texts_in_files_are_read_from_the_files_own_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "tenant"
    (folder / "templates").mkdir(parents=True)
    (folder / "templates" / "good.md").write_text("Hello {{ payload.course }}\n", "utf-8")
    (folder / "templates" / "bad.md").write_text("a\nb {{ payload.cuorse }}\n", "utf-8")
    (folder / "latin.md").write_bytes(b"\xe4\xf6")
    (tmp_path / "secret.md").write_text("secret", "utf-8")
    (folder / "linked.md").symlink_to(tmp_path / "secret.md")

    def mail(name: str) -> str:
        return file_with_type(f"channels: {{email: {{subject: S, markdown: {{file: {name}}}}}}}")

    good = read_file(mail("templates/good.md"), folder).event_types["made"].email
    assert good is not None and good.markdown == dict.fromkeys(("en", "de"), "Hello {{ payload.course }}\n")
    for name, what in [
        ("../secret.md", "lies outside the folder"),
        (str(tmp_path / "secret.md"), "lies outside the folder"),
        ("linked.md", "lies outside the folder"),
        ("missing.md", "cannot be read: No such file"),
        ("templates", "cannot be read: Is a directory"),
        ("latin.md", "is not UTF-8"),
        ("templates/bad.md", "templates/bad.md line 2: unknown variable payload.cuorse, did you mean payload.course?"),
    ]:
        (mistake,) = mistakes_in(mail(name), folder)
        assert "event_types.made.channels.email.markdown: " in mistake
        assert what in mistake


def test_a_file_that_is_not_there_is_a_mistake_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(TenantFileError, match=r"nothing\.yaml: cannot be read: No such file"):
        check_file(tmp_path / "nothing.yaml")
