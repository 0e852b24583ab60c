"""Tenants as a worker knows them, without a tenant file."""

from shared.ids import ScopeId
from shared.tenant import Mode, ScopedTenant
from tests.factories import scoped_tenant


class OneTenant:
    """Every scope is the same tenant's."""

    def __init__(self, mode: Mode = Mode.LIVE) -> None:
        self._tenant = scoped_tenant(mode=mode)

    def of_scope(self, _scope_id: ScopeId) -> ScopedTenant:
        """The tenant."""
        return self._tenant


class TenantEach:
    """Every scope is the live half of a tenant of its own, whose id is the scope's."""

    def __init__(self) -> None:
        self._tenants: dict[ScopeId, ScopedTenant] = {}

    def of_scope(self, scope_id: ScopeId) -> ScopedTenant:
        """The scope's tenant."""
        return self._tenants.setdefault(scope_id, scoped_tenant(scope_id, tenant_id=scope_id))
