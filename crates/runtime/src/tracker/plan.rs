//! Planning: which earlier operations must this one wait for? Pure bookkeeping, under the ledgers'
//! locks alone.

use smallvec::SmallVec;

use super::{Access, AccessKind, Accesses, Clock, Ledger, Ticket, ledger::LedgerState};

/// The tickets to wait for: at most one per stream, the highest.
pub(crate) type Dependencies = SmallVec<[Ticket; 4]>;

/// What planning found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a published operation must wait for its dependencies"]
pub(crate) struct Plan {
    /// What the operation must be ordered after and, as far as its stream's clock tells, is not
    /// yet.
    pub(crate) dependencies: Dependencies,
    /// Whether an operand is shared between streams, so that others will want a point right behind
    /// this operation.
    pub(crate) awaited: bool,
}

/// Plans the operation `ticket` and publishes it: from here on others wait for it. What is found is
/// added to `plan`.
///
/// All ledgers are locked in the order of their numbers, and unlocked together before this returns.
/// `clock` is that of the operation's stream. Conflicts with the stream's own tickets need no wait
/// (rule 16), nor do those that the clock has. Several accesses to the same bytes count as the
/// strongest of them: a write's conflicts include a read's, and the operation's own entries are its
/// stream's.
#[inline]
pub(crate) fn plan_and_publish(
    ticket: Ticket,
    clock: &Clock,
    accesses: &mut Accesses<'_>,
    is_done: &dyn Fn(Ticket) -> bool,
    plan: &mut Plan,
) {
    with_ledgers_locked(accesses.sorted(), None, &mut |state, access| {
        let alone = access.ordered && state.access_alone(&access.extent, access.kind, ticket);
        if !alone {
            plan_access(ticket, clock, state, access, is_done, plan);
        }
    });
}

/// The same for one access to an allocation that others may have used.
#[inline(never)]
fn plan_access(
    ticket: Ticket,
    clock: &Clock,
    state: &mut LedgerState,
    access: &Access<'_>,
    is_done: &dyn Fn(Ticket) -> bool,
    plan: &mut Plan,
) {
    let mut waits = false;
    if access.ordered {
        state.access(&access.extent, access.kind, ticket, |found| {
            if found.stream != ticket.stream && !clock.covers(found) {
                depend_on(&mut plan.dependencies, found);
                waits = true;
            }
        });
    } else {
        state.enter_unordered(&access.extent, access.kind, ticket);
    }
    plan.awaited |= state.note(ticket.stream, waits);
    state.compact(is_done);
}

/// Undoes what publishing a failed operation hid.
///
/// Its entries displaced tickets that it was going to wait for, and then perhaps did not. They are
/// entered again beside it, so that whoever comes later waits for them directly. The failed ticket
/// itself stays: a call may fail after part of its work is enqueued.
pub(crate) fn restore_displaced(accesses: &mut Accesses<'_>, displaced: &[Ticket]) {
    with_ledgers_locked(accesses.sorted(), None, &mut |state, access| {
        for &ticket in displaced {
            state.enter_unordered(&access.extent, AccessKind::Write, ticket);
        }
    });
}

/// Adds a ticket, keeping the highest of its stream.
fn depend_on(dependencies: &mut Dependencies, ticket: Ticket) {
    match dependencies
        .iter_mut()
        .find(|known| known.stream == ticket.stream)
    {
        Some(known) => known.sequence = known.sequence.max(ticket.sequence),
        None => dependencies.push(ticket),
    }
}

/// How many ledgers [`with_ledgers_locked`] locks itself: more than most operations have.
const LOCKED_AT_ONCE: usize = 4;

