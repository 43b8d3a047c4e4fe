//! Lowering of the video instructions: packed ones on two or four parts of registers, and scalar
//! ones on one part of each register.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{
    Extra, Packed, PackedOp, RegisterPart, SecondaryOp, Video, VideoOp, VideoShift,
};
use millstream_ptx::{PtxError, Type, ast::Operand};

/// The packed instructions, without the number of parts in their names.
const SIMD: [(&str, PackedOp); 7] = [
    ("vadd", PackedOp::Add),
    ("vsub", PackedOp::Sub),
    ("vavrg", PackedOp::Average),
    ("vabsdiff", PackedOp::Difference),
    ("vmin", PackedOp::Min),
    ("vmax", PackedOp::Max),
    ("vset", PackedOp::Set(0)),
];

/// The scalar instructions, on one part of each register.
const SCALAR: [(&str, VideoOp); 9] = [
    ("vadd", VideoOp::Add),
    ("vsub", VideoOp::Sub),
    ("vabsdiff", VideoOp::Difference),
    ("vmin", VideoOp::Min),
    ("vmax", VideoOp::Max),
    (
        "vshl",
        VideoOp::Shift(VideoShift {
            left: true,
            wrap: false,
        }),
    ),
    (
        "vshr",
        VideoOp::Shift(VideoShift {
            left: false,
            wrap: false,
        }),
    ),
    (
        "vmad",
        VideoOp::MultiplyAdd {
            negate: false,
            subtract: false,
            one: false,
            scale: 0,
        },
    ),
    ("vset", VideoOp::Set(0)),
];

/// The relations, as bits: less, equal, greater.
const RELATIONS: [(&str, u8); 6] = [
    ("eq", 0b010),
    ("ne", 0b101),
    ("lt", 0b001),
    ("le", 0b011),
    ("gt", 0b100),
    ("ge", 0b110),
];

/// The reason to reject forms for which GPUs deviate from the PTX ISA, as observed on an H200 with
/// driver 580.159.
const DIFFERS: &str = "GPUs compute other results for this form than the PTX ISA defines; \
                       saturate or scale in a separate instruction";

const TYPES: [Type; 2] = [Type::U32, Type::S32];

fn simd(base: &str) -> Option<(PackedOp, u8)> {
    let parts = match base.as_bytes().last()? {
        b'2' => 2,
        b'4' => 4,
        _ => return None,
    };
    let stem = &base[..base.len() - 1];
    let (_, f) = SIMD.iter().find(|(name, _)| *name == stem)?;
    Some((*f, parts))
}

fn scalar(base: &str) -> Option<VideoOp> {
    SCALAR
        .iter()
        .find(|(name, _)| *name == base)
        .map(|(_, f)| *f)
}

/// Returns whether `base` names a video instruction.
pub(super) fn is_video(base: &str) -> bool {
    simd(base).is_some() || scalar(base).is_some()
}

/// An operand of a video instruction: its register, its selector (`b3210` in `%r1.b3210`), and
/// whether it is negated.
struct SelectedOperand<'a> {
    operand: Operand<'a>,
    selector: Option<&'a str>,
    negated: bool,
}

impl<'a> SelectedOperand<'a> {
    fn new(operand: &Operand<'a>) -> Self {
        let (name, negated) = match operand {
            Operand::Name(name) => (*name, false),
            Operand::Negated(name) => (*name, true),
            _ => {
                let operand = operand.clone();
                return Self {
                    operand,
                    selector: None,
                    negated: false,
                };
            }
        };
        let (name, selector) = match name.rsplit_once('.') {
            Some((stem, selector)) if is_selector(selector) => (stem, Some(selector)),
            _ => (name, None),
        };
        Self {
            operand: Operand::Name(name),
            selector,
            negated,
        }
    }

    /// Returns the part that the selector names, or `None` for an invalid selector.
    fn part(&self) -> Option<RegisterPart> {
        let Some(selector) = self.selector else {
            return Some(RegisterPart::Whole);
        };
        let (kind, digits) = selector.split_at(1);
        match (kind, digits.parse().ok()?) {
            ("b", index @ 0..=3) if digits.len() == 1 => Some(RegisterPart::Byte(index)),
            ("h", index @ 0..=1) if digits.len() == 1 => Some(RegisterPart::Half(index)),
            _ => None,
        }
    }

