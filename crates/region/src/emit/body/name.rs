//! The names of kernels, as shown in timelines and errors.

/// The maximum number of words in a kernel's name.
const NAME_PARTS_MAX: usize = 6;

/// Joins the words of a name, replacing those beyond the maximum by their number.
pub(crate) fn name_of(name_parts: &[&str]) -> String {
    match name_parts {
        [] => String::from("copy"),
        _ if name_parts.len() <= NAME_PARTS_MAX => name_parts.join("+"),
        _ => format!(
            "{}+{} more",
            name_parts[..NAME_PARTS_MAX].join("+"),
            name_parts.len() - NAME_PARTS_MAX
        ),
    }
}
