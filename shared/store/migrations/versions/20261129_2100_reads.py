"""Reads: lists on indexes of their own, why a channel was refused, and the whole ledger.

Columns only come, indexes only come (but one, which a better one replaces): the release before runs on it.
"""

from alembic import op
from sqlalchemy import text

revision = "20261129_2100"
down_revision = "20261129_2000"
branch_labels = None
depends_on = None

DETAILS = """
ALTER TABLE events ADD COLUMN detail text CHECK (length(detail) <= 1024);
ALTER TABLE outgoing
  ADD COLUMN detail text CHECK (length(detail) <= 1024),
  ADD COLUMN accepted_at timestamptz;
"""

LEDGER = """
ALTER TABLE ledger
  ADD COLUMN attempts bigint NOT NULL DEFAULT 0,
  ADD COLUMN rounds bigint NOT NULL DEFAULT 0,
  ADD COLUMN tried bigint NOT NULL DEFAULT 0,
  ADD COLUMN sent bigint NOT NULL DEFAULT 0;
"""

# Lists are read newest first; each index ends in what makes its order total, so that a page can begin anywhere.
LISTS = """
CREATE INDEX events_received ON events (scope_id, received_at, event_id);
CREATE INDEX events_of_type ON events (scope_id, event_type, received_at, event_id);
CREATE INDEX events_of_recipient ON events (scope_id, (recipient ->> 'id'), received_at, event_id);
CREATE INDEX events_of_ref ON events (scope_id, ref, received_at, event_id) WHERE ref IS NOT NULL;
DROP INDEX events_ref;
CREATE INDEX events_unrouted ON events (scope_id, status, received_at, event_id) WHERE status <> 'ROUTED';
CREATE INDEX outgoing_listed ON outgoing (scope_id, status, reason, job_id);
CREATE INDEX outgoing_failed ON outgoing (scope_id, finished_at, job_id) WHERE status = 'FAILED';
"""


def upgrade() -> None:
    """Create everything."""
    for script in (DETAILS, LEDGER, LISTS):
        for statement in script.split(";\n"):
            if statement.strip():
                op.execute(text(statement.replace(":", "\\:")))
