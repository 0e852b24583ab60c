"""One look at the environment names everything that is wrong with it."""

import pytest

from shared.errors import SettingsError
from shared.settings import TABLE, BusSettings, ProcessSettings, StoreSettings, check_environment

GOOD = {
    "WAYBILL_DATABASE_URL": "postgresql://localhost/waybill",
    "WAYBILL_MASTER_KEYS": "A" * 43 + "=",
    "PATH": "/bin",
    "MY_WAYBILL_THING": "x",
}
CLASSES = (ProcessSettings, StoreSettings, BusSettings)


def _mistakes(extra: dict[str, str], provided: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        check_environment({**GOOD, **extra}, CLASSES, provided)
    return raised.value.mistakes


def test_a_good_environment_passes() -> None:
    check_environment(GOOD, CLASSES)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    assert _mistakes({"WAYBILL_DATABSE_POOL": "3"}) == [
        "WAYBILL_DATABSE_POOL is not a setting: did you mean WAYBILL_DATABASE_POOL?"
    ]


def test_an_unknown_name_like_no_other_is_sent_to_the_list() -> None:
    assert _mistakes({"WAYBILL_ZZZ": ""}) == ["WAYBILL_ZZZ is not a setting: `waybill settings` lists all there are"]


def test_a_wrong_value_is_a_mistake_even_if_this_process_does_not_read_it() -> None:
    assert _mistakes({"WAYBILL_EMAIL_SLOTS": "many"}) == ["WAYBILL_EMAIL_SLOTS must be a whole number of at least 1"]


def test_all_mistakes_come_at_once_and_each_only_once() -> None:
    mistakes = _mistakes({"WAYBILL_PROT": "1", "WAYBILL_DATABASE_POOL": "0", "WAYBILL_DATABASE_URL": ""})
    assert mistakes[:2] == [
        "WAYBILL_PROT is not a setting: did you mean WAYBILL_PORT?",
        "WAYBILL_DATABASE_POOL must be a whole number of at least 1",
    ]
    assert mistakes[2].startswith("WAYBILL_DATABASE_URL is required: ")
    assert len(mistakes) == 3


def test_what_the_process_provides_itself_is_not_missed_but_still_checked() -> None:
    check_environment({}, CLASSES, provided=("DATABASE_URL", "MASTER_KEYS"))
    assert _mistakes({"WAYBILL_MASTER_KEYS": "x"}, provided=("MASTER_KEYS",)) == [
        "WAYBILL_MASTER_KEYS must be base64 of 32 bytes, or several, comma-separated (key 1 is not base64)"
    ]


SERVICE_LINKS = {
    "WAYBILL_INGEST_SERVICE_HOST": "10.0.0.7",
    "WAYBILL_INGEST_SERVICE_PORT": "8080",
    "WAYBILL_INGEST_SERVICE_PORT_HTTP": "8080",
    "WAYBILL_INGEST_PORT": "tcp://10.0.0.7:8080",
    "WAYBILL_INGEST_PORT_8080_TCP": "tcp://10.0.0.7:8080",
    "WAYBILL_INGEST_PORT_8080_TCP_ADDR": "10.0.0.7",
    "WAYBILL_SERVICE_HOST": "10.0.0.8",
    "WAYBILL_PORT": "tcp://10.0.0.8:8080",
    "WAYBILL_INBOX_PORT": "tcp://10.0.0.9:8081",
}


@pytest.mark.parametrize("variable", SERVICE_LINKS)
def test_a_kubernetes_service_link_is_named_with_its_mend(variable: str) -> None:
    (mistake,) = _mistakes({variable: SERVICE_LINKS[variable]})
    assert mistake.startswith(f"{variable} was written by Kubernetes")
    assert "enableServiceLinks: false" in mistake


def test_many_service_links_make_one_line() -> None:
    (mistake,) = _mistakes(SERVICE_LINKS)
    assert mistake.startswith(f"WAYBILL_INBOX_PORT and {len(SERVICE_LINKS) - 1} more were written by Kubernetes")


def test_a_number_beyond_its_bounds_is_named_with_them() -> None:
    assert _mistakes({"WAYBILL_EMAIL_SLOTS": "999999999", "WAYBILL_POLL_BUSY": "2d"}) == [
        "WAYBILL_EMAIL_SLOTS must be from 1 to 1000",
        "WAYBILL_POLL_BUSY must be from 10ms to 1m",
    ]


@pytest.mark.parametrize("name", TABLE)
def test_a_value_that_is_not_utf8_is_a_mistake_of_its_variable(name: str) -> None:
    assert f"WAYBILL_{name} must be text in UTF-8" in _mistakes({f"WAYBILL_{name}": "\udcff"})
