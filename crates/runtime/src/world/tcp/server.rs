//! Rank 0's end: accepts the other ranks and answers their requests.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::wire::{Greeting, Message, VERSION, Verb, Verdict};
use crate::{
    Result, WorldError,
    world::{
        local_store::LocalStore,
        rendezvous::{Rendezvous, remaining},
    },
};

/// The largest number of connections that are about to send their greetings.
pub(super) const GREETINGS_MAX: usize = 1024;

/// The time within which a connection must send its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which a rank that does not read its answers is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The serving end, whose threads end when it is dropped.
pub(super) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    size: usize,
    store: LocalStore,
    ranks: Mutex<Ranks>,
    /// Notified when a rank connects.
    connected: Condvar,
    greetings: AtomicUsize,
    closed: AtomicBool,
}

#[derive(Default)]
struct Ranks {
    /// The connections of all ranks; rank 0 has none.
    connections: HashMap<usize, Arc<Connection>>,
    /// Set once all ranks have been connected at the same time.
    complete: bool,
    /// The requests that wait for a key: each with the connection to answer.
    waiting: HashMap<String, Vec<(Arc<Connection>, u64)>>,
}

struct Connection {
    writer: Mutex<TcpStream>,
    /// Another handle of the stream, to shut it down while the writer is locked.
    stream: TcpStream,
}

