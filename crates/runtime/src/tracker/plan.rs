//! Planning: finds the earlier operations that an operation must wait for. It takes only the locks
//! of access histories.

use crate::sync::ranked::{ACCESS_HISTORY, RankedGuard};
use std::panic::Location;

use smallvec::SmallVec;

use super::{
    Access, AccessKind, Accesses, ConflictingLease, LeaseNumber, StreamId, Ticket, VectorClock,
    access_history::HistoryState,
};

/// The tickets to wait for: at most one per stream, the highest.
pub(crate) type Dependencies = SmallVec<[Ticket; 8]>;

/// The result of planning an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a published operation must wait for its dependencies"]
pub(crate) struct Plan {
    /// The tickets that the operation must be ordered after, and that its stream's clock does not
    /// cover.
    pub(crate) dependencies: Dependencies,
    /// True if an operand is shared between streams, so that a sync point is to be recorded right
    /// behind the operation.
    pub(crate) records_event: bool,
    /// The source line that lent an operand to another library, if the operation conflicts with a
    /// lease: it must not be enqueued.
    pub(crate) lent: Option<&'static Location<'static>>,
}

/// Plans the operation `ticket` and publishes it: later operations will find it. The dependencies
/// are added to `plan`.
///
/// All access histories are locked in the order of their ids, and unlocked together before this
/// function returns. `clock` is that of the operation's stream. Conflicts with tickets of the same
/// stream need no wait (rule 16: a stream is first in, first out), nor do tickets that the clock
/// covers. Several accesses to the same bytes count as the strongest of them: a write's conflicts
/// include a read's, and the operation's own entries belong to its own stream.
#[inline(always)]
pub(crate) fn plan_and_publish(
    ticket: Ticket,
    clock: &VectorClock,
    accesses: &mut Accesses<'_>,
    is_done: &dyn Fn(Ticket) -> bool,
    plan: &mut Plan,
) {
    with_histories_locked(accesses.sorted(), &mut |state, access| {
        let sole_stream =
            access.ordered && state.access_exclusive(&access.extent, access.kind, ticket);
        if !sole_stream {
            plan_access(ticket, clock, state, access, is_done, plan);
        }
    });
}

/// An operation of a group that is planned as one.
pub(crate) struct GroupMember<'m, 'a> {
    pub(crate) ticket: Ticket,
    pub(crate) clock: &'m VectorClock,
    pub(crate) accesses: &'m mut Accesses<'a>,
    pub(crate) plan: &'m mut Plan,
}

/// Plans several operations of different streams and publishes them at once: any other operation is
/// published before all of them or after all of them.
///
/// No two of the operations use the same allocation.
pub(crate) fn plan_and_publish_group(
    members: &mut [GroupMember<'_, '_>],
    is_done: &dyn Fn(Ticket) -> bool,
) {
    let mut owners: SmallVec<[(u64, usize); 8]> = SmallVec::new();
    for (at, member) in members.iter().enumerate() {
        owners.extend(
            member
                .accesses
                .iter()
                .map(|access| (access.history.id(), at)),
        );
    }
    owners.sort_unstable();
    owners.dedup();
    debug_assert!(
        owners.windows(2).all(|pair| pair[0].0 != pair[1].0),
        "two operations of a group use the same allocation"
    );
    let all = members.iter().flat_map(|member| member.accesses.iter());
    let mut all: Accesses<'_> = all.cloned().collect();
    with_histories_locked(all.sorted(), &mut |state, access| {
        let id = access.history.id();
        let at = owners.partition_point(|&(listed, _)| listed < id);
        let member = &mut members[owners[at].1];
        let (ticket, clock) = (member.ticket, member.clock);
        plan_access(ticket, clock, state, access, is_done, member.plan);
    });
}

