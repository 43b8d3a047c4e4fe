//! The values of special registers that are constant while a block runs.

use super::registers::{FULL, LANES, Words};
use super::warp::BlockInfo;
use crate::ptx::ir::SpecialRegister;

/// Returns a special register of all lanes, computed incrementally, or only once if it is uniform.
pub(super) fn special_words(
    special: SpecialRegister,
    warp: u32,
    block_info: &BlockInfo<'_>,
) -> Words {
    match special {
        SpecialRegister::Tid(axis) => {
            let [x, y, _] = block_info.block;
            let first = warp * 32;
            let mut at = [first % x, first / x % y, first / x / y];
            std::array::from_fn(|_| {
                let value = at[usize::from(axis)];
                at[0] += 1;
                if at[0] == x {
                    at = [0, at[1] + 1, at[2]];
                    if at[1] == y {
                        at = [0, 0, at[2] + 1];
                    }
                }
                value
            })
        }
        SpecialRegister::LaneId
        | SpecialRegister::LaneMaskEq
        | SpecialRegister::LaneMaskLe
        | SpecialRegister::LaneMaskLt
        | SpecialRegister::LaneMaskGe
        | SpecialRegister::LaneMaskGt => {
            std::array::from_fn(|lane| special_value(special, warp, lane, block_info) as u32)
        }
        special => [special_value(special, warp, 0, block_info) as u32; LANES],
    }
}

pub(super) fn special_value(
    special: SpecialRegister,
    warp: u32,
    lane: usize,
    block_info: &BlockInfo<'_>,
) -> u64 {
    let lane = lane as u32;
    let thread = warp * 32 + lane;
    let [x, y, _] = block_info.block;
    let tid = [thread % x, thread / x % y, thread / x / y];
    let value = match special {
        SpecialRegister::Tid(axis) => tid[usize::from(axis)],
        SpecialRegister::Ntid(axis) => block_info.block[usize::from(axis)],
        SpecialRegister::Ctaid(axis) => block_info.block_index[usize::from(axis)],
        SpecialRegister::Nctaid(axis) => block_info.grid[usize::from(axis)],
        SpecialRegister::LaneId => lane,
        SpecialRegister::WarpId => warp,
        SpecialRegister::WarpCount => block_info.block.iter().product::<u32>().div_ceil(32),
        SpecialRegister::LaneMaskEq => 1 << lane,
        SpecialRegister::LaneMaskLe => FULL >> (31 - lane),
        SpecialRegister::LaneMaskLt => (1 << lane) - 1,
        SpecialRegister::LaneMaskGe => FULL << lane,
        SpecialRegister::LaneMaskGt => FULL << lane << 1,
        SpecialRegister::DynamicSharedBytes => block_info.dynamic_shared_bytes,
        SpecialRegister::TotalSharedBytes => {
            block_info.static_shared_bytes + block_info.dynamic_shared_bytes
        }
        SpecialRegister::GridWorkspaceHigh => (block_info.grid_workspace >> 32) as u32,
        SpecialRegister::GridWorkspaceLow => block_info.grid_workspace as u32,
        SpecialRegister::DynamicShared(offset) => {
            return u64::from(block_info.static_shared_bytes).wrapping_add(offset.cast_unsigned());
        }
        SpecialRegister::Variable(index, offset) => {
            let address = block_info
                .variables
                .get(index as usize)
                .copied()
                .unwrap_or(0);
            return address.wrapping_add(offset.cast_unsigned());
        }
    };
    u64::from(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_words_equals_special_value_in_each_lane() {
        for block in [[5, 7, 2], [33, 1, 1], [1, 1, 40], [2, 3, 5], [16, 16, 1]] {
            let block_info = BlockInfo {
                grid: [4, 5, 6],
                block,
                block_index: [3, 2, 1],
                static_shared_bytes: 7,
                dynamic_shared_bytes: 9,
                grid_workspace: 0,
                variables: &[],
            };
            let axes = (0..3).flat_map(|axis| {
                let of_axis: [fn(u8) -> SpecialRegister; 4] = [
                    SpecialRegister::Tid,
                    SpecialRegister::Ntid,
                    SpecialRegister::Ctaid,
                    SpecialRegister::Nctaid,
                ];
                of_axis.map(|special| special(axis))
            });
            let others = [
                SpecialRegister::LaneId,
                SpecialRegister::WarpId,
                SpecialRegister::WarpCount,
                SpecialRegister::LaneMaskGt,
            ];
            for special in axes.chain(others) {
                for warp in 0..3 {
                    let long = |lane| special_value(special, warp, lane, &block_info) as u32;
                    let words = special_words(special, warp, &block_info);
                    assert_eq!(
                        words,
                        std::array::from_fn(long),
                        "{special:?} of warp {warp} of {block:?}"
                    );
                }
            }
        }
    }
}
