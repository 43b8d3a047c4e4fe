//! The Black-Scholes formula, written once for the device and for the CPU.

/// Defines the function in a module, with the attributes.
macro_rules! model {
    ($place:ident, $(#[$attribute:meta])*) => {
        pub(crate) mod $place {
            use ndarray::Array1;

            /// The price of a European call option: the right to buy a share that costs `price` now
            /// at `strike`, `years` from now.
            $(#[$attribute])*
            pub(crate) fn call(
                price: &Array1<f64>,
                strike: &Array1<f64>,
                years: &Array1<f64>,
                interest: f64,
                volatility: f64,
            ) -> Array1<f64> {
                let spread = years.sqrt() * volatility;
                let growth = years * (interest + volatility * volatility / 2.0);
                let near = ((price / strike).ln() + growth) / &spread;
                let far = &near - &spread;
                // The normal distribution, by Abramowitz and Stegun's 26.2.17: within 7.5e-8.
                macro_rules! below {
                    ($x:expr) => {{
                        let x = $x;
                        let t = (x.abs() * 0.231_641_9 + 1.0).recip();
                        let first = (&t * 1.330_274_429 - 1.821_255_978) * &t + 1.781_477_937;
                        let series = ((first * &t - 0.356_563_782) * &t + 0.319_381_530) * &t;
                        let density = (x * x * -0.5).exp() * 0.398_942_280_401_432_7;
                        (density * series - 0.5) * -x.signum() + 0.5
                    }};
                }
                price * below!(&near) - strike * (years * -interest).exp() * below!(&far)
            }
        }
    };
}

model!(on_device, #[millstream_region::region]);
model!(on_cpu,);
