"""Control: stored pauses, the index that finds what has expired, and vacuum that keeps up with the purge.

Columns, tables and indexes only come: the release before runs on it.
"""

from alembic import op
from sqlalchemy import text

revision = "20261130_0400"
down_revision = "20261129_2100"
branch_labels = None
depends_on = None

# Words, not nulls, where a pause names no channel, tenant or name: the unique key is then plain.
TABLES = """
CREATE TABLE pauses (
  pause_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('channel', 'tenant', 'event_type', 'relay', 'sender')),
  channel text NOT NULL DEFAULT '',
  tenant_id int NOT NULL DEFAULT 0,
  name text NOT NULL DEFAULT '',
  reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 1024),
  code text NOT NULL DEFAULT '' CHECK (length(code) <= 64),
  paused_at timestamptz NOT NULL DEFAULT now(),
  paused_until timestamptz,
  failures int NOT NULL DEFAULT 0 CHECK (failures >= 0),
  probing_until timestamptz NOT NULL DEFAULT '-infinity',
  CONSTRAINT pauses_one_of_a_kind UNIQUE (kind, channel, tenant_id, name),
  CONSTRAINT pauses_name_what CHECK (CASE kind
    WHEN 'channel' THEN channel <> '' AND tenant_id = 0 AND name = ''
    WHEN 'tenant' THEN tenant_id > 0 AND name = ''
    WHEN 'event_type' THEN tenant_id > 0 AND name <> ''
    WHEN 'relay' THEN channel <> '' AND tenant_id = 0 AND name <> ''
    WHEN 'sender' THEN channel <> '' AND tenant_id > 0 AND name <> '' END),
  CONSTRAINT pauses_of_ours_end CHECK (kind NOT IN ('relay', 'sender') OR paused_until IS NOT NULL)
);
-- The sweep's: what waits behind a pause expires all the same. Not touched by claims, which stay HOT. Every expiry is
-- later than -infinity, but only the sweep says so: with statistics from a time when nothing was PENDING, the planner
-- took this index for claims, and went through all of it.
CREATE INDEX outgoing_expiring ON outgoing (expires_at) WHERE status = 'PENDING' AND expires_at > '-infinity';
-- Whether a round of the job was ever written down: a replay begins all counts anew, and the job is still the same one.
ALTER TABLE outgoing ADD COLUMN tried boolean NOT NULL DEFAULT false;
UPDATE outgoing
SET tried = true
WHERE status IN ('PENDING', 'FAILED')
  AND EXISTS (SELECT FROM attempts a WHERE a.job_id = outgoing.job_id AND a.applied AND a.verdict <> 'lost');
-- Only the purge deletes here. It begins at the old end each time: what is dead there must not pile up.
ALTER TABLE content SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE attempts SET (autovacuum_vacuum_scale_factor = 0.02);
"""


def upgrade() -> None:
    """Create everything."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(text(statement.replace(":", "\\:")))
