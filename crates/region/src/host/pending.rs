//! The pending result of a region.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::{
    Region,
    checks::CheckResult,
    error::Result,
    host::{
        output::{Output, PendingValue},
        write_back::{WriteBack, WriteBacks},
    },
    run::evaluate,
};

/// The pending result of a region whose work is enqueued.
///
/// Wait for it with [`wait`](Self::wait), or `.await` it on any executor. Arguments passed as
/// `&mut` stay borrowed until then, and are replaced when the result is complete. Dropping it
/// neither cancels the work nor blocks, and leaves all host data unchanged.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
///
/// let device = millstream::Device::simulated()?;
/// let x = array![1.0_f32, 2.0, 3.0];
/// let sum = device.region(|g| g.array(&x).sum())?;
/// assert_eq!(pollster::block_on(sum)?.into_scalar(), 6.0);
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// An array that the region changes cannot be used meanwhile:
///
/// ```compile_fail,E0502
/// use millstream_region::region;
/// use ndarray::{Array1, array};
///
/// #[region]
/// fn double(x: &mut Array1<f32>) {
///     *x *= 2.0;
/// }
///
/// let device = millstream::Device::simulated()?;
/// let mut x = array![1.0_f32, 2.0];
/// let doubled = double(&device, &mut x)?;
/// println!("{x}");
/// doubled.wait()?;
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[must_use = "the result is in here; wait for it, await it, or drop it on purpose"]
pub struct Pending<'m, R: Output> {
    /// The transfers; `None` once the result is taken.
    in_flight: Option<InFlight<'m, R>>,
}

struct InFlight<'m, R: Output> {
    checks: CheckResult,
    result: R::Pending,
    write_backs: WriteBacks<'m>,
}

impl<'m, R: Output> Pending<'m, R> {
    /// Enqueues the evaluation and the transfers of a region.
    pub(super) fn begin(
        region: Region,
        body: R::Body,
        write_backs: Vec<Box<dyn WriteBack + 'm>>,
    ) -> Result<Self> {
        let session = region.session();
        let mut write_backs = WriteBacks(write_backs);
        let mut nodes = Vec::new();
        R::visit_nodes(&body, &mut |elements| nodes.push(elements.0))?;
        write_backs.visit_nodes(&mut |elements| nodes.push(elements.0));
        // An error fails the region even if no result depends on it.
        if let Some(failure) = session.failure() {
            return Err(failure);
        }
        evaluate::evaluate(session, &nodes)?;
        let result = R::begin_transfer(body, &region)?;
        write_backs.begin_transfer(&region)?;
        // Elements that stay on the device remember their checks. The caller's arrays are replaced
        // only once these have passed.
        let checks = if result.is_download() || !write_backs.0.is_empty() {
            session.check_result(&nodes)?
        } else {
            CheckResult::default()
        };
        Ok(Self {
            in_flight: Some(InFlight {
                checks,
                result,
                write_backs,
            }),
        })
    }

    /// Blocks this thread until the result is complete.
    ///
    /// # Errors
    ///
    /// If the device is lost meanwhile, or has found an index out of bounds. If all results stay on
    /// the device, this does not wait for indices to be checked; downloading an element that
    /// depends on them returns the error.
    ///
    /// # Panics
    ///
    /// If polling has already returned the result.
    pub fn wait(mut self) -> Result<R::Value> {
        let mut in_flight = self.in_flight.take().expect(TAKEN);
        in_flight.checks.wait()?;
        in_flight.result.wait()?;
        in_flight.write_backs.wait()?;
        Ok(in_flight.finish())
    }
}

/// The panic message when a result is taken twice.
const TAKEN: &str = "the result of a region can be taken once";

impl<R: Output> InFlight<'_, R> {
    /// Commits the write-backs and returns the result.
    fn finish(self) -> R::Value {
        Box::new(self.write_backs).commit();
        self.result.take()
    }
}

impl<R: Output> Unpin for Pending<'_, R> {}

impl<R: Output> Future for Pending<'_, R> {
    type Output = Result<R::Value>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let in_flight = self.in_flight.as_mut().expect(TAKEN);
        ready!(in_flight.checks.poll(context))?;
        ready!(in_flight.result.poll(context))?;
        ready!(in_flight.write_backs.poll(context))?;
        Poll::Ready(Ok(self.in_flight.take().expect(TAKEN).finish()))
    }
}

impl<R: Output> fmt::Debug for Pending<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("taken", &self.in_flight.is_none())
            .finish_non_exhaustive()
    }
}
