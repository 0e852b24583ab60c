"""The processes of Waybill, each scaled on its own."""
