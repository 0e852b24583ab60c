"""A gate that lets everything through and keeps what it hears, for a provider on its own."""

from shared.delivery.provider import Held, OpenGate
from shared.delivery.witnesses import Recipient
from shared.ids import TenantId
from shared.verdict import Verdict


class ListeningGate(OpenGate):
    """Keeps which circuits it was asked about, and which verdicts it was told of which of them."""

    def __init__(self) -> None:
        self.asked_about: list[str] = []
        self.told_of: list[tuple[str, Verdict]] = []

    def held(self, circuit: str, _tenant_id: TenantId, _recipient: Recipient | None = None) -> Held | None:
        """Nothing is held."""
        self.asked_about.append(circuit)
        return None

    async def told(
        self,
        circuit: str,
        _tenant_id: TenantId,
        verdict: Verdict,
        _unanswered: int,
        _recipient: Recipient | None = None,
    ) -> Verdict:
        """``verdict``."""
        self.told_of.append((circuit, verdict))
        return verdict
