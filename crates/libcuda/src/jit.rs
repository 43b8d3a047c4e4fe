//! The options of functions that compile PTX. Only the log buffers and the limit of registers have
//! an effect: the simulated device executes PTX without compiling it.

use crate::abi::{In, Out};

/// `CU_JIT_MAX_REGISTERS`
const MAX_REGISTERS: i32 = 0;
/// `CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES`
const INFO_LOG_BYTES: i32 = 4;
/// `CU_JIT_ERROR_LOG_BUFFER`
const ERROR_LOG: i32 = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`
const ERROR_LOG_BYTES: i32 = 6;

/// The options of a call: numbers, and as many values, which are pointers or numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JitOptions {
    pub(crate) count: u32,
    pub(crate) numbers: In<i32>,
    pub(crate) values: Out<usize>,
}

impl JitOptions {
    /// Writes the compiler's log to the program's buffer for errors, if it gave one, and the bytes
    /// written in the place of the buffers' sizes.
    pub(crate) fn write_log(&self, log: &str) {
        let mut written = 0;
        if let (Some((_, buffer)), Some((_, bytes))) =
            (self.find(ERROR_LOG), self.find(ERROR_LOG_BYTES))
            && buffer != 0
            && bytes != 0
        {
            // A failed write leaves the size at 0.
            if Out::from_number(buffer).set_text(log, bytes).is_ok() && !log.is_empty() {
                written = bytes.min(log.len() + 1);
            }
        }
        for (option, size) in [(ERROR_LOG_BYTES, written), (INFO_LOG_BYTES, 0)] {
            if let Some((index, _)) = self.find(option) {
                let _ = self.values.set_index(index, size);
            }
        }
    }

    /// Returns the maximum number of registers of a thread, if the program limits it.
    pub(crate) fn max_registers(&self) -> Option<u32> {
        let (_, value) = self.find(MAX_REGISTERS)?;
        // The value is a 32-bit number in the place of a pointer.
        Some(value as u32).filter(|limit| *limit > 0)
    }

    fn find(&self, option: i32) -> Option<(usize, usize)> {
        let numbers = self.numbers.all(self.count as usize).ok()?;
        let index = numbers.iter().position(|&number| number == option)?;
        Some((index, self.values.get_at(index).ok()?))
    }
}
