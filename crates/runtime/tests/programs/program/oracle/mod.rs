//! The oracle: executes a program's steps in program order on plain vectors and compares the
//! results with the log. It depends only on the documented behaviour of the interface.
//!
//! After an operation failed with an out-of-memory or device error, the bytes it would have written
//! are unknown until known values are written there. Everything else keeps its values.

mod apply;
mod bytes;
mod effects;

use millstream::{
    Error, UsageErrorKind,
    sim::{Link, Links},
};

use super::{
    elem::Elem,
    outcome::{LogEntry, Outcome},
    step::{ARRAYS, EVENTS, PENDINGS, Part, Program, STREAMS, Settle, Step},
};
use bytes::{Array, Bytes, Kind, Range, same};

/// The kinds of errors that may occur in a correct program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    /// Driver calls fail, or devices are lost.
    pub(crate) faults: bool,
    /// Memory is scarce.
    pub(crate) no_memory: bool,
}

enum Expected {
    /// Skipped: the step names an empty slot.
    Skip,
    /// A usage error without effects.
    Mistake,
    /// Success, with these bytes.
    Done(Option<Bytes>),
    /// A scope that its body left by a panic, with these bytes.
    Panic(Option<Bytes>),
    /// A usage error, with these bytes nevertheless.
    MistakeWith(Option<Bytes>),
    /// Success, with these bytes or, if the value was not ready, none.
    Perhaps(Bytes),
}

/// The expected contents of all slots once every step so far is complete.
#[derive(Clone)]
struct Oracle {
    allowed: Allowed,
    links: Links,
    limits: Vec<Option<u64>>,
    streams: Vec<Option<usize>>,
    arrays: Vec<Option<Array>>,
    pendings: Vec<Option<Bytes>>,
    events: Vec<Option<usize>>,
    has_timeline: bool,
}

/// Compares an interpreter's log with the expected results of the program.
///
/// # Errors
///
/// Returns a description of the first difference.
pub(crate) fn check(program: &Program, log: &[LogEntry], allowed: Allowed) -> Result<(), String> {
    let mut oracle = Oracle {
        allowed: Allowed {
            no_memory: allowed.no_memory || program.memory_bytes.is_some(),
            ..allowed
        },
        links: program.links.clone(),
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
        let entry = log.next().expect("the log has an entry for each array");
        let compared = oracle.compare(&expected, entry);
        compared.map_err(|problem| format!("{problem}, in array {at} at the end"))?;
    }
    assert!(
        log.next().is_none(),
        "the log has more entries than expected"
    );
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
        let entry = log.next().expect("the log has an entry for each step");
        let mut after = self.clone();
        let expected = after.apply(step, entry.seen.is_some());
        self.compare(&expected, entry)?;
        match &entry.outcome {
            Outcome::Failed(Error::Usage(_)) if matches!(expected, Expected::Mistake) => {}
            Outcome::Failed(error) if is_without_access(error) => {}
            Outcome::Failed(Error::Usage(_)) | Outcome::Done | Outcome::Panicked => {
                after.check_limit(step)?;
                *self = after;
            }
            Outcome::Skipped => {}
            Outcome::Failed(_) => self.spoil(step, &after),
        }
        Ok(())
    }

    /// Checks one of two concurrent lists, with its own half of the arrays and pending values.
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

    /// Compares a step's outcome with the expected one.
    fn compare(&self, expected: &Expected, entry: &LogEntry) -> Result<(), String> {
        let LogEntry { outcome, seen } = entry;
        match (expected, outcome) {
            (Expected::Skip, Outcome::Skipped)
            | (Expected::Mistake, Outcome::Failed(Error::Usage(_))) => Ok(()),
            // The usage error or panic may mask a driver failure, in which case the set of landed
            // downloads is unknown.
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
            // A pair is staged if setting it up failed.
            Error::Usage(_) if is_without_access(error) => {
                self.allowed.faults || self.allowed.no_memory
            }
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

    /// Returns an error if an array was made although it is larger than its device's memory limit.
    fn check_limit(&self, step: &Step) -> Result<(), String> {
        if let Step::Make { at, on, len, .. } = *step
            && let Some(made) = &self.arrays[at]
            && let Some(limit) = self.limits[made.device]
            && (len * on.elem.bytes()) as u64 > limit
        {
            return Err(format!("it was made in spite of a limit of {limit} bytes"));
        }
        Ok(())
    }

    /// Marks as unknown, after a failure, every byte that the step would have changed.
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
            // These steps write some bytes more than once.
            Step::Halves { array, .. } | Step::Unordered { array, .. } => spoil(*array),
            Step::Scope { copies, .. } => {
                let uploads = copies.iter().filter(|copy| copy.upload.is_some());
                uploads.for_each(|copy| spoil(copy.part.array));
            }
            // These steps consume their operand even if they fail.
            Step::IntoVec(array) => self.arrays[*array] = None,
            Step::Settle { pending, .. } => self.pendings[*pending] = None,
            Step::Timeline(_) => self.has_timeline = false,
            _ => {}
        }
    }

    /// Returns whether a kernel of this device may have the array as an operand, passed as a view
    /// for the device or as it is.
    fn is_operand(&self, array: &Array, device: usize, peer: bool) -> bool {
        if array.device == device {
            return true;
        }
        let link = self.links.between(array.device as u32, device as u32);
        if peer {
            link != Link::NoPeerAccess
        } else {
            array.kind == Kind::Managed
        }
    }

    fn find(&self, part: Part, elem: Elem) -> Option<(&Array, Range)> {
        let size = elem.bytes();
        let bytes = part.first * size..(part.first + part.len) * size;
        self.arrays[part.array].as_ref().map(|array| (array, bytes))
    }
}

/// Returns whether the error says that kernels cannot access another device's memory. Nothing is
/// enqueued then.
fn is_without_access(error: &Error) -> bool {
    matches!(error, Error::Usage(usage_error)
        if matches!(usage_error.problem(), UsageErrorKind::NoPeerAccess { .. }))
}

impl Expected {
    fn words(&self) -> &'static str {
        match self {
            Self::Skip => "nothing",
            Self::Mistake | Self::MistakeWith(_) => "a usage error",
            Self::Done(_) | Self::Perhaps(_) => "success",
            Self::Panic(_) => "the body's panic",
        }
    }
}
