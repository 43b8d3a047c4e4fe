//! The orders in which the blocks of a checked launch start and the warps of a block run.
//!
//! Which block takes a lock or a counter first decides which accesses an atomic orders, so one
//! order of execution misses races that another one shows. The check for races therefore runs a
//! kernel whose atomics or strong loads return values in several orders, each on a private copy of
//! the memory that it accesses.

use std::{fmt, str::FromStr};

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Mcg128Xsl64;

use super::launch::Launch;

/// The largest number of blocks, or of warps of a single block, whose orders are all run.
const EXHAUSTIVE_MAX: u64 = 3;

/// The largest number of blocks that are shuffled. The order of more blocks is a stride.
const SHUFFLED_MAX: u64 = 4096;

/// The preemptions of a seeded order, as in PCT with depth 3: for each, the number of bits of the
/// highest number of an atomic that is preempted.
const CHANGE_BITS: [u64; 2] = [6, 16];

/// An order in which a checked launch runs, as a token that shows a race again.
///
/// The text is that of the option `order=`.
///
/// ```
/// use millstream_sim::{SimConfig, exec::KernelOrder};
/// let order: KernelOrder = "s7".parse().unwrap();
/// assert_eq!(order, KernelOrder::Seed(7));
/// assert_eq!(
///     SimConfig::parse("sim:race=kernels,order=s7").unwrap(),
///     SimConfig::new().kernel_race_check(true).kernel_race_order(order),
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelOrder {
    /// Blocks start in the order of their indices, and so do the warps of a block: `i`.
    Index,
    /// The n-th permutation of the blocks, or of the warps of a single block: `p3`.
    Permutation(u32),
    /// Blocks start, and the warps of each block run, in an order drawn from the seed. Two atomics
    /// drawn from the seed are preempted, as in probabilistic concurrency testing: `s7`.
    Seed(u64),
}

impl fmt::Display for KernelOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => f.write_str("i"),
            Self::Permutation(number) => write!(f, "p{number}"),
            Self::Seed(seed) => write!(f, "s{seed}"),
        }
    }
}

/// The error for text that is not a [`KernelOrder`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no order of blocks; use `i`, `p` and a number, or `s` and a seed")]
pub struct KernelOrderError(String);

impl FromStr for KernelOrder {
    type Err = KernelOrderError;

    fn from_str(text: &str) -> Result<Self, KernelOrderError> {
        let seed = |digits: &str| digits.parse().ok().map(Self::Seed);
        let permutation = |digits: &str| digits.parse().ok().map(Self::Permutation);
        let order = match text.split_at_checked(1) {
            Some(("i", "")) => Some(Self::Index),
            Some(("p", digits)) => permutation(digits),
            Some(("s", digits)) => seed(digits),
            _ => None,
        };
        order.ok_or_else(|| KernelOrderError(text.to_owned()))
    }
}

/// The orders in which the check for races runs a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelOrders {
    /// The order of indices, all other orders of up to three blocks or of up to three warps of a
    /// single block, and as many seeded ones as make this number of orders. Their seeds follow the
    /// given one.
    Several { count: u32, seed: u64 },
    /// One order.
    One(KernelOrder),
}

impl KernelOrders {
    pub(crate) const DEFAULT_COUNT: u32 = 4;

    pub(crate) const DEFAULT: Self = Self::Several {
        count: Self::DEFAULT_COUNT,
        seed: 0,
    };

