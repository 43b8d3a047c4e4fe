//! The scenarios. Both libraries use the driver that the loader finds.

#![allow(
    unsafe_code,
    reason = "launches kernels through cudarc, which trusts its caller"
)]

use std::{
    error::Error,
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use cudarc::{
    driver::{
        CudaContext, CudaFunction, CudaSlice, CudaStream, CudaView, CudaViewMut, LaunchConfig,
        PushKernelArg as _, result::stream::launch_host_function,
    },
    nvrtc::Ptx,
};
use millstream::{
    Buffer, Device, Stream, UsageErrorKind,
    driver::{ContextHandle, Driver as _, StreamHandle, cuda::Cuda},
    interop::{ForeignCall, read, write},
};
use millstream_cudarc::{
    Error as HandOverError, SharedStream, adopt_slice, device_of, foreign, lend, lend_mut,
    return_slice, with_slice, with_slice_mut,
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::interposed::waits;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A scenario, which runs in a process of its own where there is no GPU.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Outcome,
}

pub(crate) const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "i05_a_slice_goes_to_our_stream_then_to_a_kernel_of_cudarc_and_back",
        run: there_and_back,
    },
    Scenario {
        name: "i05_ten_thousand_random_hand_overs_are_right_and_never_wait_on_the_host",
        run: random_hand_overs,
    },
    Scenario {
        name: "i04_a_dropped_slice_is_freed_behind_our_uses",
        run: freed_behind_uses,
    },
    Scenario {
        name: "i07_default_streams_and_other_contexts_are_refused",
        run: refused,
    },
    Scenario {
        name: "a_call_of_cudarc_on_our_stream_is_ordered_by_its_operands",
        run: foreign_calls,
    },
];

const N: usize = 3000;

/// A context of cudarc with a kernel, and the same device in Millstream.
struct Setup {
    context: Arc<CudaContext>,
    add: CudaFunction,
    device: Device,
}

impl Setup {
    fn new() -> Outcome<Self> {
        let context = CudaContext::new(0)?;
        let ptx = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernels/vecadd.ptx"
        ));
        let module = context.load_module(Ptx::from_src(ptx))?;
        Ok(Self {
            add: module.load_function("vecadd")?,
            device: device_of(&context)?,
            context,
        })
    }

    fn shared(&self) -> Outcome<SharedStream> {
        let stream = self.context.new_stream()?;
        Ok(SharedStream::new(&self.device, &stream)?)
    }

    /// Writes twice the source to the target by a kernel that cudarc launches.
    fn double(
        &self,
        stream: &Arc<CudaStream>,
        source: &CudaView<'_, f32>,
        target: &mut CudaViewMut<'_, f32>,
    ) -> Outcome {
        let count = N as u64;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(source).arg(source).arg(target).arg(&count);
        // SAFETY: the kernel has these parameters and stays within the arrays.
        unsafe { launch.launch(LaunchConfig::for_num_elems(N as u32)) }?;
        Ok(())
    }
}

/// Blocks a stream of cudarc until it is dropped.
struct Gate(Arc<AtomicBool>);

unsafe extern "C" fn wait_for_flag(flag: *mut c_void) {
    // SAFETY: the driver passes the pointer of the reference that it was given, once.
    let flag = unsafe { Arc::from_raw(flag.cast::<AtomicBool>()) };
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

impl Gate {
    fn close(stream: &CudaStream) -> Outcome<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let raw = Arc::into_raw(Arc::clone(&flag)).cast_mut().cast();
        stream.context().bind_to_thread()?;
        // SAFETY: the stream is alive, and the function takes over one reference to the flag.
        unsafe { launch_host_function(stream.cu_stream(), wait_for_flag, raw) }?;
        Ok(Self(flag))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn there_and_back() -> Outcome {
    let setup = Setup::new()?;
    let theirs = setup.shared()?;
    let ours = setup.device.stream()?;
    let gate = Gate::close(theirs.cudarc())?;
    let zeros = theirs.cudarc().alloc_zeros::<f32>(N)?;
    let mut array = adopt_slice(&setup.device, zeros)?;
    ours.fill(array.slice_mut(..N / 2), 1.0)?;
    let filled = ours.record()?;
    assert!(
        !filled.is_complete()?,
        "the array is used before cudarc made it"
    );
    let mut sum = ours.zeros::<f32>(N)?;
    let (source, mut target) = (lend(&array, &theirs)?, lend_mut(&mut sum, &theirs)?);
    setup.double(theirs.cudarc(), &source.view(), &mut target.view_mut())?;
    drop((source, target));
    let found = ours.download(&sum)?;
    let slice = return_slice(&setup.device, array)?;
    drop(gate);
    let mut expected = vec![2.0; N / 2];
    expected.resize(N, 0.0);
    assert_eq!(found.wait()?, expected);
    let back = theirs.cudarc().clone_dtoh(&slice)?;
    assert_eq!(back[N / 2 - 1..=N / 2], [1.0, 0.0]);
    Ok(())
}

/// A seeded random number generator.
struct Random(Pcg64Mcg);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }
}

