//! `Region::explain`: the kernels that results would take.

use crate::{
    Region,
    error::Result,
    host::output::{DeviceValue, Output},
    plan::{Explanation, explain},
};

impl Region {
    /// Returns the kernels that these results of the region's body would take, with the operations
    /// of each, and why each intermediate array is stored. Nothing is evaluated.
    ///
    /// ```
    /// use millstream_region::{RegionExt, StoreReason};
    /// use ndarray::{Axis, array};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let pending = device.region(|g| {
    ///     let x = g.array(&x);
    ///     let scaled = (x.cumsum(Axis(1)) * 0.5).sum_axis(Axis(1));
    ///     let plan = g.explain(&scaled)?;
    ///     println!("{plan}");
    ///     let [scan, sum] = plan.kernels() else {
    ///         unreachable!("the scan has a kernel of its own")
    ///     };
    ///     assert_eq!(scan.stored[0].reason, StoreReason::OwnKernel);
    ///     assert_eq!(sum.operations, ["mul", "sum"]);
    ///     Ok(scaled)
    /// })?;
    /// assert_eq!(pending.wait()?, array![2.0, 5.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the results contain the error of a failed operation.
    pub fn explain<R: DeviceValue>(&self, results: &R) -> Result<Explanation> {
        let mut nodes = Vec::new();
        R::Host::visit_nodes(results, &mut |output| nodes.push(output.0))?;
        match nodes.iter().find_map(|node| node.failure()) {
            Some(failure) => Err(failure),
            None => Ok(explain(&nodes)),
        }
    }
}