    pub(super) fn of(self, launch: &Launch<'_>, ordered: bool) -> Vec<KernelOrder> {
        let (count, seed) = match self {
            Self::One(order) => return vec![order],
            Self::Several { seed, .. } if !ordered => (1, seed),
            Self::Several { count, seed } => (count.max(1), seed),
        };
        let seeded = |number: u32| KernelOrder::Seed(seed.wrapping_add(number.into()));
        let (blocks, warps) = shape(launch);
        let items = if blocks == 1 { warps } else { blocks };
        if count == 1 || items == 1 {
            vec![KernelOrder::Index]
        } else if items <= EXHAUSTIVE_MAX {
            let permutations: u32 = (1..=items as u32).product();
            let others = (1..permutations).map(KernelOrder::Permutation);
            let others = others.chain((permutations..count).map(seeded));
            [KernelOrder::Index].into_iter().chain(others).collect()
        } else {
            let others = (1..count).map(seeded);
            [KernelOrder::Index].into_iter().chain(others).collect()
        }
    }
}

/// Returns the number of blocks, and of warps of a block.
fn shape(launch: &Launch<'_>) -> (u64, u64) {
    let blocks = launch.grid.iter().map(|size| u64::from(*size)).product();
    let threads: u32 = launch.block.iter().product();
    (blocks, threads.div_ceil(32).into())
}

/// A [`KernelOrder`] of one launch.
#[derive(Debug)]
pub(super) struct LaunchOrder {
    token: KernelOrder,
    blocks: Vec<u64>,
    /// The first block and the distance of consecutive ones, of more blocks than are listed.
    stride: Option<(u64, u64)>,
    count: u64,
    /// The order of the warps of a single block.
    warps: Vec<usize>,
    /// The seed of the orders of the warps of each block.
    seed: Option<u64>,
    /// The atomics at which the running warp is preempted, counted from 1.
    changes: [u64; CHANGE_BITS.len()],
}

impl LaunchOrder {
    pub(super) fn new(order: KernelOrder, launch: &Launch<'_>) -> Self {
        let (count, warps) = shape(launch);
        let index = Self {
            token: order,
            blocks: Vec::new(),
            stride: None,
            count,
            warps: Vec::new(),
            seed: None,
            changes: [0; CHANGE_BITS.len()],
        };
        match order {
            KernelOrder::Index => index,
            KernelOrder::Permutation(number) if count == 1 => Self {
                warps: permutation(warps, number)
                    .iter()
                    .map(|warp| *warp as usize)
                    .collect(),
                ..index
            },
            KernelOrder::Permutation(number) => Self {
                blocks: permutation(count.min(SHUFFLED_MAX), number),
                ..index
            },
            KernelOrder::Seed(seed) => {
                let mut generator = Mcg128Xsl64::seed_from_u64(seed);
                // Most kernels execute few atomics, so early ones are drawn more often.
                let changes = CHANGE_BITS.map(|bits_max| {
                    let bits = generator.next_u64() % bits_max;
                    1 + generator.next_u64() % (1 << bits)
                });
                let mut order = Self {
                    seed: Some(seed),
                    changes,
                    ..index
                };
                if count <= SHUFFLED_MAX {
                    order.blocks = (0..count).collect();
                    shuffle(&mut order.blocks, &mut generator);
                } else {
                    let mut step = generator.next_u64() % count;
                    while greatest_common_divisor(step, count) != 1 {
                        step = (step + 1) % count;
                    }
                    order.stride = Some((generator.next_u64() % count, step));
                }
                order
            }
        }
    }

    pub(super) fn token(&self) -> KernelOrder {
        self.token
    }

    pub(super) fn blocks(&self) -> u64 {
        self.count
    }

    /// Returns the block that starts as the n-th.
    pub(super) fn block(&self, number: u64) -> u64 {
        match self.stride {
            Some((first, step)) => {
                let at = u128::from(first) + u128::from(step) * u128::from(number);
                (at % u128::from(self.count)) as u64
            }
            None => self.blocks.get(number as usize).copied().unwrap_or(number),
        }
    }

    pub(super) fn arrange(&self, block: u64, warps: &mut Vec<usize>) {
        if let Some(seed) = self.seed {
            let mut generator = Mcg128Xsl64::seed_from_u64(seed ^ block.rotate_left(32));
            shuffle(warps, &mut generator);
        } else if !self.warps.is_empty() {
            warps.clone_from(&self.warps);
        }
    }

