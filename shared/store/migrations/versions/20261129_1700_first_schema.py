"""The first schema: tenants, events, jobs with content and attempts, the inbox, the ledger.

Hot tables (events and below) have no foreign keys: a key to ``scopes`` would take a share lock on one and
the same row at every insert. The words of statuses and reasons are CHECKed, so that impossible rows are
impossible; ``shared/job.py`` and ``shared/event.py`` say what each word means.
"""

from alembic import op
from sqlalchemy import text

revision = "20261129_1700"
down_revision = None
branch_labels = None
depends_on = None

TENANTS = """
CREATE TABLE tenants (
  tenant_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL UNIQUE,
  name text NOT NULL,
  file_version int NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE scopes (
  scope_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id int NOT NULL REFERENCES tenants,
  mode text NOT NULL CHECK (mode IN ('live', 'test')),
  subscriber_secret bytea NOT NULL,
  UNIQUE (tenant_id, mode)
);
CREATE TABLE api_keys (
  key_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope_id int NOT NULL REFERENCES scopes,
  key_hash bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
  hint text NOT NULL,
  permissions text[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
CREATE TABLE tenant_files (
  tenant_id int NOT NULL REFERENCES tenants,
  version int NOT NULL CHECK (version > 0),
  source text NOT NULL,
  model json NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, version)
);
"""

EVENTS = """
CREATE TABLE events (
  event_id uuid PRIMARY KEY,
  scope_id int NOT NULL,
  idempotency_key text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
  body_hash bytea NOT NULL CHECK (length(body_hash) = 32),
  event_type text NOT NULL,
  ref text,
  recipient json NOT NULL,
  payload json NOT NULL,
  status text NOT NULL CHECK (status IN ('SCHEDULED', 'QUEUED', 'ROUTED', 'FAILED', 'CANCELLED')),
  reason text NOT NULL DEFAULT '',
  file_version int NOT NULL,
  received_at timestamptz NOT NULL,
  send_at timestamptz,
  expires_at timestamptz NOT NULL,
  routed_at timestamptz,
  announced_at timestamptz NOT NULL,
  announce_count smallint NOT NULL DEFAULT 0 CHECK (announce_count >= 0),
  route_tries smallint NOT NULL DEFAULT 0 CHECK (route_tries >= 0),
  request_id text NOT NULL DEFAULT '',
  CONSTRAINT events_idempotency UNIQUE (scope_id, idempotency_key),
  CHECK ((status = 'ROUTED') = (routed_at IS NOT NULL)),
  CHECK ((status = 'FAILED') = (reason <> '')),
  CHECK (status <> 'SCHEDULED' OR send_at IS NOT NULL)
);
-- The republisher's: events nobody has routed yet, oldest announcement first.
CREATE INDEX events_queued ON events (announced_at) WHERE status = 'QUEUED';
-- The promotion's: scheduled events that have come due.
CREATE INDEX events_scheduled ON events (send_at) WHERE status = 'SCHEDULED';
-- Cancelling and listing by the product's own reference.
CREATE INDEX events_ref ON events (scope_id, ref, event_id) WHERE ref IS NOT NULL;
"""

