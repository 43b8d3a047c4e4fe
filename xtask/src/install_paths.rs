//! `cargo xtask install-paths`: installs the command `millstream` in every way that
//! docs/without-a-gpu has, each in an empty folder, and runs the commands of its pages there.
//!
//! Nothing is published yet, so pip finds the wheel, and cargo the packages, in cargo's output
//! folder; all else comes from the registries. The empty folders are outside of the repository,
//! because cargo and pytest also read the configuration of the folders above.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::pages::{Block, blocks};
use crate::{clients::install, package, process, release};

/// The arguments of `cargo xtask install-paths`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only these.
    #[arg(long, value_enum)]
    only: Vec<Way>,
    /// Take the wheel and the packages that an earlier run made.
    #[arg(long)]
    built: bool,
}

/// A way to install and to use the command.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Way {
    /// The wheel, for each version of Python.
    Pythons,
    /// The page on Python.
    Python,
    /// The page on C++.
    Cpp,
    /// The page on Rust, with the command that cargo installs from the packages.
    Packages,
    /// The page on Rust, with the command that cargo installs from the repository.
    Clone,
    /// The archive.
    Archive,
    /// The action for GitHub.
    Action,
    /// The template for GitLab.
    Template,
}

/// The versions of Python that the wheel supports.
const PYTHONS: [&str; 5] = ["3.9", "3.10", "3.11", "3.12", "3.13"];

const PAGES: &str = "docs/without-a-gpu";

struct Setup {
    folder: PathBuf,
    /// The folder of the wheel and the archive.
    files: PathBuf,
}

/// Runs all ways, and prints how long each took.
pub(crate) fn run(options: &Options) -> Result<()> {
    let setup = Setup {
        folder: std::env::temp_dir().join("millstream-install-paths"),
        files: process::target_folder().join("release-files"),
    };
    let mut times = Vec::new();
    let mut timed = |name: String, work: &dyn Fn() -> Result<()>| {
        println!("\n==== {name}");
        let start = Instant::now();
        let result = work().with_context(|| name.clone());
        times.push(format!("{:7.1} s  {name}", start.elapsed().as_secs_f64()));
        result
    };
    if !options.built {
        timed("packages".into(), &|| package::pack(&["--no-verify"]))?;
        timed("wheel and archive".into(), &|| {
            release::command(&release::TARGETS[..1]).map(drop)
        })?;
    }
    for way in Way::value_variants() {
        if options.only.is_empty() || options.only.contains(way) {
            timed(format!("{way:?}"), &|| setup.run(*way))?;
        }
    }
    println!("\n{}", times.join("\n"));
    Ok(())
}

impl Setup {
    fn run(&self, way: Way) -> Result<()> {
        let name = format!("{way:?}").to_lowercase();
        let folder = self.folder.join(&name);
        process::remove_folder(&folder)?;
        match way {
            Way::Pythons => self.pythons(&folder),
            Way::Python | Way::Cpp => self.page(&format!("{name}.md"), &folder, None),
            Way::Packages => {
                let packages = folder.join("packages");
                package::unpack(&packages)?;
                let patches = package::patches(&packages)?;
                process::write(&folder.join(".cargo/config.toml"), patches)?;
                let version = package::version("millstream-cli")?;
                self.cargo_install(&packages.join(format!("millstream-cli-{version}")), &folder)
            }
            Way::Clone => self.cargo_install(&process::root().join("crates/cli"), &folder),
            Way::Archive => self.archive(&folder),
            Way::Action => self.steps("action.yml", &folder),
            Way::Template => self.steps("templates/millstream.yml", &folder),
        }
    }

    /// Installs the wheel for each Python that this machine has, and runs the tests of the page on
    /// Python.
    fn pythons(&self, folder: &Path) -> Result<()> {
        let mut missing = Vec::new();
        for version in PYTHONS {
            let python = format!("python{version}");
            // The versions that pyenv has, of which not all are in use.
            let mut command = process::command(&python);
            command.env("PYENV_VERSION", version);
            if !process::succeeds(command.arg("--version")) {
                missing.push(python);
                continue;
            }
            let start = Instant::now();
            let page = process::read(&format!("{PAGES}/python.md"))?;
            let mut blocks = blocks(&page);
            let commands = blocks.iter().position(|block| block.language == "sh");
            let commands = commands.context("the page has no commands")?;
            blocks.truncate(commands + 1);
            let text = &mut blocks[commands].text;
            *text = text.replace("python3 -m venv", &format!("{python} -m venv"));
            let mut variables = vec![("PYENV_VERSION", version)];
            if version == "3.9" {
                *text = text.replace("requirements", "requirements-3.9");
                variables.push(("NUMBA_CUDA_USE_NVIDIA_BINDING", "0"));
            }
            self.follow(&blocks, &folder.join(&python), None, &variables)?;
            println!("{python}: {:.1} s", start.elapsed().as_secs_f64());
        }
        ensure!(missing.len() < PYTHONS.len(), "there is no Python");
        println!("not here: {missing:?}");
        Ok(())
    }

