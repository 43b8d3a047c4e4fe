//! Ending threads: the destructors of their thread-local variables may still call the driver.

use std::{
    cell::RefCell,
    sync::mpsc::{Sender, channel},
    thread,
};

use crate::races::prelude::*;

/// Fills memory when it is dropped.
struct FillOnDrop(SimHarness, Sender<()>);

impl Drop for FillOnDrop {
    fn drop(&mut self) {
        let _label = Label::new("last");
        let Self(sim, done) = self;
        let (stream, memory) = (sim.stream(), sim.mem_alloc(64).unwrap());
        sim.fill(memory, 1, 64, stream);
        done.send(()).unwrap();
    }
}

#[test]
fn a_thread_may_call_while_it_destroys_its_variables() {
    thread_local! {
        static LAST: RefCell<Option<FillOnDrop>> = const { RefCell::new(None) };
    }
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        let sim = SimHarness::new(SimConfig::new());
        LAST.set(Some(FillOnDrop(sim, done)));
        // The label's variable is initialised after the one above, so it is destroyed first.
        drop(Label::new("first"));
    });
    thread.join().unwrap();
    ended.recv().unwrap();
}
