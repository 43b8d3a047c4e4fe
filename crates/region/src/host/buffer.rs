//! Buffers of the runtime as arrays, and arrays as buffers, without copies.

use std::{fmt, marker::PhantomData, panic::Location, slice, sync::Arc};

use bytemuck::Pod;
use millstream::{Buffer, View};
use ndarray::{Dimension, IntoDimension};

use crate::{
    Array,
    element::Number,
    error::{Result, UsageError, UsageErrorKind},
    evaluate,
    graph::{NodeRef, Session, Storage},
    launch::allocate,
    shape::{Shape, element_count},
};

/// The alignment of the memory of arrays that kernels rely on.
const ALIGNMENT: u64 = 16;

impl<T: Number + Pod, D: Dimension> Array<T, D> {
    /// Makes an array of a buffer, row-major, without copying. Only memory of other libraries that
    /// does not begin at a multiple of 16 bytes is copied on the device.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let buffer = device.stream()?.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let x = Array::from_buffer(buffer, (2, 2))?;
    /// assert_eq!((&x + &x.t()).to_host()?, array![[2.0, 5.0], [5.0, 8.0]]);
    /// assert_eq!(x.into_buffer()?.len(), 4);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements or more than 6 axes, there is not enough memory
    /// for a copy, or the device is lost.
    #[track_caller]
    pub fn from_buffer(buffer: Buffer<T>, shape: impl IntoDimension<Dim = D>) -> Result<Self> {
        let location = Location::caller();
        let shape = Shape::from_slice(shape.into_dimension().slice());
        if element_count(&shape) != Some(buffer.len()) {
            let elements = buffer.len();
            let detail = format!("shape {shape:?} for a buffer of {elements} elements");
            let problem = UsageErrorKind::Argument { detail };
            return Err(UsageError::new("from_buffer", problem, location).into());
        }
        let session = Session::new(buffer.device());
        let Ok(mut bytes) = buffer.cast::<u8>() else {
            unreachable!("every element is a number of bytes")
        };
        if !bytes.as_raw().as_raw().is_multiple_of(ALIGNMENT) {
            let stream = session.streams().first(&session.device)?;
            let mut aligned = allocate(&stream, bytes.len())?;
            stream.copy(&bytes, &mut aligned)?;
            bytes = aligned;
        }
        let node = session.adopt(T::DTYPE, shape, bytes, location);
        match node.failure() {
            Some(error) => Err(error),
            None => Ok(Self::of(&session, node)),
        }
    }

    /// Returns the elements as a buffer, row-major. Enqueues the work that they depend on. Nothing
    /// is copied unless another array shares the memory.
    ///
    /// # Errors
    ///
    /// The errors of [`to_host`](Array::to_host). This waits for the work only if the elements
    /// depend on indices whose check is not read yet.
    pub fn into_buffer(self) -> Result<Buffer<T>> {
        self.evaluate_checked()?;
        let session = Arc::clone(self.session());
        let node = NodeRef::clone(self.node());
        // The handle has a reference to the node, too.
        drop(self);
        let bytes = match node.take_storage(1) {
            Some(storage) => storage.buffer,
            None => {
                let stream = session.streams().stream_of(&session.device, node.id)?;
                let storage = node.storage().expect("the node is evaluated");
                let mut copy = allocate(&stream, node.bytes())?;
                stream.copy(&storage.buffer, &mut copy)?;
                copy
            }
        };
        match bytes.cast::<T>() {
            Ok(buffer) => Ok(buffer),
            Err(_) => unreachable!("the memory has the size and the alignment of the elements"),
        }
    }

    /// Returns the elements in device memory, for kernels and copies outside of regions. Enqueues
    /// the work that they depend on; operations that use the [view](Resident::view) are ordered
    /// behind it.
    ///
    /// ```
    /// use millstream::LaunchConfig;
    /// use millstream_region::{Array, RegionExt};
    /// use ndarray::array;
    ///
    /// millstream::kernels! {
    ///     // SAFETY: the signature is that of vecadd.cu; its threads access `n` elements of each
    ///     // array and no others.
    ///     unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
    ///         safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
    ///             requires a.len() >= n, b.len() >= n, c.len() >= n;
    ///     }
    /// }
    ///
    /// let device = millstream::Device::simulated()?;
    /// let (kernels, stream) = (sums::load(&device)?, device.stream()?);
    /// let x = array![1.0_f32, 2.0, 3.0];
    /// let doubled = device.region(|g| {
    ///     let y = g.array(&x) * 10.0;
    ///     let mut sum = stream.zeros(y.len())?;
    ///     let y = y.resident()?;
    ///     kernels.vecadd(&stream, LaunchConfig::linear(3), y.view(), y.view(), &mut sum, 3)?;
    ///     Ok(Array::from_buffer(sum, 3)? + 1.0)
    /// })?;
    /// assert_eq!(doubled.wait()?, array![21.0, 41.0, 61.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`into_buffer`](Self::into_buffer).
    pub fn resident(&self) -> Result<Resident<T>> {
        self.evaluate_checked()?;
        let storage = self.node().storage();
        Ok(Resident {
            storage: storage.expect("the node is evaluated"),
            kind: PhantomData,
        })
    }

    /// Enqueues the work of the elements, and waits for the checks of their indices, if there are
    /// any: what is done with the memory afterwards does not remember them.
    fn evaluate_checked(&self) -> Result<()> {
        let (session, node) = (self.session(), slice::from_ref(self.node()));
        evaluate::evaluate(session, node)?;
        session.check_result(node)?.wait()
    }
}

/// The elements of an [`Array`] in device memory, row-major: see [`Array::resident`].
pub struct Resident<T> {
    storage: Arc<Storage>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Number + Pod> Resident<T> {
    /// Returns a view of the elements, an operand of kernels and copies.
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        let view = self.storage.buffer.view().cast::<T>();
        view.expect("the memory has the size and the alignment of the elements")
    }
}

impl<T> fmt::Debug for Resident<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.storage.buffer.len();
        write!(f, "Resident({bytes} bytes)")
    }
}
