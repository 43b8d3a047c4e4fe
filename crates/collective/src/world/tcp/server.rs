//! Rank 0's end: accepts the other ranks and answers their requests.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    outbox::{MESSAGE_TIMEOUT, Outbox, STACK_BYTES, Timed, receive},
    secret::{Facts, Secret, is_same, nonce},
    wire::{Frame, Greeting, Message, VERSION, Verb, Verdict, take},
};
use millstream::Result;

use crate::world::{
    WorldError,
    local_store::LocalStore,
    rendezvous::{Rendezvous, remaining},
};

/// The largest number of connections that are not admitted yet. One more closes the oldest.
pub(super) const GREETINGS_MAX: usize = 256;

/// The time within which a connection must be admitted.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest number of keys for which one rank waits.
pub(super) const WAITING_MAX: usize = 1024;

/// The time for which a value that rank 0 sets is written to the ranks that wait for it before the
/// call returns, because rank 0 may end then.
const FLUSH: Duration = Duration::from_millis(200);

/// The time for which a value is kept back until its sender has its answer.
const ANSWER_FLUSH: Duration = Duration::from_secs(1);

/// The serving end, whose threads end when it is dropped.
pub(super) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    size: usize,
    secret: Secret,
    store: LocalStore,
    ranks: Mutex<Ranks>,
    /// Notified when a rank connects.
    connected: Condvar,
    closed: AtomicBool,
}

#[derive(Default)]
struct Ranks {
    /// The connections that are not admitted yet, the oldest first.
    greetings: VecDeque<Arc<TcpStream>>,
    /// The connected ranks; rank 0 has no connection.
    connected: HashMap<usize, Connected>,
    /// Set once all ranks have been connected at the same time.
    complete: bool,
}

struct Connected {
    outbox: Arc<Outbox>,
    /// The requests that wait for a key.
    waiting: HashMap<u64, String>,
}

