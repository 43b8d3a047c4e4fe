//! Order through memory: a kernel that reads a flag strongly comes after a kernel of another
//! stream that wrote the flag strongly and releases its earlier writes.
//!
//! The kernels count as a whole, and the read counts if the kernel only reads the flag, or was seen
//! waiting for it: a counter that both change atomically orders nothing. So the order follows from
//! the accesses alone, except where two kernels write one flag in turn.
//!
//! A wait of a stream for a value comes after the kernel whose value it saw, and is checked after
//! it, with all that follows in the stream: a wait may be enqueued before what it waits for.

use std::ops::Range;

use super::{
    effect::ByteRanges,
    history::{Actor, OperationInfo},
};

/// The maximum number of kernels and of orders that are remembered.
const REMEMBERED_MAX: usize = 1 << 10;

/// The strong accesses of a kernel to memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Synchronisation {
    /// The bytes that it only reads, or waited for.
    pub(crate) acquired: Vec<ByteRanges>,
    /// The bytes that it writes, if it releases its other writes.
    pub(crate) released: Vec<ByteRanges>,
    /// Set for a wait of a stream for a value.
    pub(crate) is_wait: bool,
    /// Set for a kernel with a loop, which may wait for a value.
    pub(crate) loops: bool,
}

/// The kernels with strong accesses, and the orders between them.
#[derive(Debug, Default)]
pub(super) struct MemoryOrders {
    kernels: Vec<(Actor, Synchronisation)>,
    /// The releasing and the acquiring kernel.
    orders: Vec<(Actor, Actor)>,
    /// The kernels that have released bytes, in the order in which they ran.
    released: Vec<(Actor, Vec<ByteRanges>)>,
    /// The number of a releasing kernel, and the wait that saw its value.
    waits: Vec<(u64, Actor)>,
}

/// Returns whether the order of a kernel with others matters to a later one: the host has not seen
/// it complete.
fn is_needed(kernel: &Actor, by: &Actor) -> bool {
    let of = kernel.operation();
    of.is_some_and(|of| by.host_clock.last_of(of.slot) < of.op)
}

impl MemoryOrders {
    /// Notes a kernel that has just run, and for a wait the kernel whose value it saw.
    pub(super) fn ran(&mut self, actor: &Actor, own: &Synchronisation) {
        self.released.retain(|(kernel, _)| is_needed(kernel, actor));
        self.waits.retain(|(_, wait)| is_needed(wait, actor));
        if own.is_wait {
            let mut seen = self.released.iter().rev();
            let seen = seen.find(|(_, released)| overlap(released, &own.acquired));
            if let Some((kernel, _)) = seen
                && let Some(operation) = kernel.operation()
            {
                self.waits.push((operation.op, actor.clone()));
                self.orders.push((kernel.clone(), actor.clone()));
            }
        }
        if !own.released.is_empty() {
            self.released.push((actor.clone(), own.released.clone()));
        }
        let excess = self.released.len().saturating_sub(REMEMBERED_MAX);
        self.released.drain(..excess);
    }

    /// Returns whether an operation must be checked after one that is still to be checked: it is a
    /// wait that saw the other's value, or follows one.
    pub(super) fn comes_later(&self, actor: &Actor, is_pending: impl Fn(u64) -> bool) -> bool {
        self.waits.iter().any(|(kernel, wait)| {
            let (Some(own), Some(wait)) = (actor.operation(), wait.operation()) else {
                return false;
            };
            is_pending(*kernel) && (own.op == wait.op || actor.is_after(wait))
        })
    }

    /// Adds a kernel, and its orders with the ones before.
    pub(super) fn add(&mut self, actor: &Actor, own: Synchronisation) {
        self.kernels.retain(|(kernel, _)| is_needed(kernel, actor));
        self.orders.retain(|(_, later)| is_needed(later, actor));
        for (kernel, other) in &self.kernels {
            if !other.is_wait && overlap(&own.released, &other.acquired) {
                self.orders.push((actor.clone(), kernel.clone()));
            }
            if !own.is_wait && overlap(&other.released, &own.acquired) {
                self.orders.push((kernel.clone(), actor.clone()));
            }
        }
        self.kernels.push((actor.clone(), own));
        for excess in [
            self.kernels.len().saturating_sub(REMEMBERED_MAX),
            self.orders.len().saturating_sub(REMEMBERED_MAX),
        ] {
            self.kernels.drain(..excess.min(self.kernels.len()));
            self.orders.drain(..excess.min(self.orders.len()));
        }
    }

    /// Returns the kernels up to `last` that are not ordered before the actor and may loop until a
    /// value changes that no earlier kernel releases, with the bytes that they read.
    pub(super) fn polling(
        &self,
        actor: &Actor,
        last: &OperationInfo,
    ) -> impl Iterator<Item = (&OperationInfo, &[ByteRanges])> {
        self.kernels.iter().filter_map(move |(kernel, own)| {
            let of = kernel.operation()?;
            let polls = own.loops || own.is_wait;
            let is_new = polls && last.covers(of) && !actor.is_after(of);
            let is_met = |(other, its): &(Actor, Synchronisation)| {
                let other = other.operation().is_some_and(|other| other.op != of.op);
                other && overlap(&its.released, &own.acquired)
            };
            let waits = is_new && !own.acquired.is_empty() && !self.kernels.iter().any(is_met);
            waits.then_some((&**of, &own.acquired[..]))
        })
    }

    /// Returns whether an order through memory lies between two operations, either way.
    pub(super) fn order(&self, one: &Actor, other: &OperationInfo) -> bool {
        if self.orders.is_empty() {
            return false;
        }
        let is_of_one = |kernel: &Actor| {
            let of = kernel.operation();
            of.is_some_and(|of| one.is_after(of))
        };
        let is_of_other = |kernel: &Actor| {
            let of = kernel.operation();
            // Of the operations after the kernel, those of its stream are known here.
            of.is_some_and(|of| of.slot == other.slot && of.op <= other.op)
        };
        let one_operation = one.operation();
        self.reaches(is_of_one, |kernel| kernel.is_after(other))
            || self.reaches(is_of_other, |kernel| {
                one_operation.is_some_and(|one| kernel.is_after(one))
            })
    }

    /// Returns whether a chain of orders leads back from a kernel that is `later` to one that is
    /// `earlier`.
    fn reaches(&self, later: impl Fn(&Actor) -> bool, earlier: impl Fn(&Actor) -> bool) -> bool {
        let mut found: Vec<usize> = Vec::new();
        loop {
            let after = |of: &Actor| {
                let operation = of.operation();
                let mut found = found.iter().map(|index| &self.orders[*index].0);
                later(of) || found.any(|kernel| operation.is_some_and(|of| kernel.is_after(of)))
            };
            let mut next = (0..self.orders.len()).filter(|index| !found.contains(index));
            let Some(next) = next.find(|index| after(&self.orders[*index].1)) else {
                return false;
            };
            if earlier(&self.orders[next].0) {
                return true;
            }
            found.push(next);
        }
    }
}

fn overlap(some: &[ByteRanges], others: &[ByteRanges]) -> bool {
    let meet =
        |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
    some.iter().any(|some| {
        let others = others
            .iter()
            .filter(|others| others.info.number == some.info.number);
        others
            .flat_map(|others| &others.runs)
            .any(|other| some.runs.iter().any(|one| meet(one, other)))
    })
}
