"""Push: where a recipient can be rung, the tenants' sealed sender secrets, and the channel's partition of jobs."""

from alembic import op
from sqlalchemy import text

revision = "20261129_1900"
down_revision = "20261129_1700"
branch_labels = None
depends_on = None

# The token is unique by its hash: a Web Push endpoint may be longer than an index entry.
TARGETS = """
CREATE TABLE push_targets (
  target_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope_id int NOT NULL,
  recipient_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('fcm', 'webpush')),
  token text NOT NULL,
  token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
  platform text CHECK (platform IN ('android', 'ios', 'web')),
  app text,
  registered_at timestamptz NOT NULL,
  last_used_at timestamptz,
  CONSTRAINT push_targets_token UNIQUE (scope_id, kind, token_hash)
);
-- Ringing and listing a recipient's targets.
CREATE INDEX push_targets_recipient ON push_targets (scope_id, recipient_id, target_id);
"""

SECRETS = """
CREATE TABLE sender_secrets (
  tenant_id int NOT NULL REFERENCES tenants,
  kind text NOT NULL CHECK (kind IN ('fcm')),
  sealed bytea NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, kind)
);
"""

# As for the other channels, see the first schema.
PARTITION = """
CREATE TABLE outgoing_push PARTITION OF outgoing FOR VALUES IN ('push') WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  vacuum_truncate = off
);
"""


def upgrade() -> None:
    """Create everything."""
    for script in (TARGETS, SECRETS, PARTITION):
        for statement in script.split(";\n"):
            if statement.strip():
                op.execute(text(statement.replace(":", "\\:")))
