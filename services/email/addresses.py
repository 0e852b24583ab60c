"""The addresses of one mail: checked once more before they become a command and a header."""

from shared.address import address_problem
from shared.errors import WaybillError


class BadAddress(WaybillError):
    """An address that no mail can be made with; ``place`` is ``from``, ``to`` or ``reply_to``."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place} {problem}")
        self.place = place


def check_address(place: str, address: str) -> None:
    """Nothing, for an address that can be used; otherwise raises BadAddress, which does not repeat it."""
    if (problem := address_problem(address)) is not None:
        raise BadAddress(place, problem)
