//! Scenarios X: textures and surfaces are ordered like buffers, and freed behind their last use.
//! The guide's page of textures has the usage errors.

#![allow(unsafe_code, reason = "launches a kernel that writes a surface")]

use std::ptr;

use half::f16;
use millstream::{
    Texture,
    array::{AddressMode, Texel, TextureOptions},
    driver::FunctionHandle,
    interop::{ForeignOperand, read},
};

use crate::scenarios::{prelude::*, relocatable, sweep::Subject};

millstream::kernels! {
    // SAFETY: the signatures are those of texture.cu, whose threads access the first `n` texels of
    // an image with rows of `width`, and `n` elements.
    unsafe mod images from include_str!("../../src/guide/texture.ptx") {
        safe fn texels(image: &Texture<u32>, out: &mut [u32], width: u32, n: u32)
            requires out.len() >= n, n <= image.len();
        /// # Safety
        ///
        /// The image has two dimensions, and rows of `width` texels.
        unsafe fn brighten(image: &mut Surface<u32>, by: u32, width: u32, n: u32)
            requires n <= image.len();
    }
}

const WIDTH: usize = 50;

fn image(stream: &Stream, value: u32) -> Result<Texture<u32>> {
    let size = [WIDTH, N / WIDTH, 0];
    let options = TextureOptions {
        size,
        ..TextureOptions::default()
    };
    stream.texture(options, &stream.upload(&[value; N])?)
}

impl images::Kernels {
    fn sample(&self, stream: &Stream, from: &Texture<u32>, out: &mut Buffer<u32>) -> Result<()> {
        self.texels(stream, N, from, out, WIDTH as u32, N as u32)
    }

    fn add(&self, stream: &Stream, image: &mut Texture<u32>, by: u32) -> Result<()> {
        // SAFETY: images have rows of this width.
        unsafe { self.brighten(stream, N, image.surface(), by, WIDTH as u32, N as u32) }
    }
}

#[run_by(scenario_on, |harness, [s1, s2, s3]|)]
fn x02_copies_and_surfaces_on_other_streams_are_ordered_with_fetches() -> Result<()> {
    let (kernels, sevens) = (images::load(&harness.device)?, s1.upload(&[7_u32; N])?);
    let (mut a, mut b) = (image(&s1, 1)?, image(&s2, 2)?);
    let [mut out, mut plain] = [s1.zeros::<u32>(N)?, s1.zeros::<u32>(N)?];
    s1.synchronize()?;
    let gate = harness.gate(&s2);
    s2.copy(&sevens, &mut a)?;
    kernels.sample(&s3, &a, &mut out)?;
    let fetched = s3.download(&out)?;
    kernels.add(&s1, &mut a, 10)?;
    s3.copy(&a, &mut plain)?;
    let copied = s1.download(&plain)?;
    harness.assert_pending(&fetched);
    harness.open_pending(gate, &copied);
    assert_eq!((fetched.wait()?, copied.wait()?), (vec![7; N], vec![17; N]));
    both(
        || kernels.add(&s2, &mut a, 1),
        || kernels.add(&s3, &mut b, 1),
    )?;
    s2.copy(&a, &mut b)?;
    kernels.sample(&s1, &b, &mut out)?;
    assert_eq!(s2.values(&out)?, [18; N]);
    Ok(())
}

#[run_by(once, |harness|)]
fn x02_a_surface_that_a_kernel_only_reads_is_passed_as_a_texture() -> Result<()> {
    let stream = harness.stream();
    let kernels = images::load(&harness.device)?;
    let (mut a, mut out) = (image(&stream, 4)?, stream.zeros::<u32>(N)?);
    let surface = a.surface();
    kernels.texels(&stream, N, &surface, &mut out, WIDTH as u32, N as u32)?;
    let graph = harness.record("fetch", |r| {
        kernels.texels(
            &r.stream()?,
            N,
            a.surface(),
            &mut out,
            WIDTH as u32,
            N as u32,
        )
    })?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&out)?, [4; N]);
    Ok(())
}

/// Plays a library: launches a kernel with two addresses or numbers, the width and the length.
fn launch(
    call: ForeignCall<'_>,
    function: FunctionHandle,
    words: [u64; 2],
) -> Result<(), DriverError> {
    let params = [words[0], words[1], WIDTH as u64, N as u64];
    let params = params.each_ref().map(|word| ptr::from_ref(word).cast());
    // The kernels access N texels, and as many elements.
    relocatable::launch(&call, function, &params)
}

