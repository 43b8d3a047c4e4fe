//! What a policy has decided so far: numbers, run-length coded, and a checksum over what they were about.

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
