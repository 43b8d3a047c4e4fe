//! Arrays of textures, each with the texture and the surface of it.

#![allow(
    unsafe_code,
    reason = "creates and destroys arrays, textures and surfaces"
)]

use millstream_driver::{
    ArrayDescriptor, ArrayHandle, ContextHandle, Driver, DriverError, ResourceDescriptor,
    SurfaceHandle, TextureDescriptor, TextureHandle,
};

use crate::context::DeviceState;

/// The shape of an array, and the mode of its texture.
pub(crate) type ArrayKey = (ArrayDescriptor, TextureDescriptor);

/// An array with a texture and a surface of it. A null handle is one that could not be created.
#[derive(Clone, Debug)]
pub(crate) struct DeviceArray {
    pub(crate) key: ArrayKey,
    pub(super) bytes: u64,
    pub(crate) array: ArrayHandle,
    pub(crate) texture: TextureHandle,
    pub(crate) surface: SurfaceHandle,
}

impl DeviceArray {
    /// Creates an array, a texture and a surface. An error also returns those that there are, to be
    /// freed while the device is idle.
    pub(super) fn create(
        device: &DeviceState,
        key: &ArrayKey,
        bytes: u64,
    ) -> Result<Box<Self>, (DriverError, Option<Box<Self>>)> {
        let (driver, context) = (&*device.driver, device.context);
        // SAFETY: the device's context is alive.
        let array = unsafe { driver.array_create(context, &key.0) };
        let mut made = Box::new(Self {
            key: *key,
            bytes,
            array: array.map_err(|error| (error, None))?,
            texture: TextureHandle::from_raw(0),
            surface: SurfaceHandle::from_raw(0),
        });
        let mut resource = ResourceDescriptor::default();
        resource.words[0] = made.array.as_raw() as u64;
        // SAFETY: the context and the array are alive.
        let texture = unsafe { driver.texture_create(context, &resource, &key.1) };
        let made_all = texture.and_then(|texture| {
            made.texture = texture;
            // SAFETY: the context and the array are alive.
            made.surface = unsafe { driver.surface_create(context, &resource) }?;
            Ok(())
        });
        match made_all {
            Ok(()) => Ok(made),
            Err(error) => Err((error, Some(made))),
        }
    }

    /// Returns whether it is complete, and has this key, with these bits of the border.
    pub(super) fn fits(&self, key: &ArrayKey) -> bool {
        let bits = |key: &ArrayKey| key.1.border.map(f32::to_bits);
        self.surface.as_raw() != 0 && self.key == *key && bits(&self.key) == bits(key)
    }

    /// Frees the objects. The call may wait for the device.
    ///
    /// # Safety
    ///
    /// They came from this context, and nothing uses them, nor will.
    pub(super) unsafe fn free(
        self,
        driver: &dyn Driver,
        context: ContextHandle,
    ) -> Result<(), DriverError> {
        let mut freed = Ok(());
        if self.surface.as_raw() != 0 {
            // SAFETY: by this function's contract.
            freed = unsafe { driver.surface_destroy(context, self.surface) };
        }
        if self.texture.as_raw() != 0 {
            // SAFETY: by this function's contract.
            freed = freed.and(unsafe { driver.texture_destroy(context, self.texture) });
        }
        // SAFETY: by this function's contract.
        freed.and(unsafe { driver.array_destroy(context, self.array) })
    }
}
