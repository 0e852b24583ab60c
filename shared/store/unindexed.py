"""Comparing a status where rows are found by their keys.

The indexes of open rows are partial: they hold what is PENDING, or QUEUED. With statistics from a time when nothing
was, such an index seems to be empty, and where a statement names the same status the planner rather goes through all
of it, a whole backlog, than look up a few keys.
"""


def unindexed(column: str, status: str) -> str:
    """The SQL of ``column = status`` that is no reason to use an index."""
    return f"{column} || '' = '{status}'"
