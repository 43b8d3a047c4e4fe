//! Worlds: the processes of one program, on one machine or several, and how they meet.
//!
//! A launcher starts the processes: `mpirun`, `srun`, `torchrun`, an operator of Kubernetes. It
//! tells each process its *rank* and the number of ranks through environment variables, of which
//! every launcher has its own. [`World::from_env`] reads them. The ranks then exchange what they
//! need to build communicators through a [`Rendezvous`], a small store of keys and values that
//! rank 0 serves over TCP. Millstream has no launcher of its own.
//!
//! The page "Several machines" of [the guide](millstream::guide) has a command for each launcher.

mod error;
mod file;
mod launcher;
mod local_store;
mod node_list;
mod rendezvous;
mod tcp;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use error::WorldError;
pub use file::FileRendezvous;
pub use launcher::DEFAULT_PORT;
pub use rendezvous::Rendezvous;
pub use tcp::TcpRendezvous;

use launcher::Membership;
use local_store::LocalStore;
use millstream::{__log as log, Device, Error, Result, Select};
use rendezvous::{check_size, remaining};

/// The processes of one program, seen from one of them, its *rank*.
///
/// Cloning gives another handle of the same world.
///
/// ```
/// use std::time::Duration;
/// use millstream_collective::world::World;
///
/// // Without a launcher's variables, a world of one.
/// let world = World::from_env()?;
/// println!("rank {} of {} ({})", world.rank(), world.size(), world.source());
/// let device = world.local_device()?;
///
/// let store = world.rendezvous(Duration::from_secs(60))?;
/// store.set(&format!("device/{}", world.rank()), device.name().as_bytes())?;
/// for rank in 0..world.size() {
///     let name = store.get(&format!("device/{rank}"), Duration::from_secs(10))?;
///     println!("rank {rank} has {}", String::from_utf8_lossy(&name));
/// }
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    membership: Membership,
    /// Locked while a thread connects this rank.
    rendezvous: Mutex<Option<Arc<dyn Rendezvous>>>,
    /// The number of groups of collectives that this rank has created.
    groups: AtomicU64,
    /// The description of the ranks that did not answer when a group of collectives was lost.
    lost: OnceLock<Arc<str>>,
}

