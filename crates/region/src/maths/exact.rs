//! Approximate instructions, made exact.
//!
//! `ex2.approx`, `lg2.approx`, `rcp.approx`, `rsqrt.approx` and `div.approx` leave it to each
//! device which bits it gives. The library is to give the same bits everywhere, so each is written
//! as what it approximates: a reciprocal, root or quotient as the one that is rounded correctly, a
//! power or logarithm of two as a call of the library's own function, which is more accurate than
//! the instruction. All else that NVRTC's mathematical functions consist of is defined to the bit
//! by PTX, as long as no product is fused with a sum: `maths.cu` is compiled with `--fmad=false`,
//! which puts `.rn` on both.

use std::borrow::Cow;

/// The PTX of a function without approximate instructions.
pub(super) fn replace_approximate(ptx: &str) -> String {
    ptx.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> Cow<'_, str> {
    let instruction = line.trim();
    let Some((opcode, operands)) = instruction.split_once(char::is_whitespace) else {
        return line.into();
    };
    let operands = operands.trim();
    let exact = |opcode: &str| Cow::from(format!("\t{opcode} {operands}\n"));
    match opcode {
        "rcp.approx.ftz.f32" => exact("rcp.rn.ftz.f32"),
        "rcp.approx.ftz.f64" => exact("rcp.rn.f64"),
        "div.approx.f32" => exact("div.rn.f32"),
        "rsqrt.approx.ftz.f64" => reciprocal_root(operands).into(),
        "ex2.approx.f32" | "ex2.approx.ftz.f32" => call("ms_exp2_f32", operands).into(),
        "lg2.approx.f32" | "lg2.approx.ftz.f32" => call("ms_log2_f32", operands).into(),
        _ => line.into(),
    }
}

/// Target and source of an instruction that has one of each.
fn registers(operands: &str) -> (&str, &str) {
    let operands = operands.trim_end_matches(';');
    let (target, source) = operands
        .split_once(',')
        .expect("an instruction has a target and a source");
    (target.trim(), source.trim())
}

fn reciprocal_root(operands: &str) -> String {
    let (target, source) = registers(operands);
    format!("\tsqrt.rn.f64 {target}, {source};\n\trcp.rn.f64 {target}, {target};\n")
}

fn call(function: &str, operands: &str) -> String {
    let (target, source) = registers(operands);
    let mut text = String::new();
    super::write_call(&mut text, function, 32, target, &[(32, source)]);
    text
}

#[cfg(test)]
mod tests {
    use super::super::library::library;

    #[test]
    fn nothing_approximate_and_nothing_that_may_be_fused_is_left() {
        for (name, item) in &library().items {
            assert!(!item.text.contains(".approx"), "{name}: {}", item.text);
            let may_be_fused = |line: &&str| {
                let opcode = line.split_whitespace().next();
                matches!(
                    opcode,
                    Some("add.f32" | "sub.f32" | "mul.f32" | "add.f64" | "sub.f64" | "mul.f64")
                )
            };
            assert_eq!(item.text.lines().find(may_be_fused), None, "{name}");
        }
    }
}
