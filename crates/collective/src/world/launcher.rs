//! The environment variables of launchers.

use super::WorldError;
use super::{node_list::first_host, rendezvous::RANKS_MAX, tcp::Secret};

/// The port that ranks assume if no variable names one. The rendezvous uses the next one.
pub const DEFAULT_PORT: u16 = 29_510;

/// The variable that holds the secret of the ranks.
const SECRET: &str = "MILLSTREAM_WORLD_SECRET";

/// The address of a world whose ranks are all on this machine.
const THIS_MACHINE: &str = "127.0.0.1";

/// The place of this process in its world.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Membership {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) local_rank: usize,
    /// The host of rank 0; `None` only if there is no other rank, or no TCP.
    pub(super) address: Option<String>,
    pub(super) port: u16,
    pub(super) secret: Secret,
    pub(super) source: String,
}

/// A launcher, by the variables that it sets.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    /// The number of ranks on this machine, if the launcher tells it.
    local_size: Option<&'static str>,
    /// Lists of hosts of which the first has rank 0.
    nodes: &'static [&'static str],
    /// The advice if the launcher gives no address and none is known.
    address_advice: &'static str,
}

const MILLSTREAM: Launcher = Launcher {
    name: "Millstream's variables",
    rank: "MILLSTREAM_RANK",
    size: "MILLSTREAM_WORLD_SIZE",
    local_rank: "MILLSTREAM_LOCAL_RANK",
    local_size: None,
    nodes: &[],
    address_advice: "set it to the host of rank 0",
};

const TORCHRUN: Launcher = Launcher {
    name: "torchrun",
    rank: "RANK",
    size: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_size: None,
    nodes: &[],
    address_advice: "set it to the host of rank 0",
};

const OPEN_MPI: Launcher = Launcher {
    name: "Open MPI",
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
    local_size: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
    nodes: &["SLURM_JOB_NODELIST"],
    address_advice: "pass the host of rank 0 to all ranks: `mpirun -x MASTER_ADDR=host`",
};

const PMI: Launcher = Launcher {
    name: "PMI",
    rank: "PMI_RANK",
    size: "PMI_SIZE",
    local_rank: "MPI_LOCALRANKID",
    local_size: Some("MPI_LOCALNRANKS"),
    nodes: &["SLURM_JOB_NODELIST"],
    address_advice: "pass the host of rank 0 to all ranks: `mpiexec -genv MASTER_ADDR host`",
};

const SLURM: Launcher = Launcher {
    name: "Slurm",
    rank: "SLURM_PROCID",
    size: "SLURM_NTASKS",
    local_rank: "SLURM_LOCALID",
    local_size: None,
    nodes: &["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"],
    address_advice: "set it to the host of rank 0",
};

/// The variable that is set only in steps of Slurm's jobs, whose processes `srun` has started.
const SLURM_STEP: &str = "SLURM_STEP_NODELIST";

/// The variables of a process. Empty ones count as not set.
struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    /// The names of the variables that were used.
    used: Vec<&'static str>,
}

