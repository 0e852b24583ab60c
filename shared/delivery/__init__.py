"""The engine: claim, attempt, verdict, settle; one loop for every channel."""