impl Server {
    /// Begins to accept ranks.
    pub(super) fn start(
        listener: TcpListener,
        size: usize,
        secret: Secret,
    ) -> Result<Self, WorldError> {
        let serve = |address: &str, error: io::Error| WorldError::Serve {
            address: address.into(),
            cause: error.to_string().into(),
        };
        let address = listener
            .local_addr()
            .map_err(|error| serve("its listener", error))?;
        let shared = Arc::new(Shared {
            size,
            secret,
            store: LocalStore::default(),
            ranks: Mutex::default(),
            connected: Condvar::new(),
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

    pub(super) fn set(&self, key: &str, value: &[u8]) -> Result<(), WorldError> {
        let start = Instant::now();
        for outbox in self.shared.set_after(key, value.into(), || {})? {
            outbox.wait_for_bytes(0, remaining(start, FLUSH));
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        self.shared.store.get(key, deadline)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        let mut ranks = self.shared.ranks();
        for connected in ranks.connected.values() {
            connected.outbox.close();
        }
        for stream in ranks.greetings.drain(..) {
            // An error means that the connection is closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(ranks);
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
        let mut ranks = shared.ranks();
        if shared.closed.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            drop(ranks);
            // An error of one connection, or too many open files.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let stream = Arc::new(stream);
        ranks.greetings.push_back(Arc::clone(&stream));
        if ranks.greetings.len() > GREETINGS_MAX
            && let Some(oldest) = ranks.greetings.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        drop(ranks);
        let (of_thread, greeting) = (Arc::clone(shared), Arc::clone(&stream));
        let spawned = thread::Builder::new()
            .name("millstream-rank".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let admitted = of_thread.admit(&greeting);
                of_thread.ranks().forget(&greeting);
                drop(greeting);
                // A stranger's connection is closed; so is that of a rank that is not admitted.
                if let Ok(Some((rank, outbox))) = admitted {
                    // The end of the connection, orderly or not, is the end of the rank.
                    let _ = of_thread.answer(rank, &outbox);
                    of_thread.ranks().connected.remove(&rank);
                    outbox.close();
                }
            });
        if spawned.is_err() {
            shared.ranks().forget(&stream);
        }
    }
}

impl Ranks {
    /// Removes a connection from those that are not admitted yet.
    fn forget(&mut self, greeting: &Arc<TcpStream>) {
        self.greetings
            .retain(|stream| !Arc::ptr_eq(stream, greeting));
    }
}

impl Shared {
    fn ranks(&self) -> MutexGuard<'_, Ranks> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self, ranks: &Ranks) -> Vec<usize> {
        (1..self.size)
            .filter(|rank| !ranks.connected.contains_key(rank))
            .collect()
    }

    /// Reads and answers the greeting of a connection. Returns the rank if it is admitted.
    fn admit(&self, stream: &Arc<TcpStream>) -> io::Result<Option<(usize, Arc<Outbox>)>> {
        stream.set_nodelay(true)?;
        let mut timed = Timed::new(stream, GREETING_TIMEOUT);
        let answer = |verdict: Verdict| Greeting::new(self.size, verdict as u64).to_bytes();
        let greeting = Greeting::read(&mut timed)?;
        let rank = usize::try_from(greeting.word).unwrap_or(usize::MAX);
        let refusal = if greeting.version != VERSION {
            Some(Verdict::OtherVersion)
        } else if greeting.size as usize != self.size || rank >= self.size {
            Some(Verdict::OtherSize)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            timed.write_all(&answer(refusal))?;
            return Ok(None);
        }
        let own_nonce = nonce();
        timed.write_all(&[&answer(Verdict::Challenge)[..], &own_nonce].concat())?;
        let facts = Facts {
            size: self.size,
            rank,
            nonces: [own_nonce, take(&mut timed)?],
        };
        if !is_same(&take(&mut timed)?, &facts.prove(&self.secret, b"rank")) {
            timed.write_all(&answer(Verdict::OtherSecret))?;
            return Ok(None);
        }
        let outbox = Outbox::start(Arc::clone(stream))?;
        let mut ranks = self.ranks();
        if rank == 0 || ranks.connected.contains_key(&rank) {
            drop(ranks);
            let refused = timed.write_all(&answer(Verdict::RankTaken));
            outbox.close();
            return refused.map(|()| None);
        }
        // Before any other message.
        outbox.push(Frame {
            head: answer(Verdict::Admitted),
            value: facts.prove(&self.secret, b"rank 0")[..].into(),
        });
        let connected = Connected {
            outbox: Arc::clone(&outbox),
            waiting: HashMap::new(),
        };
        ranks.connected.insert(rank, connected);
        let complete = || Message::new(Verb::Complete, 0);
        if ranks.complete {
            outbox.push(complete());
        } else if ranks.connected.len() + 1 == self.size {
            ranks.complete = true;
            for connected in ranks.connected.values() {
                connected.outbox.push(complete());
            }
        }
        drop(ranks);
        self.connected.notify_all();
        if self.closed.load(Ordering::Acquire) {
            // Too late for `drop` to see the connection.
            outbox.close();
        }
        Ok(Some((rank, outbox)))
    }

    /// Answers the requests of one rank until its connection ends.
    fn answer(&self, rank: usize, outbox: &Arc<Outbox>) -> io::Result<()> {
        loop {
            let Message {
                verb,
                id,
                key,
                value,
            } = receive(outbox.stream())?;
            let mut answer = Message::new(verb, id);
            match verb {
                Verb::Set => {
                    // Answered before any rank sees the value: rank 0 may end as soon as it does,
                    // and this rank must have its answer then.
                    let answered = || {
                        outbox.push(answer);
                        outbox.wait_for_bytes(0, ANSWER_FLUSH);
                    };
                    if let Err(error) = self.set_after(&key, value, answered) {
                        outbox.push(Message::refused(id, &error.to_string()));
                    }
                    continue;
                }
                Verb::Get => match self.value_or_wait(key, rank, id) {
                    Ok(Some(value)) => answer.value = value,
                    Ok(None) => continue,
                    Err(reason) => answer = Message::refused(id, &reason),
                },
                Verb::Missing => {
                    let missing = self.missing(&self.ranks());
                    let numbers = missing.iter().map(|rank| (*rank as u32).to_le_bytes());
                    answer.value = numbers.flatten().collect();
                }
                Verb::Cancel => {
                    if let Some(connected) = self.ranks().connected.get_mut(&rank) {
                        connected.waiting.remove(&id);
                    }
                    continue;
                }
                Verb::Complete | Verb::Refused => return Err(io::ErrorKind::InvalidData.into()),
            }
            // A rank that does not read its answers is not heard meanwhile, and at last closed.
            if !outbox.send(answer, MESSAGE_TIMEOUT) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Returns the value of a key, or registers the request to be answered when it is set.
    ///
    /// # Errors
    ///
    /// The reason for which the rank may not wait.
    fn value_or_wait(
        &self,
        key: String,
        rank: usize,
        id: u64,
    ) -> Result<Option<Arc<[u8]>>, String> {
        let mut refused = false;
        let value = self.store.value_or(&key.clone(), || {
            if let Some(connected) = self.ranks().connected.get_mut(&rank) {
                refused = connected.waiting.len() >= WAITING_MAX;
                if !refused {
                    connected.waiting.insert(id, key);
                }
            }
        });
        match refused {
            true => Err(format!(
                "a rank waits for at most {WAITING_MAX} keys at once"
            )),
            false => Ok(value),
        }
    }

    /// Sets a key, after calling `before`, and answers the requests that wait for it. Returns the
    /// connections of those requests.
    fn set_after(
        &self,
        key: &str,
        value: Arc<[u8]>,
        before: impl FnOnce(),
    ) -> Result<Vec<Arc<Outbox>>, WorldError> {
        self.store.set_after(key, value, before)?;
        let mut answered = Vec::new();
        // If another call is setting the key, it will answer them.
        let Some(value) = self.store.value_or(key, || {}) else {
            return Ok(answered);
        };
        for connected in self.ranks().connected.values_mut() {
            let Connected { outbox, waiting } = connected;
            for (id, _) in waiting.extract_if(|_, wanted| wanted == key) {
                let mut answer = Message::new(Verb::Get, id);
                answer.value = Arc::clone(&value);
                if !outbox.send(answer, Duration::ZERO) {
                    let reason = "this rank does not read the answers that it has asked for";
                    outbox.push(Message::refused(id, reason));
                }
                answered.push(Arc::clone(outbox));
            }
        }
        Ok(answered)
    }
}
