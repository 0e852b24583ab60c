"""`waybill db`: the schema in Postgres."""

import asyncio

from services.cli.beside import read_settings
from services.cli.exits import CommandFailed, Exit, complain, show
from shared.settings import Settings, listed


class DatabaseSettings(Settings):
    """Where Postgres is: all that a schema command needs."""

    database_url: str = listed("DATABASE_URL")


def migrate(as_json: bool) -> None:
    """Bring the database to this release's schema and say which that is."""
    revision = asyncio.run(bring_to_head(_database_url()))
    show({"revision": revision}, as_json, f"The schema is at {revision}.")


async def bring_to_head(url: str) -> str:
    """Migrate the database at ``url``; the revision it is at then. CommandFailed when its schema is not ours."""
    from alembic.util.exc import CommandError

    from shared.store.migrate import upgrade, wanted_revision

    try:
        await upgrade(url)
    except CommandError as exc:
        raise CommandFailed(
            f"the database cannot be migrated by this release ({exc}): if its schema is newer, use the release that"
            " made it"
        ) from exc
    return wanted_revision()


def check(as_json: bool) -> None:
    """Say whether the schema is this release's; exit code 1 when it is not."""
    from shared.store.migrate import check as differences

    found = asyncio.run(differences(_database_url()))
    if as_json:
        show({"ok": not found, "differences": found}, True)
    elif not found:
        show(None, False, "The schema is this release's.")
    else:
        complain(*found, "run `waybill db migrate`")
    if found:
        raise SystemExit(Exit.FAILED)


def _database_url() -> str:
    return read_settings(DatabaseSettings).database_url
