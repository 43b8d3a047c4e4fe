//! Tests of imports: which stay, which are replaced, and which stand for later operations.

use super::*;
use crate::Error;

#[derive(Debug)]
struct Operation {
    ticket: Ticket,
    devices: Vec<DeviceNumber>,
    group: Option<GroupNumber>,
    valid: AtomicBool,
    invalid: AtomicBool,
    /// The number of calls of `check`.
    checks: AtomicU64,
}

impl Import for Operation {
    fn ticket(&self) -> Ticket {
        self.ticket
    }

    fn devices(&self) -> &[DeviceNumber] {
        &self.devices
    }

    fn group(&self) -> Option<GroupNumber> {
        self.group
    }

    fn repeat(&self, _: &LaterOperation<'_>) -> bool {
        !self.is_valid()
    }

    fn is_valid(&self) -> bool {
        self.valid.load(Ordering::Relaxed)
    }

    fn is_undecided(&self) -> bool {
        !self.is_valid() && !self.invalid.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<bool> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        if self.invalid.load(Ordering::Relaxed) {
            return Err(Error::unavailable("spoiled"));
        }
        Ok(self.is_valid())
    }
}

fn operation(stream: u64, sequence: u64, devices: &[u64]) -> Arc<Operation> {
    collective(stream, sequence, devices, None)
}

fn collective(
    stream: u64,
    sequence: u64,
    devices: &[u64],
    group: Option<GroupNumber>,
) -> Arc<Operation> {
    let number = |&device: &u64| DeviceNumber::of(device);
    Arc::new(Operation {
        ticket: Ticket::of(stream, sequence),
        devices: devices.iter().map(number).collect(),
        group,
        valid: AtomicBool::new(false),
        invalid: AtomicBool::new(false),
        checks: AtomicU64::new(0),
    })
}

fn add(provenance: &Provenance, import: &Arc<Operation>) {
    provenance.add(&[Arc::clone(import) as Arc<dyn Import>]);
}

fn unsettled(provenance: &Provenance) -> usize {
    provenance.unsettled().expect("no import is invalid").len()
}

#[test]
fn imports_stay_until_they_are_valid_or_replaced() {
    let provenance = Provenance::default();
    let [first, second] = [operation(1, 1, &[1, 2]), operation(2, 1, &[1, 2])];
    add(&provenance, &first);
    add(&provenance, &second);
    assert_eq!(unsettled(&provenance), 2);
    first.valid.store(true, Ordering::Relaxed);
    assert_eq!(unsettled(&provenance), 1);
    second.invalid.store(true, Ordering::Relaxed);
    assert!(provenance.unsettled().is_err() && provenance.read().is_err());
    assert_eq!(provenance.take().len(), 1);
    assert_eq!(unsettled(&provenance), 0);
    add(&provenance, &first);
    provenance.replace(&[]);
    assert!(provenance.take().is_empty() && provenance.read().is_ok());
}

#[test]
fn a_later_import_of_a_stream_replaces_those_whose_devices_it_includes() {
    let provenance = Provenance::default();
    add(&provenance, &operation(1, 1, &[1, 2]));
    add(&provenance, &operation(1, 2, &[1, 2, 3]));
    assert_eq!(unsettled(&provenance), 1);
    add(&provenance, &operation(1, 3, &[1, 2]));
    assert_eq!(unsettled(&provenance), 2);
    add(&provenance, &operation(2, 1, &[1, 2]));
    assert_eq!(unsettled(&provenance), 3);
}

#[test]
fn an_older_import_of_a_stream_replaces_no_newer_one() {
    let provenance = Provenance::default();
    let [older, newer] = [operation(1, 5, &[1, 2]), operation(1, 6, &[1, 2])];
    add(&provenance, &newer);
    add(&provenance, &older);
    older.valid.store(true, Ordering::Relaxed);
    newer.invalid.store(true, Ordering::Relaxed);
    assert!(provenance.unsettled().is_err());
}

#[test]
fn only_an_import_of_this_memory_alone_stands_for_a_later_operation() {
    let later = LaterOperation {
        ticket: Ticket::of(1, 2),
        label: "copy",
        location: Location::caller(),
        is_on: &|_| true,
    };
    let [one, other] = [(); 2].map(|()| Provenance::default());
    assert!(!one.repeat(&later, 0), "there is none");
    let import = operation(1, 1, &[1, 2]);
    add(&one, &import);
    assert!(one.repeat(&later, 1));
    add(&other, &import);
    assert!(!one.repeat(&later, 1), "other memory has it too");
    other.replace(&[]);
    add(&one, &operation(2, 1, &[1, 2]));
    assert!(!one.repeat(&later, 1), "there is another");
    one.replace(&[Arc::new(Noted("graph", GroupNumber::new(), false))]);
    assert!(!one.repeat(&later, 0), "a note stands for one replay");
}

