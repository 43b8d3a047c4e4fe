//! Record and replay: the log of a run's choices, and the policy that repeats a recorded run.

use super::{
    Policy, SchedulePoint,
    lazy::{AsLateAsPossible, DependencyWalk},
    simple::Timed,
};
use crate::{ReplayToken, core::state::SimState, ids::OpId};

/// The recorded choices of a run, run-length encoded.
#[derive(Debug)]
pub(crate) struct ChoiceLog {
    /// False if nothing is recorded.
    records: bool,
    /// The choices, each with its number of consecutive repetitions.
    pub(super) choices: Vec<(u32, u32)>,
    /// The total number of choices.
    pub(super) count: u64,
    /// The FNV-1a hash of the choices and their circumstances.
    pub(super) checksum: u32,
}

impl Default for ChoiceLog {
    fn default() -> Self {
        Self::new(true)
    }
}

impl ChoiceLog {
    /// Creates an empty log. Without `records` it stays empty.
    pub(super) fn new(records: bool) -> Self {
        Self {
            records,
            choices: Vec::new(),
            count: 0,
            checksum: 0x811c_9dc5,
        }
    }

    /// Appends a choice. The checksum covers it together with `numbers` and `call`, which must be
    /// equal in a replay.
    pub(super) fn note(&mut self, choice: u32, numbers: [u64; 2], call: &str) {
        if !self.records {
            return;
        }
        self.count += 1;
        match self.choices.last_mut() {
            Some((last, times)) if *last == choice && *times < u32::MAX => *times += 1,
            _ => self.choices.push((choice, 1)),
        }
        // FNV-1a.
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        for byte in numbers.chain(choice.to_le_bytes()).chain(call.bytes()) {
            self.checksum = (self.checksum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
}

/// The state of a replay; see [`Gpu::replay_status`](crate::Gpu::replay_status).
///
/// ```
/// use millstream_sim::{Gpu, ReplayStatus, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// assert_eq!(gpu.replay_status(), ReplayStatus::NotAsked);
/// let again = Gpu::new(SimConfig::new().replay(gpu.replay_token()));
/// assert_eq!(again.replay_status(), ReplayStatus::Exactly);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayStatus {
    /// The GPU was not created with a replay token.
    NotAsked,
    /// The calls so far match the recorded run as far as the replay can detect, and choices are
    /// left.
    Partly {
        /// The number of choices left.
        choices_left: u64,
    },
    /// The calls match the recorded run, and all its choices were used.
    Exactly,
    /// The calls match the recorded run, and more choices followed, which run operations as late as
    /// legal.
    Beyond,
    /// The calls differ from the recorded run. The choices since then are meaningless.
    Diverged {
        /// The choice at which the difference was detected, from 1.
        choice: u64,
        /// The difference that was detected.
        problem: String,
    },
}

/// A policy that repeats the choices of a token and then runs operations as late as legal.
#[derive(Debug)]
pub(super) struct Replay {
    token: ReplayToken,
    /// The total number of choices in the token.
    length: u64,
    /// The index of the next entry in the token's choices, and its repetitions used so far.
    at: (usize, u32),
    /// The choice at which the run diverged, and the difference.
    diverged: Option<(u64, String)>,
    /// The policy after the end of the token.
    beyond: Box<dyn Policy>,
}

impl Replay {
    pub(super) fn new(token: ReplayToken) -> Self {
        Self {
            length: token.choices(),
            at: (0, 0),
            diverged: None,
            beyond: if token.goes_by_clock {
                Box::new(Timed)
            } else {
                Box::new(AsLateAsPossible::default())
            },
            token,
        }
    }

    /// Takes the next choice of the token.
    fn next(&mut self) -> Option<u32> {
        let (choice, times) = *self.token.choices.get(self.at.0)?;
        self.at.1 += 1;
        if self.at.1 == times {
            self.at = (self.at.0 + 1, 0);
        }
        Some(choice)
    }

    /// Records the divergence, unless the run diverged before.
    fn diverge(&mut self, choice_log: &ChoiceLog, problem: String) {
        self.diverged.get_or_insert((choice_log.count + 1, problem));
    }
}

impl Policy for Replay {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) {
        self.beyond.begin(point, awaited, state);
    }

    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) -> Option<OpId> {
        let choice_log = &state.scheduler.choice_log;
        if choice_log.count == self.length && choice_log.checksum != self.token.checksum {
            self.diverge(choice_log, CHECKSUM.into());
        }
        if self.diverged.is_none()
            && let Some(choice) = self.next()
        {
            match choice {
                // Following the token would block the waiting host for ever.
                0 if point == SchedulePoint::Wait
                    && DependencyWalk::default().next(state, awaited).is_some() =>
                {
                    let problem = format!(
                        "the token runs no operation while the host waits in {}",
                        state.call
                    );
                    self.diverge(choice_log, problem);
                }
                0 => return None,
                _ => match state.eligible.iter().nth(choice as usize - 1) {
                    Some(id) => return Some(*id),
                    None => {
                        let (count, call) = (state.eligible.len(), state.call);
                        let problem = format!(
                            "the token runs eligible operation {choice}, but only {count} are \
                             eligible after {call}"
                        );
                        self.diverge(choice_log, problem);
                    }
                },
            }
        }
        self.beyond.pick(point, awaited, state)
    }

    fn goes_by_clock(&self) -> bool {
        self.token.goes_by_clock
    }

    fn replay_status(&self, choice_log: &ChoiceLog) -> ReplayStatus {
        if let Some((choice, problem)) = &self.diverged {
            return ReplayStatus::Diverged {
                choice: *choice,
                problem: problem.clone(),
            };
        }
        match choice_log.count {
            count if count < self.length => ReplayStatus::Partly {
                choices_left: self.length - count,
            },
            count if count > self.length => ReplayStatus::Beyond,
            _ if choice_log.checksum == self.token.checksum => ReplayStatus::Exactly,
            count => ReplayStatus::Diverged {
                choice: count,
                problem: CHECKSUM.into(),
            },
        }
    }
}

/// The problem of a replay whose checksum differs.
const CHECKSUM: &str = "the calls or operations differ from those of the recorded run";