/// Enters a lease that was granted at `location`, and returns it with the tickets for which the
/// borrower's stream must wait. Publishes no ticket: the lease stands for the borrower's work until
/// that is [published](plan_lease_end) at its end.
///
/// # Errors
///
/// Returns a lease with which this one conflicts.
#[inline]
pub(crate) fn plan_lease(
    stream: StreamId,
    clock: &VectorClock,
    access: &Access<'_>,
    location: &'static Location<'static>,
) -> Result<(LeaseNumber, Dependencies), ConflictingLease> {
    let mut dependencies = Dependencies::new();
    let mut state = access.history.lock();
    let number = state.lend(access, location)?;
    depend_on_conflicts(stream, clock, &mut state, access, &mut dependencies);
    state.record_access(stream, !dependencies.is_empty());
    Ok((number, dependencies))
}

/// Returns the plan of an operation as if it was published now, with the source line that lent one
/// of its operands. Publishes nothing.
pub(crate) fn plan_unpublished(
    stream: StreamId,
    clock: &VectorClock,
    accesses: &mut Accesses<'_>,
) -> Plan {
    let mut plan = Plan::default();
    with_histories_locked(accesses.sorted(), &mut |state, access| {
        plan.lent = plan.lent.or_else(|| state.leases.refusal(access));
        if access.ordered {
            depend_on_conflicts(stream, clock, state, access, &mut plan.dependencies);
        }
    });
    plan
}

/// Adds the tickets with which an access conflicts, and which neither the stream nor its clock
/// orders before it.
#[inline(always)]
fn depend_on_conflicts(
    stream: StreamId,
    clock: &VectorClock,
    state: &mut HistoryState,
    access: &Access<'_>,
    dependencies: &mut Dependencies,
) {
    state.conflicts(&access.extent, access.kind, |found| {
        if found.stream != stream && !clock.covers(found) {
            depend_on(dependencies, found);
        }
    });
}

/// Publishes the end of a lease, `ticket`, in its place: any other operation finds one of the two.
///
/// It has no dependencies. The lease has refused every conflicting access since the borrower's
/// stream was ordered after all, and a refused operation enqueues nothing, so that `ticket` may
/// replace its entries too.
pub(crate) fn plan_lease_end(
    lease: LeaseNumber,
    ticket: Ticket,
    access: &Access<'_>,
    is_done: &dyn Fn(Ticket) -> bool,
) {
    let mut state = access.history.lock();
    state.leases.end(lease);
    state.access(&access.extent, access.kind, ticket, is_done, |_| ());
    state.record_access(ticket.stream, false);
    state.compact(is_done);
}

/// Plans one access to an allocation that other streams may have used.
#[inline(never)]
fn plan_access(
    ticket: Ticket,
    clock: &VectorClock,
    state: &mut HistoryState,
    access: &Access<'_>,
    is_done: &dyn Fn(Ticket) -> bool,
    plan: &mut Plan,
) {
    if !state.leases.are_none() {
        plan.lent = plan.lent.or_else(|| state.leases.refusal(access));
    }
    let mut waits = false;
    if access.ordered {
        let found = |found: Ticket| {
            if found.stream != ticket.stream && !clock.covers(found) {
                depend_on(&mut plan.dependencies, found);
                waits = true;
            }
        };
        state.access(&access.extent, access.kind, ticket, is_done, found);
    } else {
        state.enter_unordered(&access.extent, access.kind, ticket);
    }
    plan.records_event |= state.record_access(ticket.stream, waits);
    state.compact(is_done);
}

/// Restores the tickets that the publication of a failed operation displaced.
///
/// The operation's writes displaced tickets that it was going to wait for, and then may not have
/// waited for. They are entered again beside it, so that later operations wait for them directly.
/// The failed ticket itself stays, because a call may fail after part of its work is enqueued.
///
/// Reads and unordered accesses displace nothing.
pub(crate) fn restore_displaced(accesses: &mut Accesses<'_>, displaced: &[Ticket]) {
    with_histories_locked(accesses.sorted(), &mut |state, access| {
        if !access.ordered || access.kind == AccessKind::Read {
            return;
        }
        for &ticket in displaced {
            state.enter_unordered(&access.extent, AccessKind::Write, ticket);
        }
    });
}

