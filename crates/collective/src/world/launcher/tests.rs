//! Variables of every launcher, and every contradiction.

use super::*;

/// Parses texts `NAME=value` between semicolons.
fn membership(variables: &str) -> Result<Membership, String> {
    let lookup = |name: &str| {
        let found = variables
            .split("; ")
            .filter_map(|text| text.split_once('='));
        let mut found = found.filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| value.to_owned())
    };
    Membership::from_variables(&lookup).map_err(|error| error.to_string())
}

/// Rank, size, local rank, host and port.
type Place = (usize, usize, usize, Option<&'static str>, u16);

#[test]
fn each_launcher_has_its_variables() {
    let table: &[(&str, Place, &str)] = &[
        (
            "",
            (0, 1, 0, None, DEFAULT_PORT),
            "a world of one: no launcher has set its variables",
        ),
        (
            "MILLSTREAM_RANK=1; MILLSTREAM_WORLD_SIZE=4; MILLSTREAM_LOCAL_RANK=1; \
             MILLSTREAM_ADDRESS=a; MILLSTREAM_PORT=7; RANK=2; WORLD_SIZE=3",
            (1, 4, 1, Some("a"), 7),
            "Millstream's variables: MILLSTREAM_RANK, MILLSTREAM_WORLD_SIZE, \
             MILLSTREAM_LOCAL_RANK, MILLSTREAM_ADDRESS, MILLSTREAM_PORT",
        ),
        (
            "MILLSTREAM_RANK=1; MILLSTREAM_WORLD_SIZE=2; MASTER_ADDR=b",
            (1, 2, 0, Some("b"), DEFAULT_PORT),
            "Millstream's variables: MILLSTREAM_RANK, MILLSTREAM_WORLD_SIZE, MASTER_ADDR",
        ),
        // torchrun, within a step of Slurm.
        (
            "RANK=3; WORLD_SIZE=4; LOCAL_RANK=1; MASTER_ADDR=node7; MASTER_PORT=29500; \
             SLURM_PROCID=1; SLURM_NTASKS=2; SLURM_STEP_NODELIST=node[7-8]",
            (3, 4, 1, Some("node7"), 29_500),
            "torchrun: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
        ),
        // Kubeflow's PyTorchJob.
        (
            "RANK=1; WORLD_SIZE=2; MASTER_ADDR=job-master-0; MASTER_PORT=23456",
            (1, 2, 0, Some("job-master-0"), 23_456),
            "torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
        ),
        // Empty variables are not set.
        (
            "RANK=; WORLD_SIZE= ; OMPI_COMM_WORLD_RANK=0; OMPI_COMM_WORLD_SIZE=1",
            (0, 1, 0, None, DEFAULT_PORT),
            "Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE",
        ),
        // Open MPI on one machine.
        (
            "OMPI_COMM_WORLD_RANK=1; OMPI_COMM_WORLD_SIZE=2; OMPI_COMM_WORLD_LOCAL_RANK=1; \
             OMPI_COMM_WORLD_LOCAL_SIZE=2",
            (1, 2, 1, Some("127.0.0.1"), DEFAULT_PORT),
            "Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, \
             OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
        // Open MPI within a job of Slurm, whose daemons are one step.
        (
            "OMPI_COMM_WORLD_RANK=5; OMPI_COMM_WORLD_SIZE=8; OMPI_COMM_WORLD_LOCAL_RANK=1; \
             OMPI_COMM_WORLD_LOCAL_SIZE=4; SLURM_PROCID=1; SLURM_NTASKS=2; \
             SLURM_STEP_NODELIST=node8; SLURM_JOB_NODELIST=node[07-08]",
            (5, 8, 1, Some("node07"), DEFAULT_PORT),
            "Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, \
             OMPI_COMM_WORLD_LOCAL_SIZE, SLURM_JOB_NODELIST",
        ),
        // MPICH.
        (
            "PMI_RANK=2; PMI_SIZE=3; MPI_LOCALRANKID=2; MPI_LOCALNRANKS=3",
            (2, 3, 2, Some("127.0.0.1"), DEFAULT_PORT),
            "PMI: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS",
        ),
        // MPICH's daemon as a step of Slurm.
        (
            "PMI_RANK=2; PMI_SIZE=3; SLURM_PROCID=0; SLURM_NTASKS=1; SLURM_STEP_NODELIST=n; \
             MASTER_ADDR=n",
            (2, 3, 0, Some("n"), DEFAULT_PORT),
            "PMI: PMI_RANK, PMI_SIZE, MASTER_ADDR",
        ),
        // `srun --mpi=pmi2`.
        (
            "PMI_RANK=2; PMI_SIZE=3; SLURM_PROCID=2; SLURM_NTASKS=3; SLURM_LOCALID=1; \
             SLURM_STEP_NODELIST=gpu[1-2]",
            (2, 3, 1, Some("gpu1"), DEFAULT_PORT),
            "Slurm: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST",
        ),
        // A port of the user's choice.
        (
            "SLURM_PROCID=0; SLURM_NTASKS=2; SLURM_LOCALID=0; SLURM_STEP_NODELIST=x; \
             MASTER_PORT=4000",
            (0, 2, 0, Some("x"), 4000),
            "Slurm: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, MASTER_PORT",
        ),
        // A program that a batch script runs without `srun`.
        (
            "SLURM_PROCID=0; SLURM_NTASKS=8; SLURM_JOB_NODELIST=node[07-08]",
            (0, 1, 0, None, DEFAULT_PORT),
            "a world of one: SLURM_PROCID is set, but SLURM_STEP_NODELIST is not, so `srun` has \
             not started this process",
        ),
        // A shell of `salloc`.
        (
            "SLURM_NTASKS=8; SLURM_JOB_NODELIST=node[07-08]",
            (0, 1, 0, None, DEFAULT_PORT),
            "a world of one: no launcher has set its variables",
        ),
    ];
    for (variables, place, source) in table {
        let found = membership(variables).expect("the variables are valid");
        let Membership {
            rank,
            size,
            local_rank,
            port,
            ..
        } = found;
        let address = found.address.as_deref();
        assert_eq!(
            (rank, size, local_rank, address, port),
            *place,
            "{variables:?}"
        );
        assert_eq!(found.source, *source, "{variables:?}");
    }
}

#[test]
fn contradictions_are_errors_that_name_the_variable_and_its_value() {
    let table: &[(&str, &str)] = &[
        (
            "RANK=0",
            "WORLD_SIZE is not set, but RANK is: a launcher sets both or neither",
        ),
        (
            "MILLSTREAM_WORLD_SIZE=2",
            "MILLSTREAM_RANK is not set, but MILLSTREAM_WORLD_SIZE is: a launcher sets both or \
             neither",
        ),
        (
            "PMI_RANK=0",
            "PMI_SIZE is not set, but PMI_RANK is: a launcher sets both or neither",
        ),
        (
            "SLURM_PROCID=0; SLURM_STEP_NODELIST=a",
            "SLURM_NTASKS is not set, but SLURM_PROCID is: a launcher sets both or neither",
        ),
        (
            "RANK=2; WORLD_SIZE=2",
            "RANK=2: must be less than WORLD_SIZE=2",
        ),
        ("RANK=-1; WORLD_SIZE=2", "RANK=-1: must be a number"),
        ("RANK=0; WORLD_SIZE=two", "WORLD_SIZE=two: must be a number"),
        (
            "RANK=0; WORLD_SIZE=0",
            "WORLD_SIZE=0: a world has at least one rank",
        ),
        (
            "MILLSTREAM_RANK=0; MILLSTREAM_WORLD_SIZE=1000000000000",
            "MILLSTREAM_WORLD_SIZE=1000000000000: a world has at most 65536 ranks",
        ),
        (
            "RANK=0; WORLD_SIZE=2; LOCAL_RANK=2",
            "LOCAL_RANK=2: must be less than WORLD_SIZE=2",
        ),
        (
            "RANK=0; WORLD_SIZE=2; MASTER_PORT=1",
            "MASTER_ADDR is not set, but WORLD_SIZE is: set it to the host of rank 0",
        ),
        (
            "RANK=0; WORLD_SIZE=2; MASTER_ADDR=a",
            "MASTER_PORT is not set, but WORLD_SIZE is: set it to a free port of rank 0's host",
        ),
        (
            "RANK=0; WORLD_SIZE=2; MASTER_ADDR=a; MASTER_PORT=65535",
            "MASTER_PORT=65535: must be from 1 to 65534, because the rendezvous uses the next port",
        ),
        (
            "MILLSTREAM_RANK=0; MILLSTREAM_WORLD_SIZE=2",
            "MILLSTREAM_ADDRESS is not set, but MILLSTREAM_WORLD_SIZE is: set it to the host of \
             rank 0",
        ),
        (
            "OMPI_COMM_WORLD_RANK=0; OMPI_COMM_WORLD_SIZE=4; OMPI_COMM_WORLD_LOCAL_SIZE=2",
            "MASTER_ADDR is not set, but OMPI_COMM_WORLD_SIZE is: pass the host of rank 0 to all \
             ranks: `mpirun -x MASTER_ADDR=host`",
        ),
        (
            "SLURM_PROCID=0; SLURM_NTASKS=2; SLURM_STEP_NODELIST=a[",
            "SLURM_STEP_NODELIST=a[: is not a list of hosts",
        ),
    ];
    for (variables, text) in table {
        let error = membership(variables).expect_err("the variables contradict each other");
        assert_eq!(error, *text, "{variables:?}");
    }
}