/// Arrays that go back and forth between two streams of cudarc and two of ours.
struct Play {
    setup: Setup,
    theirs: [SharedStream; 2],
    ours: [Stream; 2],
    arrays: [Buffer<f32>; 3],
    expected: [f32; 3],
    random: Random,
    hand_overs: usize,
}

impl Play {
    fn new() -> Outcome<Self> {
        let setup = Setup::new()?;
        let ours = [setup.device.stream()?, setup.device.stream()?];
        Ok(Self {
            theirs: [setup.shared()?, setup.shared()?],
            arrays: [ours[0].zeros(N)?, ours[0].zeros(N)?, ours[1].zeros(N)?],
            ours,
            setup,
            expected: [0.0; 3],
            random: Random::new(3),
            hand_overs: 0,
        })
    }

    fn step(&mut self, value: f32) -> Outcome {
        let (target, source) = (self.random.below(3), self.random.below(3));
        if target == source {
            return self.set(target, value);
        }
        let who = self.random.below(2);
        let [from, to] = self.arrays.get_disjoint_mut([source, target])?;
        if self.random.below(3) == 0 {
            self.ours[who].copy(&*from, to)?;
            self.expected[target] = self.expected[source];
            return Ok(());
        }
        let theirs = &self.theirs[who];
        let (from, mut to) = (lend(from, theirs)?, lend_mut(to, theirs)?);
        let (source_view, mut target_view) = (from.view(), to.view_mut());
        self.setup
            .double(theirs.cudarc(), &source_view, &mut target_view)?;
        self.expected[target] = 2.0 * self.expected[source];
        self.hand_overs += 4;
        Ok(())
    }

    /// Sets all elements of an array: here, by cudarc, or to a slice of cudarc.
    fn set(&mut self, target: usize, value: f32) -> Outcome {
        let who = self.random.below(2);
        let (ours, theirs) = (&self.ours[who], &self.theirs[who]);
        let array = &mut self.arrays[target];
        match self.random.below(4) {
            0 => {
                ours.fill(array, value)?;
                self.expected[target] = value;
            }
            1 => {
                let mut lent = lend_mut(array, theirs)?;
                // On the stream of the lease, or on another, which cudarc orders with it.
                let user = &self.theirs[self.random.below(2)];
                user.cudarc().memset_zeros(&mut lent.view_mut())?;
                self.expected[target] = 0.0;
                self.hand_overs += 2;
            }
            2 => {
                let device = &self.setup.device;
                // cudarc keeps the slices, of which another stream of it has filled one.
                let mut slice = theirs.cudarc().alloc_zeros::<f32>(N)?;
                self.theirs[1 - who].cudarc().memset_zeros(&mut slice)?;
                with_slice_mut(device, &mut slice.slice_mut(..N / 2), |mut half| {
                    ours.fill(&mut half, value)
                })??;
                let copy = theirs.cudarc().clone_dtod(&slice)?;
                with_slice(device, &copy, |copy| ours.copy(copy, &mut *array))??;
                ours.fill(array.slice_mut(N / 2..), value)?;
                self.expected[target] = value;
                self.hand_overs += 4;
            }
            _ => {
                let device = &self.setup.device;
                let mut slice = theirs.cudarc().alloc_zeros::<f32>(N)?;
                // Another stream of cudarc uses it too, which cudarc orders.
                self.theirs[1 - who].cudarc().memset_zeros(&mut slice)?;
                let mut adopted = adopt_slice(device, slice)?;
                ours.fill(&mut adopted, value)?;
                let slice: CudaSlice<f32> = return_slice(device, adopted)?;
                *array = adopt_slice(device, slice)?;
                self.expected[target] = value;
                self.hand_overs += 4;
            }
        }
        Ok(())
    }
}

/// Shows that waits of both libraries are counted, if they are.
fn assert_counted(stream: &CudaStream) -> Outcome {
    let Some(before) = waits() else {
        return Ok(());
    };
    stream.synchronize()?;
    assert_eq!(waits(), Some(before + 1), "a wait of cudarc");
    let context = ContextHandle::from_raw(stream.context().cu_ctx().expose_provenance());
    let raw = StreamHandle::from_raw(stream.cu_stream().expose_provenance());
    // SAFETY: context and stream are alive.
    unsafe { Cuda::load()?.stream_synchronize(context, raw) }?;
    assert_eq!(waits(), Some(before + 2), "a wait of Millstream's driver");
    Ok(())
}

