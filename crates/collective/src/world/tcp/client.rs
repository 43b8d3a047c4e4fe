//! The end of every rank but 0: connects, and sends requests.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    outbox::{Outbox, STACK_BYTES, Timed, receive},
    secret::{Facts, Secret, is_same, nonce},
    wire::{Greeting, Message, VERSION, Verb, Verdict, take},
};
use crate::world::{WorldError, rendezvous::remaining};

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
    outbox: Arc<Outbox>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next_id: u64,
    /// The requests that wait for an answer.
    open: HashSet<u64>,
    answers: HashMap<u64, Message>,
    /// Set when all ranks are connected.
    complete: bool,
    /// The reason why the connection ended.
    lost: Option<Arc<str>>,
}

/// A failed attempt to connect.
pub(super) enum Attempt {
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
        (rank, size): (usize, usize),
        secret: &Secret,
        deadline: Duration,
    ) -> Result<Self, WorldError> {
        let start = Instant::now();
        let address: Arc<str> = format!("{host}:{port}").into();
        let mut pause = PAUSE;
        let stream = loop {
            let limit = remaining(start, deadline).clamp(Duration::from_millis(1), ATTEMPT);
            match attempt((host, port), (rank, size), secret, limit, &address) {
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
            outbox: Outbox::start(Arc::new(stream))?,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let client = Self {
            shared: Arc::clone(&shared),
        };
        thread::Builder::new()
            .name("millstream-rendezvous".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let Err(error) = shared.receive();
                let cause = if error.kind() == io::ErrorKind::UnexpectedEof {
                    "rank 0 has closed it, or ended".to_owned()
                } else {
                    error.to_string()
                };
                shared.state().lost = Some(cause.into());
                shared.outbox.close();
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
        message.value = value.into();
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
        answer
            .map(|value| value.to_vec())
            .ok_or_else(|| WorldError::not_set(key, deadline))
    }

    /// Sends a request and returns the answer, or `None` if there is none in time.
    fn request(
        &self,
        mut message: Message,
        limit: Duration,
    ) -> Result<Option<Arc<[u8]>>, WorldError> {
        let start = Instant::now();
        let shared = &*self.shared;
        let mut state = shared.state();
        state.next_id += 1;
        let id = state.next_id;
        message.id = id;
        state.open.insert(id);
        drop(state);
        let mut answer = Ok(None);
        if shared.outbox.send(message, limit) {
            answer = shared.wait(remaining(start, limit), |state| state.answers.remove(&id));
            if !matches!(answer, Ok(Some(_))) {
                shared.outbox.push(Message::new(Verb::Cancel, id));
            }
        }
        // An answer that comes later is dropped.
        let mut state = shared.state();
        state.open.remove(&id);
        let late = state.answers.remove(&id);
        match answer?.or(late) {
            Some(refused) if refused.verb == Verb::Refused => {
                Err(WorldError::store(String::from_utf8_lossy(&refused.value)))
            }
            answer => Ok(answer.map(|answer| answer.value)),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.outbox.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives answers until the connection ends.
    fn receive(&self) -> io::Result<std::convert::Infallible> {
        loop {
            let message = receive(self.outbox.stream())?;
            let mut state = self.state();
            if message.verb == Verb::Complete {
                state.complete = true;
            } else if state.open.remove(&message.id) {
                state.answers.insert(message.id, message);
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
pub(super) fn attempt(
    at: (&str, u16),
    (rank, size): (usize, usize),
    secret: &Secret,
    limit: Duration,
    address: &Arc<str>,
) -> Result<TcpStream, Attempt> {
    let start = Instant::now();
    let stream = connect_to_any(at, limit)?;
    stream.set_nodelay(true)?;
    let mut timed = Timed::new(&stream, remaining(start, limit));
    timed.write_all(&Greeting::new(size, rank as u64).to_bytes())?;
    let address = || Arc::clone(address);
    let other_protocol = |other_version| {
        Attempt::Refused(WorldError::OtherProtocol {
            own_version: VERSION,
            other_version,
            address: address(),
        })
    };
    let other_secret = || {
        let address = address();
        Attempt::Refused(WorldError::OtherSecret { rank, address })
    };
    let read = |timed: &mut Timed<'_>| match Greeting::read(timed) {
        Ok(answer) if answer.version != VERSION => Err(other_protocol(Some(answer.version))),
        Ok(answer) => Ok(answer),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(other_protocol(None)),
        Err(error) => Err(error.into()),
    };
    let mut answer = read(&mut timed)?;
    let mut proof = None;
    if answer.word == Verdict::Challenge as u64 {
        let facts = Facts {
            size,
            rank,
            nonces: [take(&mut timed)?, nonce()],
        };
        timed.write_all(&[facts.nonces[1], facts.prove(secret, b"rank")].concat())?;
        answer = read(&mut timed)?;
        proof = Some(facts.prove(secret, b"rank 0"));
    }
    match answer.word {
        word if word == Verdict::Admitted as u64 => {
            // Rank 0, too, proves that it knows the secret.
            let theirs = take(&mut timed)?;
            match proof.is_some_and(|proof| is_same(&proof, &theirs)) {
                true => Ok(stream),
                false => Err(other_secret()),
            }
        }
        word if word == Verdict::OtherSize as u64 => Err(Attempt::Refused(WorldError::OtherSize {
            rank,
            own_size: size,
            other_size: answer.size as usize,
            address: address(),
        })),
        word if word == Verdict::RankTaken as u64 => {
            let address = address();
            Err(Attempt::Refused(WorldError::RankTaken { rank, address }))
        }
        word if word == Verdict::OtherSecret as u64 => Err(other_secret()),
        _ => Err(other_protocol(None)),
    }
}

/// Connects to the first address of the host that accepts. Each gets its share of the time.
fn connect_to_any(at: (&str, u16), limit: Duration) -> io::Result<TcpStream> {
    let start = Instant::now();
    let mut result = Err(io::Error::new(
        io::ErrorKind::NotFound,
        "the host has no address",
    ));
    let addresses: Vec<_> = at.to_socket_addrs()?.collect();
    for (tried, address) in addresses.iter().enumerate() {
        let share = remaining(start, limit) / (addresses.len() - tried) as u32;
        result = TcpStream::connect_timeout(address, share.max(Duration::from_millis(1)));
        if result.is_ok() {
            break;
        }
    }
    result
}
