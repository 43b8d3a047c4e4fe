//! Loading and initialising libcuda, with errors that say what to do.

#![allow(unsafe_code, reason = "loads a library and calls its initialiser")]

use std::{env, fmt, sync::Arc};

use libloading::Library;

use super::api::{self, Api};
use crate::{DriverError, ResultCode, libraries::loader_message};

/// Returns the names under which an operating system's loader knows the library, in order.
const fn names(windows: bool) -> &'static [&'static str] {
    if windows {
        &["nvcuda.dll"]
    } else {
        &["libcuda.so.1", "libcuda.so"]
    }
}

/// The oldest supported driver, by the CUDA version that it supports (1000 × major + 10 × minor):
/// 12.0.
pub const OLDEST_DRIVER_VERSION: i32 = 12_000;

/// A failed attempt to load the library under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name passed to the system's loader.
    pub name: &'static str,
    /// The loader's message.
    pub message: String,
}

/// The reason why libcuda cannot be used.
///
/// ```
/// use millstream_driver::cuda::LoadError;
/// let error = LoadError::DriverTooOld { driver_version: 11_040 };
/// assert_eq!(
///     error.to_string(),
///     "NVIDIA's driver supports CUDA 11.4; Millstream needs one for CUDA 12.0 or later: \
///      update the driver"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system's loader found no driver library.
    #[error(
        "NVIDIA's driver library could not be loaded ({}): install NVIDIA's driver{}",
        Attempts(tried),
        if cfg!(windows) {
            ""
        } else {
            ", or in a container make it visible (for instance `docker run --gpus all`)"
        }
    )]
    LibraryMissing {
        /// Every name tried, with the loader's message.
        tried: Arc<[Attempt]>,
    },
    /// The library lacks a required function.
    #[error(
        "NVIDIA's driver library{} has no function `{symbol}`: update the driver",
        .driver_version
            .map(|version| format!(" for CUDA {}", CudaVersion(version)))
            .unwrap_or_default()
    )]
    SymbolMissing {
        /// The function's name in the library.
        symbol: &'static str,
        /// The CUDA version that the driver supports, if the library could report it.
        driver_version: Option<i32>,
    },
    /// The driver is older than [`OLDEST_DRIVER_VERSION`].
    #[error(
        "NVIDIA's driver supports CUDA {}; Millstream needs one for CUDA {} or later: \
         update the driver",
        CudaVersion(*driver_version),
        CudaVersion(OLDEST_DRIVER_VERSION)
    )]
    DriverTooOld {
        /// The CUDA version that the driver supports.
        driver_version: i32,
    },
    /// The driver works but offers this process no device.
    #[error(
        "NVIDIA's driver offers no GPU to this process: {}",
        match visible_devices {
            Some(value) => format!("CUDA_VISIBLE_DEVICES is `{value}`, which may hide all GPUs"),
            None => "`nvidia-smi -L` should list one; in a container, pass the GPUs in".to_owned(),
        }
    )]
    NoDevice {
        /// The value of `CUDA_VISIBLE_DEVICES`, if it is set.
        visible_devices: Option<String>,
    },
    /// A call that initialises the driver failed.
    #[error("NVIDIA's driver cannot be initialised: {error}{}", init_advice(error.code()))]
    Initialization {
        /// The call and its result.
        error: DriverError,
    },
}

/// A CUDA version, displayed as `12.4`.
pub(super) struct CudaVersion(pub(super) i32);

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Attempt { name, message }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}tried `{name}`: {message}")?;
        }
        Ok(())
    }
}

/// Returns the advice to the user for an initialisation error with a known cause.
fn init_advice(code: ResultCode) -> &'static str {
    match code.as_raw() {
        34 => {
            ": this is the toolkit's stub library; remove its `stubs` folder from LD_LIBRARY_PATH"
        }
        46 => {
            ": another process has the GPU exclusively, or the GPU's compute mode is prohibited; \
             `nvidia-smi -q -d COMPUTE` shows the mode"
        }
        802 => {
            ": the system is not ready yet; on NVSwitch systems, check that the fabric manager runs"
        }
        803 => {
            ": library and kernel module are of different versions; reboot, or reinstall the driver"
        }
        804 => {
            ": the forward-compatibility package does not support this GPU; \
             remove it from LD_LIBRARY_PATH"
        }
        999 => {
            ": is the kernel module loaded and /dev/nvidia* accessible? `nvidia-smi` prints details"
        }
        _ => "",
    }
}