OUTGOING = """
CREATE SEQUENCE job_ids AS bigint;
CREATE TABLE outgoing (
  job_id bigint NOT NULL DEFAULT nextval('job_ids'),
  event_id uuid NOT NULL,
  scope_id int NOT NULL,
  channel text NOT NULL,
  status text NOT NULL DEFAULT 'PENDING',
  reason text NOT NULL DEFAULT '',
  lane smallint NOT NULL DEFAULT 0 CHECK (lane BETWEEN 0 AND 3),
  attempts smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL CHECK (max_attempts BETWEEN 1 AND 100),
  unanswered smallint NOT NULL DEFAULT 0 CHECK (unanswered >= 0),
  unknowns smallint NOT NULL DEFAULT 0 CHECK (unknowns >= 0),
  lost smallint NOT NULL DEFAULT 0 CHECK (lost >= 0),
  claim_seq int NOT NULL DEFAULT 0,
  reported_seq int NOT NULL DEFAULT 0,
  claimed_until timestamptz NOT NULL DEFAULT '-infinity',
  claimed_by text,
  due_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  PRIMARY KEY (channel, job_id),
  CONSTRAINT outgoing_one_per_channel UNIQUE (event_id, channel),
  CONSTRAINT outgoing_attempts CHECK (attempts BETWEEN 0 AND max_attempts),
  CONSTRAINT outgoing_finished CHECK ((status = 'PENDING') = (finished_at IS NULL)),
  CONSTRAINT outgoing_reported CHECK (reported_seq BETWEEN 0 AND claim_seq),
  CONSTRAINT outgoing_reason CHECK (CASE status
    WHEN 'PENDING' THEN reason = ''
    WHEN 'SENT' THEN reason IN ('', 'inbox_only', 'partial')
    WHEN 'SKIPPED' THEN reason IN ('preference', 'suppressed', 'shadow', 'not_allowed_here', 'no_target')
    WHEN 'FAILED' THEN reason IN ('rejected', 'payload_too_large', 'no_address', 'targets_dead', 'template_error',
                                  'exhausted', 'expired', 'unknown_outcome', 'worker_lost', 'bounced')
    WHEN 'CANCELLED' THEN reason = ''
    ELSE false END)
) PARTITION BY LIST (channel);
ALTER SEQUENCE job_ids OWNED BY outgoing.job_id;
-- The claim's and the discovery's. claimed_until is in no index: a claim stays a HOT update.
CREATE INDEX outgoing_claim ON outgoing (scope_id, lane, due_at, job_id) WHERE status = 'PENDING';

CREATE TABLE content (
  job_id bigint PRIMARY KEY,
  event_type text NOT NULL,
  recipient_id text NOT NULL,
  file_version int NOT NULL,
  terms json NOT NULL,
  body json NOT NULL
);

CREATE TABLE attempts (
  job_id bigint NOT NULL,
  claim_seq int NOT NULL,
  target_id bigint NOT NULL DEFAULT 0,
  number smallint NOT NULL DEFAULT 0,
  provider text NOT NULL DEFAULT '',
  verdict text NOT NULL
    CHECK (verdict IN ('delivered', 'rejected', 'deferred', 'no_verdict', 'sender_blocked', 'lost')),
  reason text NOT NULL DEFAULT '',
  code text,
  error text CHECK (length(error) <= 1024),
  provider_id text,
  started_at timestamptz NOT NULL,
  took_ms int NOT NULL DEFAULT 0 CHECK (took_ms >= 0),
  applied boolean NOT NULL,
  late boolean NOT NULL DEFAULT false,
  possible_duplicate boolean NOT NULL DEFAULT false,
  PRIMARY KEY (job_id, claim_seq, target_id)
);
"""

INBOX = """
CREATE TABLE inbox (
  scope_id int NOT NULL,
  recipient_id text NOT NULL,
  seq bigint NOT NULL CHECK (seq > 0),
  event_id uuid NOT NULL,
  job_id bigint NOT NULL,
  event_type text NOT NULL,
  content json NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  read_at timestamptz,
  PRIMARY KEY (scope_id, recipient_id, seq),
  CONSTRAINT inbox_once UNIQUE (event_id)
);
CREATE TABLE inbox_heads (
  scope_id int NOT NULL,
  recipient_id text NOT NULL,
  last_seq bigint NOT NULL,
  unread_count bigint NOT NULL,
  PRIMARY KEY (scope_id, recipient_id),
  CHECK (unread_count BETWEEN 0 AND last_seq)
) WITH (fillfactor = 50);
"""

LEDGER = """
CREATE TABLE ledger (
  scope_id int NOT NULL,
  day date NOT NULL,
  channel text NOT NULL,
  status text NOT NULL,
  reason text NOT NULL DEFAULT '',
  n bigint NOT NULL,
  PRIMARY KEY (scope_id, day, channel, status, reason)
) WITH (fillfactor = 50);
"""

# A claim and a settle both update the row: half a page free keeps the claim's update on its page (HOT).
# Truncation takes an exclusive lock on a table that is always busy.
PARTITION = """
CREATE TABLE outgoing_{channel} PARTITION OF outgoing FOR VALUES IN ('{channel}') WITH (
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
    for script in (TENANTS, EVENTS, OUTGOING, INBOX, LEDGER):
        _run(script)
    for channel in ("inapp", "email"):
        _run(PARTITION.format(channel=channel))


def _run(script: str) -> None:
    # asyncpg prepares what it runs, so each statement goes alone; the scripts have no ';' inside a statement.
    for statement in script.split(";\n"):
        if statement.strip():
            op.execute(text(statement.replace(":", "\\:")))