/// Calls `each` for every access, its ledger locked. The first is locked until the last has been
/// seen to: whoever meets two operations in several ledgers meets them in the same order in each.
/// `locked` is the ledger that was locked last.
#[inline(always)]
fn with_ledgers_locked<'a>(
    accesses: &[Access<'a>],
    locked: Option<(&'a Ledger, &mut LedgerState)>,
    each: &mut impl FnMut(&mut LedgerState, &Access<'_>),
) {
    let mut guards = [const { None }; LOCKED_AT_ONCE];
    let mut locked = locked;
    let (now, later) = accesses.split_at(accesses.len().min(LOCKED_AT_ONCE));
    for (access, guard) in now.iter().zip(&mut guards) {
        let state = match locked {
            // The same array twice.
            Some((same, state)) if std::ptr::eq(same, access.ledger) => state,
            _ => guard.insert(access.ledger.lock()),
        };
        each(state, access);
        locked = Some((access.ledger, state));
    }
    if !later.is_empty() {
        with_more_locked(later, locked, each);
    }
    // The first is what others wait for. Unlocking it may mean waking one of them, which takes its
    // time: by then nothing else is locked that it, or anyone, would have to wait for again.
    for guard in guards.iter_mut().rev() {
        *guard = None;
    }
}

#[inline(never)]
fn with_more_locked<'a>(
    accesses: &[Access<'a>],
    locked: Option<(&'a Ledger, &mut LedgerState)>,
    each: &mut impl FnMut(&mut LedgerState, &Access<'_>),
) {
    with_ledgers_locked(accesses, locked, each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessKind::{Read, Write};

    fn ticket(stream: u64, sequence: u64) -> Ticket {
        Ticket::of(stream, sequence)
    }

    fn whole(ledger: &Ledger, kind: AccessKind) -> Access<'_> {
        Access::new(ledger, 0..ledger.bytes(), kind)
    }

    fn plan<'a>(ticket: Ticket, clock: &Clock, accesses: impl Into<Accesses<'a>>) -> Plan {
        let mut plan = Plan::default();
        plan_and_publish(ticket, clock, &mut accesses.into(), &|_| false, &mut plan);
        plan
    }

    #[test]
    fn one_stream_never_depends_on_itself_and_is_not_shared() {
        let (a, b) = (Ledger::new(8), Ledger::new(8));
        for sequence in 1..10 {
            let plan = plan(
                ticket(1, sequence),
                &Clock::default(),
                [whole(&b, Write), whole(&a, Read)],
            );
            assert!(plan.dependencies.is_empty() && !plan.awaited);
        }
    }

    #[test]
    fn a_second_stream_depends_on_the_writer_once_and_shares() {
        let (a, b) = (Ledger::new(8), Ledger::new(8));
        let _ = plan(ticket(1, 1), &Clock::default(), [whole(&a, Write)]);
        let _ = plan(ticket(1, 2), &Clock::default(), [whole(&b, Write)]);
        let found = plan(
            ticket(2, 1),
            &Clock::default(),
            [whole(&a, Read), whole(&b, Read)],
        );
        assert_eq!(
            found.dependencies.as_slice(),
            [ticket(1, 2)],
            "the highest ticket implies the other"
        );
        assert!(found.awaited);
        let mut clock = Clock::default();
        clock.advance(ticket(1, 2));
        assert!(
            plan(ticket(2, 2), &clock, [whole(&a, Read)])
                .dependencies
                .is_empty()
        );
    }

    #[test]
    fn the_same_array_twice_is_the_strongest_of_its_accesses() {
        let a = Ledger::new(8);
        let _ = plan(ticket(1, 1), &Clock::default(), [whole(&a, Read)]);
        let found = plan(
            ticket(2, 1),
            &Clock::default(),
            [whole(&a, Read), whole(&a, Write)],
        );
        assert_eq!(found.dependencies.as_slice(), [ticket(1, 1)]);
        let found = plan(
            ticket(3, 1),
            &Clock::default(),
            [whole(&a, Read), whole(&a, Read)],
        );
        assert_eq!(found.dependencies.as_slice(), [ticket(2, 1)]);
    }

    #[test]
    fn an_unordered_access_waits_for_nothing_and_is_seen_by_all() {
        let a = Ledger::new(8);
        let _ = plan(ticket(1, 1), &Clock::default(), [whole(&a, Write)]);
        let unordered = Access {
            ordered: false,
            ..whole(&a, Write)
        };
        assert!(
            plan(ticket(2, 1), &Clock::default(), [unordered])
                .dependencies
                .is_empty()
        );
        let mut found = plan(ticket(3, 1), &Clock::default(), [whole(&a, Read)]).dependencies;
        found.sort();
        assert_eq!(found.as_slice(), [ticket(1, 1), ticket(2, 1)]);
    }

    #[test]
    fn a_failed_operation_hides_nothing() {
        let a = Ledger::new(8);
        let _ = plan(ticket(1, 1), &Clock::default(), [whole(&a, Write)]);
        let mut accesses = Accesses::from([whole(&a, Write)]);
        let failed = plan(ticket(2, 1), &Clock::default(), accesses.clone());
        restore_displaced(&mut accesses, &failed.dependencies);
        let mut found = plan(ticket(3, 1), &Clock::default(), [whole(&a, Read)]).dependencies;
        found.sort();
        assert_eq!(found.as_slice(), [ticket(1, 1), ticket(2, 1)]);
    }
}
