//! Initialisation, versions, results, and calls about the process.

use std::ffi::{c_char, c_void};

use millstream_driver::ResultCode;

use crate::{
    abi::{In, Out},
    call::Call,
    codes::{self, Answer},
    process,
};

/// `cuInit`
pub(crate) fn init(_: &Call, flags: u32) -> Answer {
    if flags != 0 {
        return Err(ResultCode::INVALID_VALUE);
    }
    process::initialise()
}

/// `cuDriverGetVersion`
pub(crate) fn driver_version(_: &Call, version: Out<i32>) -> Answer {
    version.set(process::options()?.cuda_version)
}

/// `cuGetErrorName`
pub(crate) fn error_name(_: &Call, code: i32, name: Out<*const c_char>) -> Answer {
    match codes::name_and_description(code) {
        Some((known, _)) => name.set(known.as_ptr()),
        None => {
            name.set(std::ptr::null())?;
            Err(ResultCode::INVALID_VALUE)
        }
    }
}

/// `cuGetErrorString`
pub(crate) fn error_string(_: &Call, code: i32, description: Out<*const c_char>) -> Answer {
    match codes::name_and_description(code) {
        Some((_, known)) => description.set(known.as_ptr()),
        None => {
            description.set(std::ptr::null())?;
            Err(ResultCode::INVALID_VALUE)
        }
    }
}

/// `cuGetExportTable`: the tables are undocumented, and none is offered.
pub(crate) fn export_table(_: &Call, table: Out<*const c_void>, _id: In<[u8; 16]>) -> Answer {
    table.set(std::ptr::null())?;
    Err(ResultCode::NOT_FOUND)
}

/// `cuProfilerStart`, `cuProfilerStop`: there is no profiler.
pub(crate) fn profiler(call: &Call) -> Answer {
    call.context().map(drop)
}
