//! Arrays, textures and surfaces.

use std::collections::BTreeMap;

use millstream_driver::{
    ArrayDescriptor, ArrayHandle, ContextHandle, DevicePtr, Memory3d, ResourceDescriptor, Side3d,
    cuda::api::ARRAY3D_LAYERED,
};

use crate::exec::Image;

/// The alignment of the rows of an array, in bytes: that of the widest access to a surface.
const ROW_ALIGNMENT: u64 = 16;

/// An array: rows in device memory, whose address no call returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    pub(crate) context: ContextHandle,
    pub(crate) shape: ArrayDescriptor,
    /// The array as a surface.
    pub(crate) image: Image,
}

impl Array {
    pub(crate) fn new(context: ContextHandle, shape: &ArrayDescriptor) -> Self {
        let layered = shape.flags & ARRAY3D_LAYERED != 0;
        let size = [shape.width, shape.height, shape.depth];
        let mut image = Image {
            base: 0,
            size: size.map(|size| size.max(1) as u32),
            dimensions: 1 + u8::from(shape.height > 0) + u8::from(shape.depth > 0 && !layered),
            layered,
            pitch_bytes: 0,
            format: (shape.format, shape.channels),
            mode: None,
        };
        image.pitch_bytes = image.row_bytes().next_multiple_of(ROW_ALIGNMENT);
        let shape = *shape;
        Self {
            context,
            shape,
            image,
        }
    }

    /// Returns the array as linear memory.
    pub(crate) fn linear(&self) -> Side3d {
        Side3d {
            memory: Memory3d::Device(DevicePtr::from_raw(self.image.base)),
            origin: [0; 3],
            pitch_bytes: self.image.pitch_bytes as usize,
            height: self.image.size[1] as usize,
        }
    }
}

/// A texture or a surface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageObject {
    pub(crate) context: ContextHandle,
    pub(crate) resource: ResourceDescriptor,
    pub(crate) image: Image,
}

/// The arrays, textures and surfaces of all contexts.
#[derive(Debug, Default)]
pub(crate) struct Images {
    pub(crate) arrays: BTreeMap<ArrayHandle, Array>,
    /// The textures and surfaces by their handles, which are distinct.
    pub(crate) objects: BTreeMap<u64, ImageObject>,
}

impl Images {
    pub(crate) fn context_destroyed(&mut self, context: ContextHandle) {
        self.arrays.retain(|_, array| array.context != context);
        self.objects.retain(|_, object| object.context != context);
    }
}
