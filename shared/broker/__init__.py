"""The bus between the services: announcements of events, and wakes. Nothing on it is the only copy of anything."""
