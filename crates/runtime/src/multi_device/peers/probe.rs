//! The probe of peer access: moves a pattern over the link by copies and by kernels, in both
//! directions, and compares what has arrived.
//!
//! It runs on streams and in memory of its own. It waits for other work only where the driver does
//! so itself: loading the kernel's module may wait for running kernels (rule 53).

#![allow(unsafe_code, reason = "copies and launches between two devices")]

use std::{cell::Cell, mem, panic::Location, ptr, sync::Arc};

use millstream_driver::{DevicePtr, FillPattern, FunctionHandle, LaunchDims, PeerCopy};

use crate::{
    Result,
    context::{
        Allocate, Command, CopyPeer, CopyToHost, DeviceState, Fill, Free, Launch, StreamState,
        follow, query_stream, wait_until,
    },
};

/// The number of words that are moved, one for each thread of a block.
const WORDS: usize = 1024;
const BYTES: usize = WORDS * size_of::<u32>();
/// The contents of memory that was not written.
const UNTOUCHED: u32 = 0xdead_beef;
/// The patterns of the two devices.
const PATTERNS: [u32; 2] = [0x0123_4567, 0x89ab_cdef];

/// A kernel that copies a word in each thread of its only block.
const PTX: &str = include_str!("probe.ptx");

/// One side of the probe: memory and a stream of one device.
struct Side<'a> {
    device: &'a DeviceState,
    stream: Arc<StreamState>,
    /// The memory that holds the device's pattern.
    source: DevicePtr,
    /// The memory that is written.
    target: DevicePtr,
    /// Set if the other side's stream may still use the memory when this side's stream frees it.
    /// The memory is leaked then.
    in_use: Cell<bool>,
}

/// Both sides. If the probe ended early and a device does not answer, the last operation may still
/// be running: each side's memory is then freed behind the other side's work.
struct Sides<'a> {
    sides: [Side<'a>; 2],
    /// Set if all operations are complete.
    complete: bool,
}

impl Drop for Sides<'_> {
    fn drop(&mut self) {
        let [one, other] = &self.sides;
        for (side, earlier) in [(one, other), (other, one)] {
            // If the other device is lost, the end of its accesses is unknown.
            side.in_use
                .set(!self.complete && side.follow(earlier).is_err());
        }
    }
}

/// Probes copies. Returns the reason if wrong data arrived.
pub(super) fn copies(first: &DeviceState, second: &DeviceState) -> Result<Option<String>> {
    run(first, second, |[one, other], [pattern, other_pattern]| {
        for (here, there, pattern) in [(one, other, other_pattern), (other, one, pattern)] {
            here.copy_from(there)?;
            if here.read(here.target)? != [pattern; WORDS] {
                return Ok(Some(there.wrong_data("a copy", here)));
            }
        }
        Ok(None)
    })
}

/// Probes kernels. Returns the reason if wrong data arrived. A kernel whose access is refused loses
/// its context, so the copies come first.
pub(super) fn kernels(first: &DeviceState, second: &DeviceState) -> Result<Option<String>> {
    run(first, second, |[one, other], [pattern, other_pattern]| {
        for (here, there, own, theirs) in [
            (one, other, pattern, other_pattern),
            (other, one, other_pattern, pattern),
        ] {
            here.clear()?;
            here.launch(here.target, there.source)?;
            if here.read(here.target)? != [theirs; WORDS] {
                return Ok(Some(there.wrong_data("a kernel that reads", here)));
            }
            there.clear()?;
            here.launch(there.target, here.source)?;
            if there.read(there.target)? != [own; WORDS] {
                return Ok(Some(here.wrong_data("a kernel that writes", there)));
            }
        }
        Ok(None)
    })
}

