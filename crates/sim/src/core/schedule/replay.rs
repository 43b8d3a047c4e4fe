//! Record and replay: the choices of a run, and a run that makes those of an earlier one.

use super::{
    Policy, SchedulePoint,
    lazy::{AsLateAsPossible, first_step},
    simple::Timed,
};
use crate::{ReplayToken, core::state::SimState, ids::OpId};

/// The choices of a run.
#[derive(Debug)]
pub(crate) struct ChoiceLog {
    /// Each choice, and how often in a row it was made.
    pub(super) choices: Vec<(u32, u32)>,
    pub(super) count: u64,
    pub(super) checksum: u32,
}

impl Default for ChoiceLog {
    fn default() -> Self {
        Self {
            choices: Vec::new(),
            count: 0,
            checksum: 0x811c_9dc5,
        }
    }
}

impl ChoiceLog {
    /// Adds a choice; `numbers` and `call` are what a replay has to find the same.
    pub(super) fn note(&mut self, choice: u32, numbers: [u64; 2], call: &str) {
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

/// How a replay stands; see [`Gpu::replay_status`](crate::Gpu::replay_status).
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
    /// The GPU was not made for a replay.
    NotAsked,
    /// The calls so far were those of the recorded run as far as can be told, and choices of it are
    /// left.
    Partly {
        /// How many.
        choices_left: u64,
    },
    /// All of the recorded run was met, and nothing besides.
    Exactly,
    /// All of the recorded run was met, and then there was more to choose, which was chosen as late
    /// as is legal.
    Beyond,
    /// The calls were others than those of the recorded run. What was chosen since then means
    /// nothing.
    Diverged {
        /// Which choice it was seen at, from 1.
        choice: u64,
        /// What was seen.
        problem: String,
    },
}

/// Follows a token, and then goes on as late as possible.
#[derive(Debug)]
pub(super) struct Replay {
    token: ReplayToken,
    length: u64,
    /// The next entry of the token's choices, and how often it was made already.
    at: (usize, u32),
    diverged: Option<(u64, String)>,
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

    fn next(&mut self) -> Option<u32> {
        let (choice, times) = *self.token.choices.get(self.at.0)?;
        self.at.1 += 1;
        if self.at.1 == times {
            self.at = (self.at.0 + 1, 0);
        }
        Some(choice)
    }

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
                // Followed to the letter, a host that waits would wait for ever.
                0 if point == SchedulePoint::Wait
                    && first_step(state, awaited.to_vec()).is_some() =>
                {
                    let problem =
                        format!("nothing is to run while the host waits in {}", state.call);
                    self.diverge(choice_log, problem);
                }
                0 => return None,
                _ => match state.eligible.iter().nth(choice as usize - 1) {
                    Some(id) => return Some(*id),
                    None => {
                        let (count, call) = (state.eligible.len(), state.call);
                        let problem = format!(
                            "operation {choice} of those that may run is to run, and there are {count}, after {call}"
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

const CHECKSUM: &str =
    "the choices were about other calls or operations than those of the recorded run";
