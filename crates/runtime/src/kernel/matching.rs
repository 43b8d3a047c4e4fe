//! Comparison of declared parameters with those of a kernel in the PTX.

use millstream_ptx::Param as PtxParam;

use super::ParamKind;

/// The size of a slice that is passed as one parameter, as rustc does: its address and its length.
pub(super) const PACKED_BYTES: usize = 16;

/// The way in which a kernel takes its slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Slices {
    /// An address and its length are two parameters, or lengths are parameters like any other.
    #[default]
    Apart,
    /// An address and its length are one parameter of 16 bytes, as rustc passes them.
    Packed,
}

/// The first difference between declared and actual parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch<'a> {
    /// The numbers differ.
    Count { declared: usize, there: usize },
    /// A parameter has another size, or needs a larger alignment.
    Layout {
        /// The index among the declared parameters.
        index: usize,
        /// The declared size and alignment in bytes.
        declared: (usize, usize),
        there: &'a PtxParam,
    },
}

pub(super) fn compare<'a>(
    declared: &[ParamKind],
    there: &'a [PtxParam],
) -> Result<Slices, Mismatch<'a>> {
    let lengths = declared.iter().filter(|kind| kind.is_len()).count();
    let is_packed = lengths > 0 && there.len() == declared.len() - lengths;
    if !is_packed && declared.len() != there.len() {
        return Err(Mismatch::Count {
            declared: declared.len(),
            there: there.len(),
        });
    }
    let mut actual = there.iter();
    for (index, kind) in declared.iter().enumerate() {
        let layout = match (kind, declared.get(index + 1)) {
            (ParamKind::Len, _) if is_packed => continue,
            (_, Some(ParamKind::Len)) if is_packed => (PACKED_BYTES, align_of::<u64>()),
            _ => kind.layout(),
        };
        let there = actual.next();
        if let Some(there) = there.filter(|there| layout.0 != there.size || layout.1 < there.align)
        {
            return Err(Mismatch::Layout {
                index,
                declared: layout,
                there,
            });
        }
    }
    Ok(if is_packed {
        Slices::Packed
    } else {
        Slices::Apart
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: ParamKind = ParamKind::Slice { writable: false };
    const WORD: ParamKind = ParamKind::Scalar { size: 4, align: 4 };

    /// Returns the parameters of a kernel with this parameter list.
    fn params(list: &str) -> Vec<PtxParam> {
        let source =
            format!(".version 8.0\n.target sm_75\n.address_size 64\n.entry k({list}) {{ ret; }}");
        let mut signatures = millstream_ptx::signatures(&source).expect("it is valid");
        signatures.remove(0).params
    }

    #[test]
    fn a_slice_and_its_length_are_one_parameter_or_two() {
        let packed = params(".param .align 8 .b8 x[16], .param .u32 n");
        let declared = [SLICE, ParamKind::Len, WORD];
        assert_eq!(compare(&declared, &packed), Ok(Slices::Packed));
        let apart = params(".param .u64 x, .param .u64 len, .param .u32 n");
        assert_eq!(compare(&declared, &apart), Ok(Slices::Apart));
        assert_eq!(
            compare(&[SLICE, WORD], &params(".param .u64 x, .param .u32 n")),
            Ok(Slices::Apart)
        );
    }

    #[test]
    fn the_first_difference_is_found() {
        let there = params(".param .u64 x, .param .u32 n");
        assert_eq!(
            compare(&[SLICE, ParamKind::Len, WORD], &there),
            Err(Mismatch::Layout {
                index: 0,
                declared: (16, 8),
                there: &there[0]
            })
        );
        let count = Mismatch::Count {
            declared: 1,
            there: 2,
        };
        assert_eq!(compare(&[SLICE], &there), Err(count));
        assert!(matches!(
            compare(&[SLICE, SLICE], &there),
            Err(Mismatch::Layout { index: 1, .. })
        ));
    }
}
