"""Changes on their way in: whoever moves jobs or drops push targets tells of it in the same statement.

What is told in one statement is one row for each scope, status and reason, with the ids of all its events: a settle of
400 reports writes a few rows, not 400, and neither a job's row nor any index of ``outgoing`` has to carry more. Of the
8.8 ms of CPU that such a settle takes in Postgres this is 0.2; a row for each job was 1.1, as it is where each report
is of another scope. Reading final jobs from ``outgoing`` itself would take an index on ``finished_at`` that every job
pays for, and would forget what a job was before it bounced or was retried.

A row comes without its place in the feed: transactions do not commit in the order in which they begin, and a reader
that goes on behind the last number it saw would miss the slow ones. The places are given afterwards, see
``numbering.py``. ``change_id`` orders what happened to one job or target: it is drawn while that row is locked.
"""

from shared.change import ChangeKind, TargetEnd


def tell_jobs(ended: str, channel: str = "channel", kind: ChangeKind = ChangeKind.JOB) -> str:
    """The SQL that tells of jobs, or of events where ``kind`` says so; to stand in a CTE.

    ``ended`` is the SQL behind FROM: rows with ``event_id``, ``scope_id``, ``status`` and ``reason``, none twice.
    ``channel`` is the SQL of their channel.
    """
    return f"""
  INSERT INTO changes (scope_id, kind, channel, status, reason, event_ids, n)
  SELECT scope_id, '{kind}', channel, status, reason, array_agg(event_id), count(*)
  FROM (SELECT event_id, scope_id, {channel} AS channel, status, reason FROM {ended}) e
  GROUP BY scope_id, channel, status, reason"""


def tell_complaints(complaints: str) -> str:
    """The SQL that tells of complaints, rows with ``event_id`` and ``scope_id``; to stand in a CTE."""
    return f"""
  INSERT INTO changes (scope_id, kind, channel, event_ids, n)
  SELECT scope_id, '{ChangeKind.COMPLAINT}', 'email', ARRAY[event_id], 1
  FROM {complaints}"""


# As public_id in targets.py has it. Nothing else is told of the token.
_SHOWN = """json_build_object(
           'id', 'tgt_' || left(encode(sha256(convert_to(kind || ':' || token, 'UTF8')), 'hex'), 32),
           'kind', kind, 'recipient_id', recipient_id, 'platform', platform, 'app', app)"""


def tell_targets(gone: str, why: TargetEnd, event_ids: str = "'{}'::uuid[]") -> str:
    """The SQL that tells of push targets; to stand in a CTE.

    ``gone`` is the SQL behind FROM: rows of ``push_targets`` as they were. ``event_ids`` is the SQL of what rang them.
    """
    return f"""
  INSERT INTO changes (scope_id, kind, channel, reason, event_ids, target, n)
  SELECT scope_id, '{ChangeKind.TARGET}', 'push', '{why}', {event_ids}, {_SHOWN}, 1
  FROM {gone}"""
