//! K3: the cache on disk.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use millstream::{Cuda, Device, Module, driver::nvrtc};

use crate::compiled::{
    Outcome, child, device,
    launches::{SCALE, scaled},
};

/// A temporary folder for a cache, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("millstream-kernels-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder is made");
        Self(folder)
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
        paths.sort();
        paths
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed remains among the temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles with a cache in this folder.
fn compile(device: &Device, folder: &Path, source: Cuda) -> millstream::Result<Module> {
    device.compile(source.cache_folder(folder))
}

fn scale(factor: u32) -> Cuda {
    Cuda::source("scale.cu", SCALE).define("FACTOR", factor)
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_a_second_load_makes_no_compiler_call() -> Outcome {
    let device = &device();
    let folder = Folder::new("hit");
    let source = || scale(3).instantiate("scale");
    assert!(!compile(device, &folder.0, source())?.is_from_cache());
    let module = compile(device, &folder.0, source())?;
    assert!(module.is_from_cache());
    assert_eq!(scaled(device, &module)?, [3.0, 6.0, 9.0]);

    let first = child::output(child::start(4, &folder.0, &[]));
    assert_eq!(first, "[4.0, 8.0, 12.0] cached false calls 1");
    let second = child::output(child::start(4, &folder.0, &[]));
    assert_eq!(second, "[4.0, 8.0, 12.0] cached true calls 0");
    let off = child::output(child::start(4, Path::new("off"), &[]));
    assert_eq!(off, "[4.0, 8.0, 12.0] cached false calls 1");
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_every_input_is_a_part_of_the_key() -> Outcome {
    let device = &device();
    let folder = Folder::new("key");
    let header = |text: &str| scale(3).header("unused.h", text);
    let sources = [
        scale(3),
        scale(4),
        scale(3).option("--fmad=false"),
        Cuda::source("other.cu", SCALE).define("FACTOR", 3),
        Cuda::source("scale.cu", format!("{SCALE}\n")).define("FACTOR", 3),
        scale(3).instantiate("scale"),
        scale(3).include_folder("/somewhere"),
        header("1"),
        header("2"),
    ];
    for source in &sources {
        let module = compile(device, &folder.0, source.clone())?;
        assert!(!module.is_from_cache(), "{source:?}");
    }
    assert_eq!(folder.entries().len(), sources.len());
    for source in sources {
        let module = compile(device, &folder.0, source.clone())?;
        assert!(module.is_from_cache(), "{source:?}");
    }
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_a_damaged_entry_is_compiled_anew() -> Outcome {
    let device = &device();
    let folder = Folder::new("damaged");
    compile(device, &folder.0, scale(3))?;
    let [entry] = &folder.entries()[..] else {
        return Err("there is not one entry".into());
    };
    let intact = fs::read(entry)?;
    let mut changed = intact.clone();
    let at = changed.len() / 2;
    changed[at] ^= 1;
    // Another kernel's entry under this name.
    compile(device, &folder.0, scale(4))?;
    let other = folder.entries().into_iter().find(|path| path != entry);
    let other = fs::read(other.expect("a second entry"))?;
    for damaged in [&intact[..intact.len() - 1], &[], b"text", &changed, &other] {
        fs::write(entry, damaged)?;
        let module = compile(device, &folder.0, scale(3))?;
        assert!(!module.is_from_cache());
        assert_eq!(scaled(device, &module)?, [3.0, 6.0, 9.0]);
        assert!(
            compile(device, &folder.0, scale(3))?.is_from_cache(),
            "it was mended"
        );
    }
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_processes_that_compile_at_once_all_get_their_kernel() -> Outcome {
    let folder = Folder::new("at-once");
    let children = [6, 7, 6, 7].map(|factor| (factor, child::start(factor, &folder.0, &[])));
    for (factor, process) in children {
        let text = child::output(process);
        let factor = factor as f32;
        let expected = format!("{:?} cached", [factor, 2.0 * factor, 3.0 * factor]);
        assert!(text.starts_with(&expected), "{text}");
    }
    assert_eq!(folder.entries().len(), 2, "no temporary file is left");
    let again = child::output(child::start(6, &folder.0, &[]));
    assert_eq!(again, "[6.0, 12.0, 18.0] cached true calls 0");
    Ok(())
}

/// Another installation: the same library under another path.
#[cfg(unix)]
#[test]
#[ignore = "needs NVRTC"]
fn k03_another_nvrtc_compiles_anew() -> Outcome {
    let folder = Folder::new("another");
    let cache = folder.0.join("cache");
    let loaded = nvrtc::load()?;
    let Some(own) = loaded.installation().file.clone() else {
        return Err("set MILLSTREAM_NVRTC to NVRTC's folder for this test".into());
    };
    let libraries = own.parent().expect("a file has a folder");
    let other = folder.0.join("other");
    std::os::unix::fs::symlink(libraries, &other)?;
    let run = |library: &Path| {
        let library = library.display().to_string();
        child::output(child::start(8, &cache, &[("MILLSTREAM_NVRTC", &library)]))
    };
    let expected =
        |cached: bool, calls: u32| format!("[8.0, 16.0, 24.0] cached {cached} calls {calls}");
    assert_eq!(run(libraries), expected(false, 1));
    assert_eq!(run(libraries), expected(true, 0));
    assert_eq!(run(&other), expected(false, 1));
    assert_eq!(run(libraries), expected(true, 0));
    Ok(())
}

#[cfg(not(unix))]
#[test]
#[ignore = "needs NVRTC"]
fn k03_another_nvrtc_compiles_anew() -> Outcome {
    Err("this test makes a second installation by a symbolic link".into())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_a_folder_that_cannot_be_written_is_no_error() -> Outcome {
    let device = &device();
    let folder = Folder::new("unwritable");
    let file = folder.0.join("file");
    fs::write(&file, "")?;
    // Even the superuser cannot create a folder below a file.
    for _ in 0..2 {
        let module = compile(device, &file.join("kernels"), scale(3))?;
        assert!(!module.is_from_cache());
        assert_eq!(scaled(device, &module)?, [3.0, 6.0, 9.0]);
    }
    Ok(())
}

/// Writes a header that was changed `seconds` after a time long ago.
fn write_header(path: &Path, text: &str, seconds: u64) -> Outcome {
    fs::write(path, text)?;
    let file = fs::File::options().write(true).open(path)?;
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds))?;
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_a_changed_header_file_is_compiled_anew() -> Outcome {
    let device = &device();
    let folder = Folder::new("header");
    let header = folder.0.join("factor.h");
    let text = format!("#include \"factor.h\"\n{SCALE}");
    let cache = folder.0.join("cache");
    let load = || {
        let source = Cuda::source("scale.cu", text.clone()).include_folder(&folder.0);
        let module = compile(device, &cache, source)?;
        let values = scaled(device, &module)?;
        Ok::<_, millstream::Error>((values[0], module.is_from_cache()))
    };
    write_header(&header, "#define FACTOR 2", 1)?;
    assert_eq!(load()?, (2.0, false));
    assert_eq!(load()?, (2.0, true));
    write_header(&header, "#define FACTOR 3", 0)?;
    assert_eq!(load()?, (3.0, false), "the header has another time");
    fs::write(&header, "#define FACTOR 4")?;
    assert_eq!(load()?, (4.0, false));
    fs::write(&header, "#define FACTOR 5")?;
    assert_eq!(load()?, (5.0, false));
    Ok(())
}

/// Spellings of `#include "factor.h"`.
const SPELLINGS: &[&str] = &[
    "#include \"factor.h\"",
    "#/*comment*/include/*comment*/<factor.h>",
    "/*comment\n*/ # include <factor.h>",
    "#inc\\\nlude \"fac\\\ntor.h\"",
    "%:include <factor.h>",
    "#define HEADER \"factor.h\"\n#include HEADER",
    "#if __has_include(<factor.h>)\n#include <factor.h>\n#endif",
    "#define CAT(a, b) a##b\n#if CAT(__has_, include)(<three>)\n#define FACTOR 3\n#else\n\
     #define FACTOR 2\n#endif",
    "#define HAS __has_include\n#if HAS(<three>)\n#define FACTOR 3\n#else\n#define FACTOR 2\n\
     #endif",
    "#if __has_include(<three>)\n#define FACTOR 3\n#else\n#define FACTOR 2\n#endif",
];

#[test]
#[ignore = "needs NVRTC"]
fn k03_a_header_of_equal_size_and_time_is_another_however_it_is_spelled() -> Outcome {
    let device = &device();
    let folder = Folder::new("spelled");
    let cache = folder.0.join("cache");
    let option = |name: &str| format!("{name}{}", folder.0.display());
    let plain = |text: &str| Cuda::source("scale.cu", format!("{text}\n{SCALE}"));
    let mut sources: Vec<_> = SPELLINGS
        .iter()
        .map(|text| plain(text).include_folder(&folder.0))
        .collect();
    sources.push(plain(SPELLINGS[0]).option(option("-I")));
    sources.push(plain(SPELLINGS[0]).option(option("--include-path=")));
    sources.push(plain("").option(option("--pre-include=") + "/factor.h"));
    let by_header = plain("#include \"given.h\"").header("given.h", SPELLINGS[0]);
    sources.push(by_header.include_folder(&folder.0));
    for source in sources {
        for factor in [2, 3] {
            let text = format!("#define FACTOR {factor}");
            write_header(&folder.0.join("factor.h"), &text, 0)?;
            if factor == 3 {
                // Names without an extension are also searched for with this one.
                fs::write(folder.0.join("three.stdh"), "")?;
            }
            for _ in 0..2 {
                let values = scaled(device, &compile(device, &cache, source.clone())?)?;
                assert_eq!(values[0], factor as f32, "{source:?}");
            }
        }
        fs::remove_file(folder.0.join("three.stdh"))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_a_kernel_with_the_time_of_its_compilation_is_not_cached() -> Outcome {
    let device = &device();
    let folder = Folder::new("time");
    for text in ["__TIME__", "CAT(__TI, ME__)", "__DATE__"] {
        let text = format!(
            "#define CAT(a, b) a##b\n__device__ const char time[] = {text};\n\
             #define FACTOR (1 + (time[0] == 0))\n{SCALE}"
        );
        for _ in 0..2 {
            let source = Cuda::source("scale.cu", text.clone());
            assert!(
                !compile(device, &folder.0, source)?.is_from_cache(),
                "{text}"
            );
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_headers_are_searched_for_only_in_named_folders() -> Outcome {
    let device = &device();
    let folder = Folder::new("beside");
    fs::write(folder.0.join("beside.h"), "")?;
    // The working directory of tests is the crate's folder.
    let here = "#if __has_include(\"Cargo.toml\")\n#error found\n#endif\n";
    let source = |text: &str| {
        let name = folder.0.join("k.cu").display().to_string();
        Cuda::source(name, format!("{text}__global__ void k() {{}}")).without_cache()
    };
    device.compile(source(here))?;
    let beside = "#include \"beside.h\"\n";
    assert!(device.compile(source(beside)).is_err());
    device.compile(source(beside).include_folder(&folder.0))?;
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k03_the_environment_of_nvrtc_and_the_working_directory_count() -> Outcome {
    let folder = Folder::new("environment");
    let other = Folder::new("other-folder");
    let run = |here: &Path, variables: &[(&str, &str)]| {
        child::output(child::start_in(here, 5, &folder.0, variables)).contains("cached true")
    };
    let here = Path::new(".");
    assert!(!run(here, &[]));
    assert!(run(here, &[]));
    let flags = [("NVRTC_APPEND_FLAGS", "--use_fast_math")];
    assert!(!run(here, &flags) && !run(here, &flags));
    assert!(
        !run(&other.0, &[]),
        "line tables have the working directory"
    );
    assert!(run(&other.0, &[]) && run(here, &[]));
    Ok(())
}
