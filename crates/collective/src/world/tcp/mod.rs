//! A store that rank 0 serves over TCP.
//!
//! # Protocol
//!
//! A rank connects and sends a greeting: magic number, protocol version, world size, rank. Rank 0
//! answers with magic number, version, world size and a verdict, and closes the connection unless
//! the verdict is a challenge: a random number follows it, the rank sends a random number of its
//! own and the HMAC of both under the secret of the world, and rank 0 admits it with another HMAC
//! of both (`secret.rs`). From then on both send messages: an operation, a number that pairs a
//! request with its answer, a key and a value (`wire.rs`). When all ranks are connected, rank 0
//! tells each of them. The messages are neither encrypted nor signed.
//!
//! # Bounds
//!
//! A rank waits for its answers itself, with its own deadline, and takes a request back that it
//! gives up, so rank 0 keeps no clock for others. A thread of each connection writes (`outbox.rs`),
//! so that a receiver that does not read stalls only its own requests; no lock is held meanwhile.
//! The handshake and each message have one deadline from the first byte to the last. At most
//! [`server::GREETINGS_MAX`] connections are not admitted yet, of which one more closes the oldest,
//! so that a rank gets through although strangers connect. Sizes of worlds, keys, values and of the
//! whole store, the requests that wait, and the answers that are not read yet are limited.

mod client;
mod outbox;
mod secret;
mod server;
mod wire;

use std::{fmt, net::TcpListener, time::Duration};

use super::rendezvous::{Rendezvous, check_lengths, check_size};
use millstream::Result;

use super::WorldError;
use client::Client;
pub(super) use secret::Secret;
use server::Server;

/// A store that rank 0 serves over TCP and to which the other ranks connect.
///
/// [`World::rendezvous`](crate::world::World::rendezvous) creates one from a launcher's variables.
/// Rank 0 serves until its store is dropped, on threads of its own.
///
/// ```
/// use std::{net::TcpListener, thread, time::Duration};
/// use millstream_collective::world::{Rendezvous, TcpRendezvous};
///
/// let deadline = Duration::from_secs(10);
/// let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
/// let port = listener.local_addr().expect("it is bound").port();
/// let other = thread::spawn(move || {
///     let store = TcpRendezvous::connect("127.0.0.1", port, 1, 2, b"", deadline)?;
///     store.get("id", deadline)
/// });
/// // Returns when rank 1 is connected.
/// let store = TcpRendezvous::serve(listener, 2, b"", deadline)?;
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
    /// connected. Only ranks that know the secret are admitted, which is not sent; it should have
    /// 16 random bytes or more. If it is empty, every process that reaches the listener is
    /// admitted.
    ///
    /// # Errors
    ///
    /// [`WorldError::MissingRanks`] if not all ranks are connected within `deadline`;
    /// [`WorldError::TooManyRanks`] for more than 65,536; [`WorldError::Serve`] if no thread can be
    /// started for the listener.
    pub fn serve(
        listener: TcpListener,
        size: usize,
        secret: &[u8],
        deadline: Duration,
    ) -> Result<Self> {
        check_size(size)?;
        let server = Server::start(listener, size, Secret(secret.into()))?;
        server.wait_complete(deadline)?;
        Ok(Self {
            end: End::Server(server),
        })
    }

    /// Connects to rank 0, which knows the same secret, as rank `rank` of `size`, and waits until
    /// all others are connected. Repeats the attempt until `deadline` while rank 0 cannot be
    /// reached.
    ///
    /// # Errors
    ///
    /// [`WorldError::Unreachable`] or [`WorldError::MissingRanks`] after `deadline`;
    /// [`WorldError::OtherSize`], [`WorldError::OtherProtocol`], [`WorldError::OtherSecret`] or
    /// [`WorldError::RankTaken`] at once if rank 0 does not admit this rank;
    /// [`WorldError::RankOutOfRange`] if `rank` is not less than `size`, and
    /// [`WorldError::TooManyRanks`] for more than 65,536.
    pub fn connect(
        host: &str,
        port: u16,
        rank: usize,
        size: usize,
        secret: &[u8],
        deadline: Duration,
    ) -> Result<Self> {
        check_size(size)?;
        if rank >= size {
            return Err(WorldError::RankOutOfRange { rank, size }.into());
        }
        let secret = Secret(secret.into());
        let client = Client::connect(host, port, (rank, size), &secret, deadline)?;
        Ok(Self {
            end: End::Client(client),
        })
    }
}

impl Rendezvous for TcpRendezvous {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        check_lengths(key, value)?;
        match &self.end {
            End::Server(server) => server.set(key, value)?,
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
