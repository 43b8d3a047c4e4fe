//! Replay: the choices of an earlier run once more.

use super::{Moment, Policy, Record, ReplayToken, lazy::first_step, search::Reluctant, timed::Timed};
use crate::{Gpu, ids::OpId, world::World};

/// How a replay stands; see [`Gpu::replayed`].
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
    /// The calls so far were those of the recorded run as far as can be told, and choices of it are left.
    Partly {
        /// How many.
        choices_left: u64,
    },
    /// All of the recorded run was met, and nothing besides.
    Exactly,
    /// All of the recorded run was met, and then there was more to choose, which was chosen as late as is legal.
    Beyond,
    /// The calls were others than those of the recorded run. What was chosen since then means nothing.
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
                    let problem = format!("nothing is to run while the host waits in {}", world.call);
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

const CHECKSUM: &str = "the choices were about other calls or operations than those of the recorded run";

impl Gpu {
    /// What the schedule has chosen so far. A GPU of the same configuration that [replays](crate::SimConfig::replay) it
    /// answers a program that makes the same calls the same, with the same reports and the same times.
    ///
    /// Threads of the host are real: the schedule neither starts nor stops them. A replay is exact for programs whose calls come
    /// in the same order on every run, from one thread, or from threads that wait for each other; that includes the thread that
    /// runs host functions. [`Gpu::replayed`] says whether it was.
    #[must_use]
    pub fn replay_token(&self) -> ReplayToken {
        self.shared.world.lock().scheduler.token()
    }

    /// How the replay stands that this GPU was made for. A divergence is also among the [reports](Gpu::reports) as soon as it is
    /// seen: at once when a choice cannot be made, or else at the end of the recorded choices.
    #[must_use]
    pub fn replayed(&self) -> Replayed {
        let world = self.shared.world.lock();
        world.scheduler.policy.replayed(&world.scheduler.record)
    }
}
