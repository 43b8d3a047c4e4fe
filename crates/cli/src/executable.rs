//! The executable of a program: which runtime library of CUDA it has, and how it finds it.

use std::{env, ffi::OsStr, fs, path::Path};

use object::{
    Endianness, Object as _, ObjectSection as _,
    read::{ReadCache, elf::ElfFile64},
};

use crate::runtime_library::{MAJORS, name};

/// The sections of an executable that tell of its libraries; empty ones if it lacks them.
pub(crate) struct Executable {
    /// The names of shared libraries, among others.
    strings: Vec<u8>,
    /// Constants.
    constants: Vec<u8>,
    /// Pairs of a number and a value, 8 bytes each.
    dynamic: Vec<u8>,
}

/// The entries of the dynamic section with folders of libraries: the loader looks there before
/// `LD_LIBRARY_PATH`, or behind it. The second one takes the first one's effect away.
const BEFORE: u64 = 15;
const BEHIND: u64 = 29;

impl Executable {
    /// Reads the file that the system runs for the name of a program.
    pub(crate) fn find(program: &OsStr) -> Option<Self> {
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut paths = env::split_paths(&folders).map(|folder| folder.join(program));
        let file = match Path::new(program).components().count() {
            1 => paths.find(|path| path.is_file())?,
            _ => program.into(),
        };
        // Only three sections are read.
        let file = ReadCache::new(fs::File::open(file).ok()?);
        let file = ElfFile64::<Endianness, _>::parse(&file).ok()?;
        let section = |name| {
            let section = file.section_by_name(name);
            let bytes = section.and_then(|section| section.data().ok());
            bytes.unwrap_or_default().to_vec()
        };
        Some(Self {
            strings: section(".dynstr"),
            constants: section(".rodata"),
            dynamic: section(".dynamic"),
        })
    }

    fn names(&self, library: &str) -> bool {
        String::from_utf8_lossy(&self.strings).contains(&format!("\0{library}"))
    }

    /// Returns the line about a program whose runtime library does not run.
    pub(crate) fn runtime_advice(&self) -> Option<&'static str> {
        let constants = String::from_utf8_lossy(&self.constants);
        // The device runtime library, which some of these have, contains the same text.
        if MAJORS.iter().any(|major| self.names(&name(*major))) {
            return None;
        }
        if constants.contains("for CUDA runtime version\0") {
            return Some(
                "the program has NVIDIA's runtime library (libcudart), linked statically, which \
                 does not run on the simulated device: build it with `millstream-nvcc`, or \
                 `nvcc -cudart shared -gencode arch=compute_75,code=compute_75`",
            );
        }
        self.names("libcudart.so").then_some(
            "the program is linked with the runtime library (libcudart) of a version of CUDA \
             before 12, which the simulated device does not have: build it with a newer nvcc",
        )
    }

    /// Returns the versions of CUDA whose runtime library the loader would look for in folders that
    /// the executable names, before it follows `LD_LIBRARY_PATH`.
    pub(crate) fn runtimes_found_first(&self) -> Vec<u32> {
        let entries = self.dynamic.chunks_exact(16);
        let tags: Vec<_> = entries.filter_map(|entry| entry.first_chunk()).collect();
        let has = |tag: u64| tags.contains(&&tag.to_le_bytes());
        if !has(BEFORE) || has(BEHIND) {
            return Vec::new();
        }
        let majors = MAJORS.into_iter();
        majors.filter(|major| self.names(&name(*major))).collect()
    }
}
