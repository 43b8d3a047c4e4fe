//! The reading of CUDA's memory model that the check follows.

/// The memory model that the check for races within a launch assumes.
///
/// The default is the PTX memory model for the order of accesses, and that of CUDA C++ for the
/// meaning of `volatile`.
///
/// ```
/// use millstream_sim::{SimConfig, exec::RaceModel};
/// let model = RaceModel::new().lenient_acquire(true).strong_volatile(true);
/// assert_eq!(
///     SimConfig::parse("sim:race=kernels,acquire=lenient,volatile=strong").unwrap(),
///     SimConfig::new().kernel_race_check(true).kernel_race_model(model),
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RaceModel {
    pub(crate) lenient_acquire: bool,
    pub(crate) strong_volatile: bool,
}

impl RaceModel {
    /// Creates the default model.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether every atomic and every volatile, relaxed or acquire load acquires what was
    /// released with the value that it reads. By default the memory model's rule holds: the load is
    /// an acquire, or a fence follows it, of a scope that includes the releasing thread. Much code
    /// from before Volta relies on the lenient reading.
    pub fn lenient_acquire(mut self, lenient: bool) -> Self {
        self.lenient_acquire = lenient;
        self
    }

    /// Sets whether volatile accesses are strong, like relaxed atomic ones, which is the rule of
    /// PTX. By default two volatile accesses that race are a
    /// [warning](crate::Severity::Warning), because volatile accesses are not synchronisation in
    /// CUDA C++.
    pub fn strong_volatile(mut self, strong: bool) -> Self {
        self.strong_volatile = strong;
        self
    }
}
