//! State that the layers above store in a device or a stream.
//!
//! Each such layer of this crate has a marker type here, for which it implements [`DeviceSlot`] or
//! [`StreamSlot`]. The implementation chooses the type of a field in the device's or the stream's
//! state. Access is that of a field, and this layer names no type of the layers above. Crates above
//! this one use [`Slots`]: one value of each type, dropped when the device is closed.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use millstream_driver::{ContextHandle, Driver};
use parking_lot::Mutex;

use crate::disposal::{contain, drop_value, log};

/// A layer that stores a value in each device.
pub(crate) trait DeviceSlot {
    /// The type of the value. A new device has the default value if there is one.
    type Value: Send + Sync;
}

/// A layer whose value depends on the device.
pub(crate) trait OpenSlot: DeviceSlot {
    /// Creates the value of a device that is being opened.
    fn open(driver: &Arc<dyn Driver>, context: ContextHandle) -> Self::Value;
}

/// A layer that stores a default value in each new stream.
pub(crate) trait StreamSlot {
    type Value: fmt::Debug + Default + Send + Sync;
}

/// The marker of the module `adoption`.
pub(crate) enum AdoptionLayer {}

/// The marker of the module `recording`.
pub(crate) enum GraphLayer {}

/// The marker of the module `trace`.
pub(crate) enum TraceLayer {}

/// The marker of the layer `multi_device`.
pub(crate) enum MultiDeviceLayer {}

/// The marker of the layer `memory`.
pub(crate) enum MemoryLayer {}

/// The marker of the layer `page_locked`.
pub(crate) enum PageLockedLayer {}

/// The marker of the layer `copy`.
pub(crate) enum CopyLayer {}

/// The marker of the layer `kernel`.
pub(crate) enum KernelLayer {}

/// The values of crates above this one, by type.
#[derive(Default)]
pub(crate) struct Slots {
    values: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    releases: Mutex<Vec<Arc<Release>>>,
}

/// Releases what a crate above this one could make again. Returns whether there was anything.
type Release = dyn Fn() -> bool + Send + Sync;

impl Slots {
    /// Returns the value of this type, created by `make` on first use. No lock is held while `make`
    /// runs.
    pub(crate) fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let id = TypeId::of::<T>();
        let value = self.values.lock().get(&id).cloned();
        let value = match value {
            Some(value) => value,
            None => {
                let new_value: Arc<dyn Any + Send + Sync> = Arc::new(make());
                // Another thread may have inserted a value by now. This one is then dropped after
                // the lock is released.
                Arc::clone(
                    self.values
                        .lock()
                        .entry(id)
                        .or_insert_with(|| Arc::clone(&new_value)),
                )
            }
        };
        value
            .downcast()
            .expect("a value is kept under its own type")
    }

    /// Adds a function that is called when memory is short.
    pub(crate) fn add_release(&self, release: Arc<Release>) {
        self.releases.lock().push(release);
    }

    /// Calls all functions for a shortage of memory, without a lock. Returns whether one of them
    /// released something.
    pub(crate) fn release_memory(&self) -> bool {
        let releases = self.releases.lock().clone();
        let released = releases.iter().map(|release| {
            contain(&**release).unwrap_or_else(|| {
                log!(error, "a function for a shortage of memory panicked");
                false
            })
        });
        released.fold(false, |any, released| any | released)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // One by one: a destructor that panics keeps no other from running.
        let values = std::mem::take(self.values.get_mut());
        values.into_values().for_each(drop_value);
        let releases = std::mem::take(self.releases.get_mut());
        releases.into_iter().for_each(drop_value);
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::Device;

    #[derive(Debug)]
    struct Counted(&'static AtomicUsize);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_device_keeps_one_value_of_each_type_until_it_is_closed() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        let device = Device::simulated().expect("a simulated device opens");
        let first = device.slot(|| Counted(&DROPPED));
        let again = device
            .clone()
            .slot(|| -> Counted { panic!("there is one already") });
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(
            *device.slot(|| 7_u8),
            7,
            "other types have values of their own"
        );
        drop((first, again));
        assert_eq!(DROPPED.load(Ordering::Relaxed), 0, "the device keeps it");
        drop(device);
        // Another test that visits all devices may hold the last handle for a moment.
        let closing = Instant::now();
        while DROPPED.load(Ordering::Relaxed) == 0 {
            assert!(closing.elapsed() < Duration::from_secs(30), "it is kept");
            thread::yield_now();
        }
    }

    #[test]
    fn of_two_that_are_made_at_once_the_first_is_kept() {
        let slots = Slots::default();
        let outer = slots.get_or_make(|| {
            assert_eq!(*slots.get_or_make(|| 1_u32), 1);
            2_u32
        });
        assert_eq!(*outer, 1);
    }

    #[test]
    fn a_panic_leaves_the_slot_empty() {
        let slots = Slots::default();
        let made =
            std::panic::AssertUnwindSafe(|| slots.get_or_make(|| -> u32 { panic!("no value") }));
        assert!(std::panic::catch_unwind(made).is_err());
        assert_eq!(*slots.get_or_make(|| 3_u32), 3);
    }
}
