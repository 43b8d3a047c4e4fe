//! Worlds whose ranks are threads of the test, each with a simulated GPU of its own.

use std::{
    collections::HashMap,
    panic::Location,
    sync::{Arc, Condvar, Mutex},
    thread,
};

use millstream::{
    Result,
    sim::{Schedule, SimConfig},
};
use millstream_collective::{
    nccl::Loopback,
    world::{Rendezvous, WorldError},
};

use crate::several_processes::prelude::*;

#[derive(Default)]
struct Store {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl Rendezvous for Store {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let mut values = self.values.lock().expect("no thread panics with it");
        values.insert(key.to_owned(), value.to_owned());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        let values = self.values.lock().expect("no thread panics with it");
        let missing = |values: &mut HashMap<String, Vec<u8>>| !values.contains_key(key);
        let (values, _) = self
            .changed
            .wait_timeout_while(values, deadline, missing)
            .expect("no thread panics with it");
        let value = values.get(key).cloned();
        value.ok_or_else(|| WorldError::not_set(key, deadline).into())
    }
}

pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) gpu: Gpu,
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) collectives: Collectives,
}

/// Runs `body` as both ranks of a world, with this fault in the first operation of rank 0, and
/// returns what they return.
pub(crate) fn both<T: Send>(fault: Option<Fault>, body: impl Fn(Rank) -> T + Sync) -> [T; 2] {
    both_under(Schedule::Timed, fault, body)
}

/// As [`both`], with another schedule of the simulated devices.
pub(crate) fn both_under<T: Send>(
    schedule: Schedule,
    fault: Option<Fault>,
    body: impl Fn(Rank) -> T + Sync,
) -> [T; 2] {
    let store = Arc::<Store>::default();
    let location = Location::caller();
    let run = |rank: usize| {
        let store = Arc::clone(&store) as Arc<dyn Rendezvous>;
        let world = World::with_rendezvous(rank, 2, store).expect("a world");
        let gpu = Gpu::new(SimConfig::new().schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).expect("a device");
        let mut library = Loopback::new(gpu.driver());
        if let Some(fault) = fault.filter(|_| rank == 0) {
            library = library.fault(1, fault);
        }
        let collectives = world
            .collectives_by(&device, Arc::new(library), location)
            .expect("a group");
        let stream = device.stream().expect("a stream");
        body(Rank {
            rank,
            gpu,
            device,
            stream,
            collectives,
        })
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let first = run(0);
        [first, other.join().expect("rank 1 does not panic")]
    })
}
