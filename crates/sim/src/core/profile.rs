//! The real time that the simulation takes, by kernel.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
    io::Write as _,
    sync::Arc,
    time::Instant,
};

use millstream_driver::printable;

use super::state::SimState;

/// The name of the row of copies and fills.
pub(super) const COPIES: &str = "(copies and fills)";
/// The name of the row of the race checker, except checks within kernels.
pub(super) const CHECKS: &str = "(checks for races between operations)";

/// The real time that the simulation itself takes: see [`SimConfig::profile`].
///
/// The text is a table, the longest time first. Times are elapsed times, which differ from run to
/// run; the blocks of a kernel run on several cores.
///
/// ```
/// use millstream_sim::{Profile, TimeSpent};
/// let mut profile = Profile { elapsed_ns: 4_000_000_000, ..Profile::default() };
/// let (count, thread_instructions, ns) = (2, 600_000_000, 3_000_000_000);
/// profile.add("blur", TimeSpent { count, thread_instructions, ns });
/// let table = profile.to_string();
/// assert!(table.contains("     3.000  75.0 %        2       600000000        200.0  blur\n"));
/// assert!(table.contains("  25.0 %        0               0          0.0  (all else: "));
/// ```
///
/// [`SimConfig::profile`]: crate::SimConfig::profile
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The nanoseconds since the simulated GPU was created.
    pub elapsed_ns: u64,
    /// The time of each kernel, by its name in the PTX, and of other work, by a name in
    /// parentheses.
    pub rows: BTreeMap<Arc<str>, TimeSpent>,
}

/// The real time of operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpent {
    /// The number of operations. Nodes of graphs count once for each launch, and for each iteration
    /// of their loop.
    pub count: u64,
    /// The instructions executed, counted once for each thread. Launches that failed have none.
    pub thread_instructions: u64,
    /// The nanoseconds elapsed.
    pub ns: u64,
}

impl Profile {
    /// Adds time to a row.
    pub fn add(&mut self, name: &str, spent: TimeSpent) {
        if !self.rows.contains_key(name) {
            self.rows.insert(name.into(), TimeSpent::default());
        }
        if let Some(row) = self.rows.get_mut(name) {
            row.count += spent.count;
            row.thread_instructions += spent.thread_instructions;
            row.ns += spent.ns;
        }
    }
}

impl Display for Profile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<_> = self
            .rows
            .iter()
            .map(|(name, spent)| (&**name, *spent))
            .collect();
        rows.sort_by_key(|(_, spent)| Reverse(spent.ns));
        let simulated: u64 = rows.iter().map(|(_, spent)| spent.ns).sum();
        let ns = self.elapsed_ns.saturating_sub(simulated);
        let rest = TimeSpent {
            ns,
            ..TimeSpent::default()
        };
        rows.push(("(all else: the program and its calls)", rest));
        let (simulated, elapsed) = (simulated as f64 / 1e9, self.elapsed_ns as f64 / 1e9);
        writeln!(
            f,
            "the simulated device took {simulated:.3} s of {elapsed:.3} s"
        )?;
        writeln!(
            f,
            "   seconds   share    count    instructions    million/s  kernel"
        )?;
        for (
            name,
            TimeSpent {
                count,
                thread_instructions: instructions,
                ns,
            },
        ) in rows
        {
            let (seconds, share) = (ns as f64 / 1e9, ns as f64 / 1e7 / elapsed.max(1e-9));
            let speed = instructions as f64 * 1e3 / ns.max(1) as f64;
            write!(
                f,
                "{seconds:>10.3}  {share:>4.1} %{count:>9}{instructions:>16}{speed:>13.1}"
            )?;
            writeln!(f, "  {}", printable(name))?;
        }
        Ok(())
    }
}

impl SimState {
    /// Begins a measurement, unless the profile is off.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.config.profile.then(Instant::now)
    }

    /// Ends the measurement of an operation.
    pub(super) fn spent(&mut self, start: Option<Instant>, name: &str, thread_instructions: u64) {
        if let Some(start) = start {
            let ns = start.elapsed().as_nanos() as u64;
            self.profile.add(
                name,
                TimeSpent {
                    count: 1,
                    thread_instructions,
                    ns,
                },
            );
        }
    }

    /// Returns the profile so far.
    pub(crate) fn profile(&self) -> Profile {
        let elapsed_ns = self.created.elapsed().as_nanos() as u64;
        Profile {
            elapsed_ns,
            ..self.profile.clone()
        }
    }

    /// Prints the profile if the last context has ended, unless the program takes the reports.
    pub(crate) fn print_profile(&self) {
        if self.config.profile && self.contexts.is_empty() && self.on_report.is_none() {
            // A closed standard error is ignored.
            let _ = write!(std::io::stderr(), "millstream: {}", self.profile());
        }
    }
}
