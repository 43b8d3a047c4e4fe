//! The directives at the head of a module: `.version`, `.target` and `.address_size`.

use std::fmt;

use super::error::{PtxError, PtxErrorKind};
use super::lexer::{Lexer, unexpected};

/// The number of the newest architecture whose instructions the simulated device supports.
const NEWEST_TARGET: u32 = 90;

/// A version of the PTX ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A target architecture, such as `sm_90a`.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    name: &'a str,
    number: u32,
}

/// The version and the target of a module.
#[derive(Debug, Default)]
pub struct Header<'a> {
    pub version: Option<Version>,
    target: Option<Target<'a>>,
}

impl<'a> Header<'a> {
    /// Parses `.version`, which is the lexer's next token.
    pub(crate) fn version(&mut self, lexer: &mut Lexer<'a>) -> Result<(), PtxError> {
        lexer.next();
        let token = lexer.next();
        let parts = token.text.split_once('.').and_then(|(major, minor)| {
            Some(Version {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        });
        match parts {
            Some(version) if version.major <= 9 => {
                self.version = Some(version);
                Ok(())
            }
            Some(_) => Err(PtxErrorKind::UnsupportedVersion(token.text.to_owned()).at(token.line)),
            None => Err(unexpected(token, "a version")),
        }
    }

    /// Parses `.target`: an architecture, possibly newer than the supported ones, and options.
    pub(crate) fn target(&mut self, lexer: &mut Lexer<'a>) -> Result<(), PtxError> {
        const OPTIONS: [&str; 4] = [
            "debug",
            "texmode_unified",
            "texmode_independent",
            "map_f64_to_f32",
        ];
        lexer.next();
        loop {
            let token = lexer.word("a target")?;
            match architecture(token.text) {
                Some(number) => {
                    self.target = Some(Target {
                        name: token.text,
                        number,
                    });
                }
                None if OPTIONS.contains(&token.text) => {}
                None => {
                    let name = token.text.to_owned();
                    return Err(PtxErrorKind::UnsupportedTarget(name).at(token.line));
                }
            }
            if !lexer.eat(',') {
                return Ok(());
            }
        }
    }

    /// Returns the number of the target architecture: 90 for `sm_90` and `sm_90a`.
    pub fn target_number(&self) -> Option<u32> {
        self.target.map(|target| target.number)
    }

    /// Returns whether the module has an older version than the given one.
    pub fn is_before(&self, major: u32, minor: u32) -> bool {
        let version = Version { major, minor };
        self.version.is_some_and(|own| own < version)
    }

    /// Returns a note for the user if the target is newer than the newest supported architecture.
    pub fn note(&self) -> Option<String> {
        let target = self.target.filter(|target| target.number > NEWEST_TARGET)?;
        Some(format!(
            "the target {} is newer than sm_{NEWEST_TARGET}a, the newest that the simulated \
             device knows: instructions that only newer devices have are rejected, all others run \
             as on sm_{NEWEST_TARGET}a",
            target.name
        ))
    }

    /// Returns the maximum size of a kernel's parameters in bytes, and its reason, which follows
    /// "more than … that".
    ///
    /// The PTX ISA reference ("Kernel Function Parameters") limits them to 256 bytes before version
    /// 1.5, to 4,352 from version 1.5 on, and to 32,764 from version 8.1 on for sm_70 and newer.
    pub fn parameter_limit(&self) -> (usize, String) {
        const TABLE: &str = "pass the address of a table in device memory instead";
        let version = self
            .version
            .map_or_else(String::new, |version| version.to_string());
        if self.is_before(1, 5) {
            return (256, format!("PTX ISA {version} allows; {TABLE}"));
        }
        if self.is_before(8, 1) {
            return (
                4352,
                format!(
                    "PTX ISA {version} allows; compile for PTX ISA 8.1 or newer and sm_70 or \
                     newer, which allow 32764, or {TABLE}"
                ),
            );
        }
        match self.target {
            Some(target) if target.number < 70 => (
                4352,
                format!(
                    "the target {} allows; compile for sm_70 or newer, which allow 32764, or \
                     {TABLE}",
                    target.name
                ),
            ),
            _ => (32_764, format!("any PTX ISA and target allow; {TABLE}")),
        }
    }
}

/// Returns the number of an architecture: 90 for `sm_90` and `sm_90a`.
fn architecture(name: &str) -> Option<u32> {
    let number = name.strip_prefix("sm_")?;
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 3;
    digits
        .parse()
        .ok()
        .filter(|number| is_plain && *number >= 10)
}

/// Parses `.address_size`, which is the lexer's next token.
pub(crate) fn address_size(lexer: &mut Lexer<'_>) -> Result<(), PtxError> {
    lexer.next();
    let token = lexer.next();
    match token.text {
        "64" => Ok(()),
        "32" => Err(PtxErrorKind::Unsupported("32-bit addresses".to_owned()).at(token.line)),
        _ => Err(unexpected(token, "`64`")),
    }
}
