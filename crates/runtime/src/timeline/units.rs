//! Formatting of times, sizes and rates with three significant digits and a suitable unit.

use std::fmt;

pub(super) struct Time(pub(super) u64);

pub(super) struct Size(pub(super) u64);

/// A rate: bytes per a time in nanoseconds, which is not zero.
pub(super) struct Rate(pub(super) u64, pub(super) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(
            f,
            self.0 as f64,
            &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
        )
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1024.0 * 1024.0 * 1024.0, "GiB"),
            (1024.0 * 1024.0, "MiB"),
            (1024.0, "KiB"),
            (1.0, "bytes"),
        ];
        scaled(f, self.0 as f64, &units)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes_per_second = self.0 as f64 / self.1 as f64 * 1e9;
        scaled(
            f,
            bytes_per_second,
            &[
                (1e12, "TB/s"),
                (1e9, "GB/s"),
                (1e6, "MB/s"),
                (1e3, "kB/s"),
                (1.0, "B/s"),
            ],
        )
    }
}

/// Writes the value in the first unit in which it is at least 1, or else in the last.
fn scaled(f: &mut fmt::Formatter<'_>, value: f64, units: &[(f64, &str)]) -> fmt::Result {
    let unit = units
        .iter()
        .find(|(size, _)| value >= *size)
        .or(units.last());
    let &(size, name) = unit.unwrap_or(&(1.0, ""));
    let value = value / size;
    let decimals = match value {
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    let digits = format!("{value:.decimals$}");
    let digits = if decimals == 0 {
        &*digits
    } else {
        digits.trim_end_matches('0').trim_end_matches('.')
    };
    write!(f, "{digits} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_suitable_unit() {
        let times = [
            0,
            7,
            999,
            1_000,
            1_234,
            98_760,
            850_000,
            12_340_000,
            3_000_000_000,
        ];
        let texts = [
            "0 ns", "7 ns", "999 ns", "1 µs", "1.23 µs", "98.8 µs", "850 µs", "12.3 ms", "3 s",
        ];
        assert_eq!(times.map(|time| Time(time).to_string()), texts);
        let sizes = [0, 1000, 1024, 1536, 100 << 20, 3 << 30];
        let texts = [
            "0 bytes",
            "1000 bytes",
            "1 KiB",
            "1.5 KiB",
            "100 MiB",
            "3 GiB",
        ];
        assert_eq!(sizes.map(|size| Size(size).to_string()), texts);
    }

    #[test]
    fn rates_are_decimal() {
        assert_eq!(Rate(55_400, 1_000).to_string(), "55.4 GB/s");
        assert_eq!(Rate(4_200, 1).to_string(), "4.2 TB/s");
        assert_eq!(Rate(1, 1_000_000).to_string(), "1 kB/s");
        assert_eq!(Rate(0, 5).to_string(), "0 B/s");
    }
}
