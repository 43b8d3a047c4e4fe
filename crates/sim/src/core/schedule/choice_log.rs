//! The log of a run's choices, and the state of a replay that compares itself with it.

/// The logged choices of a run, run-length encoded.
#[derive(Debug)]
pub(crate) struct ChoiceLog {
    /// False if the log stays empty.
    is_kept: bool,
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
    /// Creates an empty log. It stays empty unless it `is_kept`.
    pub(super) fn new(is_kept: bool) -> Self {
        Self {
            is_kept,
            choices: Vec::new(),
            count: 0,
            checksum: 0x811c_9dc5,
        }
    }

    /// Appends a choice. The checksum covers it together with `numbers` and `call`, which must be
    /// equal in a replay.
    pub(crate) fn note(&mut self, choice: u32, numbers: [u64; 2], call: &str) {
        if !self.is_kept {
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayStatus {
    /// The GPU was not created with a replay token.
    NotAsked,
    /// The calls so far match the logged run as far as the replay can detect, and choices are
    /// left.
    Partly {
        /// The number of choices left.
        choices_left: u64,
    },
    /// The calls match the logged run, and all its choices were used.
    Exactly,
    /// The calls match the logged run, and more choices followed, which run operations as late as
    /// legal.
    Beyond,
    /// The calls differ from the logged run. The choices since then are meaningless.
    Diverged {
        /// The choice at which the difference was detected, from 1.
        choice: u64,
        /// The difference that was detected.
        problem: String,
    },
}
