//! Values that layers above this one keep with a device or a stream.
//!
//! A layer of this crate has a name here, for which it implements [`DeviceSlot`] or [`StreamSlot`].
//! That implementation chooses the value's type: the value is a field of the device's or the
//! stream's state, found at no cost, and this layer names no type of those above.
//! [`Slots`] are for crates above this one: one value of each type, dropped when the device is
//! closed.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use millstream_driver::{ContextHandle, Driver};
use parking_lot::Mutex;

/// A layer that keeps a value with each device.
pub(crate) trait DeviceSlot {
    /// The value's type.
    type Value: Send + Sync;

    /// Makes the value of a device that is being opened.
    fn open(driver: &dyn Driver, context: ContextHandle) -> Self::Value;
}

/// A layer that keeps a value with each stream.
pub(crate) trait StreamSlot {
    /// The value's type.
    type Value: fmt::Debug + Default + Send + Sync;
}

/// The name of the layer of memory.
pub(crate) enum MemoryLayer {}

/// The name of the layer of copies.
pub(crate) enum CopyLayer {}

/// The name of the layer of kernels.
pub(crate) enum KernelLayer {}

/// The values, by their types.
#[derive(Default)]
pub(crate) struct Slots {
    values: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Slots {
    /// The value of this type; without one yet, that of `make`, which is called with nothing
    /// locked.
    pub(crate) fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let id = TypeId::of::<T>();
        let known = self.values.lock().get(&id).cloned();
        let value = match known {
            Some(value) => value,
            None => {
                let made: Arc<dyn Any + Send + Sync> = Arc::new(make());
                // Another thread's may be there by now. Then this one's is dropped after the lock
                // is free again.
                Arc::clone(
                    self.values
                        .lock()
                        .entry(id)
                        .or_insert_with(|| Arc::clone(&made)),
                )
            }
        };
        value
            .downcast()
            .expect("a value is kept under its own type")
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
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
