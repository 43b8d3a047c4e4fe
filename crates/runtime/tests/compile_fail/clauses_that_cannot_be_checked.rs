//! The arithmetic of a `requires` clause must be overflow-checked; a clause that cannot be is
//! rejected.

/// The sides of an area whose product overflows 32 bits.
const SIDES: [u32; 2] = [65_536, 65_536];

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod cast from "" {
        safe fn k(x: &[u8])
        requires x.len() >= SIDES[0] as u8 * SIDES[1]; //~ "no casts in a clause"
    }
}

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod path from "" {
        safe fn k(x: &[u8])
        requires x.len() >= std::ops::Mul::mul(SIDES[0], 9); //~ "may overflow unchecked"
    }
}

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod called from "" {
        safe fn k(x: &[u8]) requires x.len() >= area(SIDES[0] * SIDES[1]); //~ E0308
        safe fn l(x: &[u8]) requires x.len() >= !SIDES[0] + SIDES[1]; //~ E0600
        safe fn m(x: &[u8]) requires x.len() >= SIDES.iter().fold(1_u32, |a, b| a * b); //~ E0308
    }
}

/// A function that takes Rust's own integers, not checked ones.
fn area(area: u32) -> u32 {
    area
}

fn main() {}
