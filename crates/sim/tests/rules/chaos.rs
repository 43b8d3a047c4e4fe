//! Fuzz tests: random calls with valid and invalid operands, and calls from many threads at once.

use millstream_driver::PeerCopy2d;
use millstream_sim::{PeerPool, VirtualMemoryCall};

use crate::rules::{prelude::*, sim_harness::SCHEDULES};

/// A pseudo-random number generator that selects calls.
struct RandomCalls(u64);

impl RandomCalls {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

/// The operands of random calls. Destroyed and freed operands stay in the lists, so that later
/// calls also use dead handles.
struct Operands {
    streams: Vec<StreamHandle>,
    events: Vec<EventHandle>,
    memory: Vec<DevicePtr>,
    functions: Vec<FunctionHandle>,
    /// Handles of physical memory.
    physical: Vec<u64>,
    pageable: Host,
    pinned: Host,
}

fn draw_call(sim: &SimHarness, dice: &mut RandomCalls, with: &mut Operands) {
    let stream = dice.pick(&with.streams);
    let event = dice.pick(&with.events);
    let memory = dice
        .pick(&with.memory)
        .offset(dice.pick(&[0, 0, 0, 1, 60, 64]));
    let host = dice
        .pick(&[with.pageable, with.pinned])
        .part(dice.roll(8), dice.roll(64));
    // The test checks only that the call returns; its result may be an error.
    match dice.roll(26) {
        0 => with
            .streams
            .push(sim.stream_create(dice.roll(2) == 0, 0).unwrap_or(stream)),
        1 => drop(sim.stream_destroy(stream)),
        2 => with.events.push(
            sim.event_create(millstream_driver::EventKind::Timing)
                .unwrap_or(event),
        ),
        3 => drop(sim.event_destroy(event)),
        4 | 5 => drop(sim.event_record(event, stream)),
        6 | 7 => drop(sim.stream_wait_event(stream, event)),
        8 => drop(sim.event_query(event)),
        9 => drop(sim.event_synchronize(event)),
        10 => drop(sim.stream_query(stream)),
        11 => drop(sim.stream_synchronize(stream)),
        12 => with
            .memory
            .push(sim.mem_alloc(dice.roll(200)).unwrap_or(memory)),
        13 | 14 => with.memory.push(
            sim.mem_alloc_async(dice.roll(200), stream)
                .unwrap_or(memory),
        ),
        15 => drop(sim.mem_free(memory)),
        16 => drop(sim.mem_free_async(memory, stream)),
        17 => drop(sim.upload(memory, host, stream)),
        18 => drop(sim.download(host, memory, stream)),
        19 => drop(sim.upload_now(memory, host)),
        20 => drop(sim.memset_async(memory, FillPattern::U16(7), dice.roll(64), stream)),
        21 => {
            let target = dice.pick(&with.memory);
            drop(sim.copy_unified_async(target, memory, dice.roll(64), stream));
        }
        22 => {
            let function = dice.pick(&with.functions);
            let args = [Arg::Pointer(memory), Arg::U32(1)];
            let args = &args[..dice.roll(3)];
            drop(sim.launch(
                function,
                (dice.roll(3) as u32, dice.roll(40) as u32),
                stream,
                args,
            ));
        }
        23 | 24 => draw_mapping(sim, dice, with, memory.as_raw()),
        _ => drop(sim.event_elapsed_ms(event, dice.pick(&with.events))),
    }
}

/// Makes a random call of virtual memory management.
#[rustfmt::skip]
fn draw_mapping(sim: &SimHarness, dice: &mut RandomCalls, with: &mut Operands, base: u64) {
    let (handle, device, alignment) = (dice.pick(&with.physical), 0, 0);
    let bytes = Gpu::MEMORY_GRANULARITY * dice.roll(3) as u64;
    let call = match dice.roll(8) {
        0 => VirtualMemoryCall::Reserve { bytes, alignment },
        1 => VirtualMemoryCall::Unreserve { base, bytes },
        2 => VirtualMemoryCall::Create { bytes, device },
        3 => VirtualMemoryCall::Release { handle },
        4 | 5 => VirtualMemoryCall::Map { base, bytes, handle },
        6 => VirtualMemoryCall::SetAccess { base, bytes, device, flags: 3 },
        _ => VirtualMemoryCall::Unmap { base, bytes },
    };
    let Ok(answer) = sim.gpu.virtual_memory("random", call) else { return };
    match call {
        VirtualMemoryCall::Reserve { .. } => with.memory.push(DevicePtr::from_raw(answer)),
        VirtualMemoryCall::Create { .. } => with.physical.push(answer),
        _ => {}
    }
}

#[test]
fn random_calls_always_answer() {
    for (index, schedule) in SCHEDULES.into_iter().enumerate() {
        for seed in 0..60 {
            let rules = dice_rules(seed);
            let sim = SimHarness::new(
                SimConfig::new()
                    .schedule(schedule)
                    .rules(rules)
                    .memory_bytes(4096 + (seed % 2) * (8 << 20)),
            );
            let mut dice = RandomCalls(seed * 100 + index as u64);
            let mut with = Operands {
                streams: vec![
                    StreamHandle::LEGACY,
                    StreamHandle::PER_THREAD,
                    sim.stream(),
                    StreamHandle::from_raw(99),
                ],
                events: vec![sim.event(), EventHandle::from_raw(99)],
                memory: vec![DevicePtr::from_raw(0), sim.mem_alloc(64).unwrap()],
                functions: vec![
                    sim.kernel(SET, "set"),
                    sim.kernel(SET, "count"),
                    FunctionHandle::from_raw(99),
                ],
                physical: vec![99],
                pageable: Host::pageable(80),
                pinned: sim.pinned(80),
            };
            for _ in 0..150 {
                draw_call(&sim, &mut dice, &mut with);
            }
            // All operations end, even if the context is lost.
            drop(sim.context_synchronize());
            assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
            // Physical memory belongs to no context.
            let call = |call| sim.gpu.virtual_memory("end", call);
            for address in &with.memory {
                let base = address.as_raw();
                for bytes in [1, 2].map(|count| count * Gpu::MEMORY_GRANULARITY) {
                    drop(call(VirtualMemoryCall::Unmap { base, bytes }));
                }
            }
            for handle in with.physical {
                while call(VirtualMemoryCall::Release { handle }).is_ok() {}
            }
            sim.release_context().unwrap();
            assert_eq!(
                sim.gpu.live_object_counts(),
                millstream_sim::LiveObjectCounts::default(),
                "{schedule:?}, seed {seed}"
            );
        }
    }
}

/// Makes a random call of one of two devices, with operands of either.
fn draw_peer_call(
    sims: &[SimHarness; 2],
    dice: &mut RandomCalls,
    streams: &[StreamHandle],
    memory: &mut Vec<DevicePtr>,
    functions: &[FunctionHandle; 2],
) {
    let index = dice.roll(2);
    let (sim, other) = (&sims[index], &sims[1 - index]);
    let (stream, target, source) = (
        dice.pick(streams),
        dice.pick(memory),
        dice.pick(memory).offset(dice.pick(&[0, 0, 0, 8, 64])),
    );
    // The test checks only that the call returns; its result may be an error.
    match dice.roll(12) {
        0 | 1 => memory.push(sim.mem_alloc_async(64, stream).unwrap_or(target)),
        2 => memory.push(sim.mem_alloc(64).unwrap_or(target)),
        3 => drop(sim.mem_free_async(target, stream)),
        4 => drop(sim.pool_set_access(other.device, dice.roll(3) > 0)),
        5 => drop(sim.context_enable_peer_access(other.context)),
        6 | 7 => drop(sim.copy_from(target, other, source, dice.roll(65), stream)),
        8 => {
            let copy = PeerCopy2d {
                target,
                target_pitch_bytes: dice.roll(20),
                target_context: sim.context,
                source,
                source_pitch_bytes: dice.roll(20),
                source_context: dice.pick(&[sim.context, other.context]),
                row_bytes: dice.roll(10),
                rows: dice.roll(5),
            };
            drop(sim.copy_peer_2d_async(&copy, stream));
        }
        9 => {
            let args = [Arg::Pointer(target), Arg::U32(1)];
            drop(sim.launch(functions[index], (1, 4), stream, &args));
        }
        10 => {
            let event = other.event_create(millstream_driver::EventKind::Ordering);
            drop(event.and_then(|event| {
                other.event_record(event, dice.pick(streams))?;
                sim.stream_wait_event(stream, event)?;
                other.event_destroy(event)
            }));
        }
        _ => drop(sim.stream_synchronize(stream)),
    }
}

#[test]
fn random_calls_of_two_devices_always_answer() {
    for (index, schedule) in SCHEDULES.into_iter().enumerate() {
        for seed in 0..60 {
            let mut dice = RandomCalls(seed * 100 + index as u64);
            let sim = SimHarness::new(
                SimConfig::new()
                    .devices(2)
                    .schedule(schedule)
                    .rules(dice_rules(seed))
                    .peer_pool(dice.pick(&[PeerPool::Observed, PeerPool::Zeros]))
                    .links(Links::all(dice.pick(&[
                        Link::NvLink,
                        Link::Pcie,
                        Link::NoPeerAccess,
                    ]))),
            );
            let other = sim.on_device(1);
            let sims = [sim, other];
            let streams = sims.each_ref().map(SimHarness::stream);
            let mut memory = vec![DevicePtr::from_raw(0)];
            memory.extend(sims.each_ref().map(|sim| sim.mem_alloc(64).unwrap()));
            let functions = sims.each_ref().map(|sim| sim.kernel(SET, "set"));
            for _ in 0..100 {
                draw_peer_call(&sims, &mut dice, &streams, &mut memory, &functions);
            }
            // All operations end, even if a context is lost.
            for sim in &sims {
                drop(sim.context_synchronize());
            }
            let gpu = &sims[0].gpu;
            assert_eq!(gpu.live_object_counts().pending_operations, 0);
        }
    }
}

fn dice_rules(seed: u64) -> Rules {
    if seed.is_multiple_of(2) {
        Rules::observed()
    } else {
        Rules::strict()
    }
}

#[run_by(each_schedule_and_reading, |sim|)]
fn many_threads_pass_a_token_through_streams_events_and_host_functions() {
    const THREADS: usize = 4;
    const ROUNDS: u8 = 25;
    let calls = Arc::new(AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let calls = Arc::clone(&calls);
            scope.spawn(move || {
                let (first, second) = (sim.stream(), sim.stream());
                let memory = sim.mem_alloc_async(64, first).unwrap();
                let host = sim.pinned(64);
                for round in 0..ROUNDS {
                    sim.fill(memory, round, 64, first);
                    let written = sim.recorded(first);
                    sim.stream_wait_event(second, written).unwrap();
                    sim.download(host, memory, second).unwrap();
                    let calls = Arc::clone(&calls);
                    sim.host_function(second, move || {
                        assert!(host.is(round));
                        calls.fetch_add(1, SeqCst);
                    });
                    let read = sim.recorded(second);
                    sim.stream_wait_event(first, read).unwrap();
                    match round % 3 {
                        0 => sim.event_synchronize(read).unwrap(),
                        1 => {
                            while !sim.event_query(read).unwrap().is_complete() {
                                sim.gpu.pause(std::time::Duration::from_micros(20));
                            }
                        }
                        _ => {}
                    }
                    sim.event_destroy(written).unwrap();
                    sim.event_destroy(read).unwrap();
                }
                sim.mem_free_async(memory, first).unwrap();
                sim.stream_synchronize(first).unwrap();
                sim.stream_destroy(first).unwrap();
                sim.stream_destroy(second).unwrap();
                assert!(host.is(ROUNDS - 1));
            });
        }
    });
    assert_eq!(calls.load(SeqCst), (THREADS * usize::from(ROUNDS)) as u32);
    sim.assert_clean();
    let live_object_counts = sim.gpu.live_object_counts();
    assert_eq!(
        (
            live_object_counts.streams,
            live_object_counts.events,
            live_object_counts.device_bytes
        ),
        (0, 0, 0)
    );
}
