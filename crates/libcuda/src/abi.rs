//! The types of the C interface: checked pointers, and the structures of CUDA's headers.
//!
//! The signatures of the exported functions use [`Out`], [`In`] and [`Text`] in the place of plain
//! pointers. Only a C caller makes such a value, by passing a pointer, and CUDA's documentation
//! obliges that caller: the pointer is null, or valid for what the function does with it. Null is
//! checked here, the rest cannot be.

#![allow(unsafe_code, reason = "uses the pointers of the calling program")]

use std::ffi::{CStr, c_char, c_void};

use millstream_driver::ResultCode;

use crate::{
    codes::{Answer, refuse_if},
    fatbin::{bytes_at, is_fatbin},
};

/// A pointer through which a function returns a value.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: the pointer is used while the program promises that it is valid, on any of its threads.
unsafe impl<T> Send for Out<T> {}

impl<T> Out<T> {
    /// Returns a pointer that wants no value.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Returns whether the caller wants no value.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Fails with `INVALID_VALUE` for a null pointer. Functions that create an object call this
    /// first.
    pub(crate) fn check(self) -> Answer {
        refuse_if(self.0.is_null(), ResultCode::INVALID_VALUE)
    }

    /// Writes the value. Fails with `INVALID_VALUE` for a null pointer.
    pub(crate) fn set(self, value: T) -> Answer {
        self.check()?;
        // SAFETY: the caller passed a pointer that is writable for a `T`, as the module says.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the value, unless the pointer is null.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the caller passed a pointer that is writable for a `T`, as the module says.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes the values one after the other. Fails with `INVALID_VALUE` for a null pointer, unless
    /// there are no values.
    pub(crate) fn set_all(self, values: impl IntoIterator<Item = T>) -> Answer {
        for (index, value) in values.into_iter().enumerate() {
            self.check()?;
            Out(self.0.wrapping_add(index)).set(value)?;
        }
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    /// Returns the value at an index, for arguments that a function reads and writes. Fails with
    /// `INVALID_VALUE` for a null pointer.
    pub(crate) fn get_at(self, index: usize) -> Answer<T> {
        In(self.0.cast_const()).at(index)
    }

    /// Writes the value at an index. Fails with `INVALID_VALUE` for a null pointer.
    pub(crate) fn set_index(self, index: usize, value: T) -> Answer {
        self.check()?;
        Out(self.0.wrapping_add(index)).set(value)
    }
}

impl Out<c_void> {
    /// Returns the pointer as one to a value of another type.
    pub(crate) fn to<T>(self) -> Out<T> {
        Out(self.0.cast())
    }
}

impl Out<NodeFields> {
    /// Returns the pointer to the parameters of the node's kind.
    pub(crate) fn parameters(self) -> Out<c_void> {
        Out(self.0.wrapping_byte_add(16).cast())
    }
}

impl Out<KernelNodeFields2> {
    pub(crate) fn first_version(self) -> Out<KernelNodeFields> {
        Out(self.0.cast())
    }
}

impl Out<c_char> {
    /// Writes as much of the text as fits into `length` bytes, with a zero byte behind it.
    pub(crate) fn set_text(self, text: &str, length: usize) -> Answer {
        let Some(room) = length.checked_sub(1) else {
            return Err(ResultCode::INVALID_VALUE);
        };
        let bytes = text.bytes().take(room).chain([0]);
        self.set_all(bytes.map(|byte| byte as c_char))
    }
}

impl Out<c_char> {
    /// Returns the pointer to text that the program gave as a number.
    pub(crate) fn from_number(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }
}

/// A pointer to values that a function reads.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// Returns a pointer that passes nothing.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null())
    }

    /// Returns whether the caller passes nothing.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }
}

// SAFETY: as for `Out`.
unsafe impl<T> Send for In<T> {}

impl<T: Copy> In<T> {
    /// Wraps a pointer that a structure of the program contains.
    pub(crate) fn of<U>(pointer: *const U) -> Self {
        Self(pointer.cast())
    }

    /// Returns the value. Fails with `INVALID_VALUE` for a null pointer.
    pub(crate) fn get(self) -> Answer<T> {
        self.at(0)
    }

    /// Returns the value at an index. Fails with `INVALID_VALUE` for a null pointer.
    pub(crate) fn at(self, index: usize) -> Answer<T> {
        refuse_if(self.0.is_null(), ResultCode::INVALID_VALUE)?;
        let place = self.0.wrapping_add(index);
        // SAFETY: the caller passed a pointer to as many readable values as it says, as the module
        // says.
        Ok(unsafe { place.read_unaligned() })
    }