    /// Installs the command with cargo, and follows the page on Rust with it.
    fn cargo_install(&self, package: &Path, folder: &Path) -> Result<()> {
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--path"]).arg(package);
        cargo
            .arg("--root")
            .arg(folder)
            .env_remove("CARGO_TARGET_DIR");
        process::run(cargo.current_dir(folder_of(folder)?))?;
        self.page("rust.md", &folder.join("page"), Some(&folder.join("bin")))
    }

    /// Unpacks the archive, and follows the page on C++ with it.
    fn archive(&self, folder: &Path) -> Result<()> {
        let [archive] = &release::files(&self.files, "x86_64-linux.tar.gz")?[..] else {
            bail!("there is no archive");
        };
        let mut check = process::command("sha256sum");
        check.args(["--ignore-missing", "-c", "SHA256SUMS"]);
        process::run(check.current_dir(&self.files))?;
        let mut tar = Command::new("tar");
        tar.current_dir(folder_of(folder)?).arg("-xzf");
        process::run(tar.arg(self.files.join(archive)))?;
        let programs = folder.join(archive.trim_end_matches(".tar.gz")).join("bin");
        let page = process::read(&format!("{PAGES}/cpp.md"))?;
        let mut blocks = blocks(&page);
        for block in &mut blocks {
            block.text = block
                .text
                .replace("install --quiet millstream ", "install --quiet ");
        }
        self.follow(&blocks, &folder.join("page"), Some(&programs), &[])
    }

    /// Runs the commands of an action or template, in the folder of the page on Python: with tests
    /// that are right, tests that race, and tests that use no device.
    fn steps(&self, file: &str, folder: &Path) -> Result<()> {
        let project = self.folder.join("python");
        ensure!(project.join("env").is_dir(), "run the page on Python first");
        let python = install::python(&self.folder.join("steps"), "xtask/install/requirements.txt")?;
        for (index, (tests, succeeds)) in [
            ("python -m pytest test_scale.py", true),
            ("python -m pytest test_race.py", false),
            ("python -c 'no_device = True'", false),
        ]
        .into_iter()
        .enumerate()
        {
            let own = folder.join(index.to_string());
            let mut steps = Command::new(&python);
            steps.arg(process::root().join("xtask/install/steps.py"));
            steps.arg(process::root().join(file)).arg(&own);
            let project = project.display();
            steps.arg(format!(
                "run=cd '{project}' && . env/bin/activate && {tests}"
            ));
            steps.current_dir(folder_of(&own)?);
            let status = self.with_wheel(&mut steps).status()?;
            println!("`{tests}`: {status}");
            ensure!(status.success() == succeeds, "the status is wrong");
            for report in ["millstream-report.jsonl", "millstream.sarif"] {
                ensure!(own.join(report).is_file(), "there is no {report}");
            }
        }
        Ok(())
    }

    fn page(&self, page: &str, folder: &Path, programs: Option<&Path>) -> Result<()> {
        let page = process::read(&format!("{PAGES}/{page}"))?;
        self.follow(&blocks(&page), folder, programs, &[])
    }

    /// Does what a page says in an empty folder, with a further folder of programs.
    fn follow(
        &self,
        blocks: &[Block],
        folder: &Path,
        programs: Option<&Path>,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = programs
            .map(Path::to_owned)
            .into_iter()
            .chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path)?;
        let mut output = String::new();
        for Block {
            file,
            language,
            text,
        } in blocks
        {
            if let Some(file) = file {
                process::write(&folder.join(file), text)?;
            } else if language == "sh" {
                let mut bash = Command::new("bash");
                bash.args(["-euo", "pipefail", "-c"])
                    .arg(format!("exec 2>&1\n{text}"));
                bash.current_dir(folder_of(folder)?).env("PATH", &path);
                bash.env_remove("CARGO_TARGET_DIR")
                    .envs(variables.iter().copied());
                let done = self.with_wheel(&mut bash).output()?;
                output = String::from_utf8_lossy(&done.stdout).into_owned();
                println!("{text}{output}");
                ensure!(done.status.success(), "it failed in {}", folder.display());
            } else if language == "text" {
                for line in text.lines() {
                    ensure!(output.contains(line.trim()), "`{line}` was not printed");
                }
            }
        }
        Ok(())
    }

    /// Makes pip find the wheel.
    fn with_wheel<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("PIP_FIND_LINKS", &self.files)
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env_remove("MILLSTREAM_DEVICE")
    }
}

/// Creates a folder, and returns it.
fn folder_of(folder: &Path) -> Result<&Path> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
