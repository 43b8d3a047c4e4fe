//! `requires` clauses at run time: a `safe` kernel is launched only with operands that its accesses
//! stay within.

use bytemuck::{Pod, Zeroable};

use crate::scenarios::prelude::*;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Size {
    w: u32,
    h: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Dims {
    sides: [u32; 2],
}

/// A kernel in which thread `i` writes `i + 1` to element `i` if `i < w * h`, computed in 64 bits.
const PTX: &str = include_str!("clauses.ptx");

millstream::kernels! {
    // SAFETY: the thread of index i writes element i if that is less than the product of the sides.
    unsafe mod sized from PTX {
        #[kernel(name = "number")]
        safe fn by_fields(out: &mut [u8], p: Size) requires out.len() >= p.w * p.h;
        #[kernel(name = "number")]
        safe fn by_elements(out: &mut [u8], dims: Dims)
            requires out.len() >= dims.sides[0] * dims.sides[1];
        #[kernel(name = "number")]
        safe fn by_power(out: &mut [u8], p: Size) requires p.w == p.h, out.len() >= p.w.pow(2);
    }
}

#[test]
fn a_clause_over_fields_and_elements_does_not_wrap_around() {
    scenario(|harness| {
        let (stream, kernels) = (harness.stream(), sized::load(&harness.device)?);
        let mut out = stream.zeros::<u8>(64)?;
        let (size, dims) = (|w, h| Size { w, h }, |w, h| Dims { sides: [w, h] });
        let config = LaunchConfig::linear(64);
        kernels.by_fields(&stream, config, &mut out, size(8, 8))?;
        kernels.by_elements(&stream, config, out.slice_mut(1..), dims(3, 1))?;
        kernels.by_power(&stream, config, out.slice_mut(60..), size(2, 2))?;
        let mut expected: Vec<u8> = (1..=64).collect();
        expected[1..4].copy_from_slice(&[1, 2, 3]);
        expected[60..].copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(stream.values(&out)?, expected);

        // In 32 bits each of these products wraps to 0.
        const SIDE: u32 = 65_536;
        let fields = problem(kernels.by_fields(&stream, config, &mut out, size(SIDE, SIDE)));
        let requires = |clause, values: &str| UsageErrorKind::Requires {
            clause,
            values: values.to_owned(),
        };
        assert_eq!(
            fields,
            requires(
                "out.len() >= p.w * p.h",
                "out.len() = 64, p.w = 65536, p.h = 65536"
            )
        );
        let elements = problem(kernels.by_elements(&stream, config, &mut out, dims(SIDE, SIDE)));
        assert_eq!(
            elements.to_string(),
            "the requirement `out.len() >= dims.sides[0] * dims.sides[1]` does not hold: \
                 out.len() = 64, dims.sides[0] = 65536, dims.sides[1] = 65536"
        );
        let power = problem(kernels.by_power(&stream, config, &mut out, size(SIDE, SIDE)));
        assert_eq!(
            power,
            requires("out.len() >= p.w.pow(2)", "out.len() = 64, p.w = 65536")
        );
        assert_eq!(stream.values(&out)?, expected, "nothing was enqueued");
        Ok(())
    });
}
