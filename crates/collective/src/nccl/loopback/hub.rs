//! The hub: a router in the process that created the identifier, to which every rank connects.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::frame::{ALL, Frame, FrameKind};

/// The time within which a connection must introduce itself.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest introduction in bytes.
const HELLO_BYTES_MAX: u64 = 64;

/// A handle to the hub's threads, which ends the acceptance of connections when it is dropped.
#[derive(Debug)]
pub(super) struct Hub {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

struct Ranks {
    /// The world size that the first rank named.
    size: Option<usize>,
    connections: Vec<Option<Connection>>,
    /// The first rank whose connection was lost.
    gone: Option<u32>,
}

#[derive(Clone)]
struct Connection {
    writer: Arc<Mutex<TcpStream>>,
}

impl Hub {
    /// Begins to serve the ranks that name `secret`, on a free port of this machine.
    pub(super) fn start(secret: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("loopback-hub".into())
            .spawn(move || accept(&listener, secret, &stopped))?;
        Ok(Self { address, stop })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if self.stop.swap(true, Ordering::AcqRel) {
            return;
        }
        let address = self.address;
        // Wakes the thread that waits for connections, from a thread because `connect` may block.
        // If no thread can be started, that thread waits until the process ends.
        let _ = thread::Builder::new().spawn(move || TcpStream::connect(address).map(drop));
    }
}

/// Accepts connections until all ranks are connected or the hub is dropped.
fn accept(listener: &TcpListener, secret: u64, stop: &AtomicBool) {
    let ranks = Arc::new(Mutex::new(Ranks {
        size: None,
        connections: Vec::new(),
        gone: None,
    }));
    while !stop.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // An error of one connection, or too many open files.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        // A connection that does not introduce itself is closed.
        if let Ok(true) = admit(stream, secret, &ranks) {
            stop.store(true, Ordering::Release);
        }
    }
}

/// Admits a connection and returns whether all ranks are connected.
fn admit(mut stream: TcpStream, secret: u64, ranks: &Arc<Mutex<Ranks>>) -> io::Result<bool> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    let hello = Frame::read_limited(&mut stream, HELLO_BYTES_MAX)?;
    if hello.kind != FrameKind::Hello || hello.payload != secret.to_le_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.set_read_timeout(None)?;
    let reader = stream.try_clone()?;
    let mut locked = lock(ranks);
    if let Err(reason) = locked.place(hello.peer, hello.sequence, &stream) {
        let mut refusal = Frame::signal(FrameKind::Refused, hello.peer);
        refusal.payload = reason.into_bytes();
        refusal.write(&mut stream)?;
        return Ok(false);
    }
    let complete = locked.connections.iter().all(Option::is_some);
    if complete {
        locked.send_to_all(ALL, &Frame::signal(FrameKind::Ready, ALL));
    }
    drop(locked);
    let (ranks, rank) = (Arc::clone(ranks), hello.peer);
    thread::Builder::new()
        .name(format!("loopback-hub-{rank}"))
        .spawn(move || forward(reader, rank, &ranks))?;
    Ok(complete)
}

/// Forwards the frames of one rank until its connection ends.
fn forward(mut reader: TcpStream, rank: u32, ranks: &Mutex<Ranks>) {
    let mut finished = false;
    while let Ok(mut frame) = Frame::read(&mut reader) {
        let to = std::mem::replace(&mut frame.peer, rank);
        match frame.kind {
            FrameKind::Data if to != ALL => {
                let target = lock(ranks).connections.get(to as usize).cloned().flatten();
                if let Some(target) = target {
                    target.send(&frame);
                }
            }
            FrameKind::Data | FrameKind::Goodbye => {
                finished |= frame.kind == FrameKind::Goodbye;
                let all = lock(ranks).connections.clone();
                for (_, target) in (0..).zip(all).filter(|(at, _)| *at != rank) {
                    target.inspect(|target| target.send(&frame));
                }
            }
            // A rank sends nothing else.
            _ => break,
        }
    }
    if !finished {
        let mut ranks = lock(ranks);
        ranks.gone.get_or_insert(rank);
        ranks.send_to_all(rank, &Frame::signal(FrameKind::Gone, rank));
    }
}

impl Ranks {
    /// Enters a rank, or returns the reason why it is not admitted.
    fn place(&mut self, rank: u32, size: u64, stream: &TcpStream) -> Result<(), String> {
        let size = usize::try_from(size).map_err(|_| "the world is too large".to_owned())?;
        let expected = *self.size.get_or_insert_with(|| {
            self.connections = vec![None; size];
            size
        });
        if size != expected {
            return Err(format!(
                "rank {rank} has a world of {size} ranks, but other ranks have one of {expected}"
            ));
        }
        if let Some(gone) = self.gone {
            return Err(format!("the connection to rank {gone} is lost"));
        }
        let Some(slot) = self.connections.get_mut(rank as usize) else {
            return Err(format!("rank {rank} is not in a world of {size} ranks"));
        };
        if slot.is_some() {
            return Err(format!("rank {rank} is connected already"));
        }
        let writer = stream.try_clone().map_err(|error| error.to_string())?;
        *slot = Some(Connection {
            writer: Arc::new(Mutex::new(writer)),
        });
        Ok(())
    }

    fn send_to_all(&self, except: u32, frame: &Frame) {
        for (_, target) in (0..).zip(&self.connections).filter(|(at, _)| *at != except) {
            target.iter().for_each(|target| target.send(frame));
        }
    }
}

impl Connection {
    /// Sends a frame. If the connection is lost, the thread that reads from it reports that.
    fn send(&self, frame: &Frame) {
        let _ = frame.write(&mut *lock(&self.writer));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
