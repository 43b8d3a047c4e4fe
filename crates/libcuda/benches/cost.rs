//! The cost of the driver API over the simulator, against calls of the simulator's own interface.
//!
//! ```sh
//! cargo bench -p millstream-libcuda --bench cost
//! ```
//!
//! Each figure is the processor time of a process of its own, the smallest of several, because the
//! options of the library are fixed for a process. `direct` calls the simulator, `off` the exported
//! functions without the places of calls, `on` with them.

#![allow(unsafe_code, reason = "calls the exported functions as a program does")]

#[cfg(target_os = "linux")]
mod linux {
    use std::{env, ffi::c_void, fs, process::Command};

    use millstream_driver::{
        ContextHandle, DeviceOrdinal, DevicePtr, Driver as _, FunctionHandle, LaunchDims,
        StreamHandle,
    };
    // The exported functions are found in the library that this links.
    use millstream_libcuda as _;
    use millstream_sim::{Gpu, SimConfig};

    const TURNS: usize = 5;

    unsafe extern "C" {
        fn cuInit(flags: u32) -> i32;
        fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> i32;
        fn cuCtxSetCurrent(context: usize) -> i32;
        fn cuCtxSynchronize() -> i32;
        fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> i32;
        fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_void) -> i32;
        fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> i32;
        fn cuLaunchKernel(
            function: usize,
            grid_x: u32,
            grid_y: u32,
            grid_z: u32,
            block_x: u32,
            block_y: u32,
            block_z: u32,
            shared_bytes: u32,
            stream: usize,
            params: *const *const c_void,
            extra: *const *const c_void,
        ) -> i32;
    }

    struct Case {
        name: &'static str,
        ptx: &'static str,
        grid: u32,
        block: [u32; 2],
        /// The sizes of its arrays, and its other parameters.
        arrays: &'static [usize],
        words: &'static [u32],
        launches: usize,
    }

    const CASES: [Case; 4] = [
        Case {
            name: "small",
            ptx: concat!(include_str!("../../../kernels/vecadd.ptx"), "\0"),
            grid: 1,
            block: [32, 1],
            arrays: &[128; 3],
            words: &[32, 0],
            launches: 100_000,
        },
        Case {
            name: "vecadd",
            ptx: concat!(include_str!("../../../kernels/vecadd.ptx"), "\0"),
            grid: 4096,
            block: [256, 1],
            arrays: &[4 << 20; 3],
            words: &[1 << 20, 0],
            launches: 20,
        },
        Case {
            name: "mandel",
            ptx: concat!(include_str!("../../../kernels/mandel.ptx"), "\0"),
            grid: 8,
            block: [16, 16],
            arrays: &[65536],
            words: &[128, 128, 0xc000_0000, 0xbfa0_0000, 0x3ca3_d70a, 100],
            launches: 100,
        },
        Case {
            name: "matmul",
            ptx: concat!(include_str!("../../../kernels/matmul.ptx"), "\0"),
            grid: 8,
            block: [16, 16],
            arrays: &[65536; 3],
            words: &[128, 128, 128],
            launches: 100,
        },
    ];

    impl Case {
        fn dims(&self) -> LaunchDims {
            let square = self.block[1] > 1;
            LaunchDims {
                grid: [self.grid, if square { self.grid } else { 1 }, 1],
                block: [self.block[0], self.block[1], 1],
                shared_bytes: 0,
            }
        }

        /// Returns pointers to the arguments. The vector addition takes its length as 8 bytes.
        fn params<'a>(&'a self, arrays: &'a [u64]) -> Vec<*const c_void> {
            let arrays = arrays.iter().map(|it| std::ptr::from_ref(it).cast());
            let words = if self.words.len() == 2 {
                &self.words[..1]
            } else {
                self.words
            };
            let words = words.iter().map(|it| std::ptr::from_ref(it).cast());
            arrays.chain(words).collect()
        }

        /// Returns the processor time of the launches through the simulator's own interface.
        fn direct(&self) -> f64 {
            let config = SimConfig::new().rely_on_blocking(true);
            let gpu = Gpu::new(config.memory_bytes(2 << 30));
            let context = gpu
                .primary_context_retain(DeviceOrdinal::from_raw(0))
                .unwrap();
            let function = self.load(&gpu, context);
            let allocated = |bytes: &usize| {
                // SAFETY: the context is alive.
                let memory: DevicePtr = unsafe { gpu.mem_alloc(context, *bytes) }.unwrap();
                memory.as_raw()
            };
            let arrays: Vec<u64> = self.arrays.iter().map(allocated).collect();
            let (dims, params) = (self.dims(), self.params(&arrays));
            timed(|| {
                for _ in 0..self.launches {
                    // SAFETY: the arguments are those of the kernel, which stays in its arrays.
                    unsafe {
                        gpu.launch_kernel(context, function, &dims, StreamHandle::LEGACY, &params)
                    }
                    .unwrap();
                }
                // SAFETY: the context is alive.
                unsafe { gpu.context_synchronize(context) }.unwrap();
            })
        }

        fn load(&self, gpu: &Gpu, context: ContextHandle) -> FunctionHandle {
            let ptx = self.ptx.trim_end_matches('\0').as_bytes();
            // SAFETY: the context is alive.
            let module = unsafe { gpu.module_load(context, ptx) }.unwrap();
            // SAFETY: context and module are alive.
            unsafe { gpu.module_function(context, module, self.kernel()) }.unwrap()
        }

        fn kernel(&self) -> &'static str {
            if self.name == "small" {
                "vecadd"
            } else {
                self.name
            }
        }

        /// Returns the processor time of the launches through the exported functions.
        fn through(&self) -> f64 {
            let (mut context, mut module, mut function) = (0, 0, 0);
            let name = format!("{}\0", self.kernel());
            // SAFETY: the call takes no pointers.
            assert_eq!(unsafe { cuInit(0) }, 0);
            // SAFETY: the pointer is valid for the call.
            let retained = unsafe { cuDevicePrimaryCtxRetain(&raw mut context, 0) };
            // SAFETY: the call takes no pointers.
            assert_eq!((retained, unsafe { cuCtxSetCurrent(context) }), (0, 0));
            let ptx = self.ptx.as_ptr().cast();
            // SAFETY: the pointers are valid for the call, and the text ends with a zero byte.
            assert_eq!(unsafe { cuModuleLoadData(&raw mut module, ptx) }, 0);
            let name = name.as_ptr().cast();
            // SAFETY: as above.
            let found = unsafe { cuModuleGetFunction(&raw mut function, module, name) };
            assert_eq!(found, 0);
            let allocated = |bytes: &usize| {
                let mut pointer = 0;
                // SAFETY: the pointer is valid for the call.
                assert_eq!(unsafe { cuMemAlloc_v2(&raw mut pointer, *bytes) }, 0);
                pointer
            };
            let arrays: Vec<u64> = self.arrays.iter().map(allocated).collect();
            let (dims, params) = (self.dims(), self.params(&arrays));
            let ([x, y, z], [block_x, block_y, block_z]) = (dims.grid, dims.block);
            timed(|| {
                for _ in 0..self.launches {
                    // SAFETY: the arguments are those of the kernel, which stays in its arrays.
                    let result = unsafe {
                        cuLaunchKernel(
                            function,
                            x,
                            y,
                            z,
                            block_x,
                            block_y,
                            block_z,
                            0,
                            0,
                            params.as_ptr(),
                            std::ptr::null(),
                        )
                    };
                    assert_eq!(result, 0);
                }
                // SAFETY: a context is current.
                assert_eq!(unsafe { cuCtxSynchronize() }, 0);
            })
        }
    }

    /// Returns the processor time that the process takes for `work`, in seconds.
    fn timed(work: impl FnOnce()) -> f64 {
        let before = processor_ticks();
        work();
        // Linux counts in hundredths of a second.
        (processor_ticks() - before) as f64 / 100.0
    }

    /// Returns the processor time of the process so far, in the system and outside of it.
    fn processor_ticks() -> u64 {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        fields
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum()
    }

    fn measured(case: &Case, mode: &str) -> f64 {
        let turn = |_| {
            let mut child = Command::new(env::current_exe().unwrap());
            let sites = if mode == "on" { "on" } else { "off" };
            child
                .args(["measure", case.name, mode])
                .env("MILLSTREAM_SITES", sites);
            let output = child.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.trim().parse::<f64>().unwrap()
        };
        (0..TURNS).map(turn).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn main() {
        let arguments: Vec<String> = env::args().skip(1).collect();
        if let [command, name, mode] = &arguments[..]
            && command == "measure"
        {
            let case = CASES.iter().find(|case| case.name == name).unwrap();
            let seconds = if mode == "direct" {
                case.direct()
            } else {
                case.through()
            };
            println!("{seconds}");
            return;
        }
        println!("kernel   launches  direct/s  off/s  on/s  off/direct  on/direct");
        for case in &CASES {
            let [direct, off, on] = ["direct", "off", "on"].map(|mode| measured(case, mode));
            println!(
                "{:8} {:8} {direct:9.2} {off:6.2} {on:5.2} {:11.2} {:10.2}",
                case.name,
                case.launches,
                off / direct,
                on / direct
            );
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
