//! Warp-wide exchanges: shuffles, votes, matches, reductions, `elect.sync` and `bar.warp.sync`.

use super::registers::{LANES, Registers, lanes};
use crate::ptx::ir::{Exchange, ExchangeOp};

/// Executes an exchange for the lanes in `mask`, and returns the lanes that must wait because a
/// live lane of their member mask has not arrived.
pub(super) fn run(r: &mut Registers, exchange: &Exchange, mask: u32, live: u32) -> u32 {
    let mut waiting = 0;
    let mut rest = mask;
    while let Some(lead) = lanes(rest).next() {
        let members = r.word(exchange.members)[lead];
        let named = *r.word(exchange.members);
        let together = lanes(rest)
            .filter(|lane| named[*lane] == members)
            .fold(0, |set, lane| set | 1 << lane);
        rest &= !together;
        if members & live & !together == 0 {
            perform(r, exchange, together);
        } else {
            waiting |= together;
        }
    }
    waiting
}

/// Executes the exchange for a set of lanes that have all arrived.
fn perform(r: &mut Registers, exchange: &Exchange, set: u32) {
    use ExchangeOp as E;
    let fold = |r: &Registers, f: fn(u32, u32) -> u32| {
        let a = r.word(exchange.a);
        lanes(set).map(|lane| a[lane]).reduce(f).unwrap_or(0)
    };
    match exchange.f {
        E::ShuffleUp | E::ShuffleDown | E::ShuffleButterfly | E::ShuffleIndex => {
            shuffle(r, exchange, set)
        }
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
        E::Barrier => {}
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
/// segments. A lane keeps its own value if its source lies outside its segment or is inactive.
fn shuffle(r: &mut Registers, exchange: &Exchange, set: u32) {
    let (a, b, c) = (
        *r.word(exchange.a),
        *r.word(exchange.b),
        *r.word(exchange.c),
    );
    let mut values = a;
    let mut inside = 0;
    for lane in lanes(set) {
        let (distance, clamp, segment) = (b[lane] & 31, c[lane] & 31, c[lane] >> 8 & 31);
        let own = lane as u32;
        let lowest = own & segment;
        let highest = lowest | (clamp & !segment);
        let (source, valid) = match exchange.f {
            ExchangeOp::ShuffleUp => (own.wrapping_sub(distance), own >= distance + highest),
            ExchangeOp::ShuffleDown => (own + distance, own + distance <= highest),
            ExchangeOp::ShuffleButterfly => (own ^ distance, own ^ distance <= highest),
            _ => (
                lowest | (distance & !segment),
                lowest | (distance & !segment) <= highest,
            ),
        };
        if valid {
            inside |= 1 << lane;
            if set >> (source & 31) & 1 == 1 {
                values[lane] = a[(source & 31) as usize];
            }
        }
    }
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
