//! Rules 1 to 15: the work that copies and fills wait for, and when they access host memory.

use crate::rules::prelude::*;

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r15_a_partly_registered_range_is_an_invalid_value() {
    let memory = sim.mem_alloc(100).unwrap();
    let host = Host::filled(100, 1);
    sim.host_register(host.part(20, 40)).unwrap();
    for (at, bytes) in [(0, 21), (0, 100), (30, 31), (59, 2)] {
        sim.upload(memory, host.part(at, bytes), stream)
            .fails(ResultCode::INVALID_VALUE);
        sim.assert_reported(
            ReportKind::PartlyRegistered,
            &["only partly page-locked", "cuMemHostRegister"],
        );
    }
    sim.assert_nothing_enqueued();
    for (at, bytes) in [(0, 20), (20, 40), (25, 1), (60, 40)] {
        sim.upload(memory, host.part(at, bytes), stream).unwrap();
    }
    sim.stream_synchronize(stream).unwrap();
    sim.host_unregister(host.part(20, 40)).unwrap();
    sim.upload(memory, host, stream).unwrap();
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn copies_between_devices_arrive() {
    let other = sim.on_device(1);
    let stream = sim.stream();
    let (here, there) = (sim.mem_alloc(4).unwrap(), other.mem_alloc(4).unwrap());
    sim.fill(here, 6, 4, stream);
    sim.copy_unified_async(there, here, 4, stream).unwrap();
    assert_eq!(sim.read(there, 4, stream), [6; 4]);
    sim.assert_clean();
}

#[run_by(with_stream, |sim, stream|)]
fn odd_offsets_and_lengths_copy_exactly_what_they_say() {
    let memory = sim.mem_alloc(64).unwrap();
    sim.fill(memory, 0, 64, stream);
    let host = Host::of(&[1, 2, 3, 4, 5]);
    sim.upload(memory.offset(7), host, stream).unwrap();
    sim.copy_device_to_device_async(memory.offset(21), memory.offset(8), 3, stream)
        .unwrap();
    sim.upload(memory, host.part(0, 0), stream).unwrap();
    let mut expected = [0; 64];
    expected[7..12].copy_from_slice(&[1, 2, 3, 4, 5]);
    expected[21..24].copy_from_slice(&[2, 3, 4]);
    assert_eq!(sim.read(memory, 64, stream), expected);
    sim.assert_clean();
}
