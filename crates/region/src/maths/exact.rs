//! Replacement of approximate instructions by exact ones.
//!
//! The library gives the same bits on every device, but PTX does not define the bits of
//! `ex2.approx`, `lg2.approx`, `rcp.approx`, `rsqrt.approx` and `div.approx`. A reciprocal, root or
//! quotient is therefore replaced by the correctly rounded instruction. A power or logarithm of two
//! is replaced by a call of the library's own function, which is more accurate. PTX defines the
//! bits of all other instructions in NVRTC's mathematical functions, provided that no product is
//! fused with a sum: `maths.cu` is compiled with `--fmad=false`, which puts `.rn` on both.

use std::borrow::Cow;

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

/// Splits the operands of an instruction into its target and its only source.
fn registers(operands: &str) -> (&str, &str) {
    let operands = operands.trim_end_matches(';');
    let both = operands.split_once(',');
    let (target, source) = both.expect("an instruction has a target and a source");
    (target.trim(), source.trim())
}

fn reciprocal_root(operands: &str) -> String {
    let (target, source) = registers(operands);
    format!("\tsqrt.rn.f64 {target}, {source};\n\trcp.rn.f64 {target}, {target};\n")
}

fn call(function: &str, operands: &str) -> String {
    let (target, source) = registers(operands);
    let mut text = String::new();
    super::write_call(&mut text, function, 32, target, [(32, source)]);
    text
}

#[cfg(test)]
mod tests {
    use crate::maths::library::library;

    #[test]
    fn no_approximate_or_contractible_instruction_remains() {
        for (name, item) in &library().items {
            assert!(!item.text.contains(".approx"), "{name}: {}", item.text);
            let may_be_fused = |line: &&str| {
                let opcode = line.split_whitespace().next();
                let halves = opcode.and_then(|opcode| opcode.split_once('.'));
                matches!(halves, Some(("add" | "sub" | "mul", "f32" | "f64")))
            };
            assert_eq!(item.text.lines().find(may_be_fused), None, "{name}");
        }
    }
}
