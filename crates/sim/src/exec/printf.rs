//! Formatting for the `printf` of kernels, with the conversions of C.

/// A conversion specification, such as `%-08.3llx`.
#[derive(Clone, Copy, Debug, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// The bits of an integer argument: 8 for `hh`, 16 for `h`, 64 for `l` and the others.
    bits: u32,
}

/// The maximum width and precision.
const LENGTH_MAX: usize = 4096;

/// Formats the arguments by `format`, and returns the text and the number of arguments.
///
/// Returns `None` for an invalid conversion or an unreadable string. `next` returns the next
/// argument, given its size in bytes; `text` returns the zero-terminated string at an address.
pub(super) fn format(
    format: &[u8],
    next: &mut dyn FnMut(u64) -> u64,
    text: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
) -> Option<(Vec<u8>, i32)> {
    let mut out = Vec::new();
    let mut count = 0;
    // Bytes, not characters: widths and precisions count bytes, and none has to be UTF-8.
    let mut rest = format.iter().map(|&byte| char::from(byte)).peekable();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character as u8);
            continue;
        }
        let mut conversion = Conversion::default();
        while let Some(flag) = rest.next_if(|c| "-+ #0".contains(*c)) {
            match flag {
                '-' => conversion.left = true,
                '+' => conversion.plus = true,
                ' ' => conversion.blank = true,
                '#' => conversion.alternate = true,
                _ => conversion.zero = true,
            }
        }
        let mut number = |rest: &mut std::iter::Peekable<_>| {
            if rest.next_if_eq(&'*').is_some() {
                count += 1;
                return i64::from(next(4) as u32 as i32);
            }
            let mut value = 0;
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                value = (value * 10 + i64::from(digit as u32 - '0' as u32)).min(LENGTH_MAX as i64);
            }
            value
        };
        let width = number(&mut rest);
        conversion.left |= width < 0;
        conversion.width =
            usize::try_from(width.unsigned_abs()).map_or(LENGTH_MAX, |n| n.min(LENGTH_MAX));
        if rest.next_if_eq(&'.').is_some() {
            // A negative precision counts as none.
            let precision = usize::try_from(number(&mut rest)).ok();
            conversion.precision = precision.map(|n| n.min(LENGTH_MAX));
        }
        conversion.bits = 32;
        while let Some(length) = rest.next_if(|c| "hlLjzt".contains(*c)) {
            conversion.bits = match (length, conversion.bits) {
                ('h', 16) => 8,
                ('h', _) => 16,
                _ => 64,
            };
        }
        let kind = rest.next()?;
        let bytes = if conversion.bits == 64 || "eEfFgGaAps".contains(kind) {
            8
        } else {
            4
        };
        if kind == '%' {
            out.push(b'%');
            continue;
        }
        count += 1;
        let value = match kind {
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' | 'c' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'a'
            | 'A' | 'p' | 's' => next(bytes),
            _ => return None,
        };
        let converted = match kind {
            'd' | 'i' => signed(conversion, value).into_bytes(),
            'u' | 'o' | 'x' | 'X' => unsigned(conversion, kind, value).into_bytes(),
            'c' => vec![value as u8],
            'p' if value == 0 => b"(nil)".to_vec(),
            'p' => format!("{value:#x}").into_bytes(),
            's' => {
                let mut bytes = if value == 0 {
                    b"(null)".to_vec()
                } else {
                    text(value)?
                };
                bytes.truncate(conversion.precision.unwrap_or(usize::MAX));
                bytes
            }
            _ => float(conversion, kind, f64::from_bits(value)).into_bytes(),
        };
        let blanks = vec![b' '; conversion.width.saturating_sub(converted.len())];
        if conversion.left {
            out.extend([converted, blanks].concat());
        } else {
            out.extend([blanks, converted].concat());
        }
    }
    Some((out, count))
}

/// Formats a number: its sign or prefix, zeros up to the width if `zeros`, and its digits.
fn number(conversion: Conversion, prefix: &str, digits: &str, zeros: bool) -> String {
    let length = prefix.len() + digits.len();
    if zeros && !conversion.left && length < conversion.width {
        let fill = "0".repeat(conversion.width - length);
        return format!("{prefix}{fill}{digits}");
    }
    format!("{prefix}{digits}")
}

fn sign(conversion: Conversion, negative: bool) -> &'static str {
    match (negative, conversion.plus, conversion.blank) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

/// Pads an integer's digits with zeros to the precision.
fn digits(conversion: Conversion, digits: String) -> String {
    match conversion.precision {
        Some(0) if digits == "0" => String::new(),
        Some(precision) => format!("{digits:0>precision$}"),
        None => digits,
    }
}

