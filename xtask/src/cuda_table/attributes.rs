//! The table of device attributes: their names and numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::headers::Headers;

const PREFIX: &str = "CU_DEVICE_ATTRIBUTE_";

/// The start of the generated macro.
const OPENING: &str = "
/// Calls the macro `$then` with all attributes of `CUdevice_attribute`, in the order of their
/// numbers. Of several names for one number, the current one is given.
macro_rules! device_attributes {
    ($then:ident) => {
        $then! {
";

/// Returns the generated file.
pub(super) fn table(headers: &Headers) -> Result<String> {
    let mut text = headers.opening("//!", "The names and numbers of all device attributes.")?;
    text += OPENING;
    let mut line = " ".repeat(11);
    for (number, name) in attributes(&headers.declarations)? {
        let row = format!(" {name} = {number};");
        if line.len() + row.len() > 100 {
            writeln!(text, "{line}")?;
            line.truncate(11);
        }
        line += &row;
    }
    writeln!(text, "{line}")?;
    text += "        }\n    };\n}\n\npub(crate) use device_attributes;\n";
    Ok(text)
}

/// Parses the names and numbers of the attributes, without gaps from 1.
fn attributes(declarations: &str) -> Result<BTreeMap<i32, String>> {
    let (_, list) = declarations
        .split_once("typedef enum CUdevice_attribute_enum {")
        .context("cuda.h has no CUdevice_attribute_enum")?;
    let (list, _) = list
        .split_once('}')
        .context("CUdevice_attribute_enum does not end")?;
    let mut attributes = BTreeMap::new();
    for entry in list.split(',') {
        // The last entry is a bound without a number.
        let Some((name, number)) = entry.split_once('=') else {
            continue;
        };
        let name = name.trim();
        let number: i32 = number
            .trim()
            .parse()
            .with_context(|| format!("the number of {name}"))?;
        let name = name
            .strip_prefix(PREFIX)
            .with_context(|| format!("{name} does not start with {PREFIX}"))?;
        // Number 102 was renamed later, and keeps its former name first.
        let renamed = name == "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED";
        if renamed || !attributes.contains_key(&number) {
            attributes.insert(number, name.to_owned());
        }
    }
    ensure!(
        attributes.keys().copied().eq(1..=attributes.len() as i32),
        "the numbers of attributes have gaps"
    );
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_listed_by_number_with_their_current_names() {
        let found = attributes(
            "typedef enum CUdevice_attribute_enum {
                CU_DEVICE_ATTRIBUTE_B = 2, CU_DEVICE_ATTRIBUTE_OLD_B = 2,
                CU_DEVICE_ATTRIBUTE_A = 1, CU_DEVICE_ATTRIBUTE_MAX } CUdevice_attribute;",
        );
        let found: Vec<(i32, String)> = found.unwrap().into_iter().collect();
        assert_eq!(found, [(1, "A".to_owned()), (2, "B".to_owned())]);
    }

    #[test]
    fn a_gap_is_an_error() {
        let error =
            attributes("typedef enum CUdevice_attribute_enum { CU_DEVICE_ATTRIBUTE_A = 2 } x;");
        assert!(error.unwrap_err().to_string().contains("gaps"));
    }
}
