"""Changes: what became of jobs, events and push targets, in the order in which products read it.

Tables only come: the release before runs on it, and tells of nothing.
"""

from alembic import op
from sqlalchemy import text

revision = "20261130_0700"
down_revision = "20261130_0600"
branch_labels = None
depends_on = None

# shared/store/changes.py says how this works. No row is read by its transaction's number, but for finding those that
# have no seq yet: a dump may be restored wherever one likes.
TABLES = """
CREATE TABLE changes (
  change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope_id int NOT NULL,
  kind text NOT NULL CHECK (kind IN ('job', 'event', 'complaint', 'target')),
  channel text NOT NULL DEFAULT '',
  status text NOT NULL DEFAULT '',
  reason text NOT NULL DEFAULT '',
  event_ids uuid[] NOT NULL DEFAULT '{}',
  target json,
  n int NOT NULL CHECK (n > 0),
  at timestamptz NOT NULL DEFAULT now(),
  written_by bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
  last_seq bigint,
  CONSTRAINT changes_targets CHECK ((kind = 'target') = (target IS NOT NULL)),
  CONSTRAINT changes_one_target CHECK (kind <> 'target' OR n = 1),
  CONSTRAINT changes_statuses CHECK ((kind IN ('job', 'event')) = (status <> ''))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Ids do not shrink; out of line they are not copied when their row gets its number.
ALTER TABLE changes ALTER COLUMN event_ids SET STORAGE EXTERNAL;
-- The sweep's: what has no number yet.
CREATE INDEX changes_unnumbered ON changes (written_by) WHERE last_seq IS NULL;
-- Reading on, and purging from the oldest.
CREATE UNIQUE INDEX changes_read ON changes (scope_id, last_seq) WHERE last_seq IS NOT NULL;
CREATE TABLE change_heads (
  scope_id int PRIMARY KEY,
  last_seq bigint NOT NULL,
  gone_seq bigint NOT NULL DEFAULT 0,
  CONSTRAINT change_heads_order CHECK (gone_seq BETWEEN 0 AND last_seq)
);
"""


def upgrade() -> None:
    """Create everything."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(text(statement.replace(":", "\\:")))


def downgrade() -> None:
    """Drop everything: products that read the feed have to begin anew afterwards."""
    op.execute("DROP TABLE changes, change_heads")
