//! What calls of the driver cost the host.

use anyhow::Result;

use crate::{
    raw::Flag,
    rig::Rig,
    timing::{Contender, Effort, medians},
};

const EFFORT: Effort = Effort {
    rounds: 80,
    batch: 200,
};
/// Fits a stream's queue three times over (rule 54).
const ALLOCATIONS: Effort = Effort {
    rounds: 80,
    batch: 100,
};

/// Prints nanoseconds for each call.
pub(crate) fn print(rig: &Rig) -> Result<()> {
    let raw = &rig.raw;
    let (stream, other) = (raw.stream()?, raw.stream()?);
    let (done, pending) = (raw.event()?, raw.event()?);
    stream.record(&done)?;
    stream.synchronize()?;
    let show = |what: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let [ns] = medians(rig, EFFORT, [Contender::new(work, || stream.synchronize())])?;
        println!("{what}: {ns:.0} ns");
        Ok(())
    };
    show("event query, complete", &mut || done.is_complete().map(drop))?;
    show("stream query, idle", &mut || stream.is_idle().map(drop))?;
    show("event record", &mut || stream.record(&pending))?;
    show("wait for a complete event", &mut || stream.wait_for(&done))?;
    show("event create and destroy", &mut || raw.event().map(drop))?;
    // A simulated device fills with the host's own hands.
    let shifts: &[u32] = if rig.device.is_simulated() {
        &[12]
    } else {
        &[12, 16, 20, 24, 26]
    };
    for shift in shifts {
        for fill in [false, true] {
            let bytes = 1_usize << shift;
            let pair = Contender::new(|| stream.allocate_and_free(bytes, fill), || stream.synchronize());
            let [ns] = medians(rig, ALLOCATIONS, [pair])?;
            let filled = if fill { ", filled with zeros" } else { "" };
            println!("allocate and free {} KiB{filled}: {ns:.0} ns", bytes >> 10);
        }
    }
    if rig.device.is_simulated() {
        return Ok(());
    }
    let flag = Flag::new(raw)?;
    let gate = raw.gate()?;
    let print_pending = || {
        other.gate(gate, flag)?;
        other.record(&pending)?;
        show("event query, pending", &mut || pending.is_complete().map(drop))?;
        show("stream query, busy", &mut || other.is_idle().map(drop))
    };
    let printed = print_pending();
    // Whatever came of it: nothing of this context could ever be given back with the gate closed.
    flag.raise();
    other.synchronize()?;
    printed
}
