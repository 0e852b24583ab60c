"""The email service: mail out through a relay."""