fn signed(conversion: Conversion, value: u64) -> String {
    let unused = 64 - conversion.bits;
    let value = (value << unused).cast_signed() >> unused;
    let digits = digits(conversion, value.unsigned_abs().to_string());
    let zeros = conversion.zero && conversion.precision.is_none();
    number(conversion, sign(conversion, value < 0), &digits, zeros)
}

fn unsigned(conversion: Conversion, kind: char, value: u64) -> String {
    let unused = 64 - conversion.bits;
    let value = value << unused >> unused;
    let plain = match kind {
        'o' => format!("{value:o}"),
        'x' => format!("{value:x}"),
        'X' => format!("{value:X}"),
        _ => value.to_string(),
    };
    let mut digits = digits(conversion, plain);
    let prefix = match kind {
        'x' if conversion.alternate && value != 0 => "0x",
        'X' if conversion.alternate && value != 0 => "0X",
        _ => "",
    };
    if kind == 'o' && conversion.alternate && !digits.starts_with('0') {
        digits.insert(0, '0');
    }
    let zeros = conversion.zero && conversion.precision.is_none();
    number(conversion, prefix, &digits, zeros)
}

fn float(conversion: Conversion, kind: char, value: f64) -> String {
    let prefix = sign(conversion, value.is_sign_negative());
    let magnitude = value.abs();
    let upper = kind.is_ascii_uppercase();
    let case = |text: String| {
        if upper {
            text.to_ascii_uppercase()
        } else {
            text
        }
    };
    if !magnitude.is_finite() {
        let text = if magnitude.is_nan() { "nan" } else { "inf" };
        return number(conversion, prefix, &case(text.to_owned()), false);
    }
    let precision = conversion.precision.unwrap_or(6);
    let digits = match kind.to_ascii_lowercase() {
        'f' => fixed(conversion, magnitude, precision),
        'e' => scientific(conversion, magnitude, precision),
        'g' => general(conversion, magnitude, precision.max(1)),
        _ => {
            let prefix = format!("{prefix}{}", case("0x".to_owned()));
            return number(
                conversion,
                &prefix,
                &case(hexadecimal(conversion, magnitude)),
                conversion.zero,
            );
        }
    };
    number(conversion, prefix, &case(digits), conversion.zero)
}

fn fixed(conversion: Conversion, value: f64, precision: usize) -> String {
    let point = if conversion.alternate && precision == 0 {
        "."
    } else {
        ""
    };
    format!("{value:.precision$}{point}")
}

/// Returns the digits and the exponent of a number in scientific notation.
fn decimal(value: f64, precision: usize) -> (String, i32) {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or(0))
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn scientific(conversion: Conversion, value: f64, precision: usize) -> String {
    let (mut digits, exponent) = decimal(value, precision);
    if conversion.alternate && precision == 0 {
        digits.push('.');
    }
    with_exponent(&digits, exponent)
}

