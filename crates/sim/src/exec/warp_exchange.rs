//! Warp-wide exchanges: shuffles, votes, matches, reductions, `elect.sync`, `bar.warp.sync`, and
//! the start of instructions that all lanes execute together.

use super::registers::{FULL, LANES, Registers, lanes};
use crate::ptx::ir::{Exchange, ExchangeOp};

/// A lane without a bit in its own member mask, and the mask; or the first lane of an incomplete
/// warp, and the lanes that have not ended.
pub(super) type OutsideMask = (u32, u32);

/// Executes an exchange for the lanes in `mask`, and returns the lanes that must wait because a
/// live lane of their member mask has not arrived.
///
/// Returns also the first lane that takes part without being named.
#[inline(always)]
pub(super) fn run(
    r: &mut Registers,
    exchange: &Exchange,
    mask: u32,
    live: u32,
) -> (u32, Option<OutsideMask>) {
    let (mut waiting, mut outside) = (0, None);
    let mut rest = mask;
    while let Some(lead) = lanes(rest).next() {
        let named = r.word(exchange.members);
        let members = named[lead];
        let mut same = 0;
        for lane in 0..LANES {
            same |= if named[lane] == members {
                1u32 << lane
            } else {
                0
            };
        }
        let together = rest & same;
        rest &= !together;
        if members & live & !together == 0 {
            if together & !members != 0 && outside.is_none() {
                outside = Some(((together & !members).trailing_zeros(), members));
            }
            if let ExchangeOp::Together(_) = exchange.f
                && together != FULL
            {
                outside = Some((lead as u32, together));
            }
            perform(r, exchange, together);
        } else {
            waiting |= together;
        }
    }
    (waiting, outside)
}

/// Executes the exchange for a set of lanes that have all arrived.
#[inline(always)]
fn perform(r: &mut Registers, exchange: &Exchange, set: u32) {
    use ExchangeOp as E;
    // The lane that each lane reads, and whether that is inside its segment.
    match exchange.f {
        E::ShuffleUp => shuffle(r, exchange, set, |own, by, [_, highest, _]| {
            (own.wrapping_sub(by), own >= by + highest)
        }),
        E::ShuffleDown => shuffle(r, exchange, set, |own, by, [_, highest, _]| {
            (own + by, own + by <= highest)
        }),
        E::ShuffleButterfly => shuffle(r, exchange, set, |own, by, [_, highest, _]| {
            (own ^ by, own ^ by <= highest)
        }),
        E::ShuffleIndex => shuffle(r, exchange, set, |_, index, [lowest, highest, segment]| {
            let source = lowest | (index & !segment);
            (source, source <= highest)
        }),
        _ => perform_other(r, exchange, set),
    }
}

/// Executes an exchange that is no shuffle.
fn perform_other(r: &mut Registers, exchange: &Exchange, set: u32) {
    use ExchangeOp as E;
    let fold = |r: &Registers, f: fn(u32, u32) -> u32| {
        let a = r.word(exchange.a);
        lanes(set).map(|lane| a[lane]).reduce(f).unwrap_or(0)
    };
    match exchange.f {
        E::VoteAll => vote(r, exchange, set, |ones, set| ones == set),
        E::VoteAny => vote(r, exchange, set, |ones, _| ones != 0),
        E::VoteUniform => vote(r, exchange, set, |ones, set| ones == set || ones == 0),
        E::VoteBallot => splat(r, exchange, set, r.predicate(exchange.a) & set),
        E::MatchAny32 | E::MatchAny64 | E::MatchAll32 | E::MatchAll64 => {
            match_lanes(r, exchange, set)
        }
        E::ReduceAdd => splat(r, exchange, set, fold(r, u32::wrapping_add)),
        E::ReduceMinU => splat(r, exchange, set, fold(r, u32::min)),
        E::ReduceMaxU => splat(r, exchange, set, fold(r, u32::max)),
        E::ReduceMinS => {
            let value = fold(r, |a, b| {
                a.cast_signed().min(b.cast_signed()).cast_unsigned()
            });
            splat(r, exchange, set, value);
        }
        E::ReduceMaxS => {
            let value = fold(r, |a, b| {
                a.cast_signed().max(b.cast_signed()).cast_unsigned()
            });
            splat(r, exchange, set, value);
        }
        E::ReduceAnd => splat(r, exchange, set, fold(r, |a, b| a & b)),
        E::ReduceOr => splat(r, exchange, set, fold(r, |a, b| a | b)),
        E::ReduceXor => splat(r, exchange, set, fold(r, |a, b| a ^ b)),
        E::Elect => {
            splat(r, exchange, set, set.trailing_zeros());
            if let Some(p) = exchange.p {
                r.set_predicate(p, set, set & set.wrapping_neg());
            }
        }
        // Shuffles are executed by `perform`.
        E::ShuffleUp
        | E::ShuffleDown
        | E::ShuffleButterfly
        | E::ShuffleIndex
        | E::Barrier
        | E::Together(_) => {}
    }
}

