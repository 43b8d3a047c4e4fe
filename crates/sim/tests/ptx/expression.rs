//! Expressions of run lines: the value of a buffer's element at index `i`.

use super::values::{ElementType, Number};

/// The buffers that an expression may name.
pub(crate) trait Names {
    /// Returns an element of a buffer, as it was before the launch.
    fn element(&self, name: &str, index: i128) -> Option<Number>;
    /// Returns the address of a buffer.
    fn address(&self, name: &str) -> Option<u64>;
}

pub(crate) fn evaluate(text: &str, i: i128, names: &dyn Names) -> Result<Number, String> {
    let mut parser = Parser {
        rest: text,
        names,
        i,
        j: 0,
        idle: false,
    };
    let value = parser.choice()?;
    parser.blanks();
    if parser.rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("`{}` is left of `{text}`", parser.rest))
    }
}

struct Parser<'a> {
    rest: &'a str,
    names: &'a dyn Names,
    i: i128,
    /// The index of the innermost `sum`.
    j: i128,
    /// A flag set while the unselected branch of a condition is parsed.
    idle: bool,
}

/// Binary operators, from lowest to highest precedence.
const LEVELS: [&[&str]; 9] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!=", "<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Parser<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, mark: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.eat(mark) {
            Ok(())
        } else {
            Err(format!("expected `{mark}` at `{}`", self.rest))
        }
    }

    fn choice(&mut self) -> Result<Number, String> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        // The branch that is not selected may name elements that do not exist.
        let idle = self.idle;
        self.idle = idle || !condition.is_true();
        let yes = self.choice()?;
        self.expect(":")?;
        self.idle = idle || condition.is_true();
        let no = self.choice()?;
        self.idle = idle;
        Ok(if condition.is_true() { yes } else { no })
    }

    fn binary(&mut self, level: usize) -> Result<Number, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut value = self.binary(level + 1)?;
        loop {
            self.blanks();
            let found = operators.iter().find(|operator| {
                let Some(rest) = self.rest.strip_prefix(**operator) else {
                    return false;
                };
                // Otherwise `|` would match the start of `||`, and `<` the start of `<<`.
                let doubled = operator.len() == 1 && rest.starts_with(**operator);
                !(doubled && "|&<>".contains(**operator))
            });
            let Some(operator) = found else {
                return Ok(value);
            };
            self.rest = &self.rest[operator.len()..];
            let other = self.binary(level + 1)?;
            value = apply(operator, value, other)?;
        }
    }

    fn unary(&mut self) -> Result<Number, String> {
        if self.eat("-") {
            return Ok(match self.unary()? {
                Number::Int(value) => Number::Int(-value),
                value => Number::Real(-value.real()),
            });
        }
        if self.eat("~") {
            return Ok(Number::Int(!self.unary()?.int()));
        }
        if self.eat("!") {
            return Ok(Number::Int((!self.unary()?.is_true()).into()));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Number, String> {
        if self.eat("(") {
            let value = self.choice()?;
            self.expect(")")?;
            return Ok(value);
        }
        if self.eat("@") {
            let name = self.word();
            let address = self.names.address(name);
            return address
                .map(|address| Number::Int(address.into()))
                .ok_or_else(|| format!("no buffer `{name}`"));
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        let name = self.word();
        match name {
            "" => Err(format!("expected a value at `{}`", self.rest)),
            "i" => Ok(Number::Int(self.i)),
            "j" => Ok(Number::Int(self.j)),
            "pi" => Ok(Number::Real(std::f64::consts::PI)),
            "inf" => Ok(Number::Real(f64::INFINITY)),
            "nan" => Ok(Number::Real(f64::NAN)),
            "sum" => self.sum(),
            _ if self.eat("[") => {
                let index = self.choice()?.int();
                self.expect("]")?;
                let element = self.names.element(name, index);
                let element = element.or(self.idle.then_some(Number::Int(0)));
                element.ok_or_else(|| format!("no element {index} of `{name}`"))
            }
            _ => {
                self.expect("(")?;
                let mut arguments = vec![self.choice()?];
                while self.eat(",") {
                    arguments.push(self.choice()?);
                }
                self.expect(")")?;
                function(name, &arguments)
            }
        }
    }

    /// Evaluates `sum(n, expression)`: the sum over `j` from 0 up to `n`, exclusive.
    fn sum(&mut self) -> Result<Number, String> {
        self.expect("(")?;
        let count = self.choice()?.int();
        self.expect(",")?;
        let (body, outer) = (self.rest, self.j);
        let mut total = Number::Int(0);
        for j in 0..count.max(1) {
            (self.rest, self.j) = (body, j);
            let value = self.choice()?;
            if count > 0 {
                total = apply("+", total, value)?;
            }
        }
        self.j = outer;
        self.expect(")")?;
        Ok(total)
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number(&mut self) -> Result<Number, String> {
        let bytes = self.rest.as_bytes();
        let hexadecimal = self.rest.starts_with("0x");
        let mut end = 0;
        while let Some(&byte) = bytes.get(end) {
            let sign =
                end > 0 && matches!(byte, b'+' | b'-') && bytes[end - 1] == b'e' && !hexadecimal;
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || sign) {
                break;
            }
            end += 1;
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let plain = text.replace('_', "");
        let int = match plain.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => plain.parse(),
        };
        int.map(Number::Int)
            .or_else(|_| plain.parse().map(Number::Real))
            .map_err(|_| format!("`{text}` is no number"))
    }
}

fn apply(operator: &str, a: Number, b: Number) -> Result<Number, String> {
    let truth = |value: bool| Ok(Number::Int(value.into()));
    match operator {
        "||" => return truth(a.is_true() || b.is_true()),
        "&&" => return truth(a.is_true() && b.is_true()),
        _ => {}
    }
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        return match operator {
            "==" => truth(a == b),
            "!=" => truth(a != b),
            "<" => truth(a < b),
            "<=" => truth(a <= b),
            ">" => truth(a > b),
            ">=" => truth(a >= b),
            "/" | "%" if b == 0 => Err("division by 0".to_owned()),
            _ => Ok(Number::Int(match operator {
                "|" => a | b,
                "^" => a ^ b,
                "&" => a & b,
                "<<" => a << b,
                ">>" => a >> b,
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                _ => a % b,
            })),
        };
    }
    let (a, b) = (a.real(), b.real());
    match operator {
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "<" => truth(a < b),
        "<=" => truth(a <= b),
        ">" => truth(a > b),
        ">=" => truth(a >= b),
        "+" => Ok(Number::Real(a + b)),
        "-" => Ok(Number::Real(a - b)),
        "*" => Ok(Number::Real(a * b)),
        "/" => Ok(Number::Real(a / b)),
        "%" => Ok(Number::Real(a % b)),
        _ => Err(format!("`{operator}` is for integers")),
    }
}

fn function(name: &str, arguments: &[Number]) -> Result<Number, String> {
    if let (Some(ty), [value]) = (ElementType::from_name(name), arguments) {
        return Ok(ty.decode(ty.encode(*value)));
    }
    let real = |f: fn(f64) -> f64, value: &Number| Ok(Number::Real(f(value.real())));
    let int = |value: i128| Ok(Number::Int(value));
    match (name, arguments) {
        ("bits", [value]) => Ok(Number::Bits(value.int() as u64)),
        ("bits_of_f32", [value]) => int(i128::from(ElementType::F32.encode(*value))),
        ("bits_of_f64", [value]) => int(i128::from(ElementType::F64.encode(*value))),
        ("bits_of_f16", [value]) => int(i128::from(ElementType::F16.encode(*value))),
        ("sqrt", [a]) => real(f64::sqrt, a),
        ("cbrt", [a]) => real(f64::cbrt, a),
        ("exp", [a]) => real(f64::exp, a),
        ("exp2", [a]) => real(f64::exp2, a),
        ("log", [a]) => real(f64::ln, a),
        ("log2", [a]) => real(f64::log2, a),
        ("log10", [a]) => real(f64::log10, a),
        ("sin", [a]) => real(f64::sin, a),
        ("cos", [a]) => real(f64::cos, a),
        ("tan", [a]) => real(f64::tan, a),
        ("asin", [a]) => real(f64::asin, a),
        ("atan", [a]) => real(f64::atan, a),
        ("sinh", [a]) => real(f64::sinh, a),
        ("tanh", [a]) => real(f64::tanh, a),
        ("floor", [a]) => real(f64::floor, a),
        ("ceil", [a]) => real(f64::ceil, a),
        ("trunc", [a]) => real(f64::trunc, a),
        ("round", [a]) => real(f64::round_ties_even, a),
        ("pow", [a, b]) => Ok(Number::Real(a.real().powf(b.real()))),
        ("atan2", [a, b]) => Ok(Number::Real(a.real().atan2(b.real()))),
        ("hypot", [a, b]) => Ok(Number::Real(a.real().hypot(b.real()))),
        ("fma", [a, b, c]) => Ok(Number::Real(a.real().mul_add(b.real(), c.real()))),
        ("abs", [Number::Int(a)]) => int(a.abs()),
        ("abs", [a]) => real(f64::abs, a),
        ("min", [Number::Int(a), Number::Int(b)]) => int(*a.min(b)),
        ("max", [Number::Int(a), Number::Int(b)]) => int(*a.max(b)),
        ("min", [a, b]) => Ok(Number::Real(a.real().min(b.real()))),
        ("max", [a, b]) => Ok(Number::Real(a.real().max(b.real()))),
        ("popc", [a]) => int((a.int() as u64).count_ones().into()),
        ("clz32", [a]) => int((a.int() as u32).leading_zeros().into()),
        ("clz64", [a]) => int((a.int() as u64).leading_zeros().into()),
        ("reverse32", [a]) => int((a.int() as u32).reverse_bits().into()),
        ("reverse64", [a]) => int((a.int() as u64).reverse_bits().into()),
        _ => Err(format!(
            "no function `{name}` of {} values",
            arguments.len()
        )),
    }
}
