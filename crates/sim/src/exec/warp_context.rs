//! The state outside a warp that its instructions use.

use super::barrier::Barriers;
use super::copy::BlockCopies;
use super::kernel_error::{KernelError, KernelErrorKind};
use super::launch::{GlobalMemory, Launch};
use super::memory::{CachedRegion, Traffic, WarpMemory};
use crate::ptx::Kernel;
use crate::ptx::ir::{Code, FusedCode, Instr};

/// Counters of the work that a worker has executed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) warp: u64,
    pub(super) thread: u64,
    pub(super) traffic: Traffic,
}

/// The state outside a warp that its instructions use.
pub(super) struct WarpContext<'r, 'm> {
    pub(super) kernel: &'r Kernel,
    pub(super) launch: &'r Launch<'r>,
    /// The number of the warp's block.
    pub(super) block: u64,
    pub(super) code: &'r Code,
    /// The operations to execute: `executed` or `instrs` of the code.
    pub(super) instrs: &'r [Instr],
    /// The machine code that `instrs` refers to.
    pub(super) fused: Option<&'r FusedCode>,
    pub(super) global: &'m dyn GlobalMemory,
    pub(super) params: &'r [u8],
    pub(super) step_limit: u64,
    pub(super) memory: &'r mut [u8],
    pub(super) barriers: &'r mut Barriers,
    pub(super) copies: &'r mut BlockCopies,
    pub(super) counters: &'r mut Counters,
    pub(super) cached_loads: &'r mut [CachedRegion<'m>],
    pub(super) cached_stores: &'r mut [CachedRegion<'m>],
    pub(super) cached_atomics: &'r mut [CachedRegion<'m>],
}

/// Defines a method that returns the memory that a warp with local memory `local` can reach, and
/// the region that the memory instruction `index` accessed last.
macro_rules! reach {
    ($name:ident, $cached:ident) => {
        #[inline(always)]
        pub(super) fn $name<'s>(
            &'s mut self,
            local: &'s mut [u8],
            index: u32,
        ) -> (WarpMemory<'s, 'm>, &'s mut CachedRegion<'m>) {
            let memory = WarpMemory {
                global: self.global,
                shared: self.memory,
                local,
                local_bytes: self.code.local_bytes as usize,
                params: self.params,
                traffic: &mut self.counters.traffic,
            };
            (memory, &mut self.$cached[index as usize])
        }
    };
}

impl<'m> WarpContext<'_, 'm> {
    /// Reports an error of threads of the block, each given by its number and its instruction.
    #[cold]
    pub(super) fn report(
        &self,
        kind: KernelErrorKind,
        (later, pc): (u32, u32),
        earlier: Option<(u32, u32)>,
    ) {
        let place = |(thread, pc)| self.launch.place(self.kernel, self.block, thread, pc);
        self.global.kernel_error(KernelError {
            kind,
            later: place((later, pc)),
            earlier: earlier.map(place),
        });
    }

    reach!(loads, cached_loads);
    reach!(stores, cached_stores);
    reach!(atomics, cached_atomics);

    /// Forgets the regions that instructions accessed, because one of them may be freed.
    pub(super) fn forget_regions(&mut self) {
        for cached in [
            &mut self.cached_loads,
            &mut self.cached_stores,
            &mut self.cached_atomics,
        ] {
            cached.fill(None);
        }
    }

    /// Returns the same memory without a cached region, for instructions that look up regions each
    /// time.
    pub(super) fn all<'s>(&'s mut self, local: &'s mut [u8]) -> WarpMemory<'s, 'm> {
        WarpMemory {
            global: self.global,
            shared: self.memory,
            local,
            local_bytes: self.code.local_bytes as usize,
            params: self.params,
            traffic: &mut self.counters.traffic,
        }
    }
}