    /// Returns the first `count` values. Fails with `INVALID_VALUE` for a null pointer, unless
    /// `count` is 0.
    pub(crate) fn all(self, count: usize) -> Answer<Vec<T>> {
        (0..count).map(|index| self.at(index)).collect()
    }
}

impl In<c_void> {
    /// Returns the pointer as one to values of another type.
    pub(crate) fn to<T>(self) -> In<T> {
        In(self.0.cast())
    }
}

/// A pointer to text that a zero byte ends.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Returns the text. Fails with `INVALID_VALUE` for a null pointer.
    pub(crate) fn get(self) -> Answer<String> {
        refuse_if(self.0.is_null(), ResultCode::INVALID_VALUE)?;
        // SAFETY: the caller passed a pointer to text that a zero byte ends, as the module says.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// A pointer to a module image: PTX text that a zero byte ends, or a binary format with its length
/// in the header.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image(*const c_void);

impl Image {
    /// Returns the bytes: text up to its zero byte, or a whole fat binary. Fails with
    /// `INVALID_VALUE` for a null pointer, and with `INVALID_IMAGE` for a fat binary whose header
    /// is not valid.
    pub(crate) fn get(self) -> Answer<Vec<u8>> {
        refuse_if(self.0.is_null(), ResultCode::INVALID_VALUE)?;
        // SAFETY: the caller passed a pointer to an image, of which every format either is text
        // that a zero byte ends or has zero bytes in its header.
        let text = unsafe { CStr::from_ptr(self.0.cast()) }.to_bytes();
        if !text.first_chunk().is_some_and(|start| is_fatbin(*start)) {
            return Ok(text.to_vec());
        }
        // SAFETY: the caller passed a pointer to an image, which starts as a fat binary does.
        let bytes = unsafe { bytes_at(self.0) };
        bytes
            .map(<[u8]>::to_vec)
            .map_err(|_| ResultCode::INVALID_IMAGE)
    }
}

/// A pointer to bytes whose number the program passes.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(*const c_void);

impl Bytes {
    /// Returns the bytes. Fails with `INVALID_VALUE` for a null pointer.
    pub(crate) fn get(self, count: usize) -> Answer<Vec<u8>> {
        refuse_if(self.0.is_null(), ResultCode::INVALID_VALUE)?;
        // SAFETY: the caller passed a pointer to as many readable bytes as it says, as the module
        // says.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), count) };
        Ok(bytes.to_vec())
    }
}

/// A device address (`CUdeviceptr`).
pub(crate) type Address = u64;

/// A handle that the program received from this library (`CUcontext`, `CUstream` and the others).
pub(crate) type Handle = usize;

/// A device by its ordinal (`CUdevice`).
pub(crate) type Device = i32;

/// A function of the program that a stream calls (`CUhostFn`).
pub(crate) type HostFunctionPointer = Option<unsafe extern "C" fn(*mut c_void)>;

/// A function of the program that a stream calls with its state (`CUstreamCallback`).
pub(crate) type StreamCallbackPointer = Option<unsafe extern "C" fn(Handle, i32, *mut c_void)>;

/// A function of the program that returns the dynamic shared memory for a block size
/// (`CUoccupancyB2DSize`).
pub(crate) type BlockToSharedPointer = Option<unsafe extern "C" fn(i32) -> usize>;

/// Declares structures of CUDA's headers.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $ty,)*
        }
    )*};
}

