//! The division of a launch's blocks among cores.

use crate::ptx::ir::Code;

/// The maximum number of blocks that a worker takes at a time.
const CHUNK_MAX: u64 = 16;

/// The maximum number of operations of a launch's warps that one core executes sooner than it wakes
/// others.
const OPERATIONS_ALONE: u64 = 8192;

/// Returns the number of blocks that a worker takes at a time, so that each of `threads` takes
/// blocks about four times.
///
/// The clock counts from the first block that was taken, so the number must not depend on the
/// threads if the kernel reads it.
pub(super) fn chunk(code: &Code, blocks: u64, threads: usize) -> u64 {
    let parts = if code.reads_clock {
        4
    } else {
        4 * threads as u64
    };
    blocks.div_ceil(parts).clamp(1, CHUNK_MAX)
}

/// Returns whether `warps` warps surely end soon.
pub(super) fn is_short(code: &Code, warps: u64) -> bool {
    !code.repeats && warps.saturating_mul(code.instrs.len() as u64) <= OPERATIONS_ALONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::ir::{Instr, NO_GUARD, Op};

    #[test]
    fn blocks_are_shared_out_to_all_threads_unless_the_kernel_reads_the_clock() {
        let mut code = Code::default();
        assert_eq!(
            [1, 2, 16].map(|threads| chunk(&code, 64, threads)),
            [16, 8, 1]
        );
        assert_eq!(chunk(&code, 1 << 20, 16), CHUNK_MAX);
        code.reads_clock = true;
        assert_eq!([1, 2, 16].map(|threads| chunk(&code, 64, threads)), [16; 3]);
    }

    #[test]
    fn only_launches_of_few_operations_without_loops_stay_on_one_core() {
        let mut code = Code::default();
        let exit = Instr {
            op: Op::Exit,
            guard: NO_GUARD,
            counted: 1,
        };
        code.instrs.resize(64, exit);
        assert_eq!(
            [128, 129, u64::MAX].map(|warps| is_short(&code, warps)),
            [true, false, false]
        );
        code.repeats = true;
        assert!(!is_short(&code, 1));
    }
}
