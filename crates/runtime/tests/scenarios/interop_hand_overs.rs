//! Scenario I5 with simulated outsiders: random hand-overs between several streams of ours and of
//! others, with the driver calls counted. The same with cudarc is in `crates/cli/tests`.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::scenarios::{
    harness::once_counted,
    outsiders::{BYTES as N, wait_until},
    prelude::*,
};

const ARRAYS: usize = 4;
const OUTSIDERS: usize = 3;

/// A seeded random number generator.
struct Random(Pcg64Mcg);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }
}

/// Arrays that go back and forth between streams of ours and of outsiders.
struct Play {
    outsiders: [Arc<Outsider>; OUTSIDERS],
    theirs: [Stream; OUTSIDERS],
    ours: [Stream; 2],
    arrays: Vec<Buffer<u8>>,
    /// The value of every element of each array.
    expected: [u8; ARRAYS],
    /// The number of times that memory or its use passed from one side to the other.
    hand_overs: usize,
}

impl Play {
    fn new(gpu: Option<&Gpu>, device: &Device) -> Self {
        let outsiders = [(); OUTSIDERS].map(|()| Outsider::new(gpu, 0));
        let theirs = std::array::from_fn(|at| outsiders[at].adopt(device));
        let ours = [(); 2].map(|()| device.stream().expect("a stream"));
        let array = |_| ours[0].zeros(N).expect("an array");
        Self {
            arrays: (0..ARRAYS).map(array).collect(),
            outsiders,
            theirs,
            ours,
            expected: [0; ARRAYS],
            hand_overs: 0,
        }
    }

    /// Fills an array: on our stream, on an adopted one, or by its owner.
    fn fill(&mut self, random: &mut Random, target: usize, value: u8) {
        let (mine, who) = (random.below(2), random.below(OUTSIDERS));
        let array = &mut self.arrays[target];
        match random.below(3) {
            0 => self.ours[mine].fill(array, value).unwrap(),
            1 => self.theirs[who].fill(array, value).unwrap(),
            _ => {
                let lease = array.lend_mut(&self.theirs[who]).unwrap();
                self.outsiders[who].fill(lease.as_raw(), N, value);
                self.hand_overs += 2;
            }
        }
        self.expected[target] = value;
    }

    /// Copies an array to another, likewise.
    fn copy(&mut self, random: &mut Random, source: usize, target: usize) {
        let (mine, who) = (random.below(2), random.below(OUTSIDERS));
        let [from, to] = self.arrays.get_disjoint_mut([source, target]).unwrap();
        match random.below(3) {
            0 => self.ours[mine].copy(&*from, to).unwrap(),
            1 => self.theirs[who].copy(&*from, to).unwrap(),
            _ => {
                let stream = &self.theirs[who];
                let (read, written) = (from.lend(stream).unwrap(), to.lend_mut(stream).unwrap());
                self.outsiders[who].copy(read.as_raw(), written.as_raw(), N);
                self.hand_overs += 4;
            }
        }
        self.expected[target] = self.expected[source];
    }

    /// Replaces an array by one that an outsider has allocated and filled.
    fn replace(&mut self, random: &mut Random, device: &Device, target: usize, value: u8) {
        let (who, other) = (random.below(OUTSIDERS), random.below(2));
        let (outsider, theirs) = (&self.outsiders[who], &self.theirs[who]);
        let tensor = outsider.allocate(N);
        outsider.fill(tensor.pointer, N, value);
        let release = |keeper| match other {
            0 => Release::behind(theirs, keeper),
            _ => Release::when_done(keeper),
        };
        let drops = Drops::default();
        self.arrays[target] = adopted(device, theirs, (tensor, &drops), release);
        self.expected[target] = value;
        self.hand_overs += 2;
    }

    fn step(&mut self, random: &mut Random, device: &Device, value: u8) {
        let (source, target) = (random.below(ARRAYS), random.below(ARRAYS));
        if source != target {
            self.copy(random, source, target);
        } else if random.below(4) == 0 {
            self.replace(random, device, target, value);
        } else {
            self.fill(random, target, value);
        }
    }

    fn check(&self) {
        for (array, value) in self.arrays.iter().zip(self.expected) {
            let found = self.ours[0].values(array).unwrap();
            assert_eq!(found, [value; N]);
        }
    }
}

#[run_by(everywhere, |harness|)]
fn i05_random_hand_overs_between_streams_give_the_right_values() {
    let mut play = Play::new(harness.if_simulated(), &harness.device);
    let mut random = Random::new(7);
    for step in 0..80 {
        play.step(&mut random, &harness.device, step + 1);
    }
    play.check();
}

/// The calls that block the host, or wait for the whole device.
const BLOCKING: [&str; 9] = [
    "context_synchronize",
    "stream_synchronize",
    "event_synchronize",
    "mem_alloc",
    "mem_free",
    "copy_host_to_device",
    "copy_device_to_host",
    "copy_device_to_device",
    "host_alloc",
];

#[run_by(once_counted, |harness, calls: &Calls|)]
fn i05_ten_thousand_hand_overs_never_synchronise_the_host() {
    let mut play = Play::new(harness.if_simulated(), &harness.device);
    let mut random = Random::new(11);
    calls.forget();
    let mut value = 0_u8;
    while play.hand_overs < 10_000 {
        value = value.wrapping_add(1);
        play.step(&mut random, &harness.device, value);
        if play.hand_overs % 1000 < 4 {
            let counts = calls.counts();
            for call in BLOCKING {
                assert_eq!(calls.count(call), 0, "{call}: {counts:?}");
            }
            play.check();
            calls.forget();
        }
    }
    play.check();
}

#[run_by(once_counted, |harness, calls: &Calls|)]
fn i05_a_hand_over_costs_one_wait_there_and_one_record_and_wait_back() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let mut array = ours.zeros::<u8>(N).unwrap();
    let mut hand_over = |value| {
        ours.fill(&mut array, value).unwrap();
        fill_lent(&outsider, &theirs, &mut array, value);
    };
    // From the second on both streams are known to use the array.
    hand_over(0);
    hand_over(1);
    let gate = harness.gate(&ours);
    calls.forget();
    for value in 0..100 {
        hand_over(value);
    }
    // A record behind our fill and one behind the owner's; each stream waits for the other.
    harness.assert_count(calls, "event_record", 200);
    harness.assert_count(calls, "stream_wait_event", 200);
    gate.open();
    assert_eq!(ours.values(&array).unwrap(), [99; N]);
    drop((theirs, array));
    wait_until(|| Arc::strong_count(&outsider) == 1);
}