structures! {
    /// `CUDA_MEMCPY2D`.
    Copy2dFields {
        source: Side2dFields,
        target: Side2dFields,
        width_bytes: usize,
        height: usize,
    }

    /// One side of [`Copy2dFields`].
    Side2dFields {
        x_bytes: usize,
        y: usize,
        memory_type: u32,
        host: *mut u8,
        device: Address,
        array: Handle,
        pitch: usize,
    }

    /// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`.
    Copy3dFields {
        source: Side3dFields,
        target: Side3dFields,
        width_bytes: usize,
        height: usize,
        depth: usize,
    }

    /// One side of [`Copy3dFields`].
    Side3dFields {
        x_bytes: usize,
        y: usize,
        z: usize,
        level: usize,
        memory_type: u32,
        host: *mut u8,
        device: Address,
        array: Handle,
        /// Reserved in `CUDA_MEMCPY3D`.
        context: Handle,
        pitch: usize,
        height: usize,
    }

    /// `CUDA_ARRAY_DESCRIPTOR`.
    FlatArrayFields {
        width: usize,
        height: usize,
        format: i32,
        channels: u32,
    }

    /// `CUlaunchConfig`.
    LaunchConfigFields {
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: Handle,
        attributes: In<LaunchAttributeFields>,
        attribute_count: u32,
    }

    /// `CUDA_KERNEL_NODE_PARAMS` in its first version.
    KernelNodeFields {
        function: Handle,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        pointers: In<*const c_void>,
        extra: In<*const c_void>,
    }

    /// `CUDA_KERNEL_NODE_PARAMS_v2`, which may name a kernel of a library instead of a function.
    KernelNodeFields2 {
        fields: KernelNodeFields,
        kernel: Handle,
        context: Handle,
    }

    /// `CUDA_MEMSET_NODE_PARAMS`.
    FillNodeFields {
        target: Address,
        pitch: usize,
        value: u32,
        element_bytes: u32,
        width: usize,
        height: usize,
    }

    /// `CUDA_HOST_NODE_PARAMS`.
    HostNodeFields {
        function: HostFunctionPointer,
        data: In<c_void>,
    }

    /// `CUDA_MEM_ALLOC_NODE_PARAMS`.
    AllocationFields {
        pool: PoolFields,
        access: In<AccessFields>,
        access_count: usize,
        bytes: usize,
        pointer: Address,
    }

    /// `CUgraphNodeParams`: a kind and a union of 232 bytes.
    NodeFields {
        kind: i32,
        reserved_0: [i32; 3],
        parameters: [u64; 29],
        reserved_2: u64,
    }

    /// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
    InstantiateFields {
        flags: u64,
        stream: Handle,
        error_node: Handle,
        result: i32,
    }

    /// `CUgraphExecUpdateResultInfo`.
    UpdateFields {
        result: i32,
        error_node: Handle,
        error_from_node: Handle,
    }

    /// `CUmemLocation`.
    LocationFields {
        kind: i32,
        id: i32,
    }

    /// `CUmemPoolProps`.
    PoolFields {
        kind: i32,
        handle_types: i32,
        location: LocationFields,
        security_attributes: usize,
        bytes_max: usize,
        usage: u16,
        reserved: [u8; 54],
    }

    /// `CUmemAllocationProp`.
    AllocationPropertyFields {
        kind: i32,
        handle_types: i32,
        location: LocationFields,
        win32_metadata: usize,
        flags: [u8; 8],
    }

    /// `CUmemAccessDesc`.
    AccessFields {
        location: LocationFields,
        flags: i32,
    }
}

impl Side3dFields {
    /// A side without memory, at the start.
    pub(crate) const NONE: Self = Self {
        x_bytes: 0,
        y: 0,
        z: 0,
        level: 0,
        memory_type: 0,
        host: std::ptr::null_mut(),
        device: 0,
        array: 0,
        context: 0,
        pitch: 0,
        height: 0,
    };
}

/// `CUlaunchAttribute`: a number and a union of 64 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttributeFields {
    pub(crate) id: u32,
    pub(crate) padding: u32,
    pub(crate) value: [u32; 16],
}

/// `CUlaunchAttributeValue`: a union of 64 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttributeValue(pub(crate) [u32; 16]);

const _: () = {
    assert!(size_of::<Copy2dFields>() == 128);
    assert!(size_of::<Copy3dFields>() == 200);
    assert!(size_of::<LaunchConfigFields>() == 56);
    assert!(size_of::<KernelNodeFields>() == 56);
    assert!(size_of::<KernelNodeFields2>() == 72);
    assert!(size_of::<FillNodeFields>() == 40);
    assert!(size_of::<NodeFields>() == 256);
    assert!(size_of::<InstantiateFields>() == 32);
    assert!(size_of::<PoolFields>() == 88);
    assert!(size_of::<AllocationPropertyFields>() == 32);
    assert!(size_of::<AllocationFields>() == 120);
    assert!(std::mem::offset_of!(NodeFields, parameters) == 16);
    assert!(size_of::<UpdateFields>() == 24);
    assert!(size_of::<LaunchAttributeFields>() == 72);
    assert!(size_of::<AttributeValue>() == 64);
};
