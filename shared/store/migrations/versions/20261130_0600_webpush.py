"""Web Push: the keys of a browser's subscription, and the VAPID key pair of a tenant among its sealed secrets."""

from alembic import op

revision = "20261130_0600"
down_revision = "20261130_0500"
branch_labels = None
depends_on = None

# Columns only come, empty for phones: the release before runs on it. It registers no browsers, so every row passes.
KEYS = """
ALTER TABLE push_targets
  ADD COLUMN p256dh text,
  ADD COLUMN auth text,
  ADD CONSTRAINT push_targets_keys CHECK (CASE kind
    WHEN 'webpush' THEN p256dh IS NOT NULL AND auth IS NOT NULL
    ELSE p256dh IS NULL AND auth IS NULL END)
"""

# The table has a row or two a tenant: checking them all again takes no time.
WIDEN = """
ALTER TABLE sender_secrets
  DROP CONSTRAINT sender_secrets_kind_check,
  ADD CONSTRAINT sender_secrets_kind_check CHECK (kind IN ('fcm', 'relay', 'vapid'))
"""


def upgrade() -> None:
    """Let browsers be registered, and a VAPID key be kept."""
    op.execute(KEYS)
    op.execute(WIDEN)
