//! NVIDIA's management library (NVML), loaded at run time: the NVLink links of a GPU.
//!
//! CUDA's driver says whether two GPUs can access each other's memory, but not by how many links.
//! The management library does. It comes with NVIDIA's driver, but containers often lack it, so
//! that everything it answers is optional.

#![allow(unsafe_code, reason = "calls NVML, which trusts its caller")]

use std::{
    ffi::{CString, c_char, c_int, c_uint, c_void},
    fmt, ptr,
};

use crate::libraries::{LibraryNotFound, LibrarySpec, LoadedLibrary};

const NVML: LibrarySpec = LibrarySpec {
    name: "NVML",
    path_variable: "MILLSTREAM_NVML",
    files: if cfg!(windows) {
        &[("nvml.dll", "")]
    } else {
        &[("libnvidia-ml.so.1", "")]
    },
    wheel_folders: &[],
};

/// The upper bound of link numbers that are tried. Current GPUs have up to 18 links.
const LINKS_MAX: c_uint = 64;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Status(c_int);

impl Status {
    const SUCCESS: Self = Self(0);
    const INVALID_ARGUMENT: Self = Self(2);
    const NOT_SUPPORTED: Self = Self(3);

    fn check(self, call: &'static str) -> Result<(), NvmlError> {
        if self == Self::SUCCESS {
            Ok(())
        } else {
            let code = self.0;
            Err(NvmlError::Call { call, code })
        }
    }
}

/// The handle `nvmlDevice_t`, valid until the last [`Nvml`] is dropped.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct DeviceHandle(*mut c_void);

/// `NVML_FEATURE_ENABLED` of `nvmlEnableState_t`.
const ENABLED: c_int = 1;
/// `NVML_NVLINK_DEVICE_TYPE_GPU` of `nvmlIntNvLinkDeviceType_t`.
const REMOTE_GPU: c_int = 0;
/// `NVML_NVLINK_DEVICE_TYPE_SWITCH` of `nvmlIntNvLinkDeviceType_t`.
const REMOTE_SWITCH: c_int = 2;

/// The structure `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PciInfo {
    bus_id_legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [u8; 32],
}

#[derive(Clone, Copy)]
struct Api {
    init: unsafe extern "C" fn() -> Status,
    shutdown: unsafe extern "C" fn() -> Status,
    handle_by_pci_bus_id: unsafe extern "C" fn(*const c_char, *mut DeviceHandle) -> Status,
    link_state: unsafe extern "C" fn(DeviceHandle, c_uint, *mut c_int) -> Status,
    link_remote_pci_info: unsafe extern "C" fn(DeviceHandle, c_uint, *mut PciInfo) -> Status,
    /// Absent from old drivers.
    link_remote_device_type:
        Option<unsafe extern "C" fn(DeviceHandle, c_uint, *mut c_int) -> Status>,
}

impl Api {
    fn of(library: &LoadedLibrary) -> Result<Self, NvmlError> {
        let missing = |name| {
            let origin = library.origin().to_owned();
            NvmlError::MissingFunction { name, origin }
        };
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the function's declaration in `nvml.h`.
                unsafe { library.function($name) }.ok_or_else(|| missing($name))?
            };
        }
        Ok(Self {
            init: function!("nvmlInit_v2"),
            shutdown: function!("nvmlShutdown"),
            handle_by_pci_bus_id: function!("nvmlDeviceGetHandleByPciBusId_v2"),
            link_state: function!("nvmlDeviceGetNvLinkState"),
            link_remote_pci_info: function!("nvmlDeviceGetNvLinkRemotePciInfo_v2"),
            // SAFETY: as above.
            link_remote_device_type: unsafe {
                library.function("nvmlDeviceGetNvLinkRemoteDeviceType")
            },
        })
    }
}

/// The reason why the management library gives no answer.
///
/// ```
/// use millstream_driver::nvml::NvmlError;
///
/// let error = NvmlError::Call { call: "nvmlInit_v2", code: 9 };
/// assert_eq!(error.to_string(), "nvmlInit_v2 failed: nvmlReturn_t 9");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvmlError {
    /// The library was found nowhere.
    #[error(transparent)]
    NotFound(#[from] LibraryNotFound),
    /// The library lacks a function.
    #[error("{origin} lacks the function {name}: update NVIDIA's driver")]
    MissingFunction {
        /// The name of the function.
        name: &'static str,
        /// The location from which the library was loaded.
        origin: String,
    },
    /// A call failed.
    #[error("{call} failed: nvmlReturn_t {code}")]
    Call {
        /// The name of the function.
        call: &'static str,
        /// The status code.
        code: i32,
    },
    /// The PCI address contains a zero byte.
    #[error("a PCI address contains a zero byte")]
    InvalidAddress,
}