    /// Returns the numbers that the selector lists, lowest part first, or `None` for an invalid
    /// selector. Without a selector, the numbers count up from `default`.
    fn list(&self, parts: u8, default: u8) -> Option<[u8; 4]> {
        let mut list = std::array::from_fn(|index| default + index as u8);
        if let Some(selector) = self.selector {
            let digits = selector.strip_prefix(kind(parts))?.as_bytes();
            if digits.len() != usize::from(parts) {
                return None;
            }
            for (number, digit) in list.iter_mut().zip(digits.iter().rev()) {
                *number = digit - b'0';
            }
        }
        list[..usize::from(parts)]
            .iter()
            .all(|number| *number < 2 * parts)
            .then_some(list)
    }

    /// Returns the mask of the parts that the selector names, or `None` for an invalid selector.
    fn mask(&self, parts: u8) -> Option<u8> {
        let Some(selector) = self.selector else {
            return Some((1 << parts) - 1);
        };
        let digits = selector.strip_prefix(kind(parts))?.as_bytes();
        let falls = digits.windows(2).all(|pair| pair[0] > pair[1]);
        let inside = digits.iter().all(|digit| digit - b'0' < parts);
        let mask = digits
            .iter()
            .fold(0, |mask, digit| mask | 1 << ((digit - b'0') & 7));
        (falls && inside).then_some(mask)
    }
}

/// Returns the letter of a selector for registers with `parts` parts.
fn kind(parts: u8) -> &'static str {
    if parts == 2 { "h" } else { "b" }
}

