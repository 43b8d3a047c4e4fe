//! Programs over cuda.core and Triton, which use these packages as their documentation shows.

use anyhow::Result;

use super::Setup;
use super::outcome::Outcomes;
use super::python::Tests;
use crate::process;

/// Runs the programs over cuda.core.
pub(super) fn core(setup: &Setup) -> Result<Outcomes> {
    run(setup, "test_core.py", &[])
}

/// Runs the kernels of Triton. Its cache of compiled kernels is below the target folder, and its
/// `ptxas` is a script that copies the PTX.
pub(super) fn triton(setup: &Setup) -> Result<Outcomes> {
    let ptxas = process::root().join("crates/cli/src/ptxas.sh");
    let variables = [
        ("TRITON_PTXAS_PATH", ptxas.clone()),
        ("TRITON_PTXAS_BLACKWELL_PATH", ptxas),
        ("TRITON_LIBCUDA_PATH", setup.driver.clone()),
        ("TRITON_CACHE_DIR", setup.folder.join("triton-cache")),
    ];
    let mut outcomes = run(setup, "test_triton.py", &variables)?;
    // For later devices Triton generates instructions of warp groups.
    let of_ampere = [("MILLSTREAM_KIND", "a100".into())];
    let variables = [&variables[..], &of_ampere].concat();
    outcomes
        .0
        .extend(run(setup, "test_triton_matrix.py", &variables)?.0);
    Ok(outcomes)
}

fn run(setup: &Setup, file: &str, variables: &[(&str, std::path::PathBuf)]) -> Result<Outcomes> {
    let path = process::root().join("xtask/clients").join(file);
    let tests = Tests {
        name: file.trim_end_matches(".py").to_owned(),
        arguments: vec![path.into_os_string()],
        variables: variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.into()))
            .collect(),
    };
    let mut outcomes = Outcomes::default();
    outcomes.add_lines(&tests.run(setup)?);
    Ok(outcomes)
}
