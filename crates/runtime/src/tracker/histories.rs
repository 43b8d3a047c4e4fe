//! Tests of what a whole ledger tells: those who free it, those who inherit it, the host; and where
//! it gives up precision.

use super::{
    AccessKind::{self, Read, Write},
    Clock, *,
};

fn ticket(stream: u64, sequence: u64) -> Ticket {
    Ticket::of(stream, sequence)
}

/// Enters an ordered access, and says what it waits for.
fn enter(
    ledger: &Ledger,
    extent: impl Into<Extent>,
    kind: AccessKind,
    ticket: Ticket,
) -> Vec<Ticket> {
    let mut plan = Plan::default();
    plan_and_publish(
        ticket,
        &Clock::default(),
        &mut [Access::new(ledger, extent, kind)].into(),
        &|_| false,
        &mut plan,
    );
    plan.dependencies.sort();
    plan.dependencies.to_vec()
}

#[test]
fn whoever_frees_it_learns_of_every_use_in_either_layout() {
    let mut ledger = Ledger::new(64);
    assert_eq!(ledger.bytes(), 64);
    assert!(ledger.all_tickets().is_empty());
    enter(&ledger, 0..8, Write, ticket(1, 1));
    enter(&ledger, 8..16, Write, ticket(1, 2));
    enter(&ledger, 0..64, Read, ticket(2, 1));
    let all = [ticket(1, 2), ticket(2, 1)];
    assert_eq!(ledger.all_tickets().as_slice(), all);
    assert_eq!(ledger.last_tickets().as_slice(), all);
    enter(&ledger, Extent::strided(0..2, 4, 8), Write, ticket(3, 1));
    let all = [ticket(1, 2), ticket(2, 1), ticket(3, 1)];
    assert_eq!(ledger.all_tickets().as_slice(), all);
    assert_eq!(ledger.last_tickets().as_slice(), all);
}

#[test]
fn the_host_waits_for_the_conflicts_of_its_bytes() {
    let ledger = Ledger::new(64);
    enter(&ledger, 0..8, Write, ticket(1, 1));
    enter(&ledger, 0..8, Read, ticket(2, 1));
    enter(&ledger, 8..16, Write, ticket(3, 1));
    assert_eq!(
        ledger.host_conflicts(&(4..5), Read).as_slice(),
        [ticket(1, 1)]
    );
    assert_eq!(
        ledger.host_conflicts(&(4..5), Write).as_slice(),
        [ticket(1, 1), ticket(2, 1)]
    );
    assert!(ledger.host_conflicts(&(16..64), Write).is_empty());
}

#[test]
fn whoever_comes_first_waits_for_what_the_history_began_with() {
    let mut ledger = Ledger::new(64);
    ledger.inherit(&[ticket(1, 7), ticket(2, 3)]);
    assert_eq!(
        enter(&ledger, 60..64, Read, ticket(3, 1)),
        [ticket(1, 7), ticket(2, 3)]
    );
    assert_eq!(
        enter(&ledger, 0..64, Write, ticket(4, 1)),
        [ticket(1, 7), ticket(2, 3), ticket(3, 1)]
    );
    assert!(Ledger::awaited(64).lock().note(StreamId::of(1), false));
}

#[test]
fn whoever_has_an_allocation_for_itself_finds_what_others_leave_there() {
    let ledger = Ledger::new(64);
    let alone = |first: u64| {
        for sequence in first..first + 3 {
            assert!(enter(&ledger, 0..64, Write, ticket(1, sequence)).is_empty());
            assert!(enter(&ledger, 0..64, Read, ticket(1, sequence)).is_empty());
        }
    };
    alone(1);
    assert_eq!(enter(&ledger, 0..64, Read, ticket(2, 1)), [ticket(1, 3)]);
    assert_eq!(enter(&ledger, 0..64, Write, ticket(1, 4)), [ticket(2, 1)]);
    alone(5);
    assert_eq!(enter(&ledger, 8..9, Write, ticket(2, 2)), [ticket(1, 7)]);
    assert_eq!(enter(&ledger, 0..64, Write, ticket(1, 8)), [ticket(2, 2)]);
    (9..200).step_by(3).for_each(alone);
    let mut rest = [Access::new(&ledger, 9..64, Read)].into();
    restore_displaced(&mut rest, &[ticket(3, 1)]);
    assert_eq!(enter(&ledger, 0..64, Write, ticket(1, 300)), [ticket(3, 1)]);
    let mut whole = [Access::new(&ledger, 0..64, Read)].into();
    (301..400).step_by(3).for_each(alone);
    restore_displaced(&mut whole, &[ticket(3, 2)]);
    assert_eq!(enter(&ledger, 0..64, Read, ticket(1, 400)), [ticket(3, 2)]);
}

#[test]
fn whoever_reads_alone_for_long_still_waits_for_other_readers_before_it_writes() {
    let ledger = Ledger::new(64);
    enter(&ledger, 0..64, Write, ticket(1, 1));
    enter(&ledger, 0..64, Read, ticket(2, 1));
    for sequence in 2..500 {
        assert!(enter(&ledger, 0..64, Read, ticket(1, sequence)).is_empty());
    }
    assert_eq!(enter(&ledger, 0..64, Write, ticket(1, 500)), [ticket(2, 1)]);
}

/// Accesses to a few arrays of three streams, in whatever order they are named.
#[test]
fn operands_in_any_order_are_planned_alike() {
    let ledgers: Vec<Ledger> = (0..3).map(|_| Ledger::new(8)).collect();
    for (number, ledger) in ledgers.iter().enumerate() {
        enter(ledger, 0..8, Write, ticket(1 + number as u64, 1));
    }
    let mut plan = Plan::default();
    let accesses = [2, 0, 1, 2, 0].map(|at: usize| Access::new(&ledgers[at], 0..8, Write));
    plan_and_publish(
        ticket(9, 1),
        &Clock::default(),
        &mut accesses.into(),
        &|_| false,
        &mut plan,
    );
    plan.dependencies.sort();
    assert_eq!(
        plan.dependencies.as_slice(),
        [ticket(1, 1), ticket(2, 1), ticket(3, 1)]
    );
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri, and safe code")]
fn precision_is_given_up_among_neighbours_alone() {
    let count = 20_000;
    let ledger = Ledger::new(4 * count);
    for at in 0..count {
        let stream = if at < count / 2 { 1 } else { 2 };
        enter(&ledger, 4 * at..4 * at + 2, Write, ticket(stream, 1 + at));
    }
    let of_first = ledger.host_conflicts(&(0..1), Read);
    assert!(of_first.iter().all(|found| found.stream == StreamId::of(1)));
    let of_last = ledger.host_conflicts(&(4 * count - 4..4 * count - 3), Read);
    assert!(of_last.iter().all(|found| found.stream == StreamId::of(2)));
    assert!(!of_first.is_empty() && !of_last.is_empty());
}
