//! Errors of worlds: contradictory variables, ranks that do not meet, stores that fail.

use std::{fmt, sync::Arc, time::Duration};

/// The reason why a [`World`](crate::world::World) cannot be used.
///
/// ```
/// use millstream_collective::world::{World, WorldError};
///
/// let variables = |name: &str| match name {
///     "RANK" => Some("4".to_owned()),
///     "WORLD_SIZE" => Some("4".to_owned()),
///     _ => None,
/// };
/// let error = World::from_variables(variables).unwrap_err();
/// assert_eq!(error.to_string(), "RANK=4: must be less than WORLD_SIZE=4");
/// assert!(matches!(WorldError::of(&error), Some(WorldError::Variable { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// An environment variable is not valid, or contradicts another one.
    #[error("{variable}={value}: {problem}")]
    #[non_exhaustive]
    Variable {
        /// The variable's name.
        variable: Arc<str>,
        /// The variable's value.
        value: Arc<str>,
        /// The rule that the value breaks.
        problem: Arc<str>,
    },
    /// An environment variable is missing that belongs to one that is set.
    #[error("{variable} is not set, but {other} is: {advice}")]
    #[non_exhaustive]
    MissingVariable {
        /// The missing variable's name.
        variable: &'static str,
        /// A variable of the same group, which is set.
        other: &'static str,
        /// The thing to do.
        advice: &'static str,
    },
    /// A world has more ranks than a store serves.
    #[error("a world of {size} ranks exceeds the limit of {size_max}")]
    #[non_exhaustive]
    TooManyRanks {
        /// The number of ranks.
        size: usize,
        /// The largest number of ranks.
        size_max: usize,
    },
    /// A rank is not smaller than the number of ranks.
    #[error("rank {rank} is not in a world of {size} ranks")]
    #[non_exhaustive]
    RankOutOfRange {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
    /// This process has no device of its own among those of its machine.
    #[error(
        "local rank {local_rank} has no GPU of its own: this process sees {devices} GPUs; start at \
         most one rank for each"
    )]
    #[non_exhaustive]
    NoLocalDevice {
        /// The rank among those of this machine.
        local_rank: usize,
        /// The number of GPUs that the process can open.
        devices: usize,
    },
    /// Rank 0 cannot accept connections at its address.
    #[error("rank 0 cannot serve the other ranks at {address}: {cause}")]
    #[non_exhaustive]
    Serve {
        /// The address and port.
        address: Arc<str>,
        /// The system's message.
        cause: Arc<str>,
    },
    /// Rank 0 cannot be reached.
    #[error("rank {rank} cannot reach rank 0 at {address} within {deadline:?}: {cause}")]
    #[non_exhaustive]
    Unreachable {
        /// The rank that tried.
        rank: usize,
        /// The address and port.
        address: Arc<str>,
        /// The time that was given.
        deadline: Duration,
        /// The system's last message.
        cause: Arc<str>,
    },
    /// Some ranks have not connected in time.
    #[error(
        "{} of {size} ranks have not connected to {address} within {deadline:?}: {}",
        ranks.len(),
        RankList(ranks)
    )]
    #[non_exhaustive]
    MissingRanks {
        /// The missing ranks, in ascending order.
        ranks: Arc<[usize]>,
        /// The number of ranks of the world.
        size: usize,
        /// The address and port of rank 0.
        address: Arc<str>,
        /// The time that was given.
        deadline: Duration,
    },
    /// This rank and rank 0 disagree about the number of ranks.
    #[error(
        "rank {rank} has a world of {own_size} ranks, but rank 0 at {address} has one of \
         {other_size}"
    )]
    #[non_exhaustive]
    OtherSize {
        /// The rank that tried to connect.
        rank: usize,
        /// The number of ranks according to this rank.
        own_size: usize,
        /// The number of ranks according to rank 0.
        other_size: usize,
        /// The address and port of rank 0.
        address: Arc<str>,
    },
    /// The program at the address of rank 0 speaks another protocol, or another version of it.
    #[error(
        "{}, this program version {own_version} of Millstream's protocol: start the same program \
         on all ranks, and check the port",
        match other_version {
            Some(version) => format!("the program at {address} speaks version {version}"),
            None => format!("the program at {address} is not rank 0"),
        }
    )]
    #[non_exhaustive]
    OtherProtocol {
        /// The protocol's version of this program.
        own_version: u32,
        /// The protocol's version of the other program; `None` if it speaks another protocol.
        other_version: Option<u32>,
        /// The address and port.
        address: Arc<str>,
    },
    /// Two processes have the same rank.
    #[error("another process is connected to {address} as rank {rank} already")]
    #[non_exhaustive]
    RankTaken {
        /// The rank.
        rank: usize,
        /// The address and port of rank 0.
        address: Arc<str>,
    },
    /// This rank and rank 0 do not share a secret.
    #[error(
        "rank {rank} and rank 0 at {address} have different secrets: set MILLSTREAM_WORLD_SECRET \
         to the same text on all ranks"
    )]
    #[non_exhaustive]
    OtherSecret {
        /// The rank that tried to connect.
        rank: usize,
        /// The address and port of rank 0.
        address: Arc<str>,
    },
    /// The connection to rank 0 is lost.
    #[error("the connection to rank 0 at {address} is lost: {cause}")]
    #[non_exhaustive]
    ConnectionLost {
        /// The address and port of rank 0.
        address: Arc<str>,
        /// The system's message.
        cause: Arc<str>,
    },
    /// A key of the store was not set in time.
    #[error("the key `{key}` was not set within {deadline:?}")]
    #[non_exhaustive]
    NotSet {
        /// The key.
        key: Arc<str>,
        /// The time that was given.
        deadline: Duration,
    },
    /// A key or a value is longer than the store allows, or all of them together.
    #[error("the {part} of {bytes} bytes exceeds the limit of {bytes_max}")]
    #[non_exhaustive]
    TooLong {
        /// The part: `key` or `value`, or `store` for all.
        part: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The largest length in bytes.
        bytes_max: usize,
    },
    /// The program's own store cannot be used.
    #[error("the rendezvous failed: {cause}")]
    #[non_exhaustive]
    Store {
        /// The store's message.
        cause: Arc<str>,
    },
    /// A file of the store cannot be read or written.
    #[error("cannot use {path} as a store: {cause}")]
    #[non_exhaustive]
    Folder {
        /// The file or folder.
        path: Arc<str>,
        /// The system's message.
        cause: Arc<str>,
    },
}

