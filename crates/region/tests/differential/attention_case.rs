//! Attention on the host, in `f64`, and the documented bound of the device's results.

use millstream_region::AttentionMask;

use crate::differential::prelude::*;

/// The numbers of batches, queries and keys.
pub(crate) type Lengths = (usize, usize, usize);

/// Returns random numbers between −1 and 1 that `f32` holds.
pub(crate) fn numbers(rng: &mut Pcg32, shape: (usize, usize, usize)) -> Array3<f64> {
    Array3::from_shape_simple_fn(shape, || {
        f64::from((f64::from(rng.next_u32()) / 2_147_483_648.0 - 1.0) as f32)
    })
}

/// The operands of attention on the host. The mask has an element for each score.
pub(crate) struct Case {
    pub(crate) q: Array3<f64>,
    pub(crate) k: Array3<f64>,
    pub(crate) v: Array3<f64>,
    pub(crate) scale: f64,
    pub(crate) mask: Option<Array3<f64>>,
    pub(crate) is_causal: bool,
}

impl Case {
    /// Returns random operands for so many batches, queries and keys, with keys and values of these
    /// sizes.
    pub(crate) fn random(
        rng: &mut Pcg32,
        (batches, queries, keys): Lengths,
        (key_size, value_size): (usize, usize),
    ) -> Self {
        Self {
            q: numbers(rng, (batches, queries, key_size)) * 2.0,
            k: numbers(rng, (batches, keys, key_size)) * 2.0,
            v: numbers(rng, (batches, keys, value_size)),
            scale: 0.375,
            mask: None,
            is_causal: false,
        }
    }

    /// Asserts that found results differ from exact ones by no more than the bound, where `unit` is
    /// half the distance from 1 to the next number.
    pub(crate) fn assert_near(&self, found: &Array3<f64>, unit: f64) {
        let (batches, queries, size) = self.q.dim();
        let keys = self.k.dim().1;
        assert_eq!(found.dim(), (batches, queries, self.v.dim().2));
        for batch in 0..batches {
            for query in 0..queries {
                let taken = if self.is_causal {
                    keys.min(query + 1)
                } else {
                    keys
                };
                let (mut scores, mut greatest) = (Vec::new(), 0.0_f64);
                for key in 0..taken {
                    let (q, k) = (
                        self.q.slice(s![batch, query, ..]),
                        self.k.slice(s![batch, key, ..]),
                    );
                    let added = self
                        .mask
                        .as_ref()
                        .map_or(0.0, |mask| mask[[batch, query, key]]);
                    let magnitude: f64 = q.iter().zip(k).map(|(q, k)| (q * k).abs()).sum();
                    scores.push(q.dot(&k) * self.scale + added);
                    if added.is_finite() {
                        greatest = greatest.max(magnitude * self.scale.abs() + added.abs());
                    }
                }
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Array1<f64> =
                    scores.iter().map(|score| (score - most).exp()).collect();
                let weights = &weights / weights.sum();
                let values = self.v.slice(s![batch, ..taken, ..]);
                let exact = weights.dot(&values);
                let magnitudes = weights.dot(&values.mapv(f64::abs));
                let (e, n) = (size as f64, taken as f64);
                let factor = ((4.0 * e + 24.0) * greatest + 3.0 * n + 32.0) * unit;
                for (column, (&exact, &magnitude)) in exact.iter().zip(&magnitudes).enumerate() {
                    let found = found[[batch, query, column]];
                    let is_near = (found - exact).abs() <= factor * magnitude;
                    assert!(
                        is_near || (found.is_nan() && exact.is_nan()),
                        "{found} is not {exact} ± {} at {batch}, {query}, {column} of {:?}, {:?}",
                        factor * magnitude,
                        self.q.dim(),
                        self.k.dim(),
                    );
                }
            }
        }
    }

    /// Computes attention on a device, in elements of another type.
    pub(crate) fn run<T: Float>(
        &self,
        device: &Device,
        to: fn(f64) -> T,
        from: fn(T) -> f64,
    ) -> Result<Array3<f64>, millstream_region::Error> {
        let (q, k, v) = (self.q.mapv(to), self.k.mapv(to), self.v.mapv(to));
        let mask = self.mask.as_ref().map(|mask| mask.mapv(to));
        let found = device.region(|g| {
            let (q, k, v) = (g.array(&q), g.array(&k), g.array(&v));
            let scale = to(self.scale);
            match (&mask, self.is_causal) {
                (None, false) => q.attention(&k, &v, scale),
                (None, true) => q.attention_masked(&k, &v, scale, &AttentionMask::causal()),
                (Some(mask), is_causal) => {
                    let mask = AttentionMask::added(&g.array(mask));
                    let mask = if is_causal { mask.and_causal() } else { mask };
                    q.attention_masked(&k, &v, scale, &mask)
                }
            }
        })?;
        Ok(found.wait()?.mapv(from))
    }

    pub(crate) fn check_f32(&self, seed: u64) -> Outcome {
        let configuration = configuration(seed);
        let device = configuration.open()?;
        let found = self.run(&device, |x| x as f32, f64::from)?;
        self.assert_near(&found, f64::from(f32::EPSILON) / 2.0);
        Ok(configuration.close(device)?)
    }
}
