//! Signals on systems without them.

use std::{
    io,
    process::{Child, ExitStatus},
};

pub(crate) struct Signals(());

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self(()))
    }

    pub(crate) fn last(&mut self) -> Option<i32> {
        None
    }

    pub(crate) fn wait(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        child.wait()
    }
}
