"""What Alembic runs: the migrations, on the connection shared/store/migrate.py hands over."""

from alembic import context

from shared.store.tables import is_compared, metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("run migrations through `waybill db migrate`")

context.configure(
    connection=connection,
    target_metadata=metadata,
    include_object=is_compared,
    compare_server_default=False,
)
context.run_migrations()
