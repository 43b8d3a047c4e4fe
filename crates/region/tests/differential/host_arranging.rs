//! Elements in other places, on the host: each result element from the place of its source.

use ndarray::Dimension;

use crate::differential::{
    prelude::*,
    step::{Arrange, Padding},
};

/// Returns the shape of the rearranged elements of an array.
pub(crate) fn arranged_shape(shape: &[usize], how: &Arrange) -> Vec<usize> {
    let mut result = shape.to_vec();
    match how {
        Arrange::Roll(..) | Arrange::Triangle(..) => {}
        Arrange::Pad(widths, _) => {
            let each = result.iter_mut().zip(widths);
            each.for_each(|(length, (front, behind))| *length += front + behind);
        }
        Arrange::Tile(repeats) => {
            let each = result.iter_mut().zip(repeats);
            each.for_each(|(length, repeats)| *length *= repeats);
        }
        Arrange::Repeat(repeats, axis) => result[*axis] *= repeats,
        Arrange::Windows(window) => {
            let each = result.iter_mut().zip(window);
            each.for_each(|(length, within)| *length = (*length + 1).saturating_sub(*within));
            result.extend(window);
        }
    }
    result
}

/// Rearranges elements; `other` is where there is no source.
pub(crate) fn arranged<T: Copy>(x: &ArrayD<T>, how: &Arrange, other: T) -> ArrayD<T> {
    let lengths = x.shape();
    ArrayD::from_shape_fn(arranged_shape(lengths, how), |place| {
        let place = place.slice();
        let mut source = place[..lengths.len()].to_vec();
        match how {
            Arrange::Roll(shift, axis) => {
                let (at, length) = (source[*axis] as i128, lengths[*axis] as i128);
                source[*axis] = (at - *shift as i128).rem_euclid(length) as usize;
            }
            Arrange::Pad(widths, padding) => {
                for (axis, (front, _)) in widths.iter().enumerate() {
                    let (at, length) = (source[axis] as isize - *front as isize, lengths[axis]);
                    let Some(at) = padded(at, length as isize, *padding) else {
                        return other;
                    };
                    source[axis] = at as usize;
                }
            }
            Arrange::Tile(_) => {
                let each = source.iter_mut().zip(lengths);
                each.for_each(|(at, length)| *at %= length);
            }
            Arrange::Repeat(repeats, axis) => source[*axis] /= repeats,
            Arrange::Triangle(k, is_lower) => {
                if let [.., row, column] = source[..] {
                    let above = column as isize - row as isize;
                    if if *is_lower { above > *k } else { above < *k } {
                        return other;
                    }
                }
            }
            Arrange::Windows(_) => {
                let each = source.iter_mut().zip(&place[lengths.len()..]);
                each.for_each(|(at, within)| *at += within);
            }
        }
        x[&source[..]]
    })
}

/// Returns the index of an element that pads an axis; `None` for a constant.
fn padded(at: isize, length: isize, padding: Padding) -> Option<isize> {
    match padding {
        Padding::Constant(_) => (0..length).contains(&at).then_some(at),
        Padding::Edge => Some(at.clamp(0, length - 1)),
        Padding::Wrap => Some(at.rem_euclid(length)),
        Padding::Reflect if length == 1 => Some(0),
        Padding::Reflect => {
            let period = 2 * length - 2;
            let at = at.rem_euclid(period);
            Some(at.min(period - at))
        }
    }
}
