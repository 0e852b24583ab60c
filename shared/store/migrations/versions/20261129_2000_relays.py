"""Relays: a tenant's own is a sealed sender secret beside its service account."""

from alembic import op

revision = "20261129_2000"
down_revision = "20261129_1900"
branch_labels = None
depends_on = None

# The table has a row or two a tenant: checking them all again takes no time.
WIDEN = """
ALTER TABLE sender_secrets
  DROP CONSTRAINT sender_secrets_kind_check,
  ADD CONSTRAINT sender_secrets_kind_check CHECK (kind IN ('fcm', 'relay'))
"""


def upgrade() -> None:
    """Let a relay be kept too."""
    op.execute(WIDEN)
