//! Threads that end: what is dropped with their variables may still call the driver.

use std::{
    cell::RefCell,
    sync::mpsc::{Sender, channel},
    thread,
};

use millstream_driver::FillPattern;
use millstream_sim::{SimConfig, race::Label};

use crate::rig::Rig;

/// Fills memory when it is dropped.
struct Last(Rig, Sender<()>);

impl Drop for Last {
    fn drop(&mut self) {
        let _label = Label::new("last");
        let Self(rig, done) = self;
        let (stream, memory) = (rig.stream(), rig.mem_alloc(64).unwrap());
        rig.memset_async(memory, FillPattern::U8(1), 64, stream)
            .unwrap();
        done.send(()).unwrap();
    }
}

#[test]
fn a_thread_may_call_while_it_destroys_its_variables() {
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        let rig = Rig::new(SimConfig::new());
        LAST.set(Some(Last(rig, done)));
        // Used later than the variable above, the label's variable is destroyed first.
        drop(Label::new("first"));
    });
    thread.join().unwrap();
    ended.recv().unwrap();
}
