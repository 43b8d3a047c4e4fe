//! The macro that declares the numeric results of a library.

/// Declares a library's numeric results, with their names in its header.
#[doc(hidden)]
#[macro_export]
macro_rules! __result_codes {
    (
        $(#[$attribute:meta])*
        pub struct $type:ident($c_type:literal) of $library:literal {
            $($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*
        }
    ) => {
        $(#[$attribute])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $type(i32);

        impl $type {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            #[doc = concat!("Returns the name in ", $library, "'s header, if this module declares \
                a constant for the number.")]
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }

            #[doc = concat!("Wraps ", $library, "'s numeric result.")]
            #[must_use]
            pub const fn from_raw(raw: i32) -> Self {
                Self(raw)
            }

            #[doc = concat!("Returns ", $library, "'s numeric result.")]
            #[must_use]
            pub const fn as_raw(self) -> i32 {
                self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name} ({})", self.0),
                    None => write!(f, concat!($c_type, " {}"), self.0),
                }
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use __result_codes as result_codes;
