"""All SQL of Waybill: one module per table, the migrations, and the embedded Postgres."""
