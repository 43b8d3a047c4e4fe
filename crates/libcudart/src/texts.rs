//! The names and descriptions of results, and lines on standard error.

use std::{collections::BTreeMap, ffi::CString, sync::LazyLock};

use crate::{abi::Ptr, driver::cu};

/// The name of each result, and its description if the driver has none.
static TABLE: LazyLock<BTreeMap<i32, (CString, Option<CString>)>> = LazyLock::new(|| {
    let row = |line: &str| {
        let (number, rest) = line.split_once(' ')?;
        let (name, description) = rest
            .split_once(' ')
            .map_or((rest, None), |(name, text)| (name, Some(text)));
        let description = description.and_then(|text| CString::new(text).ok());
        Some((
            number.parse().ok()?,
            (CString::new(name).ok()?, description),
        ))
    };
    include_str!("tables/errors.txt")
        .lines()
        .filter_map(row)
        .collect()
});

/// Returns the address of the name of a result.
pub(crate) fn name(code: i32) -> usize {
    let name = TABLE.get(&code).map(|known| known.0.as_c_str());
    let name = name.unwrap_or(c"unrecognized error code");
    name.as_ptr().expose_provenance()
}

/// Returns the address of the description of a result.
pub(crate) fn description(code: i32) -> usize {
    let text = match TABLE.get(&code) {
        None => c"unrecognized error code",
        Some((_, Some(text))) => text,
        Some((name, None)) => {
            let mut text = 0_usize;
            let found = cu!(cuGetErrorString, code, &mut text);
            if found.is_ok() && text != 0 {
                return text;
            }
            name
        }
    };
    text.as_ptr().expose_provenance()
}

/// Writes a line to standard error. A closed standard error is ignored.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "millstream: {text}");
}

/// Reads the text of a pointer for a message.
pub(crate) fn shown(text: Ptr<u8>) -> String {
    let text = text.text().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::INVALID_CONFIGURATION;

    #[test]
    fn every_result_has_a_name_and_the_ones_that_the_driver_lacks_have_a_description() {
        assert_eq!(
            TABLE.len(),
            include_str!("tables/errors.txt").lines().count() - 2
        );
        let described = TABLE.values().filter(|row| row.1.is_some());
        assert_eq!(described.count(), 36);
        assert_eq!(
            TABLE[&INVALID_CONFIGURATION].0.as_c_str(),
            c"cudaErrorInvalidConfiguration"
        );
    }
}