/// The remote end of an active NVLink link.
///
/// ```
/// use millstream_driver::nvml::NvLinkEnd;
///
/// let ends = [NvLinkEnd::Switch; 18];
/// assert!(ends.iter().all(|end| *end == NvLinkEnd::Switch));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvLinkEnd {
    /// A GPU with this PCI address, or, with drivers that do not tell the kind of a remote end, any
    /// device.
    Gpu {
        /// The domain of the bus.
        domain: u32,
        /// The number of the bus.
        bus: u32,
        /// The device's number on its bus.
        device: u32,
    },
    /// An NVSwitch, which connects all GPUs of the machine.
    Switch,
    /// Another or an unknown device.
    Other,
}

/// The initialised management library. Dropping the last one shuts it down.
///
/// ```
/// use millstream_driver::nvml::Nvml;
///
/// match Nvml::load() {
///     Ok(nvml) => println!("{:?}", nvml.active_links("0000:01:00.0")),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub struct Nvml {
    api: Api,
}

impl Nvml {
    /// Loads the library at the first call and initialises it, which takes some milliseconds. It is
    /// searched for as [`libraries`](crate::libraries) says, with `MILLSTREAM_NVML` first.
    ///
    /// # Errors
    ///
    /// If the library is found nowhere, is too old, or cannot be initialised.
    pub fn load() -> Result<Self, NvmlError> {
        // SAFETY: the initialisers of NVIDIA's library require nothing of their loader.
        let library = unsafe { NVML.find() }?;
        Self::with_api(Api::of(&library)?)
    }

    fn with_api(api: Api) -> Result<Self, NvmlError> {
        // SAFETY: the function may be called at any time, by any thread; it counts its calls.
        unsafe { (api.init)() }.check("nvmlInit_v2")?;
        Ok(Self { api })
    }

    /// Returns the remote ends of the active NVLink links of the GPU with this PCI address, such as
    /// `0000:1b:00.0`. Empty if the GPU has none.
    ///
    /// # Errors
    ///
    /// If there is no such GPU, or a call fails.
    pub fn active_links(&self, pci_address: &str) -> Result<Vec<NvLinkEnd>, NvmlError> {
        let device = self.device(pci_address)?;
        let mut ends = Vec::new();
        for link in 0..LINKS_MAX {
            let mut state = 0;
            // SAFETY: the library is initialised, the handle is its own, and `state` is written
            // only during the call.
            let status = unsafe { (self.api.link_state)(device, link, &raw mut state) };
            match status {
                // The device has fewer links, or none.
                Status::INVALID_ARGUMENT => break,
                Status::NOT_SUPPORTED => continue,
                status => status.check("nvmlDeviceGetNvLinkState")?,
            }
            if state == ENABLED {
                ends.push(self.remote_end(device, link)?);
            }
        }
        Ok(ends)
    }

    fn device(&self, pci_address: &str) -> Result<DeviceHandle, NvmlError> {
        let address = CString::new(pci_address).map_err(|_| NvmlError::InvalidAddress)?;
        let mut device = DeviceHandle(ptr::null_mut());
        // SAFETY: the library is initialised, and both pointers are valid during the call.
        unsafe { (self.api.handle_by_pci_bus_id)(address.as_ptr(), &raw mut device) }
            .check("nvmlDeviceGetHandleByPciBusId_v2")?;
        Ok(device)
    }

    fn remote_end(&self, device: DeviceHandle, link: c_uint) -> Result<NvLinkEnd, NvmlError> {
        if let Some(device_type) = self.api.link_remote_device_type {
            let mut remote = 0;
            // SAFETY: the library is initialised, the handle is its own, and `remote` is written
            // only during the call.
            let status = unsafe { device_type(device, link, &raw mut remote) };
            // After a failure the remote address tells.
            if status == Status::SUCCESS {
                match remote {
                    REMOTE_GPU => {}
                    REMOTE_SWITCH => return Ok(NvLinkEnd::Switch),
                    _ => return Ok(NvLinkEnd::Other),
                }
            }
        }
        let mut info = PciInfo::default();
        // SAFETY: as above; `info` has the layout of `nvmlPciInfo_t`.
        let status = unsafe { (self.api.link_remote_pci_info)(device, link, &raw mut info) };
        match status {
            Status::NOT_SUPPORTED => return Ok(NvLinkEnd::Other),
            status => status.check("nvmlDeviceGetNvLinkRemotePciInfo_v2")?,
        }
        let PciInfo {
            domain,
            bus,
            device,
            ..
        } = info;
        Ok(NvLinkEnd::Gpu {
            domain,
            bus,
            device,
        })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // A failure leaves the library initialised, which harms nothing.
        // SAFETY: `with_api` has initialised the library once for this value.
        let _ = unsafe { (self.api.shutdown)() };
    }
}