/// Plays a call that uses its operands alone, on the given stream.
fn play<const N: usize>(
    stream: &Stream,
    relocatable: bool,
    operands: [ForeignOperand<'_>; N],
    call: impl Fn(ForeignCall<'_>) -> Result<(), DriverError>,
) -> Result<()> {
    if relocatable {
        // SAFETY: as above.
        return unsafe { stream.foreign_relocatable("library", operands, call) };
    }
    // SAFETY: as above.
    unsafe { stream.foreign("library", operands, call) }
}

#[run_by(scenario_on, |harness, [stream, other]|)]
fn x02_foreign_calls_are_given_the_handles_of_textures_and_surfaces() -> Result<()> {
    let (mut a, mut out) = (image(&stream, 1)?, stream.zeros::<u32>(N)?);
    let (mut loaded, text) = (None, include_str!("../../src/guide/texture.ptx"));
    let load = |call: ForeignCall<'_>| {
        let (driver, context) = (call.driver(), call.context());
        // SAFETY: the context is alive.
        let module = unsafe { driver.module_load(context, text.as_bytes()) }?;
        // SAFETY: the module was just loaded.
        let function = |name| unsafe { driver.module_function(context, module, name) };
        loaded = Some((module, function("brighten")?, function("texels")?));
        Ok::<(), DriverError>(())
    };
    // SAFETY: the call enqueues nothing.
    unsafe { stream.foreign("load", [write(&mut out)], load) }?;
    let (module, brighten, texels) = loaded.expect("the call was made");
    let add = |call: ForeignCall<'_>| launch(call, brighten, [call.address(0).as_raw(), 5]);
    let fetch = |call: ForeignCall<'_>| {
        let addresses = [0, 1].map(|operand| call.address(operand).as_raw());
        launch(call, texels, addresses)
    };
    play(&stream, false, [write(a.surface())], add)?;
    play(&other, false, [read(a.surface()), write(&mut out)], fetch)?;
    assert_eq!(stream.values(&out)?, [6; N]);
    for relocatable in [false, true] {
        let graph = harness.record("library", |r| {
            let (one, other) = (r.stream()?, r.stream()?);
            play(&one, relocatable, [write(a.surface())], add)?;
            play(&other, relocatable, [read(&a), write(&mut out)], fetch)
        })?;
        graph.replay(&other)?;
    }
    assert_eq!(stream.values(&out)?, [16; N]);
    stream.synchronize()?;
    let unload = |call: ForeignCall<'_>| {
        // SAFETY: the module was loaded in this context, and nothing uses it any more.
        unsafe { call.driver().module_unload(call.context(), module) }
    };
    // SAFETY: the call enqueues nothing.
    unsafe { stream.foreign("unload", [write(&mut out)], unload) }
}

#[test]
fn x02_textures_of_several_devices_are_used_by_threads_beside_each_other() {
    for schedule in schedules(1..3) {
        let gpu = Gpu::new(SimConfig::new().schedule(schedule).devices(2));
        // The first device is opened twice.
        let devices = [0, 1, 0].map(|at| Device::open_simulated(&gpu, at).unwrap());
        std::thread::scope(|scope| {
            for (device, value) in devices.iter().zip([10, 20, 30]) {
                scope.spawn(move || {
                    let (stream, other) = (device.stream()?, device.stream()?);
                    let (kernels, mut a) = (images::load(device)?, image(&stream, value)?);
                    let mut out = other.zeros::<u32>(N)?;
                    kernels.add(&other, &mut a, 3)?;
                    let b = image(&other, 0)?;
                    kernels.sample(&stream, &a, &mut out)?;
                    drop((a, b));
                    assert_eq!(stream.values(&out)?, [value + 3; N]);
                    assert_eq!(
                        image(&stream, value).and_then(|a| stream.download_texture(&a)?.wait())?,
                        [value; N]
                    );
                    Ok::<(), Error>(())
                });
            }
        });
        // A kernel that writes memory of the second device takes textures of its own alone.
        let run = || {
            let (stream, there) = (devices[0].stream()?, devices[1].stream()?);
            let kernels = images::load(&devices[0])?;
            let (own, other) = (image(&stream, 7)?, image(&there, 8)?);
            let mut out = there.zeros::<u32>(N)?;
            let (mut target, width) = (out.peer_mut(&devices[0])?, WIDTH as u32);
            kernels.texels(&stream, N, &own, &mut target, width, N as u32)?;
            let refused = kernels.texels(&stream, N, &other, &mut target, width, N as u32);
            assert_is!(
                problem(refused),
                UsageErrorKind::OtherDevice { operand: 0, .. }
            );
            drop(own);
            let size = [N, 0, 0];
            let refused = usage_error(stream.texture(
                TextureOptions {
                    size,
                    ..Default::default()
                },
                &out,
            ));
            assert_eq!(
                (refused.operation(), refused.location().is_some()),
                ("texture", true)
            );
            assert_eq!(there.values(&out)?, [7; N]);
            Ok::<(), Error>(())
        };
        run().unwrap();
    }
}