/// Hand-overs in bursts behind a gate: one that waited for the device would never end. A burst fits
/// into the queues of a GPU. Where waits are counted, there is none either.
fn random_hand_overs() -> Outcome {
    const STEPS: usize = 16;
    let mut play = Play::new()?;
    assert_counted(play.theirs[0].cudarc())?;
    let mut burst = 0;
    while play.hand_overs < 10_000 {
        let closed = play.theirs[burst % 2].cudarc();
        let gate = Gate::close(closed)?;
        let behind = closed.record_event(None)?;
        let before = waits();
        for step in 0..STEPS {
            play.step((step + 1) as f32)?;
        }
        assert_eq!(waits(), before, "a hand-over waited on the host");
        assert!(!behind.try_is_complete()?, "the gate was not closed");
        drop(gate);
        if burst % 64 == 0 {
            for (array, value) in play.arrays.iter().zip(play.expected) {
                assert_eq!(play.ours[0].download(array)?.wait()?, [value; N]);
            }
        }
        burst += 1;
    }
    for (array, value) in play.arrays.iter().zip(play.expected) {
        assert_eq!(play.ours[0].download(array)?.wait()?, [value; N]);
    }
    Ok(())
}

/// cudarc frees memory on its stream and allocates it again there while our copy is pending.
fn freed_behind_uses() -> Outcome {
    let setup = Setup::new()?;
    let theirs = setup.shared()?;
    let (ours, second) = (setup.device.stream()?, setup.shared()?);
    let mut copy = ours.zeros::<f32>(N)?;
    let zeros = theirs.cudarc().alloc_zeros::<f32>(N)?;
    let mut array = adopt_slice(&setup.device, zeros)?;
    ours.fill(&mut array, 1.0)?;
    // Our stream is behind cudarc's second one.
    let gate = Gate::close(second.cudarc())?;
    drop(lend_mut(&mut copy, &second)?);
    ours.copy(&array, &mut copy)?;
    drop(array);
    let next = theirs.cudarc().clone_htod(&[2.0_f32; N])?;
    drop(gate);
    assert_eq!(ours.download(&copy)?.wait()?, [1.0; N]);
    assert_eq!(theirs.cudarc().clone_dtoh(&next)?, [2.0; N]);
    Ok(())
}

fn refused() -> Outcome {
    let setup = Setup::new()?;
    let default = setup.context.default_stream();
    for stream in [&default, &setup.context.per_thread_stream()] {
        let error = SharedStream::new(&setup.device, stream).expect_err("a default stream");
        assert!(
            matches!(
                &error,
                HandOverError::Millstream(millstream::Error::Usage(usage_error))
                    if matches!(usage_error.problem(), UsageErrorKind::DefaultStream { .. })
            ),
            "{error}"
        );
    }
    let slice = default.alloc_zeros::<f32>(N)?;
    let refused = adopt_slice(&setup.device, slice);
    assert!(refused.is_err(), "{refused:?}");
    let own = setup.device.stream()?.zeros::<f32>(N)?;
    let refused = return_slice(&setup.device, own);
    assert!(
        matches!(refused, Err(HandOverError::NotASlice)),
        "{refused:?}"
    );
    let other = CudaContext::new_non_primary(0, 0)?;
    let refused = device_of(&other);
    assert!(
        matches!(refused, Err(HandOverError::OtherContext { .. })),
        "{refused:?}"
    );
    let refused = SharedStream::new(&setup.device, &other.new_stream()?);
    assert!(
        matches!(refused, Err(HandOverError::OtherContext { .. })),
        "{refused:?}"
    );
    Ok(())
}

fn foreign_calls() -> Outcome {
    let setup = Setup::new()?;
    let (gated, ours) = (setup.shared()?, setup.device.stream()?);
    let mut source = ours.upload(&[3.0_f32; N])?;
    let mut target = ours.zeros::<f32>(N)?;
    let gate = Gate::close(gated.cudarc())?;
    gated.fill(&mut source, 4.0)?;
    let count = N as u64;
    let call = |stream: &Arc<CudaStream>, call: ForeignCall<'_>| {
        let (source, target) = (call.address(0).as_raw(), call.address(1).as_raw());
        let mut launch = stream.launch_builder(&setup.add);
        launch.arg(&source).arg(&source).arg(&target).arg(&count);
        // SAFETY: the kernel has these parameters, and the operands this length.
        unsafe { launch.launch(LaunchConfig::for_num_elems(N as u32)) }.map(drop)
    };
    let (place, operands) = ((&ours, &setup.context), [read(&source), write(&mut target)]);
    // SAFETY: the call launches one kernel on the given stream, which reads the first operand and
    // writes the second.
    unsafe { foreign("vecadd", place, operands, call) }?;
    let done = ours.record()?;
    assert!(!done.is_complete()?, "the kernel did not wait for the fill");
    drop(gate);
    assert_eq!(ours.download(&target)?.wait()?, [8.0; N]);
    Ok(())
}
