//! Timelines of a running device.

use millstream::{Device, OperationKind, Result};

#[test]
fn the_same_program_records_the_same_timeline() -> Result<()> {
    let run = || -> Result<String> {
        let device = Device::simulated()?;
        let timeline = device.timeline()?;
        let (a, b) = (device.stream()?, device.stream()?);
        let numbers = a.upload(&vec![1_u32; 100_000])?;
        let mut copy = b.zeros::<u32>(100_000)?;
        b.copy(&numbers, &mut copy)?;
        let (first, second) = (a.download(&copy)?, b.download(&numbers)?);
        assert_eq!(first.wait()?, second.wait()?);
        let trace = timeline.finish()?;
        // Streams have different ids in each run; the SVG numbers them from 1.
        Ok(trace.to_svg())
    };
    assert_eq!(run()?, run()?);
    Ok(())
}

#[test]
fn recorded_waits_name_the_operation_waited_for() -> Result<()> {
    let device = Device::simulated()?;
    let (a, b) = (device.stream()?, device.stream()?);
    let timeline = device.timeline()?;
    let numbers = a.upload(&[1_u8; 64])?;
    b.download(&numbers)?.wait()?;
    let trace = timeline.finish()?;
    let find = |kind| {
        trace
            .operations
            .iter()
            .find(|operation| operation.kind == kind)
            .expect("the trace has an operation of this kind")
    };
    let (upload, download) = (
        find(OperationKind::HostToDevice),
        find(OperationKind::DeviceToHost),
    );
    assert_eq!((upload.stream, download.stream), (a.id(), b.id()));
    assert_eq!(download.waits, [(upload.stream, upload.sequence)]);
    assert!(upload.waits.is_empty());
    assert!(download.time_ns.start >= upload.time_ns.end);
    Ok(())
}

#[test]
fn a_second_timeline_ends_the_first_without_affecting_it() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let first = device.timeline()?;
    let _one = stream.upload(&[1_u8])?;
    let second = device.timeline()?;
    let _two = stream.upload(&[2_u8])?;
    let uploads = |trace: &millstream::Trace| {
        trace
            .operations
            .iter()
            .filter(|operation| operation.kind == OperationKind::HostToDevice)
            .count()
    };
    assert_eq!(uploads(&first.finish()?), 1);
    let _three = stream.upload(&[3_u8])?;
    assert_eq!(uploads(&second.finish()?), 2);
    let _four = stream.upload(&[4_u8])?;
    drop(device.timeline()?);
    assert_eq!(stream.download(&stream.upload(&[5_u8])?)?.wait()?, [5]);
    Ok(())
}
