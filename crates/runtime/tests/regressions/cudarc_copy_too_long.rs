//! cudarc: a copy from the device to a host slice that is longer than the array passes the slice's
//! length to the driver, which reads past the array's end.
//!
//! Here different lengths are a typed error that names both, and nothing is enqueued.

use millstream::{Error, Result, UsageErrorKind};

use crate::regressions::{counted, regression};

fn assert_refused(result: Result<()>, lens: (usize, usize)) {
    let Err(Error::Usage(usage_error)) = result else {
        panic!("not a usage error: {result:?}")
    };
    let (source_len, target_len) = lens;
    assert_eq!(
        *usage_error.problem(),
        UsageErrorKind::Length {
            source_len,
            target_len
        }
    );
}

#[test]
fn no_copy_is_longer_than_its_source() {
    regression(|harness| {
        let stream = harness.stream();
        let mut three = stream.upload(&[1_u32, 2, 3])?;
        let mut pinned = harness.device.pinned::<u32>(4)?;
        assert_refused(stream.copy(&three, &mut pinned), (3, 4));
        assert_refused(stream.copy(&pinned, &mut three), (4, 3));
        assert_refused(stream.upload_into(&[9; 2], &mut three), (2, 3));
        for len in [0, 2, 4, 1000] {
            let mut target = vec![7_u32; len];
            let result = harness
                .device
                .scope(|scope| scope.download(&stream, &three, &mut target));
            assert_refused(result, (3, len));
            assert_eq!(target, vec![7; len]);
        }
        assert_eq!(
            stream.download(&three)?.wait()?,
            [1, 2, 3],
            "the array is unchanged"
        );
        assert_eq!(*pinned.read()?, [0; 4]);
        Ok(())
    });
}

#[test]
fn a_rejected_copy_enqueues_nothing() {
    counted(|harness, calls| {
        let stream = harness.stream();
        let three = stream.upload(&[1_u32, 2, 3])?;
        let mut pinned = harness.device.pinned::<u32>(4)?;
        calls.forget();
        assert_refused(stream.copy(&three, &mut pinned), (3, 4));
        assert_eq!(calls.counts().len(), 0, "{:?}", calls.counts());
        Ok(())
    });
}
