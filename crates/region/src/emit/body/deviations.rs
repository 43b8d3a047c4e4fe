//! Sums of squared deviations from the mean, in one pass.
//!
//! A thread computes the mean of a few elements, and then their deviations from it, in registers.
//! Two such results are combined by the formula of Chan, Golub and LeVeque ("Algorithms for
//! Computing the Sample Variance", 1983), which adds the squared distance of their means. All
//! numbers are `f64`. The mean and the sum of squares are stored with their rounding errors. So a
//! distance keeps its digits where the mean is much larger than the deviations, and the error does
//! not grow with the number of elements.

use smallvec::{SmallVec, smallvec};

use crate::emit::body::{
    kernel::{KernelBody, Reg, RegClass, line, value},
    reducer::{Accumulator, two_sum},
};

/// The number of an accumulator's components, which are all `f64`: the number of elements, their
/// mean and its rounding error, and the sum of the squared deviations and its rounding errors.
pub(crate) const COMPONENTS: usize = 5;

const ZERO: &str = "0d0000000000000000";
const ONE: &str = "0d3FF0000000000000";

/// Returns the accumulator of a few elements, which are `f64`.
pub(crate) fn of_elements(body: &mut KernelBody, elements: &[Reg]) -> Accumulator {
    let reciprocal = float(1.0 / elements.len() as f64);
    let sum = sum_of_pairs(body, elements);
    let [count, mean, rest, squares, lost] = body.regs(RegClass::F64);
    line!(body; "mov.f64 {count}, {};", float(elements.len() as f64));
    line!(body; "mul.rn.f64 {mean}, {sum}, {reciprocal};");
    let deviations: SmallVec<[Reg; 16]> = elements
        .iter()
        .map(|element| value!(body, F64; "sub.rn.f64 {element}, {mean}"))
        .collect();
    line!(body; "mul.rn.f64 {squares}, {0}, {0};", deviations[0]);
    for deviation in &deviations[1..] {
        line!(body; "fma.rn.f64 {squares}, {deviation}, {deviation}, {squares};");
    }
    // The mean was rounded: the deviations add up to what it lacks.
    let sum = sum_of_pairs(body, &deviations);
    line!(body; "mul.rn.f64 {rest}, {sum}, {reciprocal};");
    let excess = value!(body, F64; "neg.f64 {sum}");
    line!(body; "fma.rn.f64 {squares}, {excess}, {rest}, {squares};");
    line!(body; "mov.f64 {lost}, {ZERO};");
    smallvec![count, mean, rest, squares, lost]
}

/// Combines another accumulator into `accumulator`. Either may have no elements.
pub(crate) fn combine(body: &mut KernelBody, accumulator: &Accumulator, other: &Accumulator) {
    let &[count, mean, rest, squares, lost] = &accumulator[..] else {
        unreachable!("an accumulator has {COMPONENTS} components");
    };
    let all = value!(body, F64; "add.rn.f64 {count}, {}", other[0]);
    let divisor = value!(body, F64; "max.f64 {all}, {ONE}");
    let weight = value!(body, F64; "div.rn.f64 {}, {divisor}", other[0]);
    // Both parts of the mean move towards the other's, so that they become the other's exactly if
    // the accumulator has no elements.
    let distance = value!(body, F64; "sub.rn.f64 {}, {mean}", other[1]);
    let of_rest = value!(body, F64; "sub.rn.f64 {}, {rest}", other[2]);
    let step = value!(body, F64; "mul.rn.f64 {distance}, {weight}");
    line!(body; "add.rn.f64 {distance}, {distance}, {of_rest};");
    // Multiplied by the number of elements first: of none, a large distance adds no infinity.
    let between = value!(body, F64; "mul.rn.f64 {weight}, {count}");
    line!(body; "mul.rn.f64 {between}, {between}, {distance};");
    line!(body; "mul.rn.f64 {between}, {between}, {distance};");
    line!(body; "mov.f64 {count}, {all};");
    line!(body; "fma.rn.f64 {rest}, {of_rest}, {weight}, {rest};");
    add_exactly(body, (mean, rest), step);
    add_exactly(body, (squares, lost), other[3]);
    add_exactly(body, (squares, lost), between);
    line!(body; "add.rn.f64 {lost}, {lost}, {};", other[4]);
}

/// Adds a number to a sum, and the rounding error of the addition to the sum's errors.
fn add_exactly(body: &mut KernelBody, (sum, lost): (Reg, Reg), number: Reg) {
    let (new_sum, error) = two_sum(body, sum, number);
    line!(body; "add.rn.f64 {lost}, {lost}, {error};");
    line!(body; "mov.f64 {sum}, {new_sum};");
}

/// Adds neighbours, then neighbouring sums, and so on.
fn sum_of_pairs(body: &mut KernelBody, numbers: &[Reg]) -> Reg {
    let mut sums: SmallVec<[Reg; 16]> = SmallVec::from_slice(numbers);
    while sums.len() > 1 {
        sums = sums
            .chunks(2)
            .map(|pair| match *pair {
                [one, two] => value!(body, F64; "add.rn.f64 {one}, {two}"),
                _ => pair[0],
            })
            .collect();
    }
    sums[0]
}

fn float(number: f64) -> String {
    format!("0d{:016X}", number.to_bits())
}
