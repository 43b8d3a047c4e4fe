//! The arithmetic of clauses by name: checked methods, and unchecked methods and functions.

use syn::{ExprPath, Ident};

/// Methods that checked integers have in place of Rust's own.
const CHECKED_METHODS: [&str; 13] = [
    "abs",
    "abs_diff",
    "clamp",
    "div_ceil",
    "div_euclid",
    "is_multiple_of",
    "is_power_of_two",
    "max",
    "min",
    "next_multiple_of",
    "next_power_of_two",
    "pow",
    "rem_euclid",
];

/// Functions of integer types and of traits that overflow without an error, or panic.
const UNCHECKED_FUNCTIONS: [&str; 17] = [
    "abs",
    "add",
    "div",
    "div_ceil",
    "div_euclid",
    "mul",
    "neg",
    "next_multiple_of",
    "next_power_of_two",
    "pow",
    "product",
    "rem",
    "rem_euclid",
    "shl",
    "shr",
    "sub",
    "sum",
];

/// Methods that overflow without an error and that checked integers lack.
const UNCHECKED_METHODS: [&str; 10] = [
    "add", "div", "mul", "neg", "product", "rem", "shl", "shr", "sub", "sum",
];

/// Returns whether checked integers have this method.
pub(super) fn is_checked_method(method: &Ident) -> bool {
    CHECKED_METHODS.contains(&method.to_string().as_str())
}

/// Returns the error message for a method that may overflow unchecked.
pub(super) fn unchecked_method(method: &Ident) -> Option<String> {
    UNCHECKED_METHODS
        .contains(&method.to_string().as_str())
        .then(|| {
            format!(
                "`{method}` may overflow unchecked: write an operator, which a clause checks, \
                 or call a function that handles overflow"
            )
        })
}

/// Returns the error message for a function of a type or of a trait that may overflow unchecked. A
/// function of a module is the author's own and is not rejected.
pub(super) fn unchecked_function(path: &ExprPath) -> Option<String> {
    let mut names = path
        .path
        .segments
        .iter()
        .rev()
        .map(|it| it.ident.to_string());
    let name = names.next()?;
    let of_type = names.next().is_some_and(|of| is_type_name(&of));
    if !UNCHECKED_FUNCTIONS.contains(&name.as_str()) || !(of_type || path.qself.is_some()) {
        return None;
    }
    Some(if CHECKED_METHODS.contains(&name.as_str()) {
        format!("this function may overflow unchecked: write `a.{name}(…)`, which a clause checks")
    } else {
        "this function may overflow unchecked: write an operator, which a clause checks".to_owned()
    })
}

/// Returns whether a name is that of a type or a trait, by Rust's naming conventions.
fn is_type_name(name: &str) -> bool {
    let primitive = [
        "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i128", "u128", "isize", "usize",
    ];
    primitive.contains(&name) || name.starts_with(char::is_uppercase)
}
