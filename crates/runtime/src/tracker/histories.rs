//! Tests of whole access histories: freeing, reuse, host accesses, the sole stream, and the loss of
//! precision at the segment bound.

use super::{
    AccessKind::{self, Read, Write},
    VectorClock, *,
};

fn ticket(stream: u64, sequence: u64) -> Ticket {
    Ticket::of(stream, sequence)
}

/// Enters an ordered access. Returns its dependencies.
fn enter(
    history: &AccessHistory,
    extent: impl Into<Extent>,
    kind: AccessKind,
    ticket: Ticket,
) -> Vec<Ticket> {
    let mut plan = Plan::default();
    plan_and_publish(
        ticket,
        &VectorClock::default(),
        &mut [Access::new(history, extent, kind)].into(),
        &|_| false,
        &mut plan,
    );
    plan.dependencies.sort();
    plan.dependencies.to_vec()
}

#[test]
fn all_tickets_contains_every_use_in_either_layout() {
    let mut history = AccessHistory::new(64);
    assert_eq!(history.bytes(), 64);
    assert!(history.all_tickets().is_empty());
    enter(&history, 0..8, Write, ticket(1, 1));
    enter(&history, 8..16, Write, ticket(1, 2));
    enter(&history, 0..64, Read, ticket(2, 1));
    let all = [ticket(1, 2), ticket(2, 1)];
    assert_eq!(history.all_tickets().as_slice(), all);
    assert_eq!(history.last_tickets().as_slice(), all);
    enter(&history, Extent::strided(0..2, 4, 8), Write, ticket(3, 1));
    let all = [ticket(1, 2), ticket(2, 1), ticket(3, 1)];
    assert_eq!(history.all_tickets().as_slice(), all);
    assert_eq!(history.last_tickets().as_slice(), all);
}

#[test]
fn the_host_waits_for_the_conflicts_of_its_bytes() {
    let history = AccessHistory::new(64);
    enter(&history, 0..8, Write, ticket(1, 1));
    enter(&history, 0..8, Read, ticket(2, 1));
    enter(&history, 8..16, Write, ticket(3, 1));
    assert_eq!(
        history.host_conflicts(&(4..5), Read).as_slice(),
        [ticket(1, 1)]
    );
    assert_eq!(
        history.host_conflicts(&(4..5), Write).as_slice(),
        [ticket(1, 1), ticket(2, 1)]
    );
    assert!(history.host_conflicts(&(16..64), Write).is_empty());
}

#[test]
fn the_first_accesses_wait_for_inherited_uses() {
    let mut history = AccessHistory::new(64);
    let owner: *const () = (&raw const history).cast();
    assert_eq!(history.owner(), None);
    history.set_owner(owner);
    assert_eq!(history.owner(), Some(owner));
    history.inherit(&[ticket(1, 7)]);
    history.inherit_more(&[ticket(2, 3)]);
    assert_eq!(
        enter(&history, 60..64, Read, ticket(3, 1)),
        [ticket(1, 7), ticket(2, 3)]
    );
    assert_eq!(
        enter(&history, 0..64, Write, ticket(4, 1)),
        [ticket(1, 7), ticket(2, 3), ticket(3, 1)]
    );
    assert!(
        AccessHistory::always_recording(64)
            .lock()
            .record_access(StreamId::of(1), false)
    );
}

#[test]
fn the_sole_stream_finds_accesses_of_other_streams() {
    let history = AccessHistory::new(64);
    let sole_stream = |first: u64| {
        for sequence in first..first + 3 {
            assert!(enter(&history, 0..64, Write, ticket(1, sequence)).is_empty());
            assert!(enter(&history, 0..64, Read, ticket(1, sequence)).is_empty());
        }
    };
    sole_stream(1);
    assert_eq!(enter(&history, 0..64, Read, ticket(2, 1)), [ticket(1, 3)]);
    assert_eq!(enter(&history, 0..64, Write, ticket(1, 4)), [ticket(2, 1)]);
    sole_stream(5);
    assert_eq!(enter(&history, 8..9, Write, ticket(2, 2)), [ticket(1, 7)]);
    assert_eq!(enter(&history, 0..64, Write, ticket(1, 8)), [ticket(2, 2)]);
    (9..200).step_by(3).for_each(sole_stream);
    let mut rest = [Access::new(&history, 9..64, Write)].into();
    restore_displaced(&mut rest, &[ticket(3, 1)]);
    assert_eq!(
        enter(&history, 0..64, Write, ticket(1, 300)),
        [ticket(3, 1)]
    );
    let mut whole = [Access::new(&history, 0..64, Write)].into();
    (301..400).step_by(3).for_each(sole_stream);
    restore_displaced(&mut whole, &[ticket(3, 2)]);
    assert_eq!(enter(&history, 0..64, Read, ticket(1, 400)), [ticket(3, 2)]);
}

#[test]
fn a_writer_waits_for_old_reads_of_other_streams() {
    let history = AccessHistory::new(64);
    enter(&history, 0..64, Write, ticket(1, 1));
    enter(&history, 0..64, Read, ticket(2, 1));
    for sequence in 2..500 {
        assert!(enter(&history, 0..64, Read, ticket(1, sequence)).is_empty());
    }
    assert_eq!(
        enter(&history, 0..64, Write, ticket(1, 500)),
        [ticket(2, 1)]
    );
}

/// Plans accesses to arrays of six streams in an arbitrary order.
#[test]
fn the_order_of_operands_does_not_matter() {
    let histories: Vec<AccessHistory> = (0..6).map(|_| AccessHistory::new(8)).collect();
    for (number, history) in histories.iter().enumerate() {
        enter(history, 0..8, Write, ticket(1 + number as u64, 1));
    }
    let mut plan = Plan::default();
    let accesses =
        [5, 2, 0, 4, 1, 2, 3, 0].map(|at: usize| Access::new(&histories[at], 0..8, Write));
    plan_and_publish(
        ticket(9, 1),
        &VectorClock::default(),
        &mut accesses.into(),
        &|_| false,
        &mut plan,
    );
    plan.dependencies.sort();
    let all: Vec<_> = (1..=6).map(|stream| ticket(stream, 1)).collect();
    assert_eq!(plan.dependencies.to_vec(), all);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri, and safe code")]
fn only_neighbouring_segments_are_merged() {
    let count = 20_000;
    let history = AccessHistory::new(4 * count);
    for at in 0..count {
        let stream = if at < count / 2 { 1 } else { 2 };
        enter(&history, 4 * at..4 * at + 2, Write, ticket(stream, 1 + at));
    }
    let of_first = history.host_conflicts(&(0..1), Read);
    assert!(of_first.iter().all(|found| found.stream == StreamId::of(1)));
    let of_last = history.host_conflicts(&(4 * count - 4..4 * count - 3), Read);
    assert!(of_last.iter().all(|found| found.stream == StreamId::of(2)));
    assert!(!of_first.is_empty() && !of_last.is_empty());
}
