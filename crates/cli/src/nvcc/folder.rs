//! The folder for the linker: files by which the linker finds the shared runtime library, under its
//! name and under that of the static one. It is kept: later builds link with the host's compiler.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

/// The name of the static runtime library.
pub(crate) const STATIC: &str = "libcudart_static.a";

/// Returns the folder for a compiler, and writes its files if they are missing.
pub(crate) fn prepare(nvcc: &Path) -> Result<PathBuf, String> {
    let nvcc = nvcc.canonicalize().unwrap_or_else(|_| nvcc.to_owned());
    let mut hasher = DefaultHasher::new();
    nvcc.hash(&mut hasher);
    let folder = cache().join(format!("nvcc-{:016x}", hasher.finish()));
    let Some(library) = shared_library(&nvcc) else {
        return Err(format!("found no libcudart.so beside {}", nvcc.display()));
    };
    // Linkers take a text file for a script.
    let text = format!("/* GNU ld script */\nINPUT ( \"{}\" )\n", library.display());
    for file in [STATIC, "libcudart.so"].map(|name| folder.join(name)) {
        if fs::read_to_string(&file).is_ok_and(|found| found == text) {
            continue;
        }
        // Other compilations may run at the same time: the file appears as a whole.
        let own = folder.join(format!("new-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&own, &text))
            .and_then(|()| fs::rename(&own, file))
            .map_err(|error| format!("cannot write to {}: {error}", folder.display()))?;
    }
    Ok(folder)
}

/// Returns the user's folder for files that can be made again.
fn cache() -> PathBuf {
    let named = |name: &str| Some(PathBuf::from(env::var_os(name)?)).filter(|it| it.is_absolute());
    let home = || Some(named("HOME")?.join(".cache"));
    let cache = named("XDG_CACHE_HOME").or_else(home);
    cache.unwrap_or_else(env::temp_dir).join("millstream")
}

/// Returns the newest shared runtime library beside the compiler.
fn shared_library(nvcc: &Path) -> Option<PathBuf> {
    let top = nvcc.parent()?.parent()?;
    // The last one is that of a package of Python for CUDA 12.
    let folders = ["lib64", "lib", "../cuda_runtime/lib"].map(|folder| top.join(folder));
    folders.iter().find_map(|folder| {
        let files = fs::read_dir(folder).ok()?.flatten();
        let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let newest = names
            .filter(|name| name.starts_with("libcudart.so."))
            .max()?;
        Some(folder.join(newest))
    })
}
