//! Kernels that wait for nothing outside of their launch are as before kernels could wait.

use crate::rules::{prelude::*, waiting::POLLING};

/// Returns the times, counters and token of kernels that wait for nothing, or for each other.
fn record(schedule: Schedule) -> String {
    let sim = SimHarness::new(SimConfig::new().timeline(true).schedule(schedule));
    let streams = [sim.stream(), sim.stream()];
    let mut text = String::new();
    let meet = ["polling meet 1 40x1x1 64x1x1 array:4"];
    let cases = include_str!("../../benches/speed/cases.txt").lines();
    let cases = cases
        .filter(|line| !line.starts_with('#'))
        .take(26)
        .chain(meet);
    for (line, stream) in cases
        .filter(|line| !line.contains("_32"))
        .zip(streams.iter().cycle())
    {
        let words: Vec<&str> = line.split(' ').collect();
        let size = |word: &str| -> [u32; 3] {
            let sizes: Vec<u32> = word.split('x').map(|size| size.parse().unwrap()).collect();
            sizes.try_into().unwrap()
        };
        let arg = |word: &&str| {
            let (ty, value) = word.split_once(':').unwrap();
            match ty {
                "array" => {
                    let bytes = value.parse().unwrap();
                    let memory = sim.mem_alloc(bytes).unwrap();
                    sim.fill(memory, 0, bytes, *stream);
                    Arg::Pointer(memory)
                }
                "u32" => Arg::U32(value.parse().unwrap()),
                "f32" => Arg::U32(value.parse::<f32>().unwrap().to_bits()),
                _ => Arg::U64(value.parse::<f64>().unwrap().to_bits()),
            }
        };
        let args: Vec<Arg> = words[5..].iter().map(arg).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../kernels");
        let ptx = match words[0] {
            "polling" => POLLING.to_owned(),
            "speed" => include_str!("../../benches/speed/speed.ptx").to_owned(),
            file => std::fs::read_to_string(format!("{folder}/{file}.ptx")).unwrap(),
        };
        let dims = crate::harness::dims(size(words[3]), size(words[4]));
        let function = sim.kernel(&ptx, words[1]);
        sim.launch_shaped(function, &dims, *stream, &args).unwrap();
    }
    sim.context_synchronize().unwrap();
    for span in sim.gpu.timeline() {
        text += &format!("{} {} {}\n", span.what, span.start_ns, span.finish_ns);
    }
    sim.assert_clean();
    text + &format!("{:?}\n{}\n", sim.gpu.kernel_stats(), sim.gpu.replay_token())
}

#[test]
fn kernels_that_never_wait_have_the_times_counters_and_tokens_of_before() {
    let recorded = record(Schedule::Timed) + &record(Schedule::Random(5));
    assert_eq!(recorded, include_str!("never_waiting.txt"));
}