#[test]
fn a_collective_asks_for_no_earlier_one_that_its_own_import_includes() {
    let [group, other] = [(); 2].map(|()| GroupNumber::new());
    let number = |&device: &u64| DeviceNumber::of(device);
    let later = |group, devices: &[u64]| LaterCollective {
        group,
        streams: [1, 2]
            .map(|stream| Ticket::of(stream, 1).stream)
            .into_iter()
            .collect(),
        devices: devices.iter().map(number).collect(),
    };
    let provenance = Provenance::default();
    let earlier = collective(1, 1, &[1, 2], Some(group));
    add(&provenance, &earlier);
    let unsettled = |later: &LaterCollective| {
        let found = provenance.unsettled_before(later)?;
        Ok::<_, Error>((found.len(), earlier.checks.swap(0, Ordering::Relaxed)))
    };
    let valid = "no import is invalid";
    assert_eq!(unsettled(&later(group, &[1, 2, 3])).expect(valid), (0, 0));
    assert_eq!(unsettled(&later(other, &[1, 2])).expect(valid), (1, 1));
    assert_eq!(unsettled(&later(group, &[1])).expect(valid), (1, 1));
    let elsewhere = LaterCollective {
        streams: SmallVec::from_slice(&[Ticket::of(3, 1).stream]),
        ..later(group, &[1, 2])
    };
    assert_eq!(unsettled(&elsewhere).expect(valid), (1, 1));
    earlier.invalid.store(true, Ordering::Relaxed);
    assert!(unsettled(&later(group, &[1, 2])).is_err());
    assert!(!later(group, &[]).includes(&Noted("graph", group, false)));
}

#[test]
fn a_collective_replaces_none_of_another_group() {
    let provenance = Provenance::default();
    let [one, other] = [(); 2].map(|()| Some(GroupNumber::new()));
    add(&provenance, &collective(1, 1, &[1, 2], one));
    add(&provenance, &collective(1, 2, &[1, 2], other));
    assert_eq!(unsettled(&provenance), 2);
    add(&provenance, &operation(1, 3, &[1, 2]));
    assert_eq!(unsettled(&provenance), 3);
    add(&provenance, &collective(1, 4, &[1, 2], other));
    // That of the first group is left.
    assert_eq!(unsettled(&provenance), 2);
}

/// A note of a graph's replay, and whether it is reached.
#[derive(Debug)]
struct Noted(&'static str, GroupNumber, bool);

impl Import for Noted {
    fn ticket(&self) -> Ticket {
        Ticket::of(1, 1)
    }

    fn devices(&self) -> &[DeviceNumber] {
        &[]
    }

    fn group(&self) -> Option<GroupNumber> {
        Some(self.1)
    }

    fn is_valid(&self) -> bool {
        false
    }

    fn check(&self) -> Result<bool> {
        Ok(false)
    }

    fn read(&self) -> Result<bool> {
        let unreached = (!self.2).then_some(false);
        unreached.ok_or_else(|| Error::unavailable(self.0))
    }

    fn note(&self) -> Option<Note> {
        let Self(graph, number, is_reached) = *self;
        Some(Note {
            graph,
            number,
            is_reached,
        })
    }
}

#[test]
fn the_last_reached_note_of_a_graph_replaces_the_earlier_ones() {
    let numbers = [(); 4].map(|()| GroupNumber::new());
    let notes = [("a", 3), ("a", 0), ("a", 1), ("b", 2)]
        .map(|(graph, at)| -> Arc<dyn Import> { Arc::new(Noted(graph, numbers[at], at < 3)) });
    let listed = |imports: &[Arc<dyn Import>]| -> Vec<_> {
        let at = |import: &_| notes.iter().position(|note| Arc::ptr_eq(note, import));
        imports.iter().filter_map(at).collect()
    };
    let provenance = Provenance::default();
    assert!(!provenance.is_used() && provenance.read().is_ok());
    provenance.replace(&notes);
    let mut left = provenance.unsettled().expect("no import is invalid");
    assert_eq!(listed(&left), [0, 2, 3]);
    provenance.add(&notes[2..3]);
    assert_eq!(listed(&provenance.imports.lock()), [0, 2, 3]);
    merge(&mut left, Imports::from(&notes[1..3]));
    assert_eq!(listed(&left), [0, 2, 3, 1]);
    let error = |read: Result<()>| read.expect_err("a loop ended at its limit").to_string();
    let last = error(Err(Error::unavailable("b")));
    assert_eq!(
        [error(read_imports(&left)), error(provenance.read())],
        [&*last, &*last]
    );
    add(&provenance, &operation(2, 1, &[1, 2]));
    provenance.forget_notes();
    assert!(provenance.read().is_ok() && provenance.is_used());
    assert_eq!(unsettled(&provenance), 1);
}
