//! Sums of products along named axes, compared with loops over all indices.

use millstream_region::{UsageErrorKind, einsum};

use crate::differential::{prelude::*, usage_errors::usage_error};

/// The lengths of the axes of each letter.
const LENGTHS: [(char, usize); 6] = [('a', 3), ('b', 4), ('c', 1), ('d', 5), ('e', 2), ('z', 0)];

fn length(label: char) -> usize {
    let known = LENGTHS.iter().find(|(other, _)| *other == label);
    known.expect("the letter has a length").1
}

/// Computes the sums by a loop over all indices of all letters.
fn expected(terms: &[&str], result: &str, operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let letters: Vec<char> = (LENGTHS.iter().map(|(label, _)| *label))
        .filter(|label| terms.iter().any(|term| term.contains(*label)))
        .collect();
    let shape: Vec<usize> = letters.iter().map(|label| length(*label)).collect();
    let of = |labels: &str, all: &[usize]| -> Vec<usize> {
        let place = |label| letters.iter().position(|other| *other == label);
        let at = |label| all[place(label).expect("a letter of a term")];
        labels.chars().map(at).collect()
    };
    let result_shape: Vec<usize> = result.chars().map(length).collect();
    let mut sums = ArrayD::zeros(result_shape);
    for index in ndarray::indices(&shape[..]) {
        let index = ndarray::Dimension::slice(&index);
        let each = terms.iter().zip(operands);
        let factors = each.map(|(term, x)| x[&of(term, index)[..]]);
        sums[&of(result, index)[..]] += factors.product::<f64>();
    }
    sums
}

#[run_by(everywhere, |device|)]
fn sums_of_products_along_named_axes() -> Outcome {
    for (subscripts, result) in [
        ("ab,bd->ad", "ad"),
        ("ab,bd", "ad"),
        ("ba, bd -> da", "da"),
        ("aab->ab", "ab"),
        ("dd", ""),
        ("a,b->ba", "ba"),
        ("a,a", ""),
        ("abd,aed->abe", "abe"),
        ("abd,ed->e", "e"),
        ("ab,bd,de->ae", "ae"),
        ("ab,b,a->", ""),
        ("abc,cd,e->dbe", "dbe"),
        ("az,zb->ab", "ab"),
        ("zb->bz", "bz"),
        ("ab,ab,ab->b", "b"),
        ("ad,bd,ad->ab", "ab"),
    ] {
        let terms: Vec<String> = (subscripts.split("->").next().unwrap_or_default().split(','))
            .map(|term| term.trim().to_owned())
            .collect();
        let terms: Vec<&str> = terms.iter().map(String::as_str).collect();
        let operands: Vec<ArrayD<f64>> = (terms.iter().enumerate())
            .map(|(number, term)| {
                let shape: Vec<usize> = term.chars().map(length).collect();
                let mut at = number;
                ArrayD::from_shape_simple_fn(shape, || {
                    at += 1;
                    (at * 7 % 11) as f64 - 5.0
                })
            })
            .collect();
        let expected = expected(&terms, result, &operands);
        let (wide, half, short) = evaluate(device, |g| {
            let of: Vec<_> = operands.iter().map(|x| g.array(x)).collect();
            let half: Vec<_> = of.iter().map(|x| x.cast::<f16>()).collect();
            let short: Vec<_> = of.iter().map(|x| x.cast::<i16>()).collect();
            let (half, short) = (einsum(subscripts, &half)?, einsum(subscripts, &short)?);
            Ok((einsum(subscripts, &of)?, half, short))
        })?;
        assert_eq!(short, expected.mapv(|x| x as i16), "{subscripts}");
        if expected.iter().all(|x| x.abs() < 2048.0) {
            assert_eq!(half.mapv(f64::from), expected, "{subscripts}");
        }
        assert_eq!(wide, expected, "{subscripts}");
        let norms = evaluate(device, |g| g.array(&operands[0]).norm())?;
        let squares: f64 = operands[0].iter().map(|x| x * x).sum();
        assert_eq!(norms[()], squares.sqrt());
    }
    // Products of pairs keep the sign of a zero.
    let (x, y) = (array![-0.0_f32, 3.0].into_dyn(), array![2.0_f32].into_dyn());
    let pairs = evaluate(device, |g| einsum("a,b->ba", &[g.array(&x), g.array(&y)]))?;
    assert!(pairs[[0, 0]].is_sign_negative() && pairs == array![[-0.0, 6.0]].into_dyn());
    let x = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 5 + j * 3 + k) as i32 % 7 - 3);
    let y = Array3::from_shape_fn((4, 5, 3), |(i, j, k)| (i * 2 + j * 3 + k) as i32 % 5 - 2);
    let (one, two, trace) = evaluate(device, |g| {
        let (x, y) = (g.array(&x), g.array(&y));
        let both = x.tensordot(&y, &[Axis(1), Axis(2)], &[Axis(2), Axis(0)])?;
        let all = x.tensordot(&y, &[], &[])?.sum();
        Ok((both, all, x.index_axis(Axis(0), 1).trace()))
    })?;
    assert_eq!(two[()], x.sum() * y.sum());
    assert_eq!(trace[()], x.index_axis(Axis(0), 1).diag().sum());
    // The summed axes, one behind the other.
    let x = x.into_shape_with_order((2, 12))?;
    let y = y.permuted_axes([2, 0, 1]).to_shape((12, 5))?.into_owned();
    assert_eq!(one, x.dot(&y).into_dyn());
    Ok(())
}

#[run_by(everywhere, |device|)]
fn malformed_subscripts_are_errors_of_their_line() -> Outcome {
    let x = Array2::<f32>::ones((2, 3));
    for (subscripts, text) in [
        ("ij,jk->ik", "2 terms for 1 operands"),
        ("i1->i", "'1'"),
        ("...i->i", "'.'"),
        ("ij->ijk", "'k' of the result"),
        ("ij->ii", "'i' of the result"),
        ("ijk->i", "axes"),
        ("ii->i", "[2, 3] and [2, 3]"),
    ] {
        let result = device.region(|g| einsum(subscripts, &[g.array(&x).into_dyn()]));
        let (wrong, line) = (usage_error(result), line!() - 1);
        assert!(wrong.to_string().contains(text), "{wrong}");
        assert_eq!(
            (wrong.operation(), wrong.location().line()),
            ("einsum", line)
        );
    }
    for (axes, others) in [(&[0][..], &[][..]), (&[0, 0], &[0, 1]), (&[2], &[0])] {
        let [axes, others] = [axes, others].map(|axes| axes.iter().copied().map(Axis).collect());
        let (axes, others): (Vec<_>, Vec<_>) = (axes, others);
        let result = device.region(|g| g.array(&x).tensordot(&g.array(&x), &axes, &others));
        let wrong = usage_error(result);
        assert!(
            matches!(wrong.problem(), UsageErrorKind::Argument { .. }),
            "{wrong}"
        );
    }
    Ok(())
}
