"""`waybill schema`: the shapes of files, for editors."""

import json

from shared.tenantfile.editors import tenant_schema


def print_tenant_schema() -> None:
    """Print the JSON Schema of a tenant file."""
    print(json.dumps(tenant_schema(), ensure_ascii=False, indent=2))
