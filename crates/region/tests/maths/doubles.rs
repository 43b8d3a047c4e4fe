//! Accuracy in double precision, compared with values that `golden.py` computes with 1,300 bits.
//!
//! The values are files because no available crate has all of these functions, and because a
//! reference should not be compiled together with the code that it checks.

use std::{env, fs, path::PathBuf};

use crate::maths::{
    device,
    functions::{ONE, TWO},
    measure::{Worst, assert_within_limits},
};

/// A line of a golden file.
struct Golden {
    operands: Vec<f64>,
    rounded: f64,
    /// The distance of the exact value above the rounded one, in units of the last place.
    above: f64,
}

macro_rules! files {
    ($($name:ident)*) => {
        /// Returns the golden file of a function.
        fn text(name: &str) -> &'static str {
            match name {
                $(stringify!($name) => {
                    include_str!(concat!("golden/", stringify!($name), ".txt"))
                })*
                _ => panic!("no file for {name}"),
            }
        }
    };
}

files! {
    exp exp2 exp_m1 ln ln_1p log2 log10 cbrt
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
    erf erfc sigmoid round
    powf atan2 hypot rem
}

/// Returns the golden values of a function, from the checked-in file or from the directory
/// `MILLSTREAM_GOLDEN`.
fn golden(name: &str) -> Vec<Golden> {
    let elsewhere = env::var_os("MILLSTREAM_GOLDEN")
        .map(|folder| PathBuf::from(folder).join(format!("{name}.txt")));
    let read = elsewhere.map(|path| fs::read_to_string(path).unwrap());
    let text = read.as_deref().unwrap_or_else(|| text(name));
    let number = |word: &str| f64::from_bits(u64::from_str_radix(word, 16).unwrap());
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (operands, [rounded, above]) = words.split_last_chunk().unwrap();
        Golden {
            operands: operands.iter().copied().map(number).collect(),
            rounded: number(rounded),
            above: above.parse::<f64>().unwrap() / 1000.0,
        }
    };
    let values: Vec<Golden> = text.lines().map(line).collect();
    assert!(values.len() > 200, "{name} has {} values", values.len());
    values
}

fn compare(values: &[Golden], results: &[f64], function: &str, limit: u64) -> Result<(), String> {
    let mut worst = Worst::default();
    for (value, got) in values.iter().zip(results) {
        let place = || format!("{:e}: {got:e}, not {:e}", value.operands[0], value.rounded);
        worst.record((*got).into(), value.rounded.into(), value.above, place);
    }
    worst.check_limit(function, limit)
}

#[test]
fn doubles_of_one_operand_are_as_accurate_as_cuda_says() {
    assert_within_limits(ONE.iter().map(|function| {
        let values = golden(function.name);
        let x: Vec<f64> = values.iter().map(|value| value.operands[0]).collect();
        compare(
            &values,
            &device::one(function.double, &x),
            function.double,
            function.limits.1,
        )
    }));
}

#[test]
fn doubles_of_two_operands_are_as_accurate_as_cuda_says() {
    assert_within_limits(TWO.iter().map(|function| {
        let values = golden(function.name);
        let operand = |number: usize| -> Vec<f64> {
            values.iter().map(|value| value.operands[number]).collect()
        };
        let results: Vec<f64> = device::two(function.double, &operand(0), &operand(1));
        compare(&values, &results, function.double, function.limits.1)
    }));
}
