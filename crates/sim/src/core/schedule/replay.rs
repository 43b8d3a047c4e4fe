//! The policy that repeats the logged choices of a run.

use super::{
    choice_log::{ChoiceLog, ReplayStatus},
    lazy::{AsLateAsPossible, DependencyWalk},
    policy::{Policy, SchedulePoint, View},
    simple::Timed,
};
use crate::{ReplayToken, ids::OpId};

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
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], view: &View<'_>) {
        self.beyond.begin(point, awaited, view);
    }

    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], view: &View<'_>) -> Option<OpId> {
        let choice_log = view.choice_log;
        if choice_log.count == self.length && choice_log.checksum != self.token.checksum {
            self.diverge(choice_log, CHECKSUM.into());
        }
        if self.diverged.is_none()
            && let Some(choice) = self.next()
        {
            match choice {
                // Following the token would block the waiting host for ever.
                0 if point == SchedulePoint::Wait
                    && DependencyWalk::default().next(view, awaited).is_some() =>
                {
                    let problem = format!(
                        "the token runs no operation while the host waits in {}",
                        view.call
                    );
                    self.diverge(choice_log, problem);
                }
                0 => return None,
                _ => match view.eligible.iter().nth(choice as usize - 1) {
                    Some(id) => return Some(*id),
                    None => {
                        let (count, call) = (view.eligible.len(), view.call);
                        let problem = format!(
                            "the token runs eligible operation {choice}, but only {count} are \
                             eligible after {call}"
                        );
                        self.diverge(choice_log, problem);
                    }
                },
            }
        }
        self.beyond.pick(point, awaited, view)
    }

    fn host_writes(&mut self) -> Option<u32> {
        if self.diverged.is_some() {
            return None;
        }
        self.next()
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
const CHECKSUM: &str = "the calls or operations differ from those of the logged run";
