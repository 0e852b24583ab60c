"""The sinks that `waybill up` puts in place of every sender, and the list of what they received."""
