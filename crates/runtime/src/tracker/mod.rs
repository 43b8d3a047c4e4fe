//! The tracker: derives from the operands of an operation which earlier operations it must wait
//! for. Safe code that never calls a driver.
//!
//! # Terms
//!
//! A *ticket* names an operation: a stream and a sequence number there, from 1. An *access history*
//! lists the last accesses of an allocation: disjoint byte segments, each with the tickets that
//! last wrote and read it. A *vector clock* holds, for every stream, the last ticket that a point
//! in the program is ordered after. A *sync point* is an event recorded on a stream, with the
//! ticket before it and the clock there. *Done* is the last ticket of a stream that is known to be
//! complete.
//!
//! Most allocations are used by a single stream: their history has one segment with tickets of that
//! stream only. Such a history stores its *sole stream*, and an access of that stream to the whole
//! allocation is entered without a search. Any other access clears the sole stream; each access
//! that searches the history determines it anew.
//!
//! The bytes of an access are an [`Extent`]: a range, or the rows of a rectangle. The segments of a
//! history have a linear layout as long as only ranges are accessed. The first rectangle converts
//! it to a pitched layout with the rectangle's pitch, in which a rectangle costs as many segments
//! as it overlaps, however many rows it has. Rectangles of two pitches in one allocation need the
//! linear layout and cost a segment per row. In either layout an access only conflicts with bytes
//! that it accesses, until the number of segments exceeds a bound and neighbouring segments are
//! merged. A write of the whole allocation leaves one segment.
//!
//! # States of a ticket
//!
//! - *Reserved*: it has a sequence number. Set by the thread that holds the stream's submit queue.
//! - *Published*: the access histories of its operands contain it. Set by [`plan_and_publish`],
//!   which keeps all these histories locked until it has entered the last. The tickets of a group
//!   are published together, by [`plan_and_publish_group`].
//! - *Submitted*: its driver calls have been made, or have failed. Set by [`SyncPoints::submit`]
//!   and [`SyncPoints::fail`].
//! - *Done*: the device has completed it. Set by the thread that observes the completion of an
//!   event or a stream.
//!
//! # Ownership
//!
//! - A stream's next sequence number and its clock: protected by the stream's *submit queue*,
//!   changed by the submitting thread.
//! - A stream's sync points, submitted number, failures and recent operations: protected by the
//!   lock of its *shared state*, changed by the holder of the submit queue and by consumers that
//!   record late.
//! - A sync point's ticket and clock: without a lock, changed by the thread that takes its event
//!   from the pool, while it holds the only reference.
//! - An access history's segments: protected by the history's lock, changed by the planning thread.
//! - Done: an atomic that only grows, changed by any thread.
//!
//! # Lock order
//!
//! submit queue → access histories, in the order of their ids → (released) → shared state of a
//! stream, one at a time → event pool. A submit queue is held across the driver calls of its own
//! stream, so that the order of tickets equals the order in the driver's queue. The other locks are
//! never held across a driver call, a host wait or user code. A thread never waits for a submit
//! queue while it holds another: a thread that frees page-locked memory only tries to lock all of
//! them, and a thread that searches the cache, with the budget locked, only tries to lock its own
//! stream's. The budget is locked briefly while a submit queue is held and memory is freed.
//!
//! # Soundness: an operation waits for every conflict
//!
//! 1. A conflict is a pair of accesses to a common byte of which one writes. The operation that is
//!    published second finds the first in the access history, or finds a ticket that itself waited
//!    for the first: a write replaces the tickets of its bytes only when it depends on all of them.
//! 2. A dependency is dropped for three reasons: it is on the same stream (rule 16: a stream is
//!    first in, first out), the stream's clock covers it, or it is done. A clock gains a ticket
//!    only by a wait that the driver has accepted for a sync point that covers the ticket.
//! 3. A sync point covers only tickets that were submitted before its event was recorded, never
//!    tickets that were only published.
//! 4. An access that opts out of ordering ([`Access::ordered`]) does not wait, so it replaces
//!    nothing: it is added to the tickets that it conflicts with, and later operations find both.
//! 5. An operation whose submission fails may stand for no work, and may have displaced tickets
//!    that it then never waited for. Before it counts as submitted, these are entered again
//!    ([`restore_displaced`]), and operations that were planned in between find them in the
//!    stream's list of failures.
//!
//! # Absence of deadlocks
//!
//! An operation that depends on a published ticket waits on the host until the ticket is submitted.
//! Publication is serialised by the access histories: the ticket was published before the dependent
//! one. A cycle of such waits would be a cycle in time. The thread that submits settles the ticket
//! whether its driver calls succeed, fail or panic; a guard ensures it.

mod access_history;
mod accesses;
mod event_policy;
mod extent;
mod layout;
mod linear_layout;
mod pitched_layout;
mod plan;
mod provenance;
mod sync_points;
mod ticket;
mod tickets;
mod vector_clock;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod model;

pub(crate) use access_history::{AccessHistory, AccessKind};
pub(crate) use accesses::{Access, Accesses};
pub(crate) use extent::Extent;
pub(crate) use plan::{
    Dependencies, GroupMember, Plan, plan_and_publish, plan_and_publish_group, restore_displaced,
};
pub(crate) use provenance::{Import, Imports, Provenance};
pub(crate) use sync_points::{SyncPoint, SyncPoints, drop_implied};
pub(crate) use ticket::{DeviceNumber, Sequence, StreamId, Ticket};
pub(crate) use vector_clock::VectorClock;
