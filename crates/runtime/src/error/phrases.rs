//! Parts of the sentences of usage errors.

/// Formats an operand's name, to follow its index.
pub(super) fn in_brackets(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" (`{name}`)"))
}

/// Lists the names that a module has, to follow the one that it lacks.
pub(super) fn names_there_are(what: &str, names: &[String]) -> String {
    match names {
        [] => format!("the module has no {what}"),
        names => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("there are {}", names.join(", "))
        }
    }
}

/// Formats the values of a clause's operands, to end a sentence.
pub(super) fn of_values(values: &str) -> String {
    if values.is_empty() {
        String::new()
    } else {
        format!(": {values}")
    }
}
