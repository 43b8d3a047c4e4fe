//! Occupancy: the number of blocks that a multiprocessor holds at once, by threads and shared
//! memory. Registers never are the limit, because `NUM_REGS` counts so few that all blocks fit.

use millstream_driver::{DeviceAttribute, DeviceOrdinal, FunctionHandle, ResultCode};

use crate::{
    abi::{BlockToSharedPointer, Handle, Out},
    api::{device, function},
    block_to_shared,
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    kinds,
    objects::FunctionEntry,
};

/// The limits of a kernel on its device.
#[derive(Clone, Copy, Debug)]
struct Limits {
    multiprocessors: u32,
    /// The threads and blocks of a multiprocessor, and its shared memory.
    threads: u32,
    blocks: u32,
    shared_bytes: u32,
    /// The maximum shared memory of a block, static and dynamic.
    block_shared_bytes: u32,
    /// The shared memory that every block takes beyond its own.
    reserved_bytes: u32,
    warp: u32,
    /// The kernel's maximum block size, and its static shared memory.
    block_threads: u32,
    static_shared_bytes: u32,
}

impl Limits {
    fn of(call: &Call, handle: FunctionHandle, entry: &FunctionEntry) -> Answer<Self> {
        let ordinal = DeviceOrdinal::from_raw(call.context_entry(entry.context)?.device);
        let number = |attribute: i32| -> Answer<u32> {
            let value = device::value_of(ordinal, attribute)?;
            u32::try_from(value).map_err(|_| ResultCode::UNKNOWN)
        };
        let value = |attribute: DeviceAttribute| number(attribute.as_raw());
        Ok(Self {
            multiprocessors: value(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
            threads: value(DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR)?,
            blocks: value(DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            shared_bytes: value(DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            block_shared_bytes: value(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            reserved_bytes: number(kinds::number::RESERVED_SHARED_MEMORY_PER_BLOCK)?,
            warp: value(DeviceAttribute::WARP_SIZE)?,
            block_threads: function::value_of(call, handle, entry, 0)? as u32,
            static_shared_bytes: entry.details.shared_bytes,
        })
    }

    /// Returns the number of resident blocks of a size on a multiprocessor.
    fn resident(&self, block: u32, dynamic_bytes: usize) -> u32 {
        let shared = dynamic_bytes.saturating_add(self.static_shared_bytes as usize);
        if block > self.block_threads || shared > self.block_shared_bytes as usize {
            return 0;
        }
        let threads = block.next_multiple_of(self.warp).max(1);
        let by_shared = self.shared_bytes / (shared as u32 + self.reserved_bytes).max(1);
        (self.threads / threads).min(self.blocks).min(by_shared)
    }
}

/// Finds the largest block size with the most resident threads.
fn best_block(
    call: &Call,
    (grid, block): (Out<i32>, Out<i32>),
    function: Handle,
    (shared_of_block, dynamic_bytes): (BlockToSharedPointer, usize),
    limit: i32,
) -> Answer {
    grid.check()?;
    block.check()?;
    let (handle, entry) = function::resolve(call, function)?;
    let limits = Limits::of(call, handle, &entry)?;
    let limit = match u32::try_from(limit).map_err(|_| ResultCode::INVALID_VALUE)? {
        0 => limits.block_threads,
        limit => limit.min(limits.block_threads),
    };
    let mut best = (0, 0, 0);
    let mut size = limit;
    while size > 0 {
        let shared = match shared_of_block {
            Some(shared_of_block) => block_to_shared::call(shared_of_block, size),
            None => dynamic_bytes,
        };
        let resident = limits.resident(size, shared);
        if resident * size > best.0 {
            best = (resident * size, size, resident);
        }
        // Full warps below the limit.
        size = (size - 1) / limits.warp * limits.warp;
    }
    let (_, size, resident) = best;
    grid.set((resident * limits.multiprocessors) as i32)?;
    block.set(size as i32)
}

exports! {
    [cuOccupancyMaxActiveBlocksPerMultiprocessor]
    fn active_blocks(call, blocks: Out<i32>, function: Handle, block: i32, dynamic_bytes: usize) {
        active_blocks_with_flags(call, blocks, function, block, dynamic_bytes, 0)
    }

    /// The flag concerns caches and has no effect.
    [cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags]
    fn active_blocks_with_flags(
        call, blocks: Out<i32>, function: Handle, block: i32, dynamic_bytes: usize, flags: u32
    ) {
        blocks.check()?;
        let (handle, entry) = function::resolve(call, function)?;
        let block = u32::try_from(block).map_err(|_| ResultCode::INVALID_VALUE)?;
        refuse_if(block == 0 || flags > 1, ResultCode::INVALID_VALUE)?;
        let limits = Limits::of(call, handle, &entry)?;
        blocks.set(limits.resident(block, dynamic_bytes) as i32)
    }

    [cuOccupancyMaxPotentialBlockSize]
    fn potential_block(
        call, grid: Out<i32>, block: Out<i32>, function: Handle,
        shared_of_block: BlockToSharedPointer, dynamic_bytes: usize, limit: i32
    ) {
        potential_block_with_flags(
            call, grid, block, function, shared_of_block, dynamic_bytes, limit, 0,
        )
    }

    [cuOccupancyMaxPotentialBlockSizeWithFlags]
    fn potential_block_with_flags(
        call, grid: Out<i32>, block: Out<i32>, function: Handle,
        shared_of_block: BlockToSharedPointer, dynamic_bytes: usize, limit: i32, flags: u32
    ) {
        refuse_if(flags > 1, ResultCode::INVALID_VALUE)?;
        best_block(call, (grid, block), function, (shared_of_block, dynamic_bytes), limit)
    }

    [cuOccupancyAvailableDynamicSMemPerBlock]
    fn available_shared(call, bytes: Out<usize>, function: Handle, blocks: i32, block: i32) {
        bytes.check()?;
        let (handle, entry) = function::resolve(call, function)?;
        let limits = Limits::of(call, handle, &entry)?;
        let blocks = u32::try_from(blocks).map_err(|_| ResultCode::INVALID_VALUE)?;
        let block = u32::try_from(block).map_err(|_| ResultCode::INVALID_VALUE)?;
        if blocks == 0 || block == 0 || limits.resident(block, 0) < blocks {
            return Err(ResultCode::INVALID_VALUE);
        }
        let each = (limits.shared_bytes / blocks).saturating_sub(limits.reserved_bytes);
        let each = each.min(limits.block_shared_bytes);
        bytes.set(each.saturating_sub(limits.static_shared_bytes) as usize)
    }
}