fn is_selector(text: &str) -> bool {
    let digits = text.strip_prefix(['b', 'h']).unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

impl<'a> Lowerer<'a> {
    /// Lowers video instructions such as `vadd`, `vshr` and `vset4`.
    pub(super) fn video(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        match (simd(m.base), scalar(m.base)) {
            (Some((f, parts)), _) => self.video_simd(m, f, parts),
            (None, Some(f)) => self.video_scalar(m, f),
            (None, None) => Err(m.unsupported()),
        }
    }

    fn video_simd(&mut self, m: &mut Mnemonic<'a>, f: PackedOp, parts: u8) -> Result<(), PtxError> {
        let accumulate = m.take("add");
        let saturate = m.take("sat");
        let f = match f {
            PackedOp::Set(_) => PackedOp::Set(m.one_of(&RELATIONS)?),
            f => f,
        };
        let (b_type, a_type) = (m.ty_of(&TYPES)?, m.ty_of(&TYPES)?);
        let d_type = match f {
            PackedOp::Set(_) => Type::U32,
            _ => m.ty_of(&TYPES)?,
        };
        if accumulate && saturate {
            return Err(m.unsupported());
        }
        let [target, a, b, c] = m.operands()?;
        let [target_parts, a_parts, b_parts] = [target, a, b].map(SelectedOperand::new);
        let wrong = |operand: &Operand<'_>| {
            m.mismatch(operand, "its selector names parts that do not exist")
        };
        let f = Packed {
            saturate,
            accumulate,
            mask: target_parts.mask(parts).ok_or_else(|| wrong(target))?,
            a_parts: a_parts.list(parts, 0).ok_or_else(|| wrong(a))?,
            b_parts: b_parts.list(parts, parts).ok_or_else(|| wrong(b))?,
            ..Packed::new(f, parts, [d_type, a_type, b_type])
        };
        let a = self.source(m, &a_parts.operand, Type::B32)?;
        let b = self.source(m, &b_parts.operand, Type::B32)?;
        let c = self.source(m, c, Type::B32)?;
        let d = self.target(m, &target_parts.operand, Type::B32)?;
        self.emit_extra(Extra::Packed(f), d, [a, b, c]);
        Ok(())
    }

    fn video_scalar(&mut self, m: &mut Mnemonic<'a>, f: VideoOp) -> Result<(), PtxError> {
        let saturate = m.take("sat");
        let seconds = [
            ("add", SecondaryOp::Add),
            ("min", SecondaryOp::Min),
            ("max", SecondaryOp::Max),
        ];
        let is_mad = matches!(f, VideoOp::MultiplyAdd { .. });
        let second = if is_mad { None } else { m.take_one(&seconds) };
        let f = match f {
            VideoOp::Set(_) => VideoOp::Set(m.one_of(&RELATIONS)?),
            VideoOp::Shift(shift) => {
                let wrap = m.take_one(&[("wrap", true), ("clamp", false)]);
                VideoOp::Shift(VideoShift {
                    wrap: wrap.ok_or_else(|| m.unsupported())?,
                    ..shift
                })
            }
            VideoOp::MultiplyAdd { .. } => VideoOp::MultiplyAdd {
                negate: false,
                subtract: false,
                one: m.take("po"),
                scale: m.take_one(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0),
            },
            f => f,
        };
        let (b_type, a_type) = (m.ty_of(&TYPES)?, m.ty_of(&TYPES)?);
        let d_type = match f {
            VideoOp::Set(_) => Type::U32,
            _ => m.ty_of(&TYPES)?,
        };
        let is_set = matches!(f, VideoOp::Set(_));
        let signed_shift = matches!(f, VideoOp::Shift(_)) && b_type != Type::U32;
        if signed_shift || is_set && saturate {
            return Err(m.unsupported());
        }
        m.finish()?;
        let (target, a, b, c) = match m.operands {
            [target, a, b] if second.is_none() && !is_mad => (target, a, b, None),
            [target, a, b, c] => (target, a, b, Some(c)),
            _ => return Err(m.operand_count("3 or 4")),
        };
        let [target_part, a_part, b_part] = [target, a, b].map(SelectedOperand::new);
        let c_part = c.map(SelectedOperand::new);
        let wrong =
            |operand: &Operand<'_>| m.mismatch(operand, "its part selector is not allowed here");
        if let (Some(c), Some(part)) = (c, &c_part)
            && part.selector.is_some()
        {
            return Err(wrong(c));
        }
        let d_part = target_part.part().ok_or_else(|| wrong(target))?;
        let merges = d_part != RegisterPart::Whole;
        // A result part is merged with the third operand, so there can be no secondary operation.
        if merges && (second.is_some() || is_mad || c.is_none()) {
            return Err(wrong(target));
        }
        let mixed = a_type != b_type;
        let has_wide_operand = a_part.selector.is_none() || b_part.selector.is_none();
        let is_sum = matches!(f, VideoOp::Add | VideoOp::Sub | VideoOp::Difference);
        let ordered = matches!(second, Some(SecondaryOp::Min | SecondaryOp::Max));
        if saturate && (merges || is_sum && mixed && has_wide_operand && ordered) {
            return Err(m.refuse(DIFFERS));
        }
        let subtract = c_part.as_ref().is_some_and(|part| part.negated);
        let negate = a_part.negated != b_part.negated;
        let negations = [&a_part, &b_part, &target_part].map(|part| part.negated);
        let f = match f {
            VideoOp::MultiplyAdd { one, scale, .. } if !target_part.negated => {
                if negate && subtract || one && (subtract || negations.contains(&true)) {
                    let problem = "only the product or the third operand can be negated, not both, \
                                   and neither with `.po`";
                    return Err(m.mismatch(a, problem));
                }
                VideoOp::MultiplyAdd {
                    negate,
                    subtract,
                    one,
                    scale,
                }
            }
            f if !subtract && !negations.contains(&true) => f,
            _ => return Err(m.mismatch(a, "no operand of this instruction can be negated")),
        };
        if let VideoOp::MultiplyAdd {
            negate,
            subtract,
            scale,
            ..
        } = f
        {
            // A GPU sign-extends the third operand even though all types are unsigned.
            let unsigned = a_type == Type::U32 && b_type == Type::U32 && !negate && !subtract;
            if unsigned && (scale != 0 || saturate) {
                return Err(m.refuse(DIFFERS));
            }
        }
        let video = Video {
            f,
            types: [d_type, a_type, b_type],
            d_part,
            a_part: a_part.part().ok_or_else(|| wrong(a))?,
            b_part: b_part.part().ok_or_else(|| wrong(b))?,
            saturate,
            second,
        };
        let a = self.source(m, &a_part.operand, Type::B32)?;
        let b = self.source(m, &b_part.operand, Type::B32)?;
        let c = match &c_part {
            Some(c) => self.source(m, &c.operand, Type::B32)?,
            None => a,
        };
        let d = self.target(m, &target_part.operand, Type::B32)?;
        self.emit_extra(Extra::Video(video), d, [a, b, c]);
        Ok(())
    }
}
