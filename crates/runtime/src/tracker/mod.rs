//! The tracker: which earlier operations must an operation wait for? Safe code that never sees a
//! driver.
//!
//! # Words
//!
//! A *ticket* is an operation: a stream and its number there, from 1. An *access history* is an
//! allocation's history: disjoint byte segments, each with the tickets that last wrote and read it.
//! A *clock* says, for every stream, up to which ticket a sync point is ordered. A *sync point* is
//! an event recorded on a stream, with the ticket in front of it and the clock there. *Done* is how
//! far a stream is known to have finished.
//!
//! Most access histories are one stream's alone: all tickets are of that stream, in one segment.
//! Such an access history says so, and what the stream does to the whole of it is entered without a
//! look at the history. Whoever else enters something takes that back, and it is found out anew
//! with each access that looks.
//!
//! The bytes of an access are an [`Extent`]: a range, or the rows of a rectangle. An access
//! history's segments lie in a row while whole arrays and ranges are used. The first rectangle
//! makes it a table of that pitch, in which a rectangle costs the segments that it meets, however
//! many rows it has. Rectangles of two pitches in one allocation cost a segment for each row.
//! Either way no access meets bytes that it does not touch, until there are so many segments that
//! space goes first; and a write of the whole array leaves one segment.
//!
//! # States of a ticket
//!
//! | state | means | entered by |
//! |---|---|---|
//! | reserved | it has a number | the thread that holds the stream's submit queue |
//! | published | the access histories of its operands name it | [`plan_and_publish`], each of its access histories locked until it has entered the last |
//! | submitted | its driver calls are made, or have failed for good | [`SyncPoints::submit`], [`SyncPoints::fail`] |
//! | done | the device has finished it | whoever saw an event or a stream complete |
//!
//! # Who owns what
//!
//! | what | lock | who changes it |
//! |---|---|---|
//! | a stream's next number and clock | the stream's *submit queue* | the thread that submits on it |
//! | a stream's sync points, submitted number, failures, last operations | what the stream *shares* | the submit queue's holder; a consumer that records late |
//! | a sync point's ticket and clock | none | whoever takes its event from the pool, while nobody else holds the event |
//! | an access history's segments | the access history | whoever plans |
//! | done | atomic, only grows | anyone |
//!
//! # Lock order
//!
//! submit queue → access histories, in the order of their numbers → (released) → what a stream
//! shares, one at a time → the pool's events. A submit queue is held across the driver calls of its
//! own stream, so that numbers and queue order agree. The others are never held across a driver
//! call, a host wait or user code. No thread ever waits for a submit queue while it holds another;
//! whoever gives page-locked memory back only tries to take them all, and whoever looks for memory
//! that is kept, with the budget locked, only tries to take his stream's. The budget is locked for
//! a moment where a submit queue is held and something is freed.
//!
//! # Why an operation waits for enough
//!
//! 1. A conflict is two accesses to a common byte of which one writes. Whichever is published
//!    second finds the first in the access history, or finds a ticket that itself waited for the
//!    first: a write replaces the tickets of its bytes only when it depends on all of them.
//! 2. A dependency is dropped for three reasons: it is of the same stream (rule 16), the stream's
//!    clock has it, or it is done. A clock gains a ticket only by a wait that the driver has
//!    accepted for a sync point that covers the ticket.
//! 3. A sync point claims what was submitted before the event was recorded, never what was only
//!    published.
//! 4. An access that opts out ([`Access::ordered`]) does not wait, so it replaces nothing: it is
//!    entered beside what it conflicts with, and whoever comes later finds both.
//! 5. An operation whose submission fails may stand for no work, and may have displaced tickets
//!    that it then never waited for. Before it counts as submitted these are entered again
//!    ([`restore_displaced`]), and those who planned in between find them in the stream's failures.
//!
//! # Why nobody waits for ever
//!
//! A consumer of a published ticket waits until it is submitted. Publication is serialised by the
//! access histories: the ticket was published before the consumer's. A circle of such waits would
//! be a circle in time. The thread that submits does so whether its driver calls succeed, fail or
//! panic; a guard sees to it.

mod access_history;
mod accesses;
mod event_policy;
mod extent;
mod layout;
mod linear_layout;
mod pitched_layout;
mod plan;
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
pub(crate) use plan::{Dependencies, Plan, plan_and_publish, restore_displaced};
pub(crate) use sync_points::{SyncPoint, SyncPoints, drop_implied};
pub(crate) use ticket::{Sequence, StreamId, Ticket};
pub(crate) use vector_clock::VectorClock;
