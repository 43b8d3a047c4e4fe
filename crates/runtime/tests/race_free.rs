//! Random programs over streams and narrow parts of arrays: the simulated device's race checker finds nothing in them, whatever the
//! schedule makes of them.

#![allow(unsafe_code, reason = "breaks a promise about order on purpose")]

use std::ops::Range;

use millstream::{
    Buffer, Device, Result, Stream,
    sim::{Gpu, ReportKind, Schedule, SimConfig},
};

const BYTES: usize = 256;
const ARRAYS: usize = 6;
const STREAMS: usize = 4;
const STEPS: usize = 60;
const PROGRAMS: u64 = 40;

struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    /// A few bytes, so that many parts overlap by one.
    fn part(&mut self) -> Range<usize> {
        let from = self.below(BYTES - 6);
        from..from + 1 + self.below(6)
    }
}

fn step(draws: &mut Draws, stream: &Stream, arrays: &mut [Buffer<u8>]) -> Result<()> {
    let (at, part) = (draws.below(ARRAYS), draws.part());
    match draws.below(6) {
        0 | 1 => stream.fill(arrays[at].slice_mut(part), draws.below(256) as u8)?,
        2 => {
            let mut copy = stream.zeros::<u8>(part.len())?;
            stream.copy(arrays[at].slice(part), &mut copy)?;
        }
        3 => drop(stream.download(arrays[at].slice(part))?),
        4 => arrays[at] = stream.upload(&[7; BYTES])?,
        _ => {
            let (last, others) = arrays.split_last_mut().expect("there are arrays");
            stream.copy(
                others[at % (ARRAYS - 1)].slice(part.clone()),
                last.slice_mut(part),
            )?;
        }
    }
    Ok(())
}

#[test]
fn random_programs_race_nowhere() {
    for schedule in [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(1),
    ] {
        for seed in 0..PROGRAMS {
            let gpu = Gpu::new(SimConfig::new().schedule(schedule));
            let device = Device::of(&gpu, 0).unwrap();
            if seed % 2 == 0 {
                // So that what is dropped is freed there and then.
                device.set_cache_limit(0);
            }
            let streams: Vec<_> = (0..STREAMS).map(|_| device.stream().unwrap()).collect();
            let mut draws = Draws(seed);
            let mut arrays: Vec<_> = (0..ARRAYS)
                .map(|_| streams[0].zeros::<u8>(BYTES).unwrap())
                .collect();
            for _ in 0..STEPS {
                let stream = &streams[draws.below(STREAMS)];
                step(&mut draws, stream, &mut arrays).unwrap();
            }
            drop(arrays);
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            let findings = gpu.findings();
            assert!(
                findings.is_empty(),
                "program {seed} under {schedule:?}: {}",
                findings[0]
            );
        }
    }
}

#[test]
fn a_promise_about_order_that_does_not_hold_is_found_with_both_lines() {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::of(&gpu, 0).unwrap();
    let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
    let mut array = one.zeros::<u8>(BYTES).unwrap();
    one.synchronize().unwrap();
    let (write, read) = (line!() + 1, line!() + 3);
    one.fill(array.slice_mut(10..20), 1).unwrap();
    // SAFETY: the promise is broken. The simulated device takes no harm, and what is read is not looked at.
    let values = other.download(unsafe { array.unordered() }).unwrap();
    values.wait().unwrap();
    one.synchronize().unwrap();
    let findings = gpu.findings();
    let [race] = &findings[..] else {
        panic!("one race: {findings:?}");
    };
    assert_eq!(race.kind, ReportKind::Race);
    let ranges = &race.memory.as_ref().unwrap().ranges;
    assert_eq!((ranges.len(), ranges[0].clone()), (1, 10..20));
    let site = |party: &millstream::sim::race::Party| party.site.clone().unwrap();
    let (earlier, later) = (site(race.earlier.as_ref().unwrap()), site(&race.later));
    assert!(earlier.ends_with(&format!("race_free.rs:{write}")), "{earlier}");
    assert!(later.ends_with(&format!("race_free.rs:{read}")), "{later}");
}
