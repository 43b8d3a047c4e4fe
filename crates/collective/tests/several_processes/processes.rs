//! Processes of the tests: the test program starts itself again for each rank, with the variables
//! that a launcher would set.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command, Stdio},
};

use crate::several_processes::prelude::*;

/// The time within which everything succeeds.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The variable that names the program of a rank.
pub(crate) const PROGRAM: &str = "RANK_PROGRAM";

/// The variables of every launcher, which a child must not inherit.
const INHERITED: &str = "MILLSTREAM_RANK MILLSTREAM_WORLD_SIZE MILLSTREAM_LOCAL_RANK \
    MILLSTREAM_ADDRESS MILLSTREAM_PORT MILLSTREAM_WORLD_SECRET RANK WORLD_SIZE LOCAL_RANK \
    MASTER_ADDR MASTER_PORT OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK \
    OMPI_COMM_WORLD_LOCAL_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS SLURM_LOCALID \
    SLURM_STEP_NODELIST";

/// Starts this program as one rank that runs `program`, with these variables.
pub(crate) fn start(program: &str, variables: &[(&str, String)]) -> Child {
    let mut command = Command::new(env::current_exe().expect("the test's own program"));
    command.args([
        "--exact",
        "several_processes::inner_rank",
        "--include-ignored",
        "--nocapture",
    ]);
    for name in INHERITED.split(' ') {
        command.env_remove(name);
    }
    command.env(PROGRAM, program);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the process starts")
}

/// Starts all ranks of a world that a launcher describes. More ranks than GPUs use simulated
/// devices, which the output says.
pub(crate) fn start_all(program: &str, launcher: Launcher, size: usize) -> Vec<Child> {
    let port = port();
    let gpus = Device::count().expect("devices can be counted") as usize;
    let simulated = (1..size).contains(&gpus).then(|| {
        println!("{program}: {size} ranks on simulated devices, because there are {gpus} GPUs");
        ("MILLSTREAM_DEVICE", "sim".to_owned())
    });
    (0..size)
        .map(|rank| {
            let mut variables = launcher(rank, size, port);
            variables.extend(simulated.clone());
            start(program, &variables)
        })
        .collect()
}

/// Returns the line of the output that begins with `result `, without that word.
pub(crate) fn result(child: Child) -> String {
    let output = child.wait_with_output().expect("the process ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("result "));
    let line = line.map(ToOwned::to_owned);
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns a value for `MASTER_PORT` whose next port is free.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port() - 1
}

type Variables = Vec<(&'static str, String)>;

/// Variables of rank `rank` of `size`, as one launcher sets them.
pub(crate) type Launcher = fn(rank: usize, size: usize, port: u16) -> Variables;

fn variables(names: [&'static str; 5], numbers: [usize; 3], host: &str, port: u16) -> Variables {
    let numbers = numbers.map(|number| number.to_string()).into_iter();
    let values = numbers.chain([host.to_owned(), port.to_string()]);
    names.into_iter().zip(values).collect()
}

pub(crate) fn torchrun(rank: usize, size: usize, port: u16) -> Variables {
    let names = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    ];
    variables(names, [rank, size, rank], "localhost", port)
}

pub(crate) fn open_mpi(rank: usize, size: usize, port: u16) -> Variables {
    let [own, all] = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
    let [local, locals] = ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"];
    let names = [own, all, local, locals, "MASTER_PORT"];
    variables(names, [rank, size, rank], &size.to_string(), port)
}

pub(crate) fn slurm(rank: usize, size: usize, port: u16) -> Variables {
    let [own, all, local] = ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"];
    let names = [own, all, local, "SLURM_STEP_NODELIST", "MASTER_PORT"];
    variables(names, [rank, size, rank], "localhost", port)
}