/// Adds a dependency, keeping the highest ticket of its stream.
fn depend_on(dependencies: &mut Dependencies, ticket: Ticket) {
    match dependencies
        .iter_mut()
        .find(|entry| entry.stream == ticket.stream)
    {
        Some(entry) => entry.sequence = entry.sequence.max(ticket.sequence),
        None => dependencies.push(ticket),
    }
}

/// Calls `each` for every access with its access history locked. All histories stay locked until
/// the last access was visited, so that two operations with several common histories are ordered
/// the same way in each. `accesses` are in the order of their histories' ids.
///
/// The guards are variables and not a list, because most operations have at most four. They are
/// dropped in reverse order: other threads wait for the first, and waking one of them takes time.
/// By then no other history is locked for which it would have to wait again.
#[inline(always)]
fn with_histories_locked(
    mut accesses: &[Access<'_>],
    each: &mut impl FnMut(&mut HistoryState, &Access<'_>),
) {
    let Some(_first) = with_next_locked(&mut accesses, each) else {
        return;
    };
    let Some(_second) = with_next_locked(&mut accesses, each) else {
        return;
    };
    let Some(_third) = with_next_locked(&mut accesses, each) else {
        return;
    };
    let Some(_fourth) = with_next_locked(&mut accesses, each) else {
        return;
    };
    if !accesses.is_empty() {
        with_more_locked(accesses, each);
    }
}

/// Locks the access history of the first access, calls `each` for all accesses to it, and removes
/// them from the list. Returns the lock.
#[inline(always)]
fn with_next_locked<'a>(
    accesses: &mut &'a [Access<'_>],
    each: &mut impl FnMut(&mut HistoryState, &Access<'_>),
) -> Option<RankedGuard<'a, ACCESS_HISTORY, HistoryState>> {
    let [first, later @ ..] = *accesses else {
        return None;
    };
    let mut state = first.history.lock();
    each(&mut state, first);
    *accesses = later;
    // The same allocation as the access before.
    while let [next, later @ ..] = *accesses
        && std::ptr::eq(first.history, next.history)
    {
        each(&mut state, next);
        *accesses = later;
    }
    Some(state)
}

