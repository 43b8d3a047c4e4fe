//! Mathematical functions and random numbers for generated kernels: the PTX of those that a kernel
//! calls, and the calls.
//!
//! The functions are those of `kernels/maths.cu`, named `ms_<name>_f32` and `ms_<name>_f64`; what
//! they are accurate to is in `docs/maths.md`. A generated module has a header, then the text of
//! [`sources`], then its entry. The functions are local to the module, so that two modules with the
//! same function do not clash, and `ptxas` may put them in place.
//!
//! # A call in PTX
//!
//! Arguments and results are parameters in a scope of their own, one of 32 or 64 bits each,
//! whatever the register's type is called:
//!
//! ```text
//! {
//! .param .b32 argument0;
//! st.param.b32 [argument0], %f1;
//! .param .b32 result;
//! call.uni (result), ms_exp_f32, (argument0);
//! ld.param.b32 %f2, [result];
//! }
//! ```
//!
//! `.uni` says that the threads of a warp that get there call the same function, not that all of
//! them get there. Registers are of the type that the function takes: `.f32` or `.f64`; the second
//! operand of `ms_powi_*` is `.b32`, and those of `ms_uniform_*` and `ms_normal_*` (seed, index)
//! `.b64`.

mod exact;
mod function;
mod library;

use std::fmt::Write;

pub(crate) use function::MathFunction;
use library::library;

/// The PTX of the functions of these names, with all that they need, each once and in an order in
/// which nothing is used before it is there. Names may repeat. It has no header; for no names it is
/// empty.
///
/// # Panics
///
/// If a name is not that of a function of the library.
///
/// ```
/// let text = millstream_region::maths::sources(["ms_sin_f64", "ms_tan_f64", "ms_sin_f64"]);
/// assert_eq!(text.matches(") ms_sin_f64(").count(), 1);
/// assert!(text.find("__cudart_i2opi_d[144]") < text.find(") ms_sin_f64("));
/// ```
pub fn sources<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter().peekable();
    if names.peek().is_none() {
        return String::new();
    }
    let library = library();
    let mut found = Vec::new();
    for name in names {
        let (name, _) = library
            .items
            .get_key_value(name)
            .unwrap_or_else(|| unknown(name));
        library.collect(name, &mut found);
    }
    found
        .iter()
        .map(|name| &*library.items[name].text)
        .collect()
}

/// Writes a call of a function with these registers, a statement of its own.
///
/// # Panics
///
/// If there is no such function, or it takes another number of arguments.
///
/// ```
/// let mut text = String::new();
/// millstream_region::maths::call(&mut text, "ms_hypot_f32", "%f3", &["%f1", "%f2"]);
/// assert!(text.contains("call.uni (result), ms_hypot_f32, (argument0, argument1);"));
/// ```
pub fn call(out: &mut String, function: &str, result: &str, arguments: &[&str]) {
    let item = library()
        .items
        .get(function)
        .unwrap_or_else(|| unknown(function));
    assert_eq!(
        item.parameters.len(),
        arguments.len(),
        "arguments of {function}"
    );
    let arguments: Vec<_> = item
        .parameters
        .iter()
        .copied()
        .zip(arguments.iter().copied())
        .collect();
    write_call(out, function, item.result, result, &arguments);
}

/// The names of all functions, in order.
///
/// ```
/// assert!(millstream_region::maths::names().any(|name| name == "ms_erfc_f64"));
/// ```
pub fn names() -> impl Iterator<Item = &'static str> {
    library()
        .items
        .keys()
        .copied()
        .filter(|name| name.starts_with("ms_"))
}

fn unknown(name: &str) -> ! {
    panic!("no function `{name}` in kernels/maths.cu")
}

/// Writes a call; operands are given with their bits.
fn write_call(
    out: &mut String,
    function: &str,
    bits: u32,
    result: &str,
    arguments: &[(u32, &str)],
) {
    out.push_str("\t{\n");
    let mut names = String::new();
    for (number, (bits, register)) in arguments.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        let written = writeln!(
            out,
            "\t.param .b{bits} argument{number};\n\tst.param.b{bits} [argument{number}], {register};"
        );
        written.expect("a string takes all that is written to it");
        names += &format!("{comma}argument{number}");
    }
    let written = writeln!(
        out,
        "\t.param .b{bits} result;\n\tcall.uni (result), {function}, ({names});\n\tld.param.b{bits} {result}, [result];\n\t}}"
    );
    written.expect("a string takes all that is written to it");
}
