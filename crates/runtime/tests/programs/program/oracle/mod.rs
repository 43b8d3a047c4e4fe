//! What must come of a program: its steps one after another on plain vectors, in the order of the
//! program's text. It knows the interface by its documentation alone.
//!
//! After an operation that failed for want of memory or of a device, what it would have written is
//! unknown, until something known is written there. Everything else stays as it was.

mod apply;
mod bytes;
mod effects;

use millstream::Error;

use super::{
    elem::Elem,
    outcome::{LogEntry, Outcome},
    step::{ARRAYS, EVENTS, PENDINGS, Part, Program, STREAMS, Settle, Step},
};
use bytes::{Array, Bytes, Range, same};

/// Which errors may come that are no mistakes of the program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    /// Calls of the driver fail, or devices are lost.
    pub(crate) faults: bool,
    /// Memory is scarce.
    pub(crate) no_memory: bool,
}

/// What a step should come to.
enum Expected {
    /// A place that it names is empty.
    Skip,
    /// It is wrong, and changes nothing.
    Mistake,
    /// It is done; and brings this.
    Done(Option<Bytes>),
    /// It is done, or a body that was left by a panic; and brings this.
    Panic(Option<Bytes>),
    /// A mistake, and brings this nevertheless.
    MistakeWith(Option<Bytes>),
    /// It is done, and brings this or, if nothing was there yet, nothing.
    Perhaps(Bytes),
}

/// What must be everywhere once everything so far is done.
#[derive(Clone)]
struct Oracle {
    allowed: Allowed,
    limits: Vec<Option<u64>>,
    streams: Vec<Option<usize>>,
    arrays: Vec<Option<Array>>,
    pendings: Vec<Option<Bytes>>,
    events: Vec<Option<usize>>,
    has_timeline: bool,
}

/// Compares what a machine wrote down with what must come of the program.
///
/// # Errors
///
/// The first difference, in words.
pub(crate) fn check(program: &Program, log: &[LogEntry], allowed: Allowed) -> Result<(), String> {
    let mut oracle = Oracle {
        allowed: Allowed {
            no_memory: allowed.no_memory || program.memory_bytes.is_some(),
            ..allowed
        },
        limits: vec![None; program.devices],
        streams: vec![None; STREAMS],
        arrays: vec![None; ARRAYS],
        pendings: vec![None; PENDINGS],
        events: vec![None; EVENTS],
        has_timeline: false,
    };
    let mut log = log.iter();
    for (number, placed) in program.steps.iter().enumerate() {
        let checked = oracle.step(&placed.step, &mut log);
        checked.map_err(|problem| format!("{problem}, in step {number}, {:?}", placed.step))?;
    }
    for pending in 0..PENDINGS {
        let step = Step::Settle {
            pending,
            how: Settle::Wait,
        };
        let checked = oracle.step(&step, &mut log);
        checked
            .map_err(|problem| format!("{problem}, in the pending value {pending} at the end"))?;
    }
    for (at, array) in oracle.arrays.iter().enumerate() {
        let expected = match array {
            None => Expected::Skip,
            Some(array) => Expected::Done(Some(array.bytes.clone())),
        };
        let entry = log.next().expect("an entry for each array");
        let compared = oracle.compare(&expected, entry);
        compared.map_err(|problem| format!("{problem}, in array {at} at the end"))?;
    }
    assert!(log.next().is_none(), "no entry is left over");
    Ok(())
}