impl Server {
    /// Begins to accept ranks.
    pub(super) fn start(listener: TcpListener, size: usize) -> Result<Self, WorldError> {
        let serve = |address: &str, error: io::Error| WorldError::Serve {
            address: address.into(),
            cause: error.to_string().into(),
        };
        let address = listener
            .local_addr()
            .map_err(|error| serve("its listener", error))?;
        let shared = Arc::new(Shared {
            size,
            store: LocalStore::default(),
            ranks: Mutex::default(),
            connected: Condvar::new(),
            greetings: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::Builder::new()
            .name("millstream-rendezvous".into())
            .spawn(move || accept(&accepting, &listener))
            .map_err(|error| serve(&address.to_string(), error))?;
        Ok(Self { shared, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all ranks are connected.
    pub(super) fn wait_complete(&self, deadline: Duration) -> Result<(), WorldError> {
        let start = Instant::now();
        let mut ranks = self.shared.ranks();
        ranks.complete |= self.shared.size <= 1;
        while !ranks.complete {
            let left = remaining(start, deadline);
            if left.is_zero() {
                return Err(WorldError::MissingRanks {
                    ranks: self.shared.missing(&ranks).into(),
                    size: self.shared.size,
                    address: self.address.to_string().into(),
                    deadline,
                });
            }
            let woken = self.shared.connected.wait_timeout(ranks, left);
            ranks = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    pub(super) fn set(&self, key: &str, value: &[u8]) {
        self.shared.set_after(key, value, || {});
    }

    pub(super) fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        self.shared.store.get(key, deadline)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        for connection in self.shared.ranks().connections.values() {
            // An error means that the connection is closed already.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        // Wakes the thread that waits for connections, from a thread because `connect` may block.
        // If no thread can be started, that thread waits until the process ends.
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, self.address.port());
        let _ = thread::Builder::new().spawn(move || TcpStream::connect(address).map(drop));
    }
}

/// Accepts connections until the server is dropped.
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.closed.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // An error of one connection, or too many open files.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        if shared.greetings.fetch_add(1, Ordering::Relaxed) >= GREETINGS_MAX {
            shared.greetings.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let of_thread = Arc::clone(shared);
        let spawned = thread::Builder::new()
            .name("millstream-rank".into())
            .spawn(move || {
                let admitted = of_thread.admit(stream);
                of_thread.greetings.fetch_sub(1, Ordering::Relaxed);
                // A stranger's connection is closed; so is that of a rank that is not admitted.
                if let Ok(Some((rank, connection))) = admitted {
                    // The end of the connection, orderly or not, is the end of the rank.
                    let _ = of_thread.answer(&connection);
                    of_thread.leave(rank, &connection);
                }
            });
        if spawned.is_err() {
            shared.greetings.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Shared {
    fn ranks(&self) -> MutexGuard<'_, Ranks> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the ranks that are not connected.
    fn missing(&self, ranks: &Ranks) -> Vec<usize> {
        (1..self.size)
            .filter(|rank| !ranks.connections.contains_key(rank))
            .collect()
    }

    /// Reads and answers the greeting of a connection. Returns the rank if it is admitted.
    fn admit(&self, mut stream: TcpStream) -> io::Result<Option<(usize, Arc<Connection>)>> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let greeting = Greeting::read(&mut stream)?;
        stream.set_read_timeout(None)?;
        let answer = |verdict: Verdict, mut to: &TcpStream| {
            Greeting::new(self.size, verdict as u64).write(&mut to)
        };
        if greeting.version != VERSION {
            answer(Verdict::OtherVersion, &stream)?;
            return Ok(None);
        }
        let rank = usize::try_from(greeting.word).unwrap_or(usize::MAX);
        if greeting.size as usize != self.size || rank >= self.size {
            answer(Verdict::OtherSize, &stream)?;
            return Ok(None);
        }
        let connection = Arc::new(Connection {
            writer: Mutex::new(stream.try_clone()?),
            stream,
        });
        // Answered while the ranks are locked, so that the answer is before any other message.
        let mut ranks = self.ranks();
        if rank == 0 || ranks.connections.contains_key(&rank) {
            answer(Verdict::RankTaken, &connection.stream)?;
            return Ok(None);
        }
        answer(Verdict::Admitted, &connection.stream)?;
        ranks.connections.insert(rank, Arc::clone(&connection));
        let mut told = Vec::new();
        if ranks.complete {
            told.push(Arc::clone(&connection));
        } else if ranks.connections.len() + 1 == self.size {
            ranks.complete = true;
            told.extend(ranks.connections.values().cloned());
        }
        drop(ranks);
        self.connected.notify_all();
        for connection in told {
            connection.send(&Message::new(Verb::Complete, 0));
        }
        if self.closed.load(Ordering::Acquire) {
            // Too late for `drop` to see the connection.
            connection.stream.shutdown(Shutdown::Both)?;
        }
        Ok(Some((rank, connection)))
    }

    /// Answers the requests of one rank until its connection ends.
    fn answer(&self, connection: &Arc<Connection>) -> io::Result<()> {
        let mut reader = &connection.stream;
        loop {
            let Message {
                verb,
                id,
                key,
                value,
            } = Message::read(&mut reader)?;
            let mut answer = Message::new(verb, id);
            match verb {
                Verb::Set => {
                    // Answered before any rank sees the value: rank 0 may end as soon as it does,
                    // and this rank must have its answer then.
                    self.set_after(&key, &value, || connection.send(&answer));
                    continue;
                }
                Verb::Get => match self.value_or_wait(key, connection, id) {
                    Some(value) => answer.value = value,
                    None => continue,
                },
                Verb::Missing => {
                    let missing = self.missing(&self.ranks());
                    let numbers = missing.iter().map(|rank| (*rank as u32).to_le_bytes());
                    answer.value = numbers.flatten().collect();
                }
                Verb::Complete => return Err(io::ErrorKind::InvalidData.into()),
            }
            connection.send(&answer);
        }
    }

    /// Returns the value of a key, or registers the request to be answered when it is set.
    fn value_or_wait(&self, key: String, connection: &Arc<Connection>, id: u64) -> Option<Vec<u8>> {
        self.store.value_or(&key.clone(), || {
            let request = (Arc::clone(connection), id);
            self.ranks().waiting.entry(key).or_default().push(request);
        })
    }

    /// Sets a key, after calling `before`, and answers the requests that wait for it.
    fn set_after(&self, key: &str, value: &[u8], before: impl FnOnce()) {
        self.store.set_after(key, value, before);
        let waiting = self.ranks().waiting.remove(key).unwrap_or_default();
        for (connection, id) in waiting {
            let mut answer = Message::new(Verb::Get, id);
            answer.value = value.to_owned();
            connection.send(&answer);
        }
    }

    /// Forgets a rank whose connection has ended. It may connect again.
    fn leave(&self, rank: usize, connection: &Arc<Connection>) {
        let mut ranks = self.ranks();
        ranks.connections.remove(&rank);
        ranks.waiting.retain(|_, requests| {
            requests.retain(|(waiting, _)| !Arc::ptr_eq(waiting, connection));
            !requests.is_empty()
        });
    }
}

impl Connection {
    /// Sends a message; closes the connection if that fails.
    fn send(&self, message: &Message) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if message.write(&mut *writer).is_err() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}
