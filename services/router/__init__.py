"""From an announced event to its jobs, in one transaction a message."""
