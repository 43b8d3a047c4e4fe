//! The end of every rank but 0: connects, and sends requests.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{Shutdown, TcpStream, ToSocketAddrs},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::wire::{Greeting, Message, VERSION, Verb, Verdict};
use crate::{WorldError, world::rendezvous::remaining};

/// The longest time of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The pauses between attempts: the first, and the limit that they grow to.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The time that rank 0 has for an answer that does not depend on other ranks.
const ANSWER: Duration = Duration::from_secs(30);

/// The time that rank 0 has to say which ranks are missing, after the deadline.
const LAST_QUESTION: Duration = Duration::from_secs(1);

/// The connected end, whose thread ends when it is dropped.
pub(super) struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    address: Arc<str>,
    stream: TcpStream,
    writer: Mutex<TcpStream>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next_id: u64,
    /// The requests that wait for an answer.
    open: HashSet<u64>,
    answers: HashMap<u64, Vec<u8>>,
    /// Set when all ranks are connected.
    complete: bool,
    /// The reason why the connection ended.
    lost: Option<Arc<str>>,
}

/// A failed attempt to connect.
enum Attempt {
    /// Rank 0 cannot be reached yet.
    Again(io::Error),
    /// Rank 0 does not admit this rank.
    Refused(WorldError),
}

impl From<io::Error> for Attempt {
    fn from(error: io::Error) -> Self {
        Self::Again(error)
    }
}

impl Client {
    /// Connects to rank 0, and waits until all ranks are connected.
    pub(super) fn connect(
        host: &str,
        port: u16,
        rank: usize,
        size: usize,
        deadline: Duration,
    ) -> Result<Self, WorldError> {
        let start = Instant::now();
        let address: Arc<str> = format!("{host}:{port}").into();
        let mut pause = PAUSE;
        let stream = loop {
            let limit = remaining(start, deadline).clamp(Duration::from_millis(1), ATTEMPT);
            match attempt(host, port, rank, size, limit, &address) {
                Ok(stream) => break stream,
                Err(Attempt::Refused(error)) => return Err(error),
                Err(Attempt::Again(error)) => {
                    let left = remaining(start, deadline);
                    if left.is_zero() {
                        let cause = error.to_string().into();
                        return Err(WorldError::Unreachable {
                            rank,
                            address,
                            deadline,
                            cause,
                        });
                    }
                    thread::sleep(pause.min(left));
                    pause = (2 * pause).min(PAUSE_MAX);
                }
            }
        };
        let client = Self::start(stream, &address).map_err(|error| lost(&address, &error))?;
        client.wait_complete(size, start, deadline)?;
        Ok(client)
    }

    /// Starts the thread that receives answers.
    fn start(stream: TcpStream, address: &Arc<str>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            address: Arc::clone(address),
            writer: Mutex::new(stream.try_clone()?),
            stream,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let client = Self {
            shared: Arc::clone(&shared),
        };
        thread::Builder::new()
            .name("millstream-rendezvous".into())
            .spawn(move || {
                let Err(error) = shared.receive();
                let cause = if error.kind() == io::ErrorKind::UnexpectedEof {
                    "rank 0 has closed it, or ended".to_owned()
                } else {
                    error.to_string()
                };
                shared.state().lost = Some(cause.into());
                shared.changed.notify_all();
            })?;
        Ok(client)
    }

    pub(super) fn address(&self) -> &str {
        &self.shared.address
    }

