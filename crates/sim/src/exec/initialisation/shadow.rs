//! The shadows of values in registers and memory: the undefined bits, the load that brought them,
//! and the variable of shared memory in which the value is an address.

use std::collections::BTreeMap;

use crate::ptx::ir::{RegisterClass, Slot, Window};

pub(super) type Register = (RegisterClass, Slot);

/// The variable of a value that was computed from addresses in a way that leaves no single one.
pub(super) const MIXED: u32 = u32::MAX;

/// A load of bytes that were never written, by a thread of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) pc: u32,
    pub(super) thread: u32,
    pub(super) window: Window,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shadow {
    /// The undefined bits.
    pub(super) bits: u64,
    /// The load that brought them.
    pub(super) load: Option<Load>,
    /// One more than the start of the variable in which the value is an address; 0 for none.
    pub(super) variable: u32,
}

impl Shadow {
    /// Returns the shadow of a value with these undefined bits that is no address.
    pub(super) fn number(self, bits: u64) -> Self {
        Self {
            bits,
            variable: 0,
            ..self
        }
    }
}

/// The shadows of a warp: those of registers by lane, and its lanes' local memory.
pub(super) struct WarpShadow {
    registers: BTreeMap<(Register, usize), Shadow>,
    pub(super) local: ShadowMemory,
}

impl WarpShadow {
    pub(super) fn new(local_bytes: usize) -> Self {
        Self {
            registers: BTreeMap::new(),
            local: ShadowMemory::new(local_bytes),
        }
    }

    pub(super) fn get(&self, register: Register, lane: usize) -> Shadow {
        let found = self.registers.get(&(register, lane));
        found.copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, register: Register, lane: usize, mut shadow: Shadow) {
        shadow.load = shadow.load.filter(|_| shadow.bits != 0);
        if (shadow.bits, shadow.variable) == (0, 0) {
            self.registers.remove(&(register, lane));
        } else {
            self.registers.insert((register, lane), shadow);
        }
    }

    /// Returns the lanes of `mask` with a shadow.
    pub(super) fn marked(&self, register: Register, mask: u32) -> u32 {
        let lanes = self.registers.range((register, 0)..(register, 32));
        lanes.fold(0, |all, ((_, lane), _)| all | 1 << lane) & mask
    }
}

/// The shadow of memory: the undefined bits of each byte, and where they or an address are from.
pub(super) struct ShadowMemory {
    pub(super) bits: Vec<u8>,
    origins: BTreeMap<usize, Shadow>,
}

impl ShadowMemory {
    /// Memory that was never written.
    pub(super) fn new(bytes: usize) -> Self {
        let (bits, origins) = (vec![u8::MAX; bytes], BTreeMap::new());
        Self { bits, origins }
    }

    /// Returns the shadow of a value at `at`. Bytes that were never written are from `load`. The
    /// halves of 16 bytes share their bits.
    pub(super) fn read(&self, at: usize, load: Load) -> Shadow {
        let mut shadow = Shadow::default();
        for index in 0..load.bytes as usize {
            let bits = self.bits[at + index];
            let origin = self.origins.get(&(at + index)).copied().unwrap_or_default();
            shadow.bits |= u64::from(bits) << (8 * (index % 8));
            if index == 0 {
                shadow.variable = origin.variable;
            } else if shadow.variable != origin.variable {
                shadow.variable = MIXED;
            }
            if bits != 0 && shadow.load.is_none() {
                let mut fresh = load;
                fresh.offset += index as u64;
                fresh.bytes -= index as u64;
                shadow.load = origin.load.or(Some(fresh));
            }
        }
        shadow
    }

    pub(super) fn write(&mut self, at: usize, bytes: usize, shadow: Shadow) {
        for index in 0..bytes {
            let bits = (shadow.bits >> (8 * (index % 8))) as u8;
            self.bits[at + index] = bits;
            if (bits, shadow.variable) == (0, 0) {
                self.origins.remove(&(at + index));
            } else {
                self.origins.insert(at + index, shadow);
            }
        }
    }
}