/// Formats by `%g`: fixed or scientific notation, without trailing zeros.
fn general(conversion: Conversion, value: f64, precision: usize) -> String {
    let (digits, exponent) = decimal(value, precision - 1);
    let trimmed = |text: String| {
        if conversion.alternate || !text.contains('.') {
            return text;
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let places = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= places {
        return with_exponent(&trimmed(digits), exponent);
    }
    let behind_point = usize::try_from(places - 1 - exponent).unwrap_or(0);
    trimmed(format!("{value:.behind_point$}"))
}

/// Formats by `%a`: the text after `0x`.
fn hexadecimal(conversion: Conversion, value: f64) -> String {
    let bits = value.to_bits();
    let (mut fraction, mut exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32 - 1023);
    let mut lead = 1u64;
    if exponent == -1023 {
        (lead, exponent) = (0, if fraction == 0 { 0 } else { -1022 });
    }
    let digits = match conversion.precision {
        Some(precision) if precision < 13 => {
            // Round to nearest, ties to even; the carry may reach the leading digit.
            let cut = 52 - 4 * precision as u32;
            let whole = lead << 52 | fraction;
            let (half, rest) = (1u64 << (cut - 1), whole & ((1 << cut) - 1));
            let odd = whole >> cut & 1 == 1;
            let rounded = (whole >> cut) + u64::from(rest > half || rest == half && odd);
            lead = rounded >> (4 * precision);
            fraction = rounded & ((1 << (4 * precision)) - 1);
            if precision == 0 {
                String::new()
            } else {
                format!("{fraction:0precision$x}")
            }
        }
        Some(precision) => format!("{fraction:013x}{}", "0".repeat(precision - 13)),
        None => format!("{fraction:013x}").trim_end_matches('0').to_owned(),
    };
    let point = if digits.is_empty() && !conversion.alternate {
        ""
    } else {
        "."
    };
    format!("{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats arguments given as their bits.
    fn printed(text: &str, arguments: &[u64]) -> String {
        let mut rest = arguments.iter();
        let mut next = |_| *rest.next().unwrap();
        let printed = format(text.as_bytes(), &mut next, &mut |address| {
            Some(format!("at{address}").into_bytes())
        });
        String::from_utf8(printed.unwrap().0).unwrap()
    }

    #[test]
    fn integers() {
        let minus = |value: i64| value as u64;
        assert_eq!(
            printed("%d|%5d|%-5d|%05d|%+d|% d", &[7, 42, 42, 42, 42, 42]),
            "7|   42|42   |00042|+42| 42"
        );
        assert_eq!(
            printed(
                "%d %i %lld %u",
                &[minus(-3) & 0xffff_ffff, 8, minus(-5), 0xffff_ffff]
            ),
            "-3 8 -5 4294967295"
        );
        assert_eq!(
            printed("%x %X %#x %#o %o %08llx", &[255, 255, 255, 8, 8, 0xabc]),
            "ff FF 0xff 010 10 00000abc"
        );
        assert_eq!(
            printed("%.3d|%6.3d|%06.3d|%.0d|", &[5, 5, 5, 0]),
            "005|   005|   005||"
        );
        let mixed = [minus(-1), 0x1_2345_6789, minus(-200), 0xffff_ff00, 1 << 40];
        assert_eq!(
            printed("%hhd %hhu|%hd %#hx|%zx", &mixed),
            "-1 137|-200 0xff00|10000000000"
        );
        assert_eq!(printed("%ld %jd %td", &[minus(-1); 3]), "-1 -1 -1");
        assert_eq!(
            printed("%*d|%-*d|%.*f", &[4, 1, 4, 1, 2, 1.5f64.to_bits()]),
            "   1|1   |1.50"
        );
    }

    #[test]
    fn floats() {
        let f = |text: &str, value: f64| printed(text, &[value.to_bits()]);
        assert_eq!(f("%f", 3.25), "3.250000");
        assert_eq!(f("%5.2f", -1.5), "-1.50");
        assert_eq!(f("%08.2f", -1.5), "-0001.50");
        assert_eq!(f("%.0f", 2.5), "2");
        assert_eq!(f("%#.0f", 2.5), "2.");
        assert_eq!(f("%e", 12345.678), "1.234568e+04");
        assert_eq!(f("%.2E", 0.00012), "1.20E-04");
        assert_eq!(f("%g", 0.0001), "0.0001");
        assert_eq!(f("%g", 0.00001), "1e-05");
        assert_eq!(f("%g", 1e6), "1e+06");
        assert_eq!(f("%g", 123456.0), "123456");
        assert_eq!(f("%g", 999_999.5), "1e+06");
        assert_eq!(f("%g", 0.0), "0");
        assert_eq!(f("%#g", 1.0), "1.00000");
        assert_eq!(f("%a", 1.5), "0x1.8p+0");
        assert_eq!(f("%a", 0.0), "0x0p+0");
        assert_eq!(f("%.1a", 1.96875), "0x2.0p+0");
        assert_eq!(f("%010a", 1.5), "0x001.8p+0");
        assert_eq!(f("%F %%", f64::INFINITY), "INF %");
        assert_eq!(f("%5f", f64::NAN), "  nan");
    }

    #[test]
    fn strings_characters_and_pointers() {
        assert_eq!(
            printed("%s|%8s|%-8s|%.2s|%c", &[17, 17, 17, 17, 65]),
            "at17|    at17|at17    |at|A"
        );
        assert_eq!(printed("%p %p %s", &[0x1000, 0, 0]), "0x1000 (nil) (null)");
        let mut none = |_| 0;
        assert_eq!(format(b"%", &mut none, &mut |_| None), None);
        assert_eq!(format(b"%k", &mut none, &mut |_| None), None);
        assert_eq!(
            format(b"%d%%%d", &mut none, &mut |_| None),
            Some((b"0%0".to_vec(), 2))
        );
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_printed_as_they_are_and_counted_one_by_one() {
        let printed = format(b"\xe9%3s%-2c|", &mut |_| 0xff, &mut |_| {
            Some(vec![0xc3, 0xa9])
        });
        assert_eq!(printed, Some((b"\xe9 \xc3\xa9\xff |".to_vec(), 2)));
    }
}
