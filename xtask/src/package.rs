//! `cargo xtask package`: packages the published crates as a registry would, builds each from its
//! package, and runs README's first program against them in a crate of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::pages::{Block, blocks};
use crate::process;

/// PTX that a crate includes, with the original: a package has no files from outside of its folder.
const COPIES: [(&str, &str); 5] = [
    ("crates/bench/kernels/gate.ptx", "kernels/gate.ptx"),
    ("crates/bench/kernels/vecadd.ptx", "kernels/vecadd.ptx"),
    ("crates/cli/kernels/saxpy.ptx", "kernels/saxpy.ptx"),
    ("crates/runtime/kernels/vecadd.ptx", "kernels/vecadd.ptx"),
    ("examples/photos/kernels/photo.ptx", "kernels/photo.ptx"),
];

/// The crate that README's first program uses.
const USED: &str = "millstream";

/// The end of the address of a repository that has none.
const PLACEHOLDER: &str = ".invalid";

/// A crate that may be published.
#[derive(Debug, PartialEq)]
struct Crate {
    name: String,
    version: String,
}

/// Checks that the copies equal their originals. `cargo xtask tidy` checks it too.
pub(crate) fn check_copies() -> Result<()> {
    for (copy, original) in COPIES {
        ensure!(
            process::read(copy)? == process::read(original)?,
            "{copy} differs from {original}: copy it again"
        );
    }
    Ok(())
}

/// Checks the copies, packages, builds and runs.
pub(crate) fn run() -> Result<()> {
    check_copies()?;
    pack(&[])?;
    let program = process::read("README.md")?;
    let program = first_program(&program).context("README.md has no program with `fn main`")?;
    run_with_packages(&program)
}

/// Packages the published crates, and builds them unless an option says otherwise.
pub(crate) fn pack(options: &[&str]) -> Result<()> {
    let metadata = metadata()?;
    if metadata.contains(PLACEHOLDER) {
        println!("the repository has no address: set `repository` in [workspace.package]");
    }
    let crates = published(&metadata)?;
    forget_earlier(&crates)?;
    // Uncommitted changes are packaged as they are; CI has none.
    let mut package = process::cargo("package --allow-dirty");
    package.args(options);
    for Crate { name, .. } in &crates {
        package.args(["--package", name]);
    }
    process::run(package.env("CARGO_TARGET_DIR", output_folder()))
}

/// Returns the version of a published crate.
pub(crate) fn version(name: &str) -> Result<String> {
    let crates = published(&metadata()?)?;
    let found = crates.into_iter().find(|one| one.name == name);
    Ok(found
        .with_context(|| format!("{name} is not published"))?
        .version)
}

/// Returns cargo's `metadata` of the workspace.
fn metadata() -> Result<String> {
    process::output(&mut process::cargo("metadata --no-deps --format-version=1"))
}

fn output_folder() -> PathBuf {
    process::target_folder().join("packaged")
}

/// Removes what cargo has unpacked and built of earlier packages of these crates. While cargo
/// verifies packages it has a registry of them in the output folder, whose files it takes for
/// unchanged if the version is.
fn forget_earlier(crates: &[Crate]) -> Result<()> {
    process::remove_folder(&output_folder())?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let home = home.context("there is neither CARGO_HOME nor a home folder")?;
    for folder in ["src", "cache"] {
        let Ok(registries) = home.join("registry").join(folder).read_dir() else {
            continue;
        };
        for registry in registries {
            let registry = registry.context("cannot read cargo's registries")?;
            // The name of a registry is its host and a hash; a folder has no host.
            if !registry.file_name().to_string_lossy().starts_with('-') {
                continue;
            }
            for Crate { name, version } in crates {
                let unpacked = registry.path().join(format!("{name}-{version}"));
                let packed = unpacked.with_file_name(format!("{name}-{version}.crate"));
                process::remove_folder(&unpacked)?;
                // It is missing if the crate was never packaged.
                let _ = std::fs::remove_file(packed);
            }
        }
    }
    Ok(())
}

