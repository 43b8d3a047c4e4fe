//! Mathematical functions and random numbers for generated kernels, as checked-in PTX.
//!
//! The functions are those of `kernels/maths.cu`, named `ms_<name>_f32` and `ms_<name>_f64`;
//! `docs/maths.md` states their accuracy. A generated module consists of a header, the text of
//! [`sources`] and its entry. The functions are local to the module, so that two modules with the
//! same function do not clash, and `ptxas` may inline them.
//!
//! Arguments and results of a call in PTX are parameters in a scope of the call ([`call`]), of 32
//! or 64 bits each, whatever the type of the register. `.uni` states that all threads of a warp
//! that execute the call have the same target; it does not require that all threads of the warp
//! execute it. Registers have the type that the function takes: `.f32` or `.f64`; the second
//! operand of `ms_powi_*` is `.b32`, and those of `ms_uniform_*` and `ms_normal_*` (seed, index)
//! are `.b64`.

mod exact;
mod function;
mod library;

pub(crate) use function::MathFunction;
use library::{PtxItem, library};

/// Returns the PTX of the named functions and of everything that they depend on, each item once and
/// after its dependencies. Names may repeat. The text has no header; without names it is empty.
///
/// # Panics
///
/// If the library has no function of a given name.
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
    let mut names_in_order = Vec::new();
    for name in names {
        library.collect(item(name).0, &mut names_in_order);
    }
    let texts = names_in_order.iter().map(|name| &*library.items[name].text);
    texts.collect()
}

/// Appends a call of a function with these registers, as a statement.
///
/// # Panics
///
/// If the library has no such function, or it takes a different number of arguments.
///
/// ```
/// let mut text = String::new();
/// millstream_region::maths::call(&mut text, "ms_hypot_f32", "%f3", &["%f1", "%f2"]);
/// assert!(text.contains("call.uni (result), ms_hypot_f32, (argument0, argument1);"));
/// ```
pub fn call(out: &mut String, function: &str, result: &str, arguments: &[&str]) {
    let (_, item) = item(function);
    let (taken, given) = (item.parameters.len(), arguments.len());
    assert_eq!(taken, given, "arguments of {function}");
    let arguments = item
        .parameters
        .iter()
        .copied()
        .zip(arguments.iter().copied());
    write_call(out, function, item.result, result, arguments);
}

/// Appends the instructions of a function in place of a call, if they can be straight
/// ([`PtxItem::straight_line`]). Returns whether it does. A function that is called from several
/// places is not inlined by `ptxas`, so that each call waits for the one before.
pub(crate) fn inline(out: &mut String, function: &str, result: &str, arguments: &[&str]) -> bool {
    let (_, item) = item(function);
    let Some(lines) = item.straight_line() else {
        return false;
    };
    // The names of the function's registers may be those of registers outside.
    out.push_str("\t{\n");
    for (number, (bits, argument)) in item.parameters.iter().zip(arguments).enumerate() {
        *out += &format!(
            "\t.reg .b{bits} argument{number};\n\tmov.b{bits} argument{number}, {argument};\n"
        );
    }
    let bits = item.result;
    *out += &format!(
        "\t.reg .b{bits} result;\n\t{{\n{lines}\t}}\n\tmov.b{bits} {result}, result;\n\t}}\n"
    );
    true
}

/// Returns the names of all functions, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    let names = library().items.keys().copied();
    names.filter(|name| name.starts_with("ms_"))
}

fn item(name: &str) -> (&'static str, &'static PtxItem) {
    let Some((name, item)) = library().items.get_key_value(name) else {
        panic!("no function `{name}` in kernels/maths.cu")
    };
    (name, item)
}

/// Appends a call of a function; each argument is given with its size in bits.
fn write_call<'a>(
    out: &mut String,
    function: &str,
    bits: u32,
    result: &str,
    arguments: impl IntoIterator<Item = (u32, &'a str)>,
) {
    out.push_str("\t{\n");
    let mut names = String::new();
    for (number, (bits, register)) in arguments.into_iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        *out += &format!(
            "\t.param .b{bits} argument{number};\n\
             \tst.param.b{bits} [argument{number}], {register};\n"
        );
        names += &format!("{comma}argument{number}");
    }
    *out += &format!(
        "\t.param .b{bits} result;\n\
         \tcall.uni (result), {function}, ({names});\n\
         \tld.param.b{bits} {result}, [result];\n\
         \t}}\n"
    );
}
