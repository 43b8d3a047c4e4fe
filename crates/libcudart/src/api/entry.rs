//! Errors, versions, and the functions of the driver.

#![allow(unsafe_code, reason = "exports functions that return no number")]
#![allow(non_snake_case, reason = "the names of CUDA's functions")]

use crate::{
    abi::Ptr,
    call::{self, driver_version},
    codes::{Answer, INVALID_VALUE, NEEDS_NEWER_DRIVER, SYMBOL_NOT_FOUND},
    driver::cu,
    export::exports,
    texts, version,
};

/// Returns the name of a result.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: i32) -> usize {
    texts::name(code)
}

/// Returns the description of a result.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: i32) -> usize {
    texts::description(code)
}

/// Returns the thread's last error and forgets it.
#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> i32 {
    call::last_error(true)
}

/// Returns the thread's last error.
#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> i32 {
    call::last_error(false)
}

/// The values of `cudaDriverEntryPointQueryResult`: found, and not found.
const FOUND: i32 = 0;
const NO_SYMBOL: i32 = 1;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: usize = 2;

/// Writes the address of a function of the driver in a version of CUDA.
fn entry_point(
    name: Ptr<u8>,
    address: Ptr<usize>,
    (version, flags): (u32, usize),
    status: Ptr<i32>,
) -> Answer {
    name.text()?;
    address.set(0)?;
    let mut found = NO_SYMBOL;
    let outcome = cu! { cuGetProcAddress_v2, name, address, version, flags, &mut found };
    if status.check().is_ok() {
        status.set(if outcome.is_ok() { found } else { NO_SYMBOL })?;
    }
    match outcome {
        Err(code) if code != SYMBOL_NOT_FOUND => Err(code),
        // The status tells the program.
        _ if status.check().is_ok() => Ok(()),
        Ok(()) if found == FOUND => Ok(()),
        Ok(()) if found > NO_SYMBOL => Err(NEEDS_NEWER_DRIVER),
        _ => Err(SYMBOL_NOT_FOUND),
    }
}

/// Returns the flags that ask for the form of the calling program.
fn flags_of(call: &call::Call, flags: usize) -> usize {
    if flags == 0 && call.per_thread {
        PER_THREAD
    } else {
        flags
    }
}

exports! {
    Nothing [cudaDriverGetVersion] (_call, version: Ptr<u32>) {
        version.set(driver_version())
    }

    Nothing [cudaRuntimeGetVersion] (_call, version: Ptr<u32>) {
        version.set(if version::major() == 12 { 12090 } else { 13050 })
    }

    Device [cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz per_thread]
    (call, name: Ptr<u8>, address: Ptr<usize>, flags: usize, status: Ptr<i32>) {
        let version = version::major() * 1000;
        entry_point(name, address, (version.max(12050), flags_of(call, flags)), status)
    }

    Device [cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz per_thread]
    (call, name: Ptr<u8>, address: Ptr<usize>, version: u32, flags: usize, status: Ptr<i32>) {
        entry_point(name, address, (version, flags_of(call, flags)), status)
    }

    /// The tables are undocumented, and none is offered.
    Nothing [cudaGetExportTable] (_call, table: Ptr<usize>, _id: usize) {
        table.set(0)?;
        Err(INVALID_VALUE)
    }
}
