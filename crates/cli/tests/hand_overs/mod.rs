//! Hand-overs between Millstream and the published crate cudarc, in one process.
//!
//! With `MILLSTREAM_DEVICE=cuda:0` both use the GPU, with `--test-threads=1`: the driver runs
//! the host functions of all streams on one thread, so that one scenario's closed gate would block
//! another's. Elsewhere on Linux each test runs this program again with the drop-in driver of
//! `crates/libcuda` in the place of the GPU's, and fails if that reports a race. There the calls
//! with which the process waits on the host are counted too; on a GPU they are with `LD_PRELOAD`
//! (`interposed.c`).

/// Declares a test for each scenario.
macro_rules! scenarios {
    ($($name:ident: $scenario:ident;)*) => {$(
        #[test]
        fn $name() -> crate::hand_overs::play::Outcome {
            let test = concat!(module_path!(), "::", stringify!($name));
            crate::hand_overs::dropin::run(test, $scenario)
        }
    )*};
}

mod captures;
mod dropin;
mod interposed;
mod play;
mod scenarios;
