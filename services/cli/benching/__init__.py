"""The two experiments of `waybill bench`: what is measured, how, and how it is shown."""
