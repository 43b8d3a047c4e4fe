//! Exported symbols, and the search for one by name and version.

use millstream_driver::ResultCode;
use rustc_hash::FxHashMap;

use crate::{
    abi::{Out, Text},
    call::Call,
    process,
    versions::{self, DefaultStream, Lookup},
};

pub(crate) type Addresses = FxHashMap<&'static str, usize>;

/// The values of `CUdriverProcAddressQueryResult`.
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;
const VERSION_NOT_SUFFICIENT: i32 = 2;

/// Writes the address of the form of a function that fits the asked version of CUDA; 0 if there is
/// none. Returns whether there is one.
pub(crate) fn find(
    _: &Call,
    addresses: &Addresses,
    name: Text,
    address: Out<usize>,
    (version, flags): (i32, u64),
    status: Out<i32>,
) -> Result<bool, ResultCode> {
    address.check()?;
    let name = name.get()?;
    let stream = DefaultStream::from_flags(flags).ok_or(ResultCode::INVALID_VALUE)?;
    let driver = process::options()?.cuda_version;
    let (found, outcome) = match versions::find(&name, version, driver, stream) {
        Lookup::Found(version) => (addresses.get(version.symbol).copied(), FOUND),
        Lookup::VersionNotSufficient => (None, VERSION_NOT_SUFFICIENT),
        Lookup::NotFound => (None, NOT_FOUND),
        Lookup::NewerThanDriver => return Err(ResultCode::INVALID_VALUE),
    };
    status.set_if_wanted(outcome);
    address.set(found.unwrap_or(0))?;
    Ok(found.is_some())
}
