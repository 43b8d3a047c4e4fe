//! Device memory for the interpreter's tests: a few allocations, and launches on them.
#![allow(unsafe_code, reason = "stands in for the device, the memory's owner")]

use millstream_sim::exec::{self, GlobalMemory, KernelFault, KernelStats, Launch, Region};
use millstream_sim::ptx::{self, Kernel, Module};
use millstream_sim::shared_bytes::SharedBytes;

/// The address of the first allocation, and the distance between allocations.
const BASE: u64 = 0x1_0000_0000_0000;

/// A kernel argument or buffer element.
pub(crate) trait Value: Copy + Default + PartialEq + std::fmt::Debug {
    /// Returns the value's bytes, little-endian.
    fn bytes(self) -> Vec<u8>;
    fn of_bytes(bytes: &[u8]) -> Self;
}

macro_rules! value {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn of_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
value!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Returns the bytes of arguments.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        [$($crate::kernels::memory::Value::bytes($value)),*]
    };
}
pub(crate) use values;

#[derive(Clone, Default, PartialEq)]
pub(crate) struct DeviceMemory {
    // Stored as words, so that allocations are aligned.
    allocations: Vec<(Vec<u64>, usize, bool)>,
}

impl DeviceMemory {
    /// Allocates memory that holds `values`, and returns its address.
    pub(crate) fn put<T: Value>(&mut self, values: &[T]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        self.allocations.push((words.collect(), bytes.len(), true));
        BASE * self.allocations.len() as u64
    }

    /// Returns the addresses of the allocations.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        (1..=self.allocations.len() as u64).map(|number| BASE * number)
    }

    pub(crate) fn protect(&mut self, address: u64) {
        self.allocations[(address / BASE) as usize - 1].2 = false;
    }

    pub(crate) fn get<T: Value>(&self, address: u64) -> Vec<T> {
        let (words, len, _) = &self.allocations[(address / BASE) as usize - 1];
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .take(*len)
            .collect();
        bytes.chunks(size_of::<T>()).map(T::of_bytes).collect()
    }
}

impl GlobalMemory for DeviceMemory {
    fn region(&self, address: u64) -> Option<Region<'_>> {
        let number = (address / BASE).checked_sub(1)?;
        let (words, len, writable) = self.allocations.get(usize::try_from(number).ok()?)?;
        let base = BASE * (number + 1);
        if address - base >= *len as u64 {
            return None;
        }
        let pointer = words.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: the words live as long as `self`; they are accessed through `SharedBytes` only
        // while a launch runs, and `put` and `get` cannot run then.
        let shared_bytes = unsafe { SharedBytes::from_raw(pointer, *len) };
        Some(Region {
            base,
            bytes: shared_bytes,
            writable: *writable,
        })
    }
}

/// Lays out the parameters for the kernel's parameter space.
pub(crate) fn params(kernel: &Kernel, values: &[Vec<u8>]) -> Vec<u8> {
    let signature = kernel.signature();
    assert_eq!(signature.params.len(), values.len(), "{signature:?}");
    let mut block = vec![0; signature.param_bytes()];
    for (param, value) in signature.params.iter().zip(values) {
        assert_eq!(param.size, value.len(), "{param:?}");
        block[param.offset..][..param.size].copy_from_slice(value);
    }
    block
}

pub(crate) fn load(name: &str) -> Module {
    load_from("../../kernels", name)
}

/// Loads the PTX of this name from a folder below that of the crate.
pub(crate) fn load_from(folder: &str, name: &str) -> Module {
    let path = format!(
        "{}/{folder}/{name}.ptx",
        concat!(env!("CARGO_MANIFEST_DIR"), "/..")
    );
    ptx::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Launches a kernel of a module without variables. Asserts that its threads do not race.
pub(crate) fn launch(
    module: &Module,
    kernel: &str,
    grid: [u32; 3],
    block: [u32; 3],
    memory: &DeviceMemory,
    values: &[Vec<u8>],
) -> Result<KernelStats, KernelFault> {
    let kernel = module.kernel(kernel).unwrap();
    let params = params(kernel, values);
    let launch = Launch {
        params: &params,
        ..Launch::new(grid, block)
    };
    let checked_memory = memory.clone();
    let ran = exec::run(kernel, &launch, memory);
    let (checked, races) = exec::run_checked(kernel, &launch, &checked_memory);
    assert_eq!(checked, ran, "the race check changes the results");
    if ran.is_ok() {
        assert!(
            *memory == checked_memory,
            "checking for races changes values"
        );
        assert!(races.is_empty(), "{}: {races:#?}", kernel.name());
    }
    ran
}
