//! A store that rank 0 serves over TCP.
//!
//! # Protocol
//!
//! A rank connects and sends a greeting: magic number, protocol version, world size, rank. Rank 0
//! answers with magic number, version, world size and a verdict, and closes the connection unless
//! the rank is admitted. From then on both send messages: an operation, a number that pairs a
//! request with its answer, a key and a value (`wire.rs`). When all ranks are connected, rank 0
//! tells each of them.
//!
//! A rank waits for its answers itself, with its own deadline, so rank 0 keeps no clock for others.
//! A connection that does not begin with a greeting is closed; a greeting has a fixed size, and at
//! most [`server::GREETINGS_MAX`] connections may be about to send theirs, so a stranger can
//! occupy little memory and no rank's place. The protocol is not encrypted, and has no password:
//! as with NCCL and MPI, the network between the ranks must be trusted.

mod client;
mod server;
mod wire;

use std::{fmt, net::TcpListener, time::Duration};

use super::rendezvous::{Rendezvous, check_lengths};
use crate::{Result, WorldError};
use client::Client;
use server::Server;

/// A store that rank 0 serves over TCP and to which the other ranks connect.
///
/// [`World::rendezvous`](crate::world::World::rendezvous) creates one from a launcher's variables.
/// Rank 0 serves until its store is dropped, on threads of its own.
///
/// ```
/// use std::{net::TcpListener, thread, time::Duration};
/// use millstream::world::{Rendezvous, TcpRendezvous};
///
/// let deadline = Duration::from_secs(10);
/// let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
/// let port = listener.local_addr().expect("it is bound").port();
/// let other = thread::spawn(move || {
///     let store = TcpRendezvous::connect("127.0.0.1", port, 1, 2, deadline)?;
///     store.get("id", deadline)
/// });
/// let store = TcpRendezvous::serve(listener, 2, deadline)?; // returns when rank 1 is connected
/// store.set("id", &[1, 2, 3])?;
/// assert_eq!(other.join().expect("no panic")?, [1, 2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct TcpRendezvous {
    end: End,
}

/// This rank's end of the connections.
enum End {
    Server(Server),
    Client(Client),
}

impl TcpRendezvous {
    /// Serves the store as rank 0 of a world of `size` ranks, and waits until all others are
    /// connected.
    ///
    /// # Errors
    ///
    /// [`WorldError::MissingRanks`] if not all ranks are connected within `deadline`;
    /// [`WorldError::Serve`] if no thread can be started for the listener.
    pub fn serve(listener: TcpListener, size: usize, deadline: Duration) -> Result<Self> {
        let server = Server::start(listener, size)?;
        server.wait_complete(deadline)?;
        Ok(Self {
            end: End::Server(server),
        })
    }

    /// Connects to rank 0 as rank `rank` of `size`, and waits until all others are connected.
    /// Repeats the attempt until `deadline` while rank 0 cannot be reached.
    ///
    /// # Errors
    ///
    /// [`WorldError::Unreachable`] or [`WorldError::MissingRanks`] after `deadline`;
    /// [`WorldError::OtherSize`], [`WorldError::OtherProtocol`] or [`WorldError::RankTaken`] at
    /// once if rank 0 does not admit this rank; [`WorldError::RankOutOfRange`] if `rank` is not
    /// less than `size`.
    pub fn connect(
        host: &str,
        port: u16,
        rank: usize,
        size: usize,
        deadline: Duration,
    ) -> Result<Self> {
        if rank >= size {
            return Err(WorldError::RankOutOfRange { rank, size }.into());
        }
        let client = Client::connect(host, port, rank, size, deadline)?;
        Ok(Self {
            end: End::Client(client),
        })
    }
}

impl Rendezvous for TcpRendezvous {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        check_lengths(key, value)?;
        match &self.end {
            End::Server(server) => server.set(key, value),
            End::Client(client) => client.set(key, value)?,
        }
        Ok(())
    }

    fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        check_lengths(key, &[])?;
        match &self.end {
            End::Server(server) => server.get(key, deadline),
            End::Client(client) => Ok(client.get(key, deadline)?),
        }
    }
}

impl fmt::Debug for TcpRendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Server(server) => write!(f, "TcpRendezvous(serving at {})", server.address()),
            End::Client(client) => write!(f, "TcpRendezvous(connected to {})", client.address()),
        }
    }
}

#[cfg(test)]
mod tests;
