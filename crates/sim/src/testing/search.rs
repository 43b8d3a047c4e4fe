//! Search: depth-first exploration of all schedules that the host can distinguish.

use std::{mem, sync::Arc};

use parking_lot::Mutex;

use crate::{
    Gpu, SimConfig,
    core::schedule::{AsLateAsPossible, Policy, SchedulePoint, Scheduler, View},
    ids::OpId,
};

/// A search that runs a small program under every schedule that the host can distinguish.
///
/// Operations run only when the host observes them: at a query, any number of the eligible
/// operations; during a wait, one after the other, in every order. After three idle queries one
/// operation must run, so that a polling program terminates. Schedules that differ only in the
/// virtual clock are not distinguished.
///
/// The number of runs grows exponentially with the program. The program must be single-threaded,
/// and must make the same calls whenever it receives the same results.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
/// use millstream_sim::{Search, SimConfig};
///
/// let mut last = [0; 256]; // the number of runs that end with each value
/// let mut search = Search::new();
/// while let Some(gpu) = search.next_gpu(&SimConfig::new()) {
///     let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// // SAFETY: context, streams and memory are alive; `value` lives until the copy is complete.
///     unsafe {
///         let memory = gpu.mem_alloc(context, 1).unwrap();
///         for byte in [1, 2] {
///             let stream = gpu.stream_create(context, true, 0).unwrap();
///             gpu.memset_async(context, memory, FillPattern::U8(byte), 1, stream).unwrap();
///         }
///         gpu.context_synchronize(context).unwrap();
///         let mut value = [0];
///         gpu.copy_device_to_host(context, value.as_mut_ptr(), memory, 1).unwrap();
///         last[usize::from(value[0])] += 1;
///     }
/// }
/// assert!(search.is_complete());
/// assert_eq!((last[1], last[2]), (1, 1), "two streams race, and each wins once");
/// ```
#[derive(Debug, Default)]
pub struct Search {
    /// The number of GPUs returned.
    runs: u64,
    state: SearchState,
    /// The choices of the current run, shared with its policy.
    shared: Arc<Mutex<ChoicePath>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum SearchState {
    #[default]
    /// Schedules may be left.
    Going,
    /// All schedules were run.
    Complete,
    /// The program made different calls after the same results.
    Diverged,
}

/// One choice of a run, and the largest choice that was possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    choice: u32,
    last: u32,
}

/// The choices of a run: the prescribed ones and the ones made.
#[derive(Debug, Default)]
struct ChoicePath {
    /// The choices to repeat at the start of the run.
    given: Vec<Choice>,
    /// The choices made so far.
    taken: Vec<Choice>,
    /// Set if a prescribed choice was impossible, or its alternatives differed.
    diverged: bool,
    /// Set once the run has ended, so that further choices do not count.
    ended: bool,
}

impl Search {
    /// Creates a search.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a GPU for the next run; the previous run must be over. Returns `None` if no schedule
    /// is left, or if the program made different calls after the same results. The configuration's
    /// schedule is ignored.
    pub fn next_gpu(&mut self, config: &SimConfig) -> Option<Gpu> {
        if self.state != SearchState::Going {
            return None;
        }
        // Each run has a separate path, so that leftovers of an earlier run do not write into it.
        let ChoicePath {
            given,
            mut taken,
            diverged,
            ended: _,
        } = mem::take(&mut *self.shared.lock());
        if self.runs > 0 {
            if diverged || taken.len() < given.len() {
                self.state = SearchState::Diverged;
                return None;
            }
            while taken.pop_if(|step| step.choice == step.last).is_some() {}
            let Some(step) = taken.last_mut() else {
                self.state = SearchState::Complete;
                return None;
            };
            step.choice += 1;
        }
        self.shared = Arc::new(Mutex::new(ChoicePath {
            given: taken,
            ..ChoicePath::default()
        }));
        self.runs += 1;
        let branch = SearchPolicy {
            path: Arc::clone(&self.shared),
            latest: AsLateAsPossible::default(),
        };
        Some(Gpu::with_scheduler(
            config.clone(),
            Scheduler::of(Box::new(branch)),
        ))
    }

    /// Ends the current run: the schedule explores no alternatives for later calls. For calls after
    /// the program under test, such as closing its devices.
    pub fn end_run(&mut self) {
        self.shared.lock().ended = true;
    }

    /// Returns the number of GPUs that the search has returned.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns whether every schedule was run. Set once [`next_gpu`](Self::next_gpu) has returned
    /// `None`.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state == SearchState::Complete
    }

    /// Returns whether the search ended because the program made different calls after the same
    /// results.
    #[must_use]
    pub fn has_diverged(&self) -> bool {
        self.state == SearchState::Diverged
    }
}

#[derive(Debug)]
struct SearchPolicy {
    path: Arc<Mutex<ChoicePath>>,
    /// The policy that decides which operations must run, and so the first choice.
    latest: AsLateAsPossible,
}

impl Policy for SearchPolicy {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], view: &View<'_>) {
        self.latest.begin(point, awaited, view);
    }

    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], view: &View<'_>) -> Option<OpId> {
        let first = u32::from(self.latest.pick(point, awaited, view).is_some());
        if point == SchedulePoint::AfterCall {
            return None;
        }
        let last = view.eligible.len() as u32;
        let mut choice = first;
        let mut path = self.path.lock();
        if first < last && !path.ended {
            let given = path.given.get(path.taken.len()).copied();
            if let Some(given) = given {
                let fits = given.last == last && given.choice >= first;
                path.diverged |= !fits;
                choice = given.choice.clamp(first, last);
            }
            path.taken.push(Choice { choice, last });
        }
        let place = choice.checked_sub(1)?;
        view.eligible.iter().nth(place as usize).copied()
    }
}