impl Membership {
    /// Returns the place that these variables describe.
    pub(super) fn from_variables(
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, WorldError> {
        let mut variables = Variables {
            lookup,
            used: Vec::new(),
        };
        for launcher in [&MILLSTREAM, &TORCHRUN, &OPEN_MPI] {
            if variables.has(launcher.rank) || variables.has(launcher.size) {
                return launcher.membership(variables);
            }
        }
        let in_step = variables.has(SLURM.rank) && variables.has(SLURM_STEP);
        if variables.has(PMI.rank) || variables.has(PMI.size) {
            // Slurm's own PMI; otherwise the variables are of the step that started MPI's daemon.
            let agree = in_step
                && variables.text(PMI.rank) == variables.text(SLURM.rank)
                && variables.text(PMI.size) == variables.text(SLURM.size);
            variables.used.clear();
            return if agree { &SLURM } else { &PMI }.membership(variables);
        }
        if in_step {
            return SLURM.membership(variables);
        }
        let source = if variables.has(SLURM.rank) {
            "a world of one: SLURM_PROCID is set, but SLURM_STEP_NODELIST is not, so `srun` has \
             not started this process"
        } else {
            "a world of one: no launcher has set its variables"
        };
        Ok(Self {
            rank: 0,
            size: 1,
            local_rank: 0,
            address: None,
            port: DEFAULT_PORT,
            secret: Secret::default(),
            source: source.to_owned(),
        })
    }
}

impl Launcher {
    fn membership(&self, mut variables: Variables<'_>) -> Result<Membership, WorldError> {
        let pair = |variable, other| WorldError::MissingVariable {
            variable,
            other,
            advice: "a launcher sets both or neither",
        };
        let Some(rank) = variables.number(self.rank)? else {
            return Err(pair(self.rank, self.size));
        };
        let Some(size) = variables.number(self.size)? else {
            return Err(pair(self.size, self.rank));
        };
        if size == 0 {
            return Err(variables.invalid(self.size, "a world has at least one rank"));
        }
        if size > RANKS_MAX {
            let problem = format!("a world has at most {RANKS_MAX} ranks");
            return Err(variables.invalid(self.size, &problem));
        }
        let below_size = format!("must be less than {}={size}", self.size);
        if rank >= size {
            return Err(variables.invalid(self.rank, &below_size));
        }
        let local_rank = variables.number(self.local_rank)?.unwrap_or(0);
        if local_rank >= size {
            return Err(variables.invalid(self.local_rank, &below_size));
        }
        let address = if size == 1 {
            None
        } else {
            Some(self.address(&mut variables, size)?)
        };
        let port = self.port(&mut variables, size)?;
        let secret = variables.text(SECRET).unwrap_or_default();
        Ok(Membership {
            rank,
            size,
            local_rank,
            address,
            port,
            secret: Secret(secret.into_bytes().into()),
            source: format!("{}: {}", self.name, variables.used.join(", ")),
        })
    }

    fn address(&self, variables: &mut Variables<'_>, size: usize) -> Result<String, WorldError> {
        for name in ["MILLSTREAM_ADDRESS", "MASTER_ADDR"] {
            if let Some(host) = variables.text(name) {
                return Ok(host);
            }
        }
        if let Some(local_size) = self.local_size
            && variables.has(local_size)
            && variables.number(local_size)? == Some(size)
        {
            return Ok(THIS_MACHINE.to_owned());
        }
        for name in self.nodes {
            if let Some(list) = variables.text(name) {
                let first = first_host(&list);
                return first.ok_or_else(|| variables.invalid(name, "is not a list of hosts"));
            }
        }
        let variable = if self.rank == MILLSTREAM.rank {
            "MILLSTREAM_ADDRESS"
        } else {
            "MASTER_ADDR"
        };
        Err(WorldError::MissingVariable {
            variable,
            other: self.size,
            advice: self.address_advice,
        })
    }

    /// Returns the port of which the rendezvous uses the next.
    fn port(&self, variables: &mut Variables<'_>, size: usize) -> Result<u16, WorldError> {
        for name in ["MILLSTREAM_PORT", "MASTER_PORT"] {
            let Some(port) = variables.number(name)? else {
                continue;
            };
            let valid = u16::try_from(port)
                .ok()
                .filter(|port| (1..u16::MAX).contains(port));
            let problem = "must be from 1 to 65534, because the rendezvous uses the next port";
            return valid.ok_or_else(|| variables.invalid(name, problem));
        }
        if self.rank == TORCHRUN.rank && size > 1 {
            return Err(WorldError::MissingVariable {
                variable: "MASTER_PORT",
                other: self.size,
                advice: "set it to a free port of rank 0's host",
            });
        }
        Ok(DEFAULT_PORT)
    }
}

impl Variables<'_> {
    fn value(&self, name: &str) -> Option<String> {
        let value = (self.lookup)(name)?;
        let trimmed = value.trim();
        (!trimmed.is_empty()).then(|| trimmed.to_owned())
    }

    fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns the value of a variable and notes that it was used.
    fn text(&mut self, name: &'static str) -> Option<String> {
        let value = self.value(name)?;
        self.used.push(name);
        Some(value)
    }

    fn number(&mut self, name: &'static str) -> Result<Option<usize>, WorldError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        let number = value.parse();
        number
            .map(Some)
            .map_err(|_| self.invalid(name, "must be a number"))
    }

    fn invalid(&self, name: &str, problem: &str) -> WorldError {
        WorldError::Variable {
            variable: name.into(),
            value: self.value(name).unwrap_or_default().into(),
            problem: problem.into(),
        }
    }
}

#[cfg(test)]
mod tests;