    /// Waits until all ranks are connected. After the deadline, asks which are missing.
    fn wait_complete(
        &self,
        size: usize,
        start: Instant,
        deadline: Duration,
    ) -> Result<(), WorldError> {
        let shared = &*self.shared;
        let complete = |state: &mut State| state.complete.then_some(());
        let left = remaining(start, deadline);
        if shared.wait(left, complete)?.is_some() {
            return Ok(());
        }
        let missing = self.request(Message::new(Verb::Missing, 0), LAST_QUESTION)?;
        let numbers = missing.as_deref().unwrap_or(&[]).chunks_exact(4);
        let ranks: Arc<[usize]> = numbers
            .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as usize)
            .collect();
        // All ranks may have connected meanwhile.
        if missing.is_some() && ranks.is_empty() {
            return Ok(());
        }
        Err(WorldError::MissingRanks {
            ranks,
            size,
            address: Arc::clone(&shared.address),
            deadline,
        })
    }

    pub(super) fn set(&self, key: &str, value: &[u8]) -> Result<(), WorldError> {
        let mut message = Message::new(Verb::Set, 0);
        message.key = key.to_owned();
        message.value = value.to_owned();
        let answer = self.request(message, ANSWER)?;
        answer.map(drop).ok_or_else(|| WorldError::ConnectionLost {
            address: Arc::clone(&self.shared.address),
            cause: format!("no answer within {ANSWER:?}").into(),
        })
    }

    pub(super) fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>, WorldError> {
        let mut message = Message::new(Verb::Get, 0);
        message.key = key.to_owned();
        let answer = self.request(message, deadline)?;
        answer.ok_or_else(|| WorldError::not_set(key, deadline))
    }

    /// Sends a request and returns the answer, or `None` if there is none in time.
    fn request(
        &self,
        mut message: Message,
        limit: Duration,
    ) -> Result<Option<Vec<u8>>, WorldError> {
        let shared = &*self.shared;
        let mut state = shared.state();
        state.next_id += 1;
        message.id = state.next_id;
        state.open.insert(message.id);
        drop(state);
        let mut writer = shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let written = message.write(&mut *writer);
        drop(writer);
        if let Err(error) = written {
            return Err(lost(&shared.address, &error));
        }
        let answer = shared.wait(limit, |state| state.answers.remove(&message.id))?;
        if answer.is_none() {
            // An answer that comes later is dropped.
            let mut state = shared.state();
            state.open.remove(&message.id);
            return Ok(state.answers.remove(&message.id));
        }
        Ok(answer)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // An error means that the connection is closed already.
        let _ = self.shared.stream.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives answers until the connection ends.
    fn receive(&self) -> io::Result<std::convert::Infallible> {
        let mut reader = &self.stream;
        loop {
            let message = Message::read(&mut reader)?;
            let mut state = self.state();
            if message.verb == Verb::Complete {
                state.complete = true;
            } else if state.open.remove(&message.id) {
                state.answers.insert(message.id, message.value);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until `take` returns a value; `None` if it does not in time.
    fn wait<T>(
        &self,
        limit: Duration,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, WorldError> {
        let start = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(value) = take(&mut state) {
                return Ok(Some(value));
            }
            if let Some(cause) = &state.lost {
                return Err(WorldError::ConnectionLost {
                    address: Arc::clone(&self.address),
                    cause: Arc::clone(cause),
                });
            }
            let left = remaining(start, limit);
            if left.is_zero() {
                return Ok(None);
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn lost(address: &Arc<str>, error: &io::Error) -> WorldError {
    WorldError::ConnectionLost {
        address: Arc::clone(address),
        cause: error.to_string().into(),
    }
}

/// Tries once to connect to rank 0 and to be admitted.
fn attempt(
    host: &str,
    port: u16,
    rank: usize,
    size: usize,
    limit: Duration,
    address: &Arc<str>,
) -> Result<TcpStream, Attempt> {
    let mut stream = connect_to_any(host, port, limit)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    Greeting::new(size, rank as u64).write(&mut stream)?;
    let other_protocol = |other_version| {
        Attempt::Refused(WorldError::OtherProtocol {
            own_version: VERSION,
            other_version,
            address: Arc::clone(address),
        })
    };
    let answer = match Greeting::read(&mut stream) {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(other_protocol(None));
        }
        Err(error) => return Err(error.into()),
    };
    stream.set_read_timeout(None)?;
    match answer.word {
        _ if answer.version != VERSION => Err(other_protocol(Some(answer.version))),
        word if word == Verdict::Admitted as u64 => Ok(stream),
        word if word == Verdict::OtherSize as u64 => Err(Attempt::Refused(WorldError::OtherSize {
            rank,
            own_size: size,
            other_size: answer.size as usize,
            address: Arc::clone(address),
        })),
        word if word == Verdict::RankTaken as u64 => {
            let address = Arc::clone(address);
            Err(Attempt::Refused(WorldError::RankTaken { rank, address }))
        }
        _ => Err(other_protocol(None)),
    }
}

/// Connects to the first address of the host that accepts.
fn connect_to_any(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::new(
        io::ErrorKind::NotFound,
        "the host has no address",
    ));
    for address in (host, port).to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, limit);
        if result.is_ok() {
            break;
        }
    }
    result
}
