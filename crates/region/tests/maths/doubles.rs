//! The accuracy of double precision, against values that `golden.py` worked out with 1,300 bits.
//!
//! They are files because no crate that could work them out here has all of these functions, and
//! because what is compared with should not be code that is compiled beside what it judges.

use std::{env, fs, path::PathBuf};

use crate::{
    device,
    functions::{ONE, TWO},
    measure::{Worst, all_well},
};

/// One line of a file.
struct Golden {
    operands: Vec<f64>,
    rounded: f64,
    /// How far the value is above, in units of the last place.
    above: f64,
}

macro_rules! files {
    ($($name:ident)*) => {
        /// The text of a function's file.
        fn text(name: &str) -> &'static str {
            match name {
                $(stringify!($name) => include_str!(concat!("golden/", stringify!($name), ".txt")),)*
                _ => panic!("no file for {name}"),
            }
        }
    };
}

files! {
    exp exp2 exp_m1 ln ln_1p log2 log10 cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid round
    powf atan2 hypot rem
}

/// The values of a function: of the file here, or of one of the same name where `MILLSTREAM_GOLDEN`
/// says.
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

fn judge(values: &[Golden], results: &[f64], function: &str, limit: u64) -> Result<(), String> {
    let mut worst = Worst::default();
    for (value, got) in values.iter().zip(results) {
        let place = || format!("{:e}: {got:e}, not {:e}", value.operands[0], value.rounded);
        worst.note((*got).into(), value.rounded.into(), value.above, place);
    }
    worst.verdict(function, limit)
}

#[test]
fn doubles_of_one_operand_are_as_accurate_as_cuda_says() {
    all_well(ONE.iter().map(|function| {
        let values = golden(function.name);
        let x: Vec<f64> = values.iter().map(|value| value.operands[0]).collect();
        judge(
            &values,
            &device::one(function.double, &x),
            function.double,
            function.limits.1,
        )
    }));
}

#[test]
fn doubles_of_two_operands_are_as_accurate_as_cuda_says() {
    all_well(TWO.iter().map(|function| {
        let values = golden(function.name);
        let operand = |number: usize| -> Vec<f64> {
            values.iter().map(|value| value.operands[number]).collect()
        };
        let results: Vec<f64> = device::two(function.double, &operand(0), &operand(1));
        judge(&values, &results, function.double, function.limits.1)
    }));
}
