//! Logistic regression: the probabilities of the ten digits, and the training. Written once, for
//! the device and for the CPU.

/// Defines the functions in a module, each with the attributes.
macro_rules! model {
    ($place:ident, $(#[$attribute:meta])*) => {
        pub(crate) mod $place {
            use ndarray::{Array1, Array2, Axis};

            /// The probability of each digit for each image, a row of `x`.
            $(#[$attribute])*
            pub(crate) fn probabilities(
                x: &Array2<f32>,
                weights: &Array2<f32>,
                bias: &Array1<f32>,
            ) -> Array2<f32> {
                let odds = (x.dot(weights) + bias).exp();
                &odds / &odds.sum_axis(Axis(1)).insert_axis(Axis(1))
            }

            /// Takes `steps` steps of gradient descent on the cross entropy; `y` has a 1 for each
            /// image's digit.
            $(#[$attribute])*
            pub(crate) fn train(
                x: &Array2<f32>,
                y: &Array2<f32>,
                weights: &mut Array2<f32>,
                bias: &mut Array1<f32>,
                rate: f32,
                steps: usize,
            ) {
                let scale = rate / x.shape()[0] as f32;
                for _ in 0..steps {
                    let odds = (x.dot(&*weights) + &*bias).exp();
                    let error = &odds / &odds.sum_axis(Axis(1)).insert_axis(Axis(1)) - y;
                    *weights -= &(x.t().dot(&error) * scale);
                    *bias -= &(error.sum_axis(Axis(0)) * scale);
                }
            }
        }
    };
}

model!(on_device, #[millstream_region::region]);
model!(on_cpu,);
