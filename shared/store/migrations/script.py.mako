"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand only: what an older release reads stays."""
    ${upgrades if upgrades else "pass"}