/// Converts the result of a call that initialises the driver.
pub(super) fn check_init(call: &'static str, code: ResultCode) -> Result<(), LoadError> {
    match code {
        ResultCode::SUCCESS => Ok(()),
        ResultCode::NO_DEVICE => Err(no_device()),
        code => Err(LoadError::Initialization {
            error: DriverError::new(call, code),
        }),
    }
}

fn no_device() -> LoadError {
    LoadError::NoDevice {
        visible_devices: env::var("CUDA_VISIBLE_DEVICES").ok(),
    }
}

/// Loads the library, looks up its functions and initialises the driver. Returns the functions and
/// the driver's version.
pub(super) fn open() -> Result<(Api, i32), LoadError> {
    let library = load(names(cfg!(windows)))?;
    let version = api::driver_version(library)?;
    if version < OLDEST_DRIVER_VERSION {
        return Err(LoadError::DriverTooOld {
            driver_version: version,
        });
    }
    let api = Api::find(library, version)?;
    // SAFETY: a plain call with the only valid flags.
    check_init("cuInit", unsafe { (api.cuInit)(0) })?;
    let mut count = 0;
    // SAFETY: the driver is initialised, and the result goes to a local.
    check_init("cuDeviceGetCount", unsafe {
        (api.cuDeviceGetCount)(&mut count)
    })?;
    if count < 1 {
        return Err(no_device());
    }
    Ok((api, version))
}

/// Loads the first of `names` that the system's loader finds. The library is never unloaded,
/// because the driver starts threads that run its code.
fn load(names: &[&'static str]) -> Result<&'static Library, LoadError> {
    let mut tried = Vec::new();
    for &name in names {
        // SAFETY: the library of this name is NVIDIA's driver, whose initialisers require nothing
        // of the program.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => tried.push(Attempt {
                name,
                message: loader_message(&error),
            }),
        }
    }
    Err(LoadError::LibraryMissing {
        tried: tried.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_its_library_names() {
        assert_eq!(names(true), ["nvcuda.dll"]);
        assert_eq!(names(false), ["libcuda.so.1", "libcuda.so"]);
    }

    #[test]
    fn a_missing_library_error_lists_every_name_with_the_loaders_message() {
        let error = load(&["libmillstream-absent.so.1", "libmillstream-absent.so"])
            .expect_err("no such library");
        let text = error.to_string();
        let LoadError::LibraryMissing { tried } = error else {
            panic!("not about a missing library: {text}");
        };
        assert_eq!(tried.len(), 2);
        for attempt in tried.iter() {
            // The message of Windows does not contain the name.
            let words = if cfg!(windows) {
                "os error"
            } else {
                attempt.name
            };
            assert!(
                attempt.message.contains(words),
                "the loader's words: {}",
                attempt.message
            );
            assert!(
                text.contains(&format!("tried `{}`: {}", attempt.name, attempt.message)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_library_that_is_not_the_driver_is_an_error_that_names_the_missing_function() {
        // Every machine that runs these tests has the C library, which is not NVIDIA's driver.
        let library =
            load(&["libc.so.6", "libSystem.dylib", "kernel32.dll"]).expect("the C library loads");
        let error = api::driver_version(library).expect_err("no driver there");
        assert_eq!(
            error.to_string(),
            "NVIDIA's driver library has no function `cuDriverGetVersion`: update the driver"
        );
        let error = Api::find(library, 12_020).err().expect("no driver there");
        assert_eq!(
            error.to_string(),
            "NVIDIA's driver library for CUDA 12.2 has no function `cuGetProcAddress_v2`: \
             update the driver"
        );
    }

    #[test]
    fn initialisation_errors_say_what_to_do() {
        let error = check_init("cuInit", ResultCode::from_raw(803)).expect_err("a failure");
        assert_eq!(
            error.to_string(),
            "NVIDIA's driver cannot be initialised: cuInit failed: CUresult 803: \
             library and kernel module are of different versions; reboot, or reinstall the driver"
        );
        assert!(matches!(
            check_init("cuInit", ResultCode::NO_DEVICE),
            Err(LoadError::NoDevice { .. })
        ));
        let hidden = LoadError::NoDevice {
            visible_devices: Some(String::new()),
        };
        assert!(
            hidden.to_string().contains("CUDA_VISIBLE_DEVICES is ``"),
            "{hidden}"
        );
        let bare = LoadError::NoDevice {
            visible_devices: None,
        };
        assert!(bare.to_string().contains("nvidia-smi"), "{bare}");
    }
}