#[inline(never)]
fn with_more_locked(
    accesses: &[Access<'_>],
    each: &mut impl FnMut(&mut HistoryState, &Access<'_>),
) {
    with_histories_locked(accesses, each);
}

#[cfg(test)]
mod tests {
    use super::{super::AccessHistory, *};
    use AccessKind::{Read, Write};

    fn ticket(stream: u64, sequence: u64) -> Ticket {
        Ticket::of(stream, sequence)
    }

    fn whole(history: &AccessHistory, kind: AccessKind) -> Access<'_> {
        Access::new(history, 0..history.bytes(), kind)
    }

    fn plan_at<'a>(
        ticket: impl Into<Ticket>,
        clock: &VectorClock,
        accesses: impl Into<Accesses<'a>>,
    ) -> Plan {
        let (accesses, mut plan) = (&mut accesses.into(), Plan::default());
        plan_and_publish(ticket.into(), clock, accesses, &|_| false, &mut plan);
        plan
    }

    /// Plans and publishes an operation of a stream that has waited for nothing.
    fn plan<'a>(ticket: impl Into<Ticket>, accesses: impl Into<Accesses<'a>>) -> Plan {
        plan_at(ticket, &VectorClock::default(), accesses)
    }

    #[test]
    fn a_lease_finds_its_conflicts_and_is_found_by_those_behind_it_until_it_ends() {
        for (ends, stream) in [(false, 1), (true, 1), (false, 2), (false, 3), (true, 3)] {
            let a = AccessHistory::new(8);
            let clock = VectorClock::default();
            let _ = plan_at((1, 1), &clock, [whole(&a, Write)]);
            let half = Access::new(&a, 0..4, Write);
            let lend = || plan_lease(StreamId::of(2), &clock, &half, Location::caller());
            let (lease, conflicts) = lend().expect("no other lease");
            assert_eq!(conflicts.as_slice(), [(1, 1)]);
            assert!(lend().is_err());
            if ends {
                plan_lease_end(lease, ticket(2, 1), &half, &|_| false);
                let (next, _) = lend().expect("the first has ended");
                assert_ne!(next, lease);
                a.end_lease(next);
            }
            for sequence in 2..4 {
                let found = plan_at((stream, sequence), &clock, [whole(&a, Read)]);
                assert_eq!(found.lent.is_none(), ends);
                assert_eq!(found.dependencies.contains(&ticket(2, 1)), ends);
            }
            let rest = plan_at((stream, 4), &clock, [Access::new(&a, 4..8, Write)]);
            assert!(rest.lent.is_none(), "these bytes are not lent");
        }
    }

    #[test]
    fn a_lease_that_waits_starts_the_recording_of_events_again() {
        let (a, unordered) = (AccessHistory::new(8), VectorClock::default());
        let _ = plan((1, 1), [whole(&a, Write)]);
        let mut ordered = VectorClock::default();
        ordered.advance(ticket(1, 1));
        let records = || plan_at((2, 1), &ordered, [whole(&a, Read)]).records_event;
        assert!((0..99).any(|_| !records()), "without waits they end");
        for (clock, waits) in [(&ordered, false), (&unordered, true)] {
            let read = whole(&a, Read);
            let lease = plan_lease(StreamId::of(3), clock, &read, Location::caller());
            assert_eq!(lease.expect("no other lease").1.is_empty(), !waits);
            assert_eq!(records(), waits);
        }
    }

    #[test]
    fn a_group_is_planned_like_its_members_one_by_one() {
        fn members(histories: &[AccessHistory; 6]) -> [(Ticket, Accesses<'_>); 3] {
            for (at, history) in histories.iter().enumerate() {
                let _ = plan((10 + at as u64, 1), [whole(history, Write)]);
            }
            let access = |at: usize| whole(&histories[at], [Read, Write][at % 2]);
            let all = [(1, [0, 3]), (2, [4, 1]), (3, [2, 5])];
            all.map(|(stream, own)| (ticket(stream, 1), own.map(access).into()))
        }
        let [together, apart] = [(); 2].map(|()| [(); 6].map(|()| AccessHistory::new(8)));
        let alone = members(&apart).map(|(ticket, accesses)| plan(ticket, accesses));
        let (clock, mut plans) = (&VectorClock::default(), [(); 3].map(|()| Plan::default()));
        let mut group = members(&together);
        let members = group.iter_mut().zip(&mut plans);
        let members = members.map(|((ticket, accesses), plan)| GroupMember {
            ticket: *ticket,
            clock,
            accesses,
            plan,
        });
        plan_and_publish_group(&mut members.collect::<Vec<_>>(), &|_| false);
        assert_eq!(plans, alone);
        let [published, expected] =
            [&together, &apart].map(|all| all.each_ref().map(AccessHistory::all_tickets));
        assert_eq!(published, expected);
    }

    #[test]
    fn an_unpublished_plan_finds_the_same_and_is_not_found() {
        let (a, b) = (AccessHistory::new(8), AccessHistory::new(8));
        let clock = VectorClock::default();
        let _ = plan_at((1, 1), &clock, [whole(&a, Write)]);
        let lent = plan_lease(
            StreamId::of(2),
            &clock,
            &whole(&b, Write),
            Location::caller(),
        );
        let found = plan_unpublished(
            StreamId::of(3),
            &clock,
            &mut [whole(&a, Write), whole(&b, Read)].into(),
        );
        assert!(found.lent.is_some() && lent.is_ok());
        assert_eq!(found.dependencies.as_slice(), [(1, 1)]);
        assert_eq!(a.all_tickets().as_slice(), [(1, 1)]);
        assert!(b.all_tickets().is_empty());
    }
}
