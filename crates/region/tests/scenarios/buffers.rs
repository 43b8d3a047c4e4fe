//! Buffers as arrays and arrays as buffers: no copy, and one order for regions and kernels.

use millstream::LaunchConfig;

use crate::scenarios::prelude::*;

millstream::kernels! {
    // SAFETY: the signature is that of vecadd.cu; its threads access `n` elements of each array and
    // no others.
    unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n;
    }
}

const N: usize = 1000;

#[run_by(everywhere_counted, |harness, calls|)]
fn arrays_and_buffers_become_each_other_without_copies() {
    let device = &harness.device;
    let (kernels, stream) = (sums::load(device).unwrap(), device.stream().unwrap());
    let host: Vec<f32> = (0..N).map(|index| index as f32).collect();
    let buffer = stream.upload(&host).unwrap();
    let address = buffer.as_raw();
    calls.forget();
    let x = Array::from_buffer(buffer, N).unwrap();
    let result = evaluate(device, |_| {
        let doubled = &x * 2.0;
        let mut sum = stream.zeros(N)?;
        let (x, y) = (x.resident()?, doubled.resident()?);
        let config = LaunchConfig::linear(N);
        kernels.vecadd(&stream, config, x.view(), y.view(), &mut sum, N as u64)?;
        Ok(millstream_region::Keep(Array::from_buffer(sum, N)? - 1.0))
    })
    .unwrap();
    let result = result.into_buffer().unwrap();
    let again = x.into_buffer().unwrap();
    assert_eq!(again.as_raw(), address);
    let copies = calls
        .counts()
        .into_iter()
        .filter(|(call, _)| call.contains("copy"));
    assert_eq!(copies.count(), 0, "{:?}", calls.counts());
    let expected: Vec<f32> = host.iter().map(|value| value * 3.0 - 1.0).collect();
    assert_eq!(stream.download(&result).unwrap().wait().unwrap(), expected);
    assert_eq!(stream.download(&again).unwrap().wait().unwrap(), host);
}

#[run_by(everywhere_counted, |harness, _|)]
fn a_buffer_of_a_shared_array_is_a_copy() {
    let device = &harness.device;
    let stream = device.stream().unwrap();
    let x = Array::from_host(device, &Array1::<i64>::ones(N)).unwrap();
    let other = x.clone();
    let mut buffer = x.into_buffer().unwrap();
    stream.fill(&mut buffer, 0).unwrap();
    assert_eq!(other.to_host().unwrap(), Array1::<i64>::ones(N));
}

#[run_by(everywhere_counted, |harness, _|)]
fn unchecked_indices_and_other_sizes_are_errors_at_the_border() {
    let device = &harness.device;
    let x = Array::from_host(device, &Array1::<f32>::ones(N)).unwrap();
    let index = Array::from_host(device, &array![0_i64, N as i64]).unwrap();
    let picked = x.select(Axis(0), &index);
    let is_index_error = |error: Option<Error>| {
        let Some(Error::Usage(error)) = error else {
            panic!("{error:?}");
        };
        assert!(matches!(error.problem(), UsageErrorKind::Index { .. }));
    };
    is_index_error(picked.resident().err());
    is_index_error(picked.into_buffer().err());
    let buffer = device.stream().unwrap().zeros::<f32>(6).unwrap();
    let Err(Error::Usage(error)) = Array::from_buffer(buffer, (2, 4)) else {
        panic!("six elements have the shape of eight");
    };
    let text = error.to_string();
    assert!(text.contains("shape [2, 4] is not that of 6"), "{text}");
}