impl fmt::Debug for Nvml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nvml")
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::CStr,
        sync::atomic::{AtomicI32, Ordering},
    };

    use super::*;

    static INITIALISED: AtomicI32 = AtomicI32::new(0);

    unsafe extern "C" fn init() -> Status {
        INITIALISED.fetch_add(1, Ordering::Relaxed);
        Status::SUCCESS
    }

    unsafe extern "C" fn succeed() -> Status {
        Status::SUCCESS
    }

    unsafe extern "C" fn refuse_init() -> Status {
        Status(9)
    }

    unsafe extern "C" fn shutdown() -> Status {
        INITIALISED.fetch_sub(1, Ordering::Relaxed);
        Status::SUCCESS
    }

    unsafe extern "C" fn handle(address: *const c_char, handle: *mut DeviceHandle) -> Status {
        // SAFETY: the caller passes a text.
        if unsafe { CStr::from_ptr(address) } != c"0000:1b:00.0" {
            return Status(6);
        }
        // SAFETY: the caller passes a place for the handle.
        unsafe { *handle = DeviceHandle(ptr::null_mut()) };
        Status::SUCCESS
    }

    /// Links 0, 1, 3 and 4 are active, 2 is not, 5 is not supported, and there are no others.
    unsafe extern "C" fn state(_: DeviceHandle, link: c_uint, state: *mut c_int) -> Status {
        match link {
            0..5 => {
                // SAFETY: the caller passes a place for the state.
                unsafe { *state = c_int::from(link != 2) };
                Status::SUCCESS
            }
            5 => Status::NOT_SUPPORTED,
            _ => Status::INVALID_ARGUMENT,
        }
    }

    /// Link 0 leads to a GPU, 1 to a switch, 3 to an NPU, and 4 to a device of an unknown kind.
    unsafe extern "C" fn device_type(_: DeviceHandle, link: c_uint, remote: *mut c_int) -> Status {
        let kind = [REMOTE_GPU, REMOTE_SWITCH, -1, 1, -1][link as usize];
        if kind < 0 {
            return Status(999);
        }
        // SAFETY: the caller passes a place for the kind.
        unsafe { *remote = kind };
        Status::SUCCESS
    }

    unsafe extern "C" fn remote(_: DeviceHandle, link: c_uint, info: *mut PciInfo) -> Status {
        if link == 3 {
            return Status::NOT_SUPPORTED;
        }
        let info_of_link = PciInfo {
            bus: link + 0x20,
            ..PciInfo::default()
        };
        // SAFETY: the caller passes a place for the structure.
        unsafe { *info = info_of_link };
        Status::SUCCESS
    }

    const API: Api = Api {
        init,
        shutdown,
        handle_by_pci_bus_id: handle,
        link_state: state,
        link_remote_pci_info: remote,
        link_remote_device_type: Some(device_type),
    };

    fn gpu(bus: u32) -> NvLinkEnd {
        NvLinkEnd::Gpu {
            domain: 0,
            bus,
            device: 0,
        }
    }

    #[test]
    fn active_links_are_listed_with_their_remote_ends_and_the_library_is_shut_down() {
        let nvml = Nvml::with_api(API).expect("it initialises");
        assert_eq!(INITIALISED.load(Ordering::Relaxed), 1);
        let ends = nvml.active_links("0000:1b:00.0").expect("it has links");
        let expected = [gpu(0x20), NvLinkEnd::Switch, NvLinkEnd::Other, gpu(0x24)];
        assert_eq!(ends, expected);
        let unknown = nvml.active_links("0000:1c:00.0").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "nvmlDeviceGetHandleByPciBusId_v2 failed: nvmlReturn_t 6"
        );
        assert_eq!(
            nvml.active_links("0000\0").unwrap_err(),
            NvmlError::InvalidAddress
        );
        drop(nvml);
        assert_eq!(INITIALISED.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn old_drivers_tell_the_remote_address_only() {
        let api = Api {
            init: succeed,
            shutdown: succeed,
            link_remote_device_type: None,
            ..API
        };
        let nvml = Nvml::with_api(api).expect("it initialises");
        let ends = nvml.active_links("0000:1b:00.0").expect("it has links");
        assert_eq!(ends, [gpu(0x20), gpu(0x21), NvLinkEnd::Other, gpu(0x24)]);
    }

    #[test]
    fn a_library_that_cannot_be_initialised_is_an_error() {
        let api = Api {
            init: refuse_init,
            ..API
        };
        let error = Nvml::with_api(api).expect_err("it refuses");
        assert_eq!(error.to_string(), "nvmlInit_v2 failed: nvmlReturn_t 9");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_that_is_not_the_management_library_lacks_its_functions() {
        let spec = LibrarySpec {
            files: &[("libc.so.6", "")],
            path_variable: "MILLSTREAM_NO_SUCH_VARIABLE",
            ..NVML
        };
        // SAFETY: the C library is loaded already.
        let library = unsafe { spec.find() }.expect("every process has it");
        let error = Api::of(&library).err().expect("it lacks them");
        assert!(error.to_string().contains("nvmlInit_v2"), "{error}");
    }

    #[test]
    fn pci_info_has_the_size_of_the_declaration() {
        assert_eq!(size_of::<PciInfo>(), 16 + 5 * 4 + 32);
        assert_eq!(std::mem::offset_of!(PciInfo, domain), 16);
    }
}
