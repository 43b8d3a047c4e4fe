//! Arrays, textures and surfaces.

use std::collections::BTreeMap;

use millstream_driver::{
    ArrayDescriptor, ArrayHandle, ContextHandle, DevicePtr, Memory3d, ResourceDescriptor, Side3d,
    cuda::api::ARRAY3D_LAYERED,
};

use crate::{exec::Image, ids::OpId};

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
    /// Destroyed objects with their handles, for the operations enqueued before: those up to
    /// the given one.
    ending: Vec<(OpId, u64, ImageObject)>,
}

impl Images {
    /// Returns the object that an operation sees under a handle.
    pub(crate) fn seen_by(&self, op: OpId, handle: u64) -> Option<&ImageObject> {
        let mut ending = self.ending.iter();
        self.objects.get(&handle).or_else(|| {
            let found = ending.find(|(end, other, _)| *other == handle && op <= *end);
            Some(&found?.2)
        })
    }

    /// Removes an object, which the pending operations up to `end` still use. `oldest` is the
    /// first of these.
    pub(crate) fn remove(&mut self, handle: u64, oldest: Option<OpId>, end: OpId) -> Option<()> {
        let object = self.objects.remove(&handle)?;
        self.ending.push((end, handle, object));
        self.ending
            .retain(|(end, ..)| oldest.is_some_and(|oldest| oldest <= *end));
        Some(())
    }

    pub(crate) fn context_destroyed(&mut self, context: ContextHandle) {
        self.arrays.retain(|_, array| array.context != context);
        self.objects.retain(|_, object| object.context != context);
        self.ending.retain(|(.., object)| object.context != context);
    }
}
