//! What is ordered before what: streams, events, barriers and the host.

use std::{collections::BTreeMap, sync::Arc};

use millstream_driver::{EventHandle, StreamHandle};

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

/// The order of everything enqueued so far.
#[derive(Debug, Default)]
pub(super) struct Order {
    lines: BTreeMap<StreamHandle, Line>,
    events: BTreeMap<EventHandle, Point>,
    /// What the host has seen complete.
    known: Arc<Clock>,
}

impl Order {
    fn line(&mut self, stream: StreamHandle) -> &mut Line {
        let slot = self.lines.len();
        self.lines.entry(stream).or_insert_with(|| Line {
            slot,
            last: 0,
            previous: 0,
            before: Arc::default(),
            known: Arc::default(),
        })
    }

    /// An operation joins the end of `stream`, behind the ends of `queues` and behind `after`.
    pub(super) fn enqueue(
        &mut self,
        stream: StreamHandle,
        op: u64,
        queues: &[StreamHandle],
        after: impl Iterator<Item = Point>,
    ) -> Point {
        let mut others: Vec<Point> = after.collect();
        let lines = queues.iter().filter(|queue| **queue != stream);
        others.extend(lines.filter_map(|queue| self.lines.get(queue)).map(Line::point));
        let known = Arc::clone(&self.known);
        let line = self.line(stream);
        if !Arc::ptr_eq(&line.known, &known) {
            Clock::join(&mut line.before, &known);
            line.known = known;
        }
        for other in others {
            other.join_into(&mut line.before);
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

    /// Whoever waits for all of these streams, as they are now, is ordered after this.
    pub(super) fn ends_of(&self, streams: impl Iterator<Item = StreamHandle>) -> Seen {
        let mut seen = Seen::default();
        for line in streams.filter_map(|stream| self.lines.get(&stream)) {
            line.point().join_into(&mut seen.0);
        }
        seen
    }

    /// Whoever waits for the event, as it is now, is ordered after this.
    pub(super) fn event(&self, event: EventHandle) -> Seen {
        self.events.get(&event).map_or_else(Seen::default, Seen::point)
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
