"""The `waybill` command: the only place that may import a service."""