fn splat(r: &mut Registers, exchange: &Exchange, set: u32, value: u32) {
    r.set_word(exchange.d, set, &[value; LANES]);
}

fn vote(r: &mut Registers, exchange: &Exchange, set: u32, f: impl Fn(u32, u32) -> bool) {
    let holds = f(r.predicate(exchange.a) & set, set);
    r.set_predicate(exchange.d, set, if holds { u32::MAX } else { 0 });
}

/// Executes `shfl`.
///
/// `c` holds the clamp in its low five bits, and in bits 8 to 12 the mask that splits the warp into
/// segments. `find` returns the lane that a lane reads, and whether that is valid, from the lane's
/// number, `b`, and the lowest and the highest lane and the mask of its segment. A lane keeps its
/// own value if its source lies outside its segment, and gets 0 from an inactive one: undefined by
/// the documentation, but NVIDIA's sample `reduction` needs it, and has the right sum on GPUs.
#[inline(always)]
fn shuffle(
    r: &mut Registers,
    exchange: &Exchange,
    set: u32,
    find: impl Fn(u32, u32, [u32; 3]) -> (u32, bool),
) {
    let [a, b, c] = [exchange.a, exchange.b, exchange.c].map(|slot| r.word(slot));
    let (mut sources, mut inside, mut gone) = ([0; LANES], 0, 0);
    for lane in 0..LANES {
        let (own, clamp, segment) = (lane as u32, c[lane] & 31, c[lane] >> 8 & 31);
        let lowest = own & segment;
        let highest = lowest | (clamp & !segment);
        let (source, valid) = find(own, b[lane] & 31, [lowest, highest, segment]);
        inside |= if valid { 1u32 << lane } else { 0 };
        let active = set >> (source & 31) & 1 == 1;
        gone |= if valid & !active { 1u32 << lane } else { 0 };
        sources[lane] = if valid { source & 31 } else { own };
    }
    let mut values = [0; LANES];
    for lane in 0..LANES {
        values[lane] = a[(sources[lane] & 31) as usize];
    }
    lanes(gone & set).for_each(|lane| values[lane] = 0);
    r.set_word(exchange.d, set, &values);
    if let Some(p) = exchange.p {
        r.set_predicate(p, set, inside);
    }
}

fn match_lanes(r: &mut Registers, exchange: &Exchange, set: u32) {
    let double = matches!(exchange.f, ExchangeOp::MatchAny64 | ExchangeOp::MatchAll64);
    let all = matches!(exchange.f, ExchangeOp::MatchAll32 | ExchangeOp::MatchAll64);
    let keys: [u64; LANES] = if double {
        *r.double(exchange.a)
    } else {
        r.word(exchange.a).map(u64::from)
    };
    let mut values = [0; LANES];
    for lane in lanes(set) {
        values[lane] = lanes(set)
            .filter(|other| keys[*other] == keys[lane])
            .fold(0, |mask, other| mask | 1 << other);
    }
    if all {
        let same = lanes(set).all(|lane| values[lane] == set);
        values = [if same { set } else { 0 }; LANES];
        if let Some(p) = exchange.p {
            r.set_predicate(p, set, if same { u32::MAX } else { 0 });
        }
    }
    r.set_word(exchange.d, set, &values);
}
