//! Finds the shared library that rustc made beside the Rust library of a dependency.

use std::path::PathBuf;

/// Returns the shared library of a dependency whose crate types are `rlib` and `cdylib`. One call
/// of rustc makes both, in one folder and with one stem, so that the path of the Rust library,
/// among the `arguments` of the call of rustc that expands this macro, leads to the other one.
/// There is none where nothing is linked, as for `cargo check`.
pub(crate) fn beside_dependency(
    arguments: impl IntoIterator<Item = String>,
    dependency: &str,
) -> Option<PathBuf> {
    let rust_library = arguments.into_iter().find_map(|argument| {
        let argument = argument.strip_prefix("--extern=").unwrap_or(&argument);
        // Modifiers precede the name: `priv:name=path`.
        let (name, path) = argument.split_once('=')?;
        let path = PathBuf::from(path);
        let is_found = name.rsplit(':').next() == Some(dependency) && path.extension()? == "rlib";
        is_found.then_some(path)
    })?;
    let shared_library = std::path::absolute(rust_library.with_extension("so")).ok()?;
    shared_library.is_file().then_some(shared_library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_library_of_a_dependency_is_found_by_the_arguments_of_rustc() {
        let folder = std::env::temp_dir().join(format!("beside-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let built = folder.join("libdriver-1a2b.so");
        std::fs::write(&built, "").unwrap();
        let found = |argument: &str| {
            let argument = argument.replace("DIR", folder.to_str().unwrap());
            let arguments = ["rustc", "src/main.rs", "--extern"].map(str::to_owned);
            beside_dependency(arguments.into_iter().chain([argument]), "driver")
        };
        for argument in [
            "driver=DIR/libdriver-1a2b.rlib",
            "priv:driver=DIR/libdriver-1a2b.rlib",
            "--extern=driver=DIR/libdriver-1a2b.rlib",
        ] {
            assert_eq!(found(argument), Some(built.clone()), "{argument}");
        }
        for argument in [
            "driver=DIR/libdriver-1a2b.rmeta",
            "driver=DIR/libdriver-3c4d.rlib",
            "other=DIR/libdriver-1a2b.rlib",
            "driver",
        ] {
            assert_eq!(found(argument), None, "{argument}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
