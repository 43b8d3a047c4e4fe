//! Results: the names and descriptions of `CUresult` numbers.

use std::{collections::BTreeMap, ffi::CString, sync::LazyLock};

use millstream_driver::ResultCode;

/// The result of an exported function before it becomes a number.
pub(crate) type Answer<T = ()> = Result<T, ResultCode>;

/// The limit is not supported on this device.
pub(crate) const UNSUPPORTED_LIMIT: ResultCode = ResultCode::from_raw(215);

pub(crate) fn refuse_if(condition: bool, code: ResultCode) -> Answer {
    if condition { Err(code) } else { Ok(()) }
}

/// Every `CUresult`, with its name and its description.
static TABLE: LazyLock<BTreeMap<i32, (CString, CString)>> = LazyLock::new(|| {
    let row = |line: &str| {
        let (number, rest) = line.split_once(' ')?;
        let (name, description) = rest.split_once(' ')?;
        let texts = (CString::new(name).ok()?, CString::new(description).ok()?);
        Some((number.parse().ok()?, texts))
    };
    include_str!("codes.txt").lines().filter_map(row).collect()
});

/// Returns the name and the description of a result, if CUDA defines the number.
pub(crate) fn name_and_description(code: i32) -> Option<&'static (CString, CString)> {
    TABLE.get(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_line_and_agrees_with_the_driver_crate() {
        assert_eq!(TABLE.len(), include_str!("codes.txt").lines().count() - 1);
        let known = |raw: &&i32| ResultCode::from_raw(**raw).name();
        let named: Vec<_> = TABLE
            .keys()
            .filter_map(|raw| Some((known(&raw)?, raw)))
            .collect();
        assert!(named.len() > 30);
        for (known, raw) in named {
            let name = TABLE[raw].0.to_str().unwrap();
            let own = name.strip_prefix("CUDA_ERROR_").unwrap_or("SUCCESS");
            assert_eq!(own, known, "{name}");
        }
    }
}