#[run_by(once, |harness|)]
fn x03_parameters_of_textures_and_surfaces_cannot_be_set_as_numbers() -> Result<()> {
    let stream = harness.stream();
    let kernels = images::load(&harness.device)?;
    let (mut a, mut out) = (image(&stream, 1)?, stream.zeros::<u32>(N)?);
    let mut graph = harness.record("images", |r| {
        let stream = r.stream()?;
        kernels.add(&stream, &mut a, 10)?;
        kernels.sample(&stream, &a, &mut out)
    })?;
    for name in ["brighten", "texels"] {
        // SAFETY: the call fails.
        let set = unsafe { graph.node(name)?.set_scalar(0, 7_u64) };
        assert_is!(problem(set), UsageErrorKind::Graph { .. });
    }
    // SAFETY: the number is added to texels.
    unsafe { graph.node("brighten")?.set_scalar(1, 20_u32) }?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&out)?, [21; N]);
    Ok(())
}

#[run_by(once, |harness|)]
fn x03_an_array_is_reused_only_for_the_bits_of_its_border() -> Result<()> {
    let stream = harness.stream();
    let kernels = images::load(&harness.device)?;
    let mut out = stream.zeros::<u32>(N)?;
    // As floats, the two colours are equal; as integers, they are not.
    for border in [0.0, -0.0_f32] {
        let options = TextureOptions {
            size: [WIDTH, 1, 0],
            address: AddressMode::Border,
            border: [border; 4],
            ..TextureOptions::default()
        };
        let row = stream.texture(options, &stream.upload(&[1_u32; WIDTH])?)?;
        // Rows from the second one are outside.
        kernels.texels(&stream, WIDTH, &row, &mut out, 1, WIDTH as u32)?;
        assert_eq!(stream.values(&out)?[1], border.to_bits());
    }
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
fn x03_a_texture_that_is_dropped_or_overwritten_in_use_blocks_nothing() -> Result<()> {
    let (kernels, twos) = (images::load(&harness.device)?, s1.upload(&[2_u32; N])?);
    let (mut a, mut b) = (image(&s1, 1)?, image(&s1, 5)?);
    let mut out = s1.zeros::<u32>(N)?;
    s1.synchronize()?;
    let gate = harness.gate(&s1);
    kernels.sample(&s1, &a, &mut out)?;
    let slow = s1.download(&out)?;
    s2.copy(&twos, &mut a)?;
    let overwritten = s2.download_texture(&a)?;
    kernels.add(&s2, &mut b, 1)?;
    drop((a, b));
    harness.assert_pending(&slow);
    harness.open_pending(gate, &overwritten);
    assert_eq!(
        (slow.wait()?, overwritten.wait()?),
        (vec![1; N], vec![2; N])
    );
    s2.synchronize()?;
    let (c, _d) = (image(&s1, 3)?, image(&s1, 4)?);
    assert_eq!(s1.download_texture(&c)?.wait()?, [3; N]);
    harness.assert_count(calls, "array_create", 2);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn x03_replays_use_textures_that_the_program_has_dropped() -> Result<()> {
    let kernels = images::load(&harness.device)?;
    let (mut a, mut out) = (image(&s1, 1)?, s1.zeros::<u32>(N)?);
    let nines = s2.upload(&[9_u32; N])?;
    let graph = harness.record("images", |r| {
        let (one, other) = (r.stream()?, r.stream()?);
        assert_is!(problem(image(&one, 1)), UsageErrorKind::Recording { .. });
        assert_is!(
            problem(one.copy(&nines, &mut a)),
            UsageErrorKind::Recording { .. }
        );
        kernels.add(&one, &mut a, 10)?;
        kernels.sample(&other, &a, &mut out)
    })?;
    graph.replay(&s2)?;
    assert_eq!(s1.values(&out)?, [11; N]);
    s1.copy(&nines, &mut a)?;
    graph.replay(&s2)?;
    drop(a);
    graph.replay(&s1)?;
    assert_eq!(s2.values(&out)?, [29; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn x03_conditions_updates_and_instances_of_graphs_use_other_textures() -> Result<()> {
    let (kernels, flag) = (images::load(&harness.device)?, s1.upload(&[1_u32])?);
    let (mut a, mut b) = (image(&s1, 1)?, image(&s2, 100)?);
    let [mut out, mut spare] = [s1.zeros::<u32>(N)?, s2.zeros::<u32>(N)?];
    let mut graph = harness.record("add", |r| kernels.add(&r.stream()?, &mut b, 1))?;
    graph.update(|r| r.if_(&flag, |then| kernels.add(&then.stream()?, &mut a, 10)))?;
    graph.replay(&s2)?;
    let mut graph = harness.record("fetch", |r| kernels.sample(&r.stream()?, &b, &mut out))?;
    graph.update(|r| kernels.sample(&r.stream()?, &a, &mut out))?;
    let mut second = graph.instance()?;
    second.swap(&mut out, &mut spare)?;
    drop(a);
    graph.replay(&s1)?;
    second.replay(&s2)?;
    assert_eq!(
        (s2.values(&out)?, s1.values(&spare)?),
        (vec![11; N], vec![11; N])
    );
    assert_eq!(s1.download_texture(&b)?.wait()?, [100; N]);
    Ok(())
}

fn round_trip<T: Texel>(stream: &Stream, size: [usize; 3], layered: bool) -> Result<()> {
    let options = TextureOptions {
        size,
        layered,
        ..TextureOptions::default()
    };
    let mut texels = vec![T::zeroed(); options.texels()];
    let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut texels);
    (0..120)
        .cycle()
        .zip(bytes)
        .for_each(|(value, byte)| *byte = value);
    let texture = stream.texture(options, &stream.upload(&texels)?)?;
    let values = stream.download_texture(&texture)?.wait()?;
    assert!(bytemuck::cast_slice::<T, u8>(&values) == bytemuck::cast_slice::<T, u8>(&texels));
    Ok(())
}

#[run_by(once, |harness|)]
fn x03_texels_of_every_shape_and_format_keep_their_order() -> Result<()> {
    let stream = harness.stream();
    round_trip::<u8>(&stream, [13, 0, 0], false)?;
    round_trip::<[i8; 4]>(&stream, [5, 3, 0], false)?;
    round_trip::<[f16; 2]>(&stream, [5, 3, 4], false)?;
    round_trip::<u16>(&stream, [7, 0, 3], true)?;
    round_trip::<[f32; 4]>(&stream, [4, 3, 2], true)
}

#[test]
fn x03_every_driver_call_of_a_program_with_textures_may_fail() {
    let run = |_: &Gpu, devices: &[Device]| {
        let (stream, other) = (devices[0].stream()?, devices[0].stream()?);
        let (kernels, mut a) = (images::load(&devices[0])?, image(&stream, 1)?);
        let mut out = stream.zeros::<u32>(N)?;
        kernels.add(&stream, &mut a, 5)?;
        kernels.sample(&other, &a, &mut out)?;
        stream.copy(&image(&stream, 2)?, &mut a)?;
        assert_eq!(stream.values(&out)?, [6; N]);
        assert_eq!(other.download_texture(&a)?.wait()?, [2; N]);
        Ok(())
    };
    Subject::new("textures", Schedule::Timed, &run).sweep();
}

#[test]
fn x03_an_allocation_waits_for_the_memory_of_a_dropped_texture_in_use() {
    for schedule in schedules(1..3) {
        let gpu = Gpu::new(SimConfig::new().schedule(schedule).memory_bytes(1 << 20));
        let stream = Device::open_simulated(&gpu, 0).unwrap().stream().unwrap();
        let options = TextureOptions {
            size: [100, 1000, 0],
            ..TextureOptions::default()
        };
        let texture = || {
            let source = stream.zeros::<u32>(100_000).unwrap();
            stream.texture(options, source).unwrap()
        };
        drop(texture());
        drop(stream.zeros::<u8>(1_000_000).unwrap());
        // A texture of other options, too.
        drop(texture());
        let (size, layered) = ([1000, 200, 0], false);
        let larger = TextureOptions {
            size,
            layered,
            ..options
        };
        drop(
            stream
                .texture(larger, stream.zeros::<u8>(200_000).unwrap())
                .unwrap(),
        );
    }
}
