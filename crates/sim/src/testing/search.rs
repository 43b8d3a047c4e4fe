//! Search: every choice that matters to the host, one run after the other, depth first.

use std::{mem, sync::Arc};

use parking_lot::Mutex;

use crate::{
    Gpu, SimConfig,
    core::{
        schedule::{AsLateAsPossible, Policy, SchedulePoint, Scheduler},
        state::SimState,
    },
    ids::OpId,
};

/// Runs a small program under every schedule that the host could tell from others.
///
/// Work runs when the host looks, not earlier: at a query any number of the operations that may
/// run, and while it waits one after the other, in every order. After three idle queries one
/// operation must run, so that a program that polls has an end. What only the clock tells apart is
/// not told apart.
///
/// The number of runs grows exponentially with the program. The program must make the same calls
/// whenever it is answered the same, in one thread.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
/// use millstream_sim::{Search, SimConfig};
///
/// let mut last = [0; 256]; // how often each value was there in the end
/// let mut search = Search::new();
/// while let Some(gpu) = search.next_gpu(&SimConfig::new()) {
///     let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
///     // SAFETY: context and streams are alive, and so is the memory; `value` lives until the copy is done.
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
    runs: u64,
    state: SearchState,
    shared: Arc<Mutex<ChoicePath>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum SearchState {
    #[default]
    Going,
    Complete,
    Diverged,
}

/// One choice of a run, and the last there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    choice: u32,
    last: u32,
}

/// What a run is to choose first, and what it has chosen.
#[derive(Debug, Default)]
struct ChoicePath {
    given: Vec<Choice>,
    taken: Vec<Choice>,
    /// A given choice was not there, or among others.
    diverged: bool,
    /// What is chosen from now on does not count.
    ended: bool,
}

impl Search {
    /// A search that has run nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A GPU for the next run, which the last run has to be over for; `None` when there is no
    /// other, or when the program turned out to make other calls although it was answered the same.
    /// The configuration's schedule does not count.
    pub fn next_gpu(&mut self, config: &SimConfig) -> Option<Gpu> {
        if self.state != SearchState::Going {
            return None;
        }
        // A run of its own path: what is left of an earlier run does not write into it.
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

    /// Ends the current run: what the schedule still chooses in it is chosen in one way only. For
    /// what is no longer the program, such as the closing of its devices.
    pub fn end_run(&mut self) {
        self.shared.lock().ended = true;
    }

    /// How many GPUs were given out.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether every schedule was run. Known once [`next_gpu`](Self::next_gpu) has given `None`.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state == SearchState::Complete
    }

    /// Whether the search ended because the program made other calls although it was answered the
    /// same.
    #[must_use]
    pub fn has_diverged(&self) -> bool {
        self.state == SearchState::Diverged
    }
}

/// One run of a search.
#[derive(Debug)]
struct SearchPolicy {
    path: Arc<Mutex<ChoicePath>>,
    /// What must run, and what the first choice is.
    latest: AsLateAsPossible,
}

impl Policy for SearchPolicy {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) {
        self.latest.begin(point, awaited, state);
    }

    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) -> Option<OpId> {
        let first = u32::from(self.latest.pick(point, awaited, state).is_some());
        if point == SchedulePoint::AfterCall {
            return None;
        }
        let last = state.eligible.len() as u32;
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
        state.eligible.iter().nth(place as usize).copied()
    }
}