impl From<WorldError> for millstream::Error {
    fn from(error: WorldError) -> Self {
        Self::World(Arc::new(error))
    }
}

impl WorldError {
    /// Returns the reason of an error, if it is one of a world.
    #[must_use]
    pub fn of(error: &millstream::Error) -> Option<&Self> {
        match error {
            millstream::Error::World(reason) => reason.downcast_ref(),
            _ => None,
        }
    }

    /// Creates the error of a [`Rendezvous`](crate::world::Rendezvous) for a key that was not set
    /// in time.
    #[must_use]
    pub fn not_set(key: &str, deadline: Duration) -> Self {
        let key = key.into();
        Self::NotSet { key, deadline }
    }

    /// Creates the error of a [`Rendezvous`](crate::world::Rendezvous) that cannot be used.
    #[must_use]
    pub fn store(cause: impl fmt::Display) -> Self {
        Self::Store {
            cause: cause.to_string().into(),
        }
    }
}

/// The longest list of ranks that is printed whole.
const RANKS_SHOWN: usize = 16;

/// A list of ranks, displayed as `1, 2, 5`.
struct RankList<'a>(&'a [usize]);

impl fmt::Display for RankList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ranks) = self;
        for (index, rank) in ranks.iter().take(RANKS_SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{rank}")?;
        }
        if ranks.len() > RANKS_SHOWN {
            write!(f, ", … {}", ranks[ranks.len() - 1])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_missing_ranks_is_bounded() {
        let missing = |ranks: Vec<usize>| WorldError::MissingRanks {
            ranks: ranks.into(),
            size: 100,
            address: "a:1".into(),
            deadline: Duration::from_secs(2),
        };
        assert_eq!(
            missing(vec![1, 7]).to_string(),
            "2 of 100 ranks have not connected to a:1 within 2s: 1, 7"
        );
        assert!(
            missing((1..100).collect())
                .to_string()
                .ends_with(": 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, … 99")
        );
    }
}
