//! The oracle's model of arrays: their bytes, and a mask of the bytes that have a known value.

use super::super::{elem::Elem, step::Rect};

/// Byte values with a mask of the known ones.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    pub(super) values: Vec<u8>,
    pub(super) known: Vec<bool>,
}

impl Bytes {
    pub(super) fn of(values: Vec<u8>) -> Self {
        let known = vec![true; values.len()];
        Self { values, known }
    }

    pub(super) fn part(&self, range: Range) -> Self {
        Self {
            values: self.values[range.clone()].to_vec(),
            known: self.known[range].to_vec(),
        }
    }

    pub(super) fn write(&mut self, start: usize, from: &Self) {
        let range = start..start + from.values.len();
        self.values[range.clone()].copy_from_slice(&from.values);
        self.known[range].copy_from_slice(&from.known);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.values.extend(other.values);
        self.known.extend(other.known);
    }
}

pub(super) type Range = std::ops::Range<usize>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Buffer,
    Managed,
    Pinned,
}

#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) kind: Kind,
    pub(super) device: usize,
    pub(super) bytes: Bytes,
}

impl Array {
    pub(super) fn new(kind: Kind, device: usize, values: Vec<u8>) -> Self {
        Self {
            kind,
            device,
            bytes: Bytes::of(values),
        }
    }

    /// Returns the array unless it is pinned.
    pub(super) fn on_device(&self) -> Option<&Self> {
        (self.kind != Kind::Pinned).then_some(self)
    }

    pub(super) fn is_reached_by(&self, device: usize) -> bool {
        self.kind != Kind::Pinned && self.device == device
    }

    pub(super) fn has(&self, bytes: &Range) -> bool {
        bytes.end <= self.bytes.values.len()
    }

    /// Returns the byte offsets of a rectangle's elements, row after row, if it lies within the
    /// array.
    pub(super) fn rect(
        &self,
        rect: Rect,
        elem: Elem,
    ) -> Option<impl Iterator<Item = usize> + use<>> {
        let Rect {
            pitch, first, size, ..
        } = rect;
        let elem = if self.kind == Kind::Pinned {
            Elem::U8
        } else {
            elem
        };
        let rows = self.bytes.values.len() / elem.bytes() / pitch;
        let lies_within = first[0] + size[0] <= rows && first[1] + size[1] <= pitch;
        let place =
            move |at| ((first[0] + at / size[1]) * pitch + first[1] + at % size[1]) * elem.bytes();
        lies_within.then(|| (0..size[0] * size[1]).map(place))
    }

    pub(super) fn gather(&self, places: impl Iterator<Item = usize>, elem: Elem) -> Bytes {
        let mut gathered = Bytes::of(Vec::new());
        places.for_each(|at| gathered.append(self.bytes.part(at..at + elem.bytes())));
        gathered
    }
}

/// Compares the observed bytes with the known ones.
pub(super) fn same(expected: Option<&Bytes>, seen: Option<&[u8]>) -> Result<(), String> {
    let (expected, seen) = match (expected, seen) {
        (None, None) => return Ok(()),
        (Some(expected), Some(seen)) => (expected, seen),
        (expected, seen) => {
            return Err(format!("{expected:?} was expected, and {seen:?} seen"));
        }
    };
    if seen.len() != expected.values.len() {
        let (seen, expected) = (seen.len(), expected.values.len());
        return Err(format!("{seen} bytes in place of {expected}"));
    }
    let differs = |at: &usize| expected.known[*at] && expected.values[*at] != seen[*at];
    match (0..seen.len()).find(differs) {
        None => Ok(()),
        Some(at) => {
            let count = (0..seen.len()).filter(differs).count();
            let (expected, seen) = (expected.values[at], seen[at]);
            Err(format!(
                "{count} wrong bytes, the first at {at}: {seen} in place of {expected}"
            ))
        }
    }
}