impl World {
    /// Creates the world that the environment variables of a launcher describe. The first group of
    /// which a variable is set applies:
    ///
    /// | launcher | rank, size, rank within the machine |
    /// |---|---|
    /// | the user | `MILLSTREAM_RANK`, `MILLSTREAM_WORLD_SIZE`, `MILLSTREAM_LOCAL_RANK` |
    /// | `torchrun`, Kubeflow | `RANK`, `WORLD_SIZE`, `LOCAL_RANK` |
    /// | `mpirun` of Open MPI | `OMPI_COMM_WORLD_RANK`, `…_SIZE`, `…_LOCAL_RANK` |
    /// | `mpiexec` of MPICH and Intel MPI | `PMI_RANK`, `PMI_SIZE`, `MPI_LOCALRANKID` |
    /// | `srun` of Slurm | `SLURM_PROCID`, `SLURM_NTASKS`, `SLURM_LOCALID` |
    /// | none | a world of one |
    ///
    /// A missing rank within the machine is 0. Slurm is last, because an `mpirun` within a job of
    /// Slurm leaves Slurm's variables in the environment; its variables count only in a step, where
    /// `SLURM_STEP_NODELIST` is set, and they are used instead of `PMI_*` if both agree.
    ///
    /// The address at which rank 0 serves is `MILLSTREAM_ADDRESS` or `MASTER_ADDR`. With Open MPI,
    /// MPICH and Slurm both may be missing: then it is `127.0.0.1` if all ranks are on one machine,
    /// else the first host in `SLURM_STEP_NODELIST` or `SLURM_JOB_NODELIST`. The port is
    /// `MILLSTREAM_PORT` or `MASTER_PORT`, else [`DEFAULT_PORT`]; `torchrun` must set
    /// `MASTER_PORT`. Several worlds with ranks 0 on one machine need different ports.
    ///
    /// `MILLSTREAM_WORLD_SECRET` is a text that all ranks must know to meet. It is not sent.
    ///
    /// Empty variables count as not set.
    ///
    /// # Errors
    ///
    /// [`Error::World`] for variables that are not valid, incomplete or
    /// contradictory: names the variable and its value.
    pub fn from_env() -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name);
        Self::from_variables(|name| Some(variable(name)?.to_string_lossy().into_owned()))
    }

    /// Creates the world that these variables describe, as [`from_env`](Self::from_env) does with
    /// those of the environment.
    ///
    /// ```
    /// use millstream_collective::world::World;
    ///
    /// let slurm = [
    ///     ("SLURM_PROCID", "3"),
    ///     ("SLURM_NTASKS", "8"),
    ///     ("SLURM_LOCALID", "1"),
    ///     ("SLURM_STEP_NODELIST", "gpu[07-10]"),
    /// ];
    /// let lookup = |name: &str| {
    ///     let found = slurm.iter().find(|(known, _)| *known == name);
    ///     found.map(|(_, value)| (*value).to_owned())
    /// };
    /// let world = World::from_variables(lookup)?;
    /// assert_eq!((world.rank(), world.size(), world.local_rank()), (3, 8, 1));
    /// assert_eq!(world.address(), Some("gpu07"));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        Ok(Self::new(Membership::from_variables(&lookup)?, None))
    }

    /// Creates a world whose ranks meet in the program's own way. The rank within the machine is 0
    /// until [`with_local_rank`](Self::with_local_rank) changes it.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use millstream_collective::world::{FileRendezvous, World};
    ///
    /// # let number = std::process::id();
    /// # let folder = std::env::temp_dir().join(format!("millstream-world-{number}"));
    /// let store = Arc::new(FileRendezvous::new(&folder)?);
    /// let world = World::with_rendezvous(1, 2, store)?.with_local_rank(1);
    /// assert_eq!(world.rank(), 1);
    /// assert_eq!(world.local_rank(), 1);
    /// # drop(std::fs::remove_dir_all(&folder));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`WorldError::RankOutOfRange`] unless `rank` is less than `size`;
    /// [`WorldError::TooManyRanks`] for more than 65,536.
    pub fn with_rendezvous(
        rank: usize,
        size: usize,
        rendezvous: Arc<dyn Rendezvous>,
    ) -> Result<Self> {
        check_size(size)?;
        if rank >= size {
            return Err(WorldError::RankOutOfRange { rank, size }.into());
        }
        let membership = Membership {
            rank,
            size,
            local_rank: 0,
            address: None,
            port: DEFAULT_PORT,
            secret: tcp::Secret::default(),
            source: "the program's own rendezvous".to_owned(),
        };
        Ok(Self::new(membership, Some(rendezvous)))
    }

    /// Returns the same world with another rank within the machine.
    #[must_use]
    pub fn with_local_rank(self, local_rank: usize) -> Self {
        let rendezvous = self.lock().clone();
        let mut membership = self.inner.membership.clone();
        membership.local_rank = local_rank;
        Self::new(membership, rendezvous)
    }

    fn new(membership: Membership, rendezvous: Option<Arc<dyn Rendezvous>>) -> Self {
        let inner = Inner {
            membership,
            rendezvous: Mutex::new(rendezvous),
            groups: AtomicU64::new(0),
            lost: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the number of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.inner.membership.rank
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.membership.size
    }

    /// Returns the number of this process among those of its machine, from 0.
    #[must_use]
    pub fn local_rank(&self) -> usize {
        self.inner.membership.local_rank
    }

    /// Returns the host name or IP address of rank 0, if the launcher told one or it is known to be
    /// this machine.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.inner.membership.address.as_deref()
    }

    /// Returns the port that the launcher assigned, `MASTER_PORT`, or [`DEFAULT_PORT`]. The
    /// rendezvous uses the next port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.inner.membership.port
    }

    /// Returns a text for logs that says how the world was found: the launcher and the variables
    /// that were used.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.inner.membership.source
    }

    /// Opens the device of this process.
    ///
    /// If `MILLSTREAM_DEVICE` is set, it is the device that the variable names. Otherwise it is the
    /// GPU whose ordinal is the [local rank](Self::local_rank), or the only GPU if the launcher
    /// shows each process its own (`srun --gpus-per-task=1`). On a machine without a GPU it is the
    /// process's simulated device.
    ///
    /// # Errors
    ///
    /// [`WorldError::NoLocalDevice`] if there are several GPUs, but none for this local rank;
    /// otherwise the errors of [`Device::open`].
    #[track_caller]
    pub fn local_device(&self) -> Result<Device> {
        if std::env::var_os("MILLSTREAM_DEVICE").is_some_and(|value| !value.is_empty()) {
            return Device::open(Select::Auto);
        }
        match local_ordinal(self.local_rank(), Device::count()?)? {
            Some(ordinal) => Device::open(Select::Cuda(ordinal)),
            None => Device::open(Select::Auto),
        }
    }

    /// Connects this rank with all others and returns the store that they share. Later calls return
    /// the same store.
    ///
    /// Rank 0 serves the store at the port after [`port`](Self::port) until the last handle of the
    /// world and of the store is dropped. If rank 0's process ends earlier, the calls of the others
    /// fail. It listens at its [`address`](Self::address), which may be a loopback address; at all
    /// addresses of the machine only if that is none of them.
    ///
    /// # Errors
    ///
    /// [`Error::World`] if not all ranks have connected within `deadline`: the
    /// error names those that are missing, or the address at which rank 0 cannot be reached. Also
    /// for processes with different world sizes or with the same rank.
    pub fn rendezvous(&self, deadline: Duration) -> Result<Arc<dyn Rendezvous>> {
        let start = Instant::now();
        let mut left = deadline;
        let mut rendezvous = loop {
            match self.inner.rendezvous.try_lock() {
                Ok(rendezvous) => break rendezvous,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if left.is_zero() => {
                    let cause = "another thread is still connecting this rank";
                    return Err(WorldError::store(cause).into());
                }
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(Duration::from_millis(1));
                    left = remaining(start, deadline);
                }
            }
        };
        if let Some(rendezvous) = &*rendezvous {
            return Ok(Arc::clone(rendezvous));
        }
        let made = self.connect(left)?;
        *rendezvous = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the number of the next group of collectives, which all ranks create in the same
    /// order.
    pub(crate) fn next_group(&self) -> u64 {
        self.inner.groups.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes ranks that did not answer, so that no later group waits for them.
    pub(crate) fn note_lost(&self, description: &str) {
        self.inner.lost.get_or_init(|| description.into());
    }

    /// Returns an error if ranks are known to be gone.
    pub(crate) fn check_lost(&self) -> Result<()> {
        let refuse = |lost| Error::unavailable(format!("the world is not complete: {lost}"));
        self.inner
            .lost
            .get()
            .map_or(Ok(()), |lost| Err(refuse(lost)))
    }

    fn connect(&self, deadline: Duration) -> Result<Arc<dyn Rendezvous>> {
        let (rank, size) = (self.rank(), self.size());
        // Launchers of several ranks always give an address.
        let Some(address) = self.address().filter(|_| size > 1) else {
            return Ok(Arc::new(LocalStore::default()));
        };
        let port = self.port() + 1;
        let secret = &self.inner.membership.secret.0;
        if rank > 0 {
            let connected = TcpRendezvous::connect(address, port, rank, size, secret, deadline)?;
            return Ok(Arc::new(connected));
        }
        let serve = |error: std::io::Error| WorldError::Serve {
            address: format!("{address}:{port}").into(),
            cause: error.to_string().into(),
        };
        let listener = listen(address, port).map_err(serve)?;
        let local = listener.local_addr().map_err(serve)?;
        if secret.is_empty() && !local.ip().is_loopback() {
            let advice = "set MILLSTREAM_WORLD_SECRET to keep other programs out";
            log!(warn, %local, advice, "ranks are admitted without a secret");
        }
        let served = TcpRendezvous::serve(listener, size, secret, deadline)?;
        Ok(Arc::new(served))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn Rendezvous>>> {
        let rendezvous = &self.inner.rendezvous;
        rendezvous.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Membership {
            rank,
            size,
            local_rank,
            source,
            ..
        } = &self.inner.membership;
        write!(
            f,
            "rank {rank} of {size} (local rank {local_rank}; {source})"
        )
    }
}

/// Listens at the port of the address: for this machine only if it is a loopback address. If it is
/// no address of this machine, listens at all of them, because the name of rank 0 may be one that
/// only others resolve to it.
fn listen(address: &str, port: u16) -> std::io::Result<TcpListener> {
    let mut own: Vec<SocketAddr> = match (address, port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(_) => Vec::new(),
    };
    own.sort_by_key(|address| !address.ip().is_loopback());
    match TcpListener::bind(&own[..]) {
        Ok(listener) => return Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => return Err(error),
        Err(_) => {}
    }
    let any = [
        IpAddr::from(Ipv6Addr::UNSPECIFIED),
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
    ];
    // On Linux the first also accepts connections by IPv4, unless IPv6 is disabled.
    TcpListener::bind(&any.map(|ip| SocketAddr::from((ip, port)))[..])
}

/// Chooses the GPU of a local rank among `count`; `None` if there is no GPU.
fn local_ordinal(local_rank: usize, count: i32) -> Result<Option<i32>, WorldError> {
    let ordinal = i32::try_from(local_rank).unwrap_or(i32::MAX);
    match count {
        ..=0 => Ok(None),
        1 => Ok(Some(0)),
        _ if ordinal < count => Ok(Some(ordinal)),
        _ => Err(WorldError::NoLocalDevice {
            local_rank,
            devices: count.unsigned_abs() as usize,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, sync::mpsc};

    use super::*;

    #[test]
    fn each_local_rank_has_its_own_gpu() {
        assert_eq!(local_ordinal(2, 4), Ok(Some(2)));
        assert_eq!(local_ordinal(3, 1), Ok(Some(0)));
        assert_eq!(local_ordinal(3, 0), Ok(None));
        let error = local_ordinal(4, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "local rank 4 has no GPU of its own: this process sees 4 GPUs; start at most one rank \
             for each"
        );
    }

    #[test]
    fn a_loopback_address_is_served_to_this_machine_only() {
        let listener = listen("localhost", 0).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        assert!(address.ip().is_loopback());
        let listener = listen("127.0.0.2", 0).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        assert_eq!(address.ip(), Ipv4Addr::new(127, 0, 0, 2));
        let listener = listen("no-such-host.invalid", 0).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        assert!(address.ip().is_unspecified());
    }

    #[test]
    fn rank_0_of_a_world_listens_at_its_own_address_alone() {
        let free = listen("127.0.0.2", 0).and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        let [first, second] = ["0", "1"].map(|rank| {
            let world = World::from_variables(|name| match name {
                "MILLSTREAM_RANK" => Some(rank.to_owned()),
                "MILLSTREAM_WORLD_SIZE" => Some("2".to_owned()),
                "MILLSTREAM_ADDRESS" => Some("127.0.0.2".to_owned()),
                "MILLSTREAM_PORT" => Some((port - 1).to_string()),
                _ => None,
            });
            world.expect("the variables are valid")
        });
        let deadline = Duration::from_secs(20);
        thread::scope(|scope| {
            let served = scope.spawn(|| first.rendezvous(deadline).map(drop));
            second.rendezvous(deadline).expect("rank 0 serves");
            served.join().expect("no panic").expect("rank 1 is there");
        });
        assert!(TcpStream::connect(("127.0.0.2", port)).is_ok());
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }

    #[test]
    fn a_world_of_one_has_a_store_without_a_port() {
        let world = World::from_variables(|_| None).expect("no variable is a world of one");
        assert_eq!((world.rank(), world.size()), (0, 1));
        let deadline = Duration::from_secs(1);
        let store = world.rendezvous(deadline).expect("it needs no other rank");
        store.set("a", b"1").expect("the store is local");
        let again = world.rendezvous(deadline).expect("it is the same");
        assert_eq!(again.get("a", deadline).expect("it is set"), b"1");
        let error = store.get("b", Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.to_string(), "the key `b` was not set within 10ms");
    }

    #[test]
    fn a_thread_waits_for_another_that_connects_until_its_own_deadline() {
        let world = World::from_variables(|name| match name {
            "RANK" => Some("0".to_owned()),
            "WORLD_SIZE" => Some("1".to_owned()),
            "MILLSTREAM_WORLD_SECRET" => Some("hidden".to_owned()),
            _ => None,
        });
        let world = world.expect("the variables are valid");
        assert!(world.source().ends_with("MILLSTREAM_WORLD_SECRET"));
        assert!(!format!("{world:?} {:?}", world.inner.membership).contains("hidden"));
        let connecting = world.lock();
        let (other, (answer, answered)) = (world.clone(), mpsc::channel());
        thread::spawn(move || {
            let result = other.rendezvous(Duration::from_millis(20)).map(drop);
            answer.send(result).expect("the test waits");
        });
        let result = answered.recv_timeout(Duration::from_secs(20));
        let error = result.expect("it ends").unwrap_err().to_string();
        assert!(error.contains("another thread"), "{error}");
        drop(connecting);
    }
}
