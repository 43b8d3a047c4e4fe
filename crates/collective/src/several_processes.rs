//! Collectives of the processes of a world.

use std::{panic::Location, sync::Arc, time::Duration};

#[cfg(feature = "sim")]
use millstream::groups;
use millstream::{Device, Error, Result};

use crate::{
    Collectives,
    communicators::{self, NcclBackend},
    local_rank::LocalRank,
    nccl::{self, Nccl},
    world::World,
};

impl World {
    /// Creates a group of one device of each process, whose rank is that of the process. Every
    /// process calls this, and the number of calls and their order are the same on all; it waits
    /// until all have.
    ///
    /// GPUs are connected by NCCL. Simulated devices are connected over TCP, on one machine, by a
    /// stand-in for tests. A world of one process needs neither.
    ///
    /// Collectives of several processes have a deadline of ten minutes, which
    /// [`Collectives::set_deadline`] changes.
    ///
    /// ```
    /// use millstream_collective::{Reduce, world::World};
    ///
    /// let world = World::from_env()?;
    /// let device = world.local_device()?;
    /// let collectives = world.collectives(&device)?;
    /// let stream = device.stream()?;
    /// let mut ranks = stream.upload(&[1_u32])?;
    /// collectives.all_reduce(&mut [&mut ranks], Reduce::Sum)?;
    /// assert_eq!(stream.download(&ranks)?.wait()?, [world.size() as u32]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the processes do not meet within five minutes, NCCL cannot be loaded or used, the device
    /// is lost, or a process has not answered when an earlier group was lost.
    #[track_caller]
    pub fn collectives(&self, device: &Device) -> Result<Collectives> {
        let location = Location::caller();
        if self.size() == 1 {
            return Collectives::direct(std::slice::from_ref(device));
        }
        #[cfg(feature = "sim")]
        if device.is_simulated() {
            let library = nccl::Loopback::new(groups::driver(device));
            return self.collectives_by(device, Arc::new(library), location);
        }
        let library = nccl::load().map_err(Error::unavailable)?;
        self.collectives_by(device, library, location)
    }

    /// Creates a group like [`collectives`](Self::collectives) with this implementation of NCCL's
    /// functions, for tests.
    ///
    /// # Errors
    ///
    /// As [`collectives`](Self::collectives).
    #[doc(hidden)]
    pub fn collectives_by(
        &self,
        device: &Device,
        library: Arc<dyn Nccl>,
        location: &'static Location<'static>,
    ) -> Result<Collectives> {
        let locals: Arc<[_]> = [LocalRank::new(self.rank(), device, location)?].into();
        let group = communicators::in_world(library, Arc::clone(&locals), self, location)?;
        let backend = NcclBackend::new(group)?;
        Ok(Collectives::with_backend(
            Arc::new(backend),
            locals,
            self.size(),
        ))
    }
}

impl Collectives {
    /// Sets the time that a collective with ranks in other processes may take, from the call to its
    /// completion; `None` for any time. When it has passed, the group is lost:
    /// [`Error::CollectiveLost`]. In the first collective NCCL also connects the ranks, which took
    /// more than 0.3 s on two H200s.
    ///
    /// Without NCCL a collective waits for nothing that could end, so the deadline has no effect.
    /// NCCL's collectives within one process have no deadline until the program sets one. It does
    /// not end a call that is still enqueuing its collective, which waits for no other process.
    ///
    /// ```
    /// use std::time::Duration;
    /// use millstream_collective::world::World;
    ///
    /// let world = World::from_env()?;
    /// let collectives = world.collectives(&world.local_device()?)?;
    /// collectives.set_deadline(Some(Duration::from_secs(60)));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn set_deadline(&self, deadline: Option<Duration>) {
        self.backend.set_deadline(deadline);
    }

    /// Waits until the collectives of all ranks are complete, and ends the group. Every process
    /// calls this, before it ends: what a process has still to send to others is lost with it.
    /// Dropping the group does the same without waiting for the other processes.
    ///
    /// NCCL may complete an operation although another rank made a different call. This compares
    /// the calls of all ranks, so it finds such a difference if nothing else has.
    ///
    /// The direct backend has no other processes, so this returns at once.
    ///
    /// ```
    /// use millstream_collective::{Reduce, world::World};
    ///
    /// let world = World::from_env()?;
    /// let device = world.local_device()?;
    /// let collectives = world.collectives(&device)?;
    /// let mut sum = device.stream()?.upload(&[1_u32])?;
    /// collectives.all_reduce(&mut [&mut sum], Reduce::Sum)?;
    /// collectives.close()?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::CollectiveLost`] if the group is lost, the ranks have made different calls, or not
    /// all close the group within the deadline.
    pub fn close(self) -> Result<()> {
        self.backend.close()
    }
}