    /// Returns whether the n-th atomic, counted from 1, is preempted.
    pub(super) fn preempts(&self, atomic: u64) -> bool {
        self.changes.contains(&atomic)
    }
}

/// Returns the n-th permutation of the numbers below `count`, in lexicographic order.
fn permutation(count: u64, number: u32) -> Vec<u64> {
    let mut rest: Vec<u64> = (0..count).collect();
    let mut number = u64::from(number);
    let mut digits = Vec::new();
    for base in 1..=count {
        digits.push((number % base) as usize);
        number /= base;
    }
    digits
        .iter()
        .rev()
        .map(|digit| rest.remove(*digit))
        .collect()
}

fn shuffle<T>(items: &mut [T], generator: &mut Mcg128Xsl64) {
    for last in (1..items.len()).rev() {
        items.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_starts_every_block_once() {
        for blocks in [1u32, 2, 3, 7, 5000] {
            let launch = Launch::new([blocks, 1, 1], [96, 1, 1]);
            for order in ["i", "p0", "p1", "p5", "s1", "s2", "s77"] {
                let order = LaunchOrder::new(order.parse().unwrap(), &launch);
                let mut started: Vec<_> = (0..blocks.into()).map(|at| order.block(at)).collect();
                started.sort_unstable();
                assert!(started.into_iter().eq(0..blocks.into()));
                let mut warps = vec![0, 1, 2];
                order.arrange(0, &mut warps);
                warps.sort_unstable();
                assert_eq!(warps, [0, 1, 2]);
            }
        }
    }

    #[test]
    fn small_launches_run_in_all_orders() {
        let blocks = |grid, block| KernelOrders::DEFAULT.of(&Launch::new(grid, block), true);
        for (grid, block, count) in [
            ([3, 1, 1], [64, 1, 1], 6),
            ([2, 1, 1], [64, 1, 1], 4),
            ([1, 1, 1], [96, 1, 1], 6),
            ([1, 1, 1], [32, 1, 1], 1),
            ([9, 1, 1], [32, 1, 1], 4),
        ] {
            let orders = blocks(grid, block);
            assert_eq!(orders.len(), count);
            let launch = Launch::new(grid, block);
            let drawn = orders.iter().map(|order| {
                let order = LaunchOrder::new(*order, &launch);
                let mut warps: Vec<_> = (0..3).collect();
                order.arrange(0, &mut warps);
                let blocks: Vec<_> = (0..grid[0].into()).map(|at| order.block(at)).collect();
                (blocks, warps)
            });
            let drawn: std::collections::BTreeSet<_> = drawn.collect();
            let permutations = if grid[0] == 2 { 2 } else { count };
            assert!(drawn.len() >= permutations, "the orders differ");
        }
    }

    #[test]
    fn the_seeds_of_drawn_orders_follow_the_given_one() {
        let orders = |seed, blocks| {
            let orders = KernelOrders::Several { count: 4, seed };
            orders.of(&Launch::new([blocks, 1, 1], [32, 1, 1]), true)
        };
        let tokens = |orders: Vec<KernelOrder>| {
            let tokens: Vec<_> = orders.iter().map(ToString::to_string).collect();
            tokens.join(" ")
        };
        assert_eq!(tokens(orders(0, 9)), "i s1 s2 s3");
        assert_eq!(tokens(orders(300, 9)), "i s301 s302 s303");
        assert_eq!(tokens(orders(300, 2)), "i p1 s302 s303");
        assert_eq!(orders(u64::MAX, 9)[1], KernelOrder::Seed(0));
    }

    #[test]
    fn tokens_round_trip_through_text() {
        for order in [
            KernelOrder::Index,
            KernelOrder::Permutation(5),
            KernelOrder::Seed(u64::MAX),
        ] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for text in ["", "p", "s-1", "ix", "é"] {
            assert!(text.parse::<KernelOrder>().is_err(), "{text}");
        }
    }
}