/// Unpacks the packages in a new folder.
pub(crate) fn unpack(folder: &Path) -> Result<()> {
    process::remove_folder(folder)?;
    std::fs::create_dir_all(folder).context("cannot create the folder of the packages")?;
    for Crate { name, version } in published(&metadata()?)? {
        let file = output_folder().join(format!("package/{name}-{version}.crate"));
        let mut tar = process::command("tar");
        process::run(tar.arg("-xzf").arg(file).arg("-C").arg(folder))?;
    }
    Ok(())
}

/// Runs `program` in a crate outside of the workspace that depends on the packages alone.
fn run_with_packages(program: &str) -> Result<()> {
    let user = process::target_folder().join("package-user");
    unpack(&user)?;
    process::write(&user.join("src/main.rs"), program)?;
    let manifest = format!(
        "[package]\nname = \"package-user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{USED} = \"{}\"\n\n[workspace]\n\n{}",
        version(USED)?,
        patches(&user)?
    );
    process::write(&user.join("Cargo.toml"), manifest)?;
    println!("README's first program, in {}:", user.display());
    let mut run = process::cargo("run --quiet");
    run.env("CARGO_TARGET_DIR", output_folder().join("user-target"));
    process::run(run.current_dir(&user).env("MILLSTREAM_DEVICE", "sim"))
}

/// Returns the lines of cargo's configuration that put every package, unpacked in a folder, in the
/// place of the registry's.
pub(crate) fn patches(unpacked: &Path) -> Result<String> {
    let mut patches = "[patch.crates-io]\n".to_owned();
    for Crate { name, version } in published(&metadata()?)? {
        let path = unpacked.join(format!("{name}-{version}"));
        patches.push_str(&format!("{name} = {{ path = {path:?} }}\n"));
    }
    Ok(patches)
}

/// Returns the crates of the workspace that may be published, by cargo's `metadata`.
fn published(metadata: &str) -> Result<Vec<Crate>> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo printed no JSON")?;
    let packages = metadata["packages"].as_array();
    let mut crates = Vec::new();
    for package in packages.context("cargo's metadata has no packages")? {
        // `publish = false` is an empty list of registries, and any registry is null.
        if package["publish"].is_null() {
            let text = |key: &str| {
                let text = package[key].as_str();
                text.map(str::to_owned)
                    .with_context(|| format!("a package has no {key}"))
            };
            crates.push(Crate {
                name: text("name")?,
                version: text("version")?,
            });
        }
    }
    if crates.is_empty() {
        bail!("no package may be published");
    }
    Ok(crates)
}

/// Returns the first Rust block of `readme` that is a whole program.
fn first_program(readme: &str) -> Option<String> {
    let is_program = |block: &Block| block.language == "rust" && block.text.contains("fn main()");
    let found = blocks(readme).into_iter().find(is_program)?;
    Some(found.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Crate {
        Crate {
            name: name.into(),
            version: "0.1.0".into(),
        }
    }

    #[test]
    fn the_first_whole_program_is_found() {
        let readme =
            "```rust\nlet part = 1;\n```\n```sh\nfn main()\n```\n```rust\nfn main() {}\n```";
        assert_eq!(first_program(readme), Some("fn main() {}\n".into()));
        assert_eq!(first_program("```rust\nlet part = 1;\n```"), None);
    }

    #[test]
    fn crates_that_are_not_published_are_left_out() {
        let metadata = r#"{"packages": [
            {"name": "a", "version": "0.1.0", "publish": null},
            {"name": "b", "version": "0.1.0", "publish": []}]}"#;
        assert_eq!(published(metadata).unwrap(), [one("a")]);
        assert!(published(r#"{"packages": []}"#).is_err());
    }

    #[test]
    fn the_page_on_publishing_names_every_crate_and_each_has_a_readme_and_licences() {
        let page = process::read("docs/publishing.md").unwrap();
        for Crate { name, .. } in published(&metadata().unwrap()).unwrap() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
            let folder = name.strip_prefix("millstream-").unwrap_or("runtime");
            for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
                let file = format!("crates/{folder}/{file}");
                assert!(process::root().join(&file).exists(), "{file}");
            }
        }
    }

    #[test]
    fn every_package_replaces_that_of_the_registry() {
        let patches = patches("/a b".as_ref()).unwrap();
        assert!(patches.starts_with("[patch.crates-io]\n"), "{patches}");
        assert!(patches.contains("\nmillstream-libcuda = { path = \"/a b/millstream-libcuda-"));
    }
}
