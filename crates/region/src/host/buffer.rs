//! Elements of arrays as operands of kernels and copies outside of regions.

use std::{fmt, marker::PhantomData, slice, sync::Arc};

use bytemuck::Pod;
use millstream::View;
use ndarray::Dimension;

use crate::{Array, element::Number, error::Result, expr::Storage, run::evaluate};

impl<T: Number + Pod, D: Dimension> Array<T, D> {
    /// Returns the elements in device memory, for kernels and copies outside of regions. Enqueues
    /// the work that they depend on; operations that use the [view](Resident::view) are ordered
    /// behind it.
    ///
    /// ```standalone_crate
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
    /// As [`into_buffer`](Array::into_buffer).
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
