//! What is ordered before what: streams, events, barriers and the host.

use std::{collections::BTreeMap, sync::Arc};

use millstream_driver::{ContextHandle, EventHandle, StreamHandle};

use super::clock::{Clock, Point};

/// One stream's order, seen from its end.
#[derive(Clone, Debug)]
struct Line {
    slot: usize,
    /// The last operation; 0 before the first.
    last: u64,
    /// The one in front of it.
    previous: u64,
    /// What the next operation is ordered after on other streams.
    before: Arc<Clock>,
    /// What the host had seen when the last operation was enqueued.
    known: Arc<Clock>,
}

impl Line {
    fn point(&self) -> Point {
        Point {
            slot: self.slot,
            op: self.last,
            previous: self.previous,
            before: Arc::clone(&self.before),
        }
    }
}

/// What someone who waits, or is told, is ordered after.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Clock>);

/// Streams that were destroyed and whose work is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gone {
    None,
    /// The blocking ones of a context.
    Blocking(ContextHandle),
    /// All of a context.
    All(ContextHandle),
}

/// The ends of the streams of one context that are gone.
#[derive(Debug, Default)]
struct GoneEnds {
    blocking: Arc<Clock>,
    all: Arc<Clock>,
}

/// The order of everything enqueued so far.
#[derive(Debug, Default)]
pub(super) struct Order {
    lines: BTreeMap<StreamHandle, Line>,
    /// The number of streams so far.
    slots: usize,
    gone: BTreeMap<ContextHandle, GoneEnds>,
    events: BTreeMap<EventHandle, Point>,
    /// What the host has seen complete.
    known: Arc<Clock>,
}

impl Order {
    fn line(&mut self, stream: StreamHandle) -> &mut Line {
        let slots = &mut self.slots;
        self.lines.entry(stream).or_insert_with(|| {
            *slots += 1;
            Line {
                slot: *slots - 1,
                last: 0,
                previous: 0,
                before: Arc::default(),
                known: Arc::default(),
            }
        })
    }

    fn gone(&self, gone: Gone) -> Option<&Arc<Clock>> {
        match gone {
            Gone::None => None,
            Gone::Blocking(context) => self.gone.get(&context).map(|ends| &ends.blocking),
            Gone::All(context) => self.gone.get(&context).map(|ends| &ends.all),
        }
    }

    /// An operation joins the end of `stream`, behind the ends of `queues` and behind `after`.
    pub(super) fn enqueue(
        &mut self,
        stream: StreamHandle,
        op: u64,
        (queues, gone): (&[StreamHandle], Gone),
        after: impl Iterator<Item = Point>,
    ) -> Point {
        let gone = self.gone(gone).cloned();
        let mut others: Vec<Point> = after.collect();
        let lines = queues.iter().filter(|queue| **queue != stream);
        others.extend(
            lines
                .filter_map(|queue| self.lines.get(queue))
                .map(Line::point),
        );
        let known = Arc::clone(&self.known);
        let line = self.line(stream);
        if !Arc::ptr_eq(&line.known, &known) {
            Clock::join(&mut line.before, &known);
            line.known = known;
        }
        for other in others {
            other.join_into(&mut line.before);
        }
        if let Some(gone) = gone {
            Clock::join(&mut line.before, &gone);
        }
        line.previous = std::mem::replace(&mut line.last, op);
        line.point()
    }

    /// An event captures the work of `stream` so far (rules 22 and 23).
    pub(super) fn record(&mut self, event: EventHandle, stream: StreamHandle) {
        let point = self.line(stream).point();
        self.events.insert(event, point);
    }

    /// Later work of `stream` is behind what `event` captured (rule 24).
    pub(super) fn wait(&mut self, stream: StreamHandle, event: EventHandle) {
        if let Some(point) = self.events.get(&event).cloned() {
            point.join_into(&mut self.line(stream).before);
        }
    }

    pub(super) fn forget_event(&mut self, event: EventHandle) {
        self.events.remove(&event);
    }

    /// Forgets a destroyed stream, and keeps its end for its context.
    pub(super) fn forget_stream(
        &mut self,
        stream: StreamHandle,
        of: ContextHandle,
        blocking: bool,
    ) {
        let Some(line) = self.lines.remove(&stream) else {
            return;
        };
        let ends = self.gone.entry(of).or_default();
        line.point().join_into(&mut ends.all);
        if blocking {
            line.point().join_into(&mut ends.blocking);
        }
    }

    pub(super) fn forget_context(&mut self, context: ContextHandle) {
        self.gone.remove(&context);
    }

    /// Whoever waits for all of these streams, as they are now, is ordered after this.
    pub(super) fn ends_of(&self, streams: impl Iterator<Item = StreamHandle>, gone: Gone) -> Seen {
        let mut seen = Seen(self.gone(gone).cloned().unwrap_or_default());
        for line in streams.filter_map(|stream| self.lines.get(&stream)) {
            line.point().join_into(&mut seen.0);
        }
        seen
    }

    /// Whoever waits for the event, as it is now, is ordered after this.
    pub(super) fn event(&self, event: EventHandle) -> Seen {
        self.events
            .get(&event)
            .map_or_else(Seen::default, Seen::point)
    }

    /// The host has seen this complete.
    pub(super) fn host_saw(&mut self, seen: &Seen) {
        Clock::join(&mut self.known, &seen.0);
    }

    /// What the host has seen complete.
    pub(super) fn known(&self) -> &Arc<Clock> {
        &self.known
    }
}

impl Seen {
    pub(super) fn point(point: &Point) -> Self {
        let mut seen = Self::default();
        point.join_into(&mut seen.0);
        seen
    }

    pub(super) fn before(point: &Point) -> Self {
        let mut seen = Self(Arc::clone(&point.before));
        Arc::make_mut(&mut seen.0).raise(point.slot, point.previous);
        seen
    }
}