impl Oracle {
    fn step<'l>(
        &mut self,
        step: &Step,
        log: &mut impl Iterator<Item = &'l LogEntry>,
    ) -> Result<(), String> {
        if let Step::Apart(lists) = step {
            for (odd, list) in lists.iter().enumerate() {
                self.apart(odd, list, log)?;
            }
        }
        let entry = log.next().expect("an entry for each step");
        let mut after = self.clone();
        let expected = after.apply(step, entry.seen.is_some());
        self.compare(&expected, entry)?;
        match &entry.outcome {
            Outcome::Failed(Error::Usage(_)) if matches!(expected, Expected::Mistake) => {}
            Outcome::Failed(Error::Usage(_)) | Outcome::Done | Outcome::Panicked => {
                after.check_limit(step)?;
                *self = after;
            }
            Outcome::Skipped => {}
            Outcome::Failed(_) => self.spoil(step, &after),
        }
        Ok(())
    }

    /// One of two lists, with its own arrays and values.
    fn apart<'l>(
        &mut self,
        odd: usize,
        list: &[Step],
        log: &mut impl Iterator<Item = &'l LogEntry>,
    ) -> Result<(), String> {
        let mut part = self.clone();
        (part.events, part.has_timeline) = (vec![None; EVENTS], false);
        part.arrays
            .iter_mut()
            .skip(1 - odd)
            .step_by(2)
            .for_each(|array| *array = None);
        part.pendings
            .iter_mut()
            .skip(1 - odd)
            .step_by(2)
            .for_each(|pending| *pending = None);
        for (number, step) in list.iter().enumerate() {
            let checked = part.step(step, log);
            checked.map_err(|problem| {
                format!("{problem}, in step {number} of list {odd}, {step:?}")
            })?;
        }
        for at in (odd..ARRAYS).step_by(2) {
            self.arrays[at] = part.arrays[at].take();
        }
        for at in (odd..PENDINGS).step_by(2) {
            self.pendings[at] = part.pendings[at].take();
        }
        Ok(())
    }

    /// Whether a step came to what it should have.
    fn compare(&self, expected: &Expected, entry: &LogEntry) -> Result<(), String> {
        let LogEntry { outcome, seen } = entry;
        match (expected, outcome) {
            (Expected::Skip, Outcome::Skipped)
            | (Expected::Mistake, Outcome::Failed(Error::Usage(_))) => Ok(()),
            // One failure is told, of two: which downloads of a scope have landed is not known
            // then.
            (Expected::Panic(_), Outcome::Panicked)
            | (Expected::MistakeWith(_), Outcome::Failed(Error::Usage(_)))
                if self.allowed.faults =>
            {
                Ok(())
            }
            (Expected::Done(bytes), Outcome::Done)
            | (Expected::Panic(bytes), Outcome::Panicked)
            | (Expected::MistakeWith(bytes), Outcome::Failed(Error::Usage(_))) => {
                same(bytes.as_ref(), seen.as_deref())
            }
            (Expected::Perhaps(bytes), Outcome::Done) => match seen {
                Some(seen) => same(Some(bytes), Some(seen)),
                None => Ok(()),
            },
            (Expected::Skip, _) | (_, Outcome::Skipped | Outcome::Done | Outcome::Panicked) => {
                Err(format!(
                    "{} was expected, and it came to {outcome:?}",
                    expected.words()
                ))
            }
            (_, Outcome::Failed(error)) => self.may_fail(error, expected),
        }
    }

    fn may_fail(&self, error: &Error, expected: &Expected) -> Result<(), String> {
        let is_limited = self.limits.iter().any(Option::is_some);
        let is_allowed = match error {
            Error::OutOfMemory(_) => self.allowed.faults || self.allowed.no_memory || is_limited,
            Error::Usage(_) => false,
            _ => self.allowed.faults,
        };
        if is_allowed {
            return Ok(());
        }
        Err(format!(
            "{} was expected, and it failed: {error:?}",
            expected.words()
        ))
    }

    /// An array larger than what all of them may have together was not to be had.
    fn check_limit(&self, step: &Step) -> Result<(), String> {
        if let Step::Make {
            array, elem, len, ..
        } = *step
            && let Some(made) = &self.arrays[array]
            && let Some(limit) = self.limits[made.device]
            && (len * elem.bytes()) as u64 > limit
        {
            return Err(format!("it was made in spite of a limit of {limit} bytes"));
        }
        Ok(())
    }

    /// After a failure: of everything that the step would have changed it is unknown whether it
    /// has.
    fn spoil(&mut self, step: &Step, after: &Self) {
        for (array, after) in self.arrays.iter_mut().zip(&after.arrays) {
            if let (Some(array), Some(after)) = (array, after)
                && array.bytes.values.len() == after.bytes.values.len()
            {
                let old = &mut array.bytes;
                for at in 0..old.values.len() {
                    old.known[at] &=
                        after.bytes.known[at] && old.values[at] == after.bytes.values[at];
                }
            }
        }
        let mut spoil = |at: usize| {
            if let Some(array) = &mut self.arrays[at] {
                array.bytes.known.fill(false);
            }
        };
        match step {
            // These write some bytes more than once.
            Step::Halves { array, .. } | Step::Unordered { array, .. } => spoil(*array),
            Step::Scope { copies, .. } => {
                let uploads = copies.iter().filter(|copy| copy.upload.is_some());
                uploads.for_each(|copy| spoil(copy.part.array));
            }
            // These are used up all the same.
            Step::IntoVec(array) => self.arrays[*array] = None,
            Step::Settle { pending, .. } => self.pendings[*pending] = None,
            Step::Timeline(_) => self.has_timeline = false,
            _ => {}
        }
    }

    /// A part's array and its bytes there.
    fn find(&self, part: Part, elem: Elem) -> Option<(&Array, Range)> {
        let size = elem.bytes();
        let bytes = part.first * size..(part.first + part.len) * size;
        self.arrays[part.array].as_ref().map(|array| (array, bytes))
    }
}

impl Expected {
    fn words(&self) -> &'static str {
        match self {
            Self::Skip => "nothing",
            Self::Mistake | Self::MistakeWith(_) => "an error of misuse",
            Self::Done(_) | Self::Perhaps(_) => "success",
            Self::Panic(_) => "the body's panic",
        }
    }
}
