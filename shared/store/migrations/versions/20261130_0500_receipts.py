"""Receipts: bounces and complaints, suppressions, preferences.

Columns, tables and indexes only come: the release before runs on it.
"""

from alembic import op
from sqlalchemy import text

revision = "20261130_0500"
down_revision = "20261130_0400"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE suppressions (
  suppression_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope_id int NOT NULL,
  channel text NOT NULL CHECK (channel IN ('email')),
  address text NOT NULL CHECK (address = lower(address) AND length(address) BETWEEN 3 AND 254),
  reason text NOT NULL CHECK (reason IN ('rejected', 'bounced', 'complaint', 'manual')),
  source text NOT NULL CHECK (source IN ('reply', 'receipt', 'api', 'command')),
  code text CHECK (length(code) <= 64),
  detail text CHECK (length(detail) <= 1024),
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT suppressions_address UNIQUE (scope_id, channel, address)
);
-- Listing, the last first.
CREATE INDEX suppressions_listed ON suppressions (scope_id, suppression_id);
CREATE TABLE receipts (
  receipt_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source text NOT NULL CHECK (source IN ('listener', 'file', 'webhook')),
  provider_id text NOT NULL CHECK (length(provider_id) BETWEEN 1 AND 255),
  address text NOT NULL CHECK (length(address) <= 320),
  scope_id int NOT NULL,
  job_id bigint NOT NULL,
  kind text NOT NULL CHECK (kind IN ('bounce', 'complaint')),
  cause text NOT NULL CHECK (cause IN ('permanent-recipient', 'permanent-message', 'transient', 'sender-side',
                                       'complaint')),
  code text CHECK (length(code) <= 64),
  detail text CHECK (length(detail) <= 1024),
  received_at timestamptz NOT NULL DEFAULT now(),
  applied_at timestamptz,
  effect text NOT NULL DEFAULT '' CHECK (effect IN ('', 'bounced', 'suppressed', 'bounced_suppressed', 'none',
                                                    'too_old')),
  CONSTRAINT receipts_once UNIQUE (source, provider_id, address),
  CONSTRAINT receipts_complaint CHECK ((kind = 'complaint') = (cause = 'complaint')),
  CONSTRAINT receipts_applied CHECK ((applied_at IS NULL) = (effect = ''))
);
-- The sweep's: what is parked until its job is settled.
CREATE INDEX receipts_parked ON receipts (receipt_id) WHERE applied_at IS NULL;
-- Reading an event's jobs.
CREATE INDEX receipts_of_job ON receipts (job_id, receipt_id);
CREATE TABLE preferences (
  scope_id int NOT NULL,
  recipient_id text NOT NULL,
  category text NOT NULL,
  channel text NOT NULL,
  wanted boolean NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (scope_id, recipient_id, category, channel)
);
"""


def upgrade() -> None:
    """Create everything."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(text(statement.replace(":", "\\:")))
