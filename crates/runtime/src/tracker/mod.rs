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
//! This order holds for the streams and allocations of all devices together.
//!
//! submit queue → access histories, in the order of their ids → (released) → shared state of a
//! stream, one at a time → event pool. A submit queue is held across the driver calls of its own
//! stream, so that the order of tickets equals the order in the driver's queue. The other locks are
//! never held across a driver call, a host wait or user code. A thread never waits for a submit
//! queue while it holds another: a thread that frees page-locked memory only tries to lock all of
//! them, and a thread that searches the cache, with the budget locked, only tries to lock its own
//! stream's. The budget is locked briefly while a submit queue is held and memory is freed. The
//! list of open devices is read while access histories are locked, to see whether a ticket of
//! another device is done; no other lock of this list is taken under it.
//!
//! # Soundness: an operation waits for every conflict
//!
//! 1. A conflict is a pair of accesses to a common byte of which one writes. The operation that is
//!    published second finds the first in the access history, or finds a ticket that itself waited
//!    for the first: a write replaces the tickets of its bytes only when it depends on all of them,
//!    and only tickets of its own device.
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
//!    stream's list of failures. If other libraries may have borrowed operands or captured streams,
//!    an operation is planned without its publication first ([`plan_unpublished`]), and refused
//!    without a trace if it cannot be ordered.
//!
//! # Soundness: several devices
//!
//! An operation that uses memory of another device than its stream's is a *crossing*. An access
//! history may therefore hold tickets of any device of the process. A dependency on one is
//! resolved like any other: the thread that needs a sync point finds one in the state of the
//! ticket's stream, or records one late, on the owner's device (rule 26: an event is recorded in
//! its own context, and streams of any context may wait for it).
//!
//! A device can be *lost*, unlike a stream: its work ends where it was, and the waits of other
//! devices for its events end too. An order that rests on a lost device is then no order. Two
//! devices that work must nevertheless be ordered, and so must two streams of one device. The
//! following statement is kept: *if the clock of a stream S covers a ticket t, S's later work runs
//! after t, unless the device of S or that of t is lost.*
//!
//! 6. A stream that waits for an event of its own device gains the event's whole clock: each entry
//!    holds for the event's stream, which is on the same device. A stream that waits for an event
//!    of another device gains only the entries of that device
//!    ([`VectorClock::join_device`]): each rests on waits within that device. The other entries
//!    would rest on a third party, the event's device. By induction over the waits, the statement
//!    holds for every entry.
//! 7. A write replaces only tickets of its own device ([`AccessHistory`]). Otherwise an operation
//!    that follows it would find only the write, which is never done if its device is lost, and
//!    would miss what the write was going to wait for. By induction over the writes of one device,
//!    the operation that is published second depends, if neither device is lost, on the first or on
//!    a ticket of the first's device that runs after it. Tickets of other devices stay until they
//!    are done or their own device writes the bytes.
//! 8. Of the sync points that an operation needs, one is left out if another implies it
//!    ([`drop_implied`]): the other is on the waiting device or on the same device as the one that
//!    is left out, for the same reason.
//! 9. A ticket of a lost device needs no wait: its device executes nothing any more. Nor does an
//!    operation that waited for it in vain spoil any value silently. One of the two is a crossing,
//!    because both use the same memory. If the operation is the crossing, the memory is the lost
//!    device's, and all that the operation writes has an *import* ([`Provenance`]) that names the
//!    lost device. If the ticket is, and only reads the bytes, they hold what the operation
//!    expects; if it writes them, they have such an import, and so has everything that is computed
//!    from them. An import is valid only if its operation is complete and each of its devices
//!    answers without an error after that, so every read of bytes that may not have arrived is an
//!    error.
//! 10. A ticket of a closed device counts as done. The memory of a device keeps it open, so only
//!     histories of other devices' memory can hold such a ticket, and it is that of a crossing. A
//!     crossing keeps all its devices open until it is complete or its device is lost, from before
//!     its publication on: first its caller holds them, then the list of watched crossings.
//! 11. An event that is seen complete marks as done only the tickets of its own device in its clock
//!     (`note_done`). Each of these rests on waits within that device, which works, because it has
//!     answered. A ticket of another device may be in the clock because of a wait that ended with
//!     the loss of that device; it is marked when its own device is polled.
//!
//! # Absence of deadlocks
//!
//! An operation that depends on a published ticket waits on the host until the ticket is submitted.
//! Publication is serialised by the access histories: the ticket was published before the dependent
//! one. A cycle of such waits would be a cycle in time. The thread that submits settles the ticket
//! whether its driver calls succeed, fail or panic; a guard ensures it.
//!
//! This holds for several devices, because access histories are locked in the order of ids that are
//! unique in the process, so that publication is serialised across devices too. To record late on
//! another device takes the shared state of a stream and the event pool of that device, no submit
//! queue. The last reference to a device closes it, which takes further locks; a thread that looked
//! up another device drops its reference after it has released all locks.
//!
//! On the devices, a stream waits only for events that were recorded before the wait was enqueued,
//! so that the streams of all devices together execute in some order in time. A wait for an event
//! of a lost device ends.

mod access_history;
mod accesses;
mod event_policy;
mod extent;
mod layout;
mod leases;
mod linear_layout;
mod ownership;
mod pitched_layout;
mod plan;
mod provenance;
mod sync_point;
mod sync_points;
mod ticket;
mod tickets;
mod union;
mod users;
mod vector_clock;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod model;

pub(crate) use access_history::AccessHistory;
pub(crate) use accesses::{Access, Accesses};
pub(crate) use extent::{AccessKind, Extent};
pub(crate) use leases::{ConflictingLease, LeaseNumber, PutOffEnd};
pub(crate) use plan::{
    Dependencies, GroupMember, Plan, plan_and_publish, plan_and_publish_group, plan_lease,
    plan_lease_end, plan_unpublished, restore_displaced,
};
pub(crate) use provenance::{
    GroupNumber, Import, Imports, LaterCollective, LaterOperation, Note, Provenance, merge,
    read_imports,
};
pub(crate) use sync_point::SyncPoint;
pub(crate) use sync_points::{SyncPoints, drop_implied};
pub(crate) use ticket::{DeviceNumber, Sequence, StreamId, Ticket};
pub(crate) use union::{AccessUnion, UnionEntry};
pub(crate) use vector_clock::VectorClock;
