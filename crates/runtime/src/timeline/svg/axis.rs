//! The picture's time axis: horizontal positions of times, and ticks.

/// A linear map from times to horizontal positions.
pub(super) struct Axis {
    start_ns: u64,
    /// The length of the axis in nanoseconds, at least 1.
    span_ns: u64,
    left: f64,
    width: f64,
}

/// A tick: the position and the text of a round time.
#[derive(Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) text: String,
}

const TICKS_MAX: u64 = 12;

impl Axis {
    pub(super) fn new(start_ns: u64, end_ns: u64, left: f64, width: f64) -> Self {
        Self {
            start_ns,
            span_ns: end_ns.saturating_sub(start_ns).max(1),
            left,
            width,
        }
    }

    pub(super) fn x(&self, time_ns: u64) -> f64 {
        self.left + self.since_start_ns(time_ns) as f64 / self.span_ns as f64 * self.width
    }

    /// Converts a time of the trace to a time since the left end of the axis.
    pub(super) fn since_start_ns(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns)
    }

    /// Returns ticks at round times, in equal steps of 1, 2 or 5 times a power of ten.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let (unit_ns, unit) = match self.span_ns {
            1_000_000_000.. => (1e9, "s"),
            1_000_000.. => (1e6, "ms"),
            1_000.. => (1e3, "µs"),
            _ => (1.0, "ns"),
        };
        let step_ns = step_ns(self.span_ns);
        // As many decimals as the step needs: a step of 0.05 needs two.
        let decimals = (unit_ns / step_ns as f64).log10().ceil().max(0.0) as usize;
        let times_ns = (0..=self.span_ns / step_ns).map(|step| step * step_ns);
        let tick = |time_ns: u64| Tick {
            x: self.x(self.start_ns + time_ns),
            text: match time_ns {
                0 => "0".into(),
                _ => format!("{:.decimals$} {unit}", time_ns as f64 / unit_ns),
            },
        };
        times_ns.map(tick).collect()
    }
}

/// Returns the smallest round step with fewer than [`TICKS_MAX`] steps.
fn step_ns(span_ns: u64) -> u64 {
    let rounds = (0..19).flat_map(|power| [1, 2, 5].map(|first| first * 10_u64.pow(power)));
    let mut steps = rounds.filter(|step| span_ns / step < TICKS_MAX);
    steps.next().unwrap_or(span_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(span_ns: u64) -> Vec<String> {
        Axis::new(5_000, 5_000 + span_ns, 0.0, 1.0)
            .ticks()
            .into_iter()
            .map(|tick| tick.text)
            .collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            texts(7),
            ["0", "1 ns", "2 ns", "3 ns", "4 ns", "5 ns", "6 ns", "7 ns"]
        );
        assert_eq!(texts(1_100)[..3], ["0", "0.1 µs", "0.2 µs"]);
        assert_eq!(
            texts(300_000),
            [
                "0", "50 µs", "100 µs", "150 µs", "200 µs", "250 µs", "300 µs"
            ]
        );
        assert_eq!(texts(4_700_000)[..3], ["0", "0.5 ms", "1.0 ms"]);
        assert_eq!(texts(61_000_000_000)[..3], ["0", "10 s", "20 s"]);
    }

    #[test]
    fn the_number_of_ticks_is_bounded() {
        for power in 0..19 {
            for first in [1, 2, 3, 5, 7, 9] {
                let count = texts(first * 10_u64.pow(power)).len() as u64;
                assert!(
                    (2..=TICKS_MAX).contains(&count),
                    "{count} ticks in {first}e{power} ns"
                );
            }
        }
        assert!(texts(u64::MAX - 5_000).len() > 1);
    }

    #[test]
    fn times_are_spread_over_the_width() {
        let axis = Axis::new(100, 300, 20.0, 1_000.0);
        assert_eq!(
            [100, 150, 300].map(|time_ns| axis.x(time_ns)),
            [20.0, 270.0, 1_020.0]
        );
        assert_eq!(
            axis.ticks()[1],
            Tick {
                x: 120.0,
                text: "20 ns".into()
            }
        );
    }

    #[test]
    fn an_axis_of_zero_length_maps_times_to_its_left_end() {
        assert_eq!(Axis::new(100, 100, 20.0, 1_000.0).x(100), 20.0);
    }
}