/// Prepares both sides, each with its pattern, and runs a probe.
fn run(
    first: &DeviceState,
    second: &DeviceState,
    probe: impl FnOnce(&[Side<'_>; 2], [u32; 2]) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let [pattern, other_pattern] = PATTERNS;
    let one = Side::new(first, pattern)?;
    let other = Side::new(second, other_pattern)?;
    let mut sides = Sides {
        sides: [one, other],
        complete: false,
    };
    let found = probe(&sides.sides, PATTERNS);
    let is_idle = |side: &Side<'_>| side.wait().is_ok();
    sides.complete = found.is_ok() || sides.sides.iter().all(is_idle);
    found
}

impl<'a> Side<'a> {
    fn new(device: &'a DeviceState, pattern: u32) -> Result<Self> {
        let stream = device.acquire_stream(0)?;
        let mut side = Self {
            device,
            stream,
            source: DevicePtr::from_raw(0),
            target: DevicePtr::from_raw(0),
            in_use: Cell::new(false),
        };
        side.source = side.allocate()?;
        side.target = side.allocate()?;
        side.fill(side.source, pattern)?;
        side.clear()?;
        Ok(side)
    }

    fn enqueue<C: Command>(&self, command: C) -> Result<C::Output> {
        let Self { device, stream, .. } = self;
        // SAFETY: the device owns the stream. The commands use memory of the two sides, which stays
        // allocated, and each is complete before the next begins.
        device.checked(unsafe { command.enqueue(device.driver_stream(stream)) })
    }

    fn allocate(&self) -> Result<DevicePtr> {
        let _name = self.device.named("peer probe", Location::caller());
        self.enqueue(Allocate { bytes: BYTES })
    }

    /// Fills one of the side's allocations and waits until that is done.
    fn fill(&self, memory: DevicePtr, value: u32) -> Result<()> {
        self.enqueue(Fill {
            target: memory,
            pattern: FillPattern::U32(value),
            count: WORDS,
        })?;
        self.wait()
    }

    /// Overwrites what an earlier step has left in the target.
    fn clear(&self) -> Result<()> {
        self.fill(self.target, UNTOUCHED)
    }

    /// Copies the other side's pattern to the target.
    fn copy_from(&self, other: &Self) -> Result<()> {
        self.enqueue(CopyPeer(PeerCopy {
            target: self.target,
            target_context: self.device.context,
            source: other.source,
            source_context: other.device.context,
            bytes: BYTES,
        }))?;
        self.wait()
    }

    /// Runs the kernel on this side's device.
    fn launch(&self, target: DevicePtr, source: DevicePtr) -> Result<()> {
        let function = self.function()?;
        let (target, source) = (target.as_raw(), source.as_raw());
        let params = [ptr::from_ref(&target).cast(), ptr::from_ref(&source).cast()];
        let dims = LaunchDims {
            grid: [1, 1, 1],
            block: [WORDS as u32, 1, 1],
            shared_bytes: 0,
        };
        // The kernel has two parameters of 64 bits and accesses `WORDS` words at each address.
        self.enqueue(Launch {
            function,
            dims: &dims,
            attributes: None,
            params: &params,
        })?;
        self.wait()
    }

    /// Returns the kernel, and loads its module on first use.
    fn function(&self) -> Result<FunctionHandle> {
        let device = self.device;
        let mut loaded = device.multi_device().peers.module.lock();
        let module = match *loaded {
            Some(module) => module,
            None => {
                // SAFETY: the context is alive.
                let module = device.checked(unsafe {
                    device.driver.module_load(device.context, PTX.as_bytes())
                })?;
                *loaded = Some(module);
                module
            }
        };
        // SAFETY: the module is loaded until the device is closed.
        device.checked(unsafe {
            device
                .driver
                .module_function(device.context, module, "millstream_peer_probe")
        })
    }

    /// Returns the contents of one of the side's allocations.
    fn read(&self, memory: DevicePtr) -> Result<Vec<u32>> {
        let mut words = vec![0; WORDS];
        let copied = self.enqueue(CopyToHost {
            target: words.as_mut_ptr().cast(),
            source: memory,
            bytes: BYTES,
        });
        // Nothing else touches the vector before the stream has completed the copy.
        match copied.and_then(|()| self.wait()) {
            Ok(()) => Ok(words),
            Err(error) => {
                // The copy may still write the vector.
                mem::forget(words);
                Err(error)
            }
        }
    }

    /// Orders this side's stream after everything enqueued on the other's.
    fn follow(&self, other: &Self) -> Result<()> {
        follow((self.device, &self.stream), (other.device, &other.stream))
    }

    fn wait(&self) -> Result<()> {
        wait_until(&*self.device.driver, || {
            query_stream(self.device, &self.stream)
        })
    }

    fn wrong_data(&self, by: &str, to: &Self) -> String {
        format!(
            "{by} from {} to {} gave wrong data without an error",
            self.device, to.device
        )
    }
}

impl Drop for Side<'_> {
    fn drop(&mut self) {
        for pointer in [self.source, self.target] {
            if pointer.as_raw() != 0 && !self.in_use.get() {
                self.enqueue(Free { pointer }).ok();
            }
        }
        self.device.retire_stream(Arc::clone(&self.stream));
    }
}
