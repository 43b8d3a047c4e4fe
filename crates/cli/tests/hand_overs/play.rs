//! Random hand-overs between streams of cudarc and of ours, which tests of several libraries in one
//! process share. Both libraries use the driver that the loader finds.

#![allow(unsafe_code, reason = "launches kernels through cudarc")]

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
use millstream::{Buffer, Device, Stream};
use millstream_cudarc::{
    SharedStream, adopt_slice, device_of, lend, lend_mut, return_slice, with_slice, with_slice_mut,
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The number of elements of the arrays.
pub(crate) const N: usize = 3000;
pub(crate) const ARRAYS: usize = 3;

/// A context of cudarc with a kernel, and the same device in Millstream.
pub(crate) struct Setup {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) add: CudaFunction,
    pub(crate) device: Device,
}

impl Setup {
    pub(crate) fn new() -> Outcome<Self> {
        let context = CudaContext::new(0)?;
        let ptx = include_str!("../../../../kernels/vecadd.ptx");
        let module = context.load_module(Ptx::from_src(ptx))?;
        Ok(Self {
            add: module.load_function("vecadd")?,
            device: device_of(&context)?,
            context,
        })
    }

    pub(crate) fn shared(&self) -> Outcome<SharedStream> {
        let stream = self.context.new_stream()?;
        Ok(SharedStream::new(&self.device, &stream)?)
    }

    /// Writes twice the source to the target by a kernel that cudarc launches.
    pub(crate) fn double(
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
pub(crate) struct Gate(Arc<AtomicBool>);

unsafe extern "C" fn wait_for_flag(flag: *mut c_void) {
    // SAFETY: the driver passes the pointer of the reference that it was given, once.
    let flag = unsafe { Arc::from_raw(flag.cast::<AtomicBool>()) };
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

impl Gate {
    pub(crate) fn close(stream: &CudaStream) -> Outcome<Self> {
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
pub(crate) struct Play {
    pub(crate) setup: Setup,
    pub(crate) theirs: [SharedStream; 2],
    pub(crate) ours: [Stream; 2],
    pub(crate) arrays: [Buffer<f32>; ARRAYS],
    /// The value of every element of each array.
    pub(crate) expected: [f32; ARRAYS],
    random: Random,
    /// The number of times that memory or its use passed from one side to the other.
    pub(crate) hand_overs: usize,
}

impl Play {
    pub(crate) fn new(seed: u64) -> Outcome<Self> {
        let setup = Setup::new()?;
        let ours = [setup.device.stream()?, setup.device.stream()?];
        Ok(Self {
            theirs: [setup.shared()?, setup.shared()?],
            arrays: [ours[0].zeros(N)?, ours[0].zeros(N)?, ours[1].zeros(N)?],
            ours,
            setup,
            expected: [0.0; ARRAYS],
            random: Random::new(seed),
            hand_overs: 0,
        })
    }

    /// Fills an array with a value, or copies or doubles one into another.
    pub(crate) fn step(&mut self, value: f32) -> Outcome {
        let (target, source) = (self.random.below(ARRAYS), self.random.below(ARRAYS));
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

    /// Waits for all arrays, and compares their elements with those expected.
    pub(crate) fn check(&self) -> Outcome {
        for (array, value) in self.arrays.iter().zip(self.expected) {
            assert_eq!(self.ours[0].download(array)?.wait()?, [value; N]);
        }
        Ok(())
    }
}
