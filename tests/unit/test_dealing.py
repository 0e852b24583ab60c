"""How free slots are dealt: never too many, never all to one, in turn, and to every lane."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.delivery.dealing import LANE_PARTS, OWED_EVERY, Dealer
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import LaneKey

A, B, C = ScopeId(1), ScopeId(2), ScopeId(3)
FRESH = Lane.TRANSACTIONAL

keys = st.sets(st.tuples(st.integers(1, 12).map(ScopeId), st.sampled_from(Lane)), max_size=30)
busy_scopes = st.dictionaries(st.integers(1, 12).map(ScopeId), st.integers(1, 30), max_size=8)
limits = st.dictionaries(st.integers(1, 12).map(ScopeId), st.integers(0, 5), max_size=8)


def dealer(slots: int, waiting: set[LaneKey]) -> Dealer:
    made = Dealer(slots)
    for key in sorted(waiting):
        made.add(key)
    return made


def by_scope(quotas: dict[LaneKey, int]) -> Counter[ScopeId]:
    counts: Counter[ScopeId] = Counter()
    for (scope_id, _), quota in quotas.items():
        counts[scope_id] += quota
    return counts


@settings(deadline=None)
@given(keys, busy_scopes, limits, st.integers(1, 120), st.integers(0, 120))
def test_no_deal_breaks_a_rule(
    waiting: set[LaneKey], busy: dict[ScopeId, int], limit: dict[ScopeId, int], slots: int, spare: int
) -> None:
    free = min(spare, slots)
    quotas = dealer(slots, waiting).deal(free, busy, lambda scope_id: limit.get(scope_id, 1_000))
    counts = by_scope(quotas)
    allowed = {scope_id for scope_id, _ in waiting if limit.get(scope_id, 1) > 0}
    assert set(quotas) <= waiting
    assert all(quota > 0 for quota in quotas.values())
    assert sum(counts.values()) <= free
    for scope_id, count in counts.items():
        assert count <= limit.get(scope_id, 1_000), "a paused scope gets nothing, a probed one what it may"
        if len(allowed) > 1:
            assert count + busy.get(scope_id, 0) <= max(1, slots // 2)
    beyond_first = sum(count - (scope_id not in busy) for scope_id, count in counts.items())
    firsts = sum(scope_id not in busy for scope_id in counts)
    kept = max(1, slots // 10)
    assert beyond_first <= max(0, free - kept), "the kept slots are for first jobs only"
    idle = {scope_id for scope_id in allowed if scope_id not in busy}
    assert firsts == len(idle) or sum(counts.values()) == free, "a scope that holds none goes without only at the end"


@settings(deadline=None)
@given(keys, st.integers(1, 120))
def test_every_slot_but_the_kept_ones_is_dealt_while_scopes_have_room(waiting: set[LaneKey], slots: int) -> None:
    scopes = {scope_id for scope_id, _ in waiting}
    dealt = sum(dealer(slots, waiting).deal(slots).values())
    room = max(1, slots // 2) * len(scopes) if len(scopes) > 1 else slots * len(scopes)
    assert dealt >= min(slots - max(1, slots // 10), room)


ALWAYS_LAST = {
    *((A, lane) for lane in Lane),
    *((B, lane) for lane in Lane if lane is not Lane.BULK),
    *((ScopeId(number), FRESH) for number in (3, 4, 5, 6, 7)),
    (ScopeId(4), Lane.BULK),
}
"""By its parts alone one of these lanes always comes after its scope got its one slot in another."""


@settings(deadline=None)
@given(keys.filter(bool), st.integers(1, 3), st.booleans())
@example(waiting=ALWAYS_LAST, free=2, is_saturated=False)
def test_no_lane_starves_however_few_slots_come_free(waiting: set[LaneKey], free: int, is_saturated: bool) -> None:
    deals = dealer(40, waiting)
    # With something in flight everywhere no slot is a newcomer's; otherwise all of these are.
    busy = {scope_id: 1 for scope_id, _ in waiting} if is_saturated else {}
    got: Counter[LaneKey] = Counter()
    for _ in range(2 * OWED_EVERY * len(Lane) * len(waiting)):
        got.update(deals.deal(free + 4 * is_saturated, busy))
    assert set(got) == waiting


def test_scopes_get_equal_parts_and_the_odd_slot_goes_round() -> None:
    deals = dealer(1_000, {(A, FRESH), (B, FRESH), (C, FRESH)})
    got: Counter[ScopeId] = Counter()
    for _ in range(3):
        counts = by_scope(deals.deal(104))
        assert max(counts.values()) - min(counts.values()) <= 1
        got += counts
    assert max(got.values()) - min(got.values()) <= 1


def test_lower_lanes_go_first_and_each_has_its_part() -> None:
    waiting: set[LaneKey] = {(ScopeId(10 + lane), lane) for lane in Lane}
    quotas = dealer(1_000, waiting).deal(200)
    assert {lane: quotas[ScopeId(10 + lane), lane] for lane in Lane} == {
        lane: pytest.approx(100 * part / sum(LANE_PARTS.values()), abs=2) for lane, part in LANE_PARTS.items()
    }
    first = dealer(1_000, waiting)
    assert set(first.deal(1)) == {(ScopeId(10), FRESH)}


def test_lanes_have_their_parts_when_slots_come_free_one_by_one() -> None:
    deals = dealer(40, {(ScopeId(10 + lane), lane) for lane in Lane})
    got: Counter[Lane] = Counter()
    for _ in range(1_400):
        ((_, lane),) = deals.deal(5, {ScopeId(10 + lane): 1 for lane in Lane})
        got[lane] += 1
    by_turn = got.total() / OWED_EVERY / len(Lane)
    by_part = (got.total() - got.total() / OWED_EVERY) / sum(LANE_PARTS.values())
    assert got == {lane: pytest.approx(by_turn + part * by_part, abs=3) for lane, part in LANE_PARTS.items()}


def test_a_flood_leaves_room_for_whoever_comes_next() -> None:
    deals = dealer(100, {(A, FRESH)})
    assert by_scope(deals.deal(100)) == {A: 90}
    assert deals.deal(10, {A: 90}) == {}
    deals.add((B, Lane.BULK))
    assert by_scope(deals.deal(10, {A: 90})) == {B: 1}, "the first of the kept slots"
    assert by_scope(deals.deal(12, {A: 87, B: 1})) == {B: 2}, "A holds more than half while B waits"


def test_a_scope_that_is_paused_neither_gets_slots_nor_takes_any_from_others() -> None:
    deals = dealer(100, {(A, FRESH), (B, FRESH)})
    assert by_scope(deals.deal(100, most_of=lambda scope_id: 0 if scope_id == B else 1_000)) == {A: 90}
    assert deals.deal(100, most_of=lambda _: 0) == {}
    assert deals, "it is remembered"
    assert by_scope(deals.deal(100, most_of=lambda scope_id: 1 if scope_id == B else 1_000)) == {A: 50, B: 1}


def test_the_one_job_that_may_probe_a_circuit_is_dealt_though_it_is_offered_once() -> None:
    offers = {A: [1], B: [1]}

    def most_of(scope_id: ScopeId) -> int:
        return offers[scope_id].pop() if offers[scope_id] else 0

    deals = dealer(100, {(A, FRESH), (A, Lane.TRANSACTIONAL_RETRY), (B, FRESH)})
    assert by_scope(deals.deal(100, most_of=most_of)) == {A: 1, B: 1}


def test_one_slot_serves_everybody_in_turn() -> None:
    deals = dealer(1, {(A, FRESH), (B, FRESH)})
    assert [by_scope(deals.deal(1)) for _ in range(3)] == [{A: 1}, {B: 1}, {A: 1}]


def test_a_lane_that_is_removed_gets_nothing() -> None:
    deals = dealer(10, {(A, FRESH)})
    deals.remove((A, FRESH))
    assert not deals
    assert deals.deal(10) == {}
