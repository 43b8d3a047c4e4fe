//! Record and replay: the choices of a run, and a run that makes those of an earlier one.

use super::{
    Moment, Policy,
    lazy::{Reluctant, first_step},
    simple::Timed,
};
use crate::{ReplayToken, core::world::World, ids::OpId};

/// The choices of a run.
#[derive(Debug)]
pub(crate) struct Record {
    /// Each choice, and how often in a row it was made.
    pub(super) choices: Vec<(u32, u32)>,
    pub(super) count: u64,
    pub(super) checksum: u32,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            choices: Vec::new(),
            count: 0,
            checksum: 0x811c_9dc5,
        }
    }
}

impl Record {
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

/// How a replay stands; see [`Gpu::replayed`](crate::Gpu::replayed).
///
/// ```
/// use millstream_sim::{Gpu, Replayed, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// assert_eq!(gpu.replayed(), Replayed::NotAsked);
/// let again = Gpu::new(SimConfig::new().replay(gpu.replay_token()));
/// assert_eq!(again.replayed(), Replayed::Exactly);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replayed {
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

/// Follows a token, and then goes on as reluctantly as can be.
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
                Box::new(Reluctant::default())
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

    fn diverge(&mut self, record: &Record, problem: String) {
        self.diverged.get_or_insert((record.count + 1, problem));
    }
}

impl Policy for Replay {
    fn begin(&mut self, moment: Moment, goal: &[OpId], world: &World) {
        self.beyond.begin(moment, goal, world);
    }

    fn pick(&mut self, moment: Moment, goal: &[OpId], world: &World) -> Option<OpId> {
        let record = &world.scheduler.record;
        if record.count == self.length && record.checksum != self.token.checksum {
            self.diverge(record, CHECKSUM.into());
        }
        if self.diverged.is_none()
            && let Some(choice) = self.next()
        {
            match choice {
                // Followed to the letter, a host that waits would wait for ever.
                0 if moment == Moment::Wait && first_step(world, goal.to_vec()).is_some() => {
                    let problem =
                        format!("nothing is to run while the host waits in {}", world.call);
                    self.diverge(record, problem);
                }
                0 => return None,
                _ => match world.eligible.iter().nth(choice as usize - 1) {
                    Some(id) => return Some(*id),
                    None => {
                        let (count, call) = (world.eligible.len(), world.call);
                        let problem = format!(
                            "operation {choice} of those that may run is to run, and there are {count}, after {call}"
                        );
                        self.diverge(record, problem);
                    }
                },
            }
        }
        self.beyond.pick(moment, goal, world)
    }

    fn goes_by_clock(&self) -> bool {
        self.token.goes_by_clock
    }

    fn replayed(&self, record: &Record) -> Replayed {
        if let Some((choice, problem)) = &self.diverged {
            return Replayed::Diverged {
                choice: *choice,
                problem: problem.clone(),
            };
        }
        match record.count {
            count if count < self.length => Replayed::Partly {
                choices_left: self.length - count,
            },
            count if count > self.length => Replayed::Beyond,
            _ if record.checksum == self.token.checksum => Replayed::Exactly,
            count => Replayed::Diverged {
                choice: count,
                problem: CHECKSUM.into(),
            },
        }
    }
}

const CHECKSUM: &str =
    "the choices were about other calls or operations than those of the recorded run";
