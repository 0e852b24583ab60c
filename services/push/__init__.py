"""The push channel: notifications on the recipients' phones and browsers."""
