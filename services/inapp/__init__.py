"""The in-app channel: entries in the recipients' inboxes, and the API to read them."""
