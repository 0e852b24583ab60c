"""`waybill schema`: the shapes of files, for editors."""

from services.cli.exits import show
from shared.tenantfile.editors import tenant_schema


def print_tenant_schema() -> None:
    """Print the JSON Schema of a tenant file."""
    show(tenant_schema(), True)
