//! The names and numbers of the device attributes, from the generated table.

macro_rules! attributes {
    ($($name:ident = $number:literal;)*) => {
        /// The numbers of the device attributes.
        pub mod number {
            $(
                #[doc = concat!("`CU_DEVICE_ATTRIBUTE_", stringify!($name), "`.")]
                pub const $name: i32 = $number;
            )*
        }

        /// The name, as it follows `CU_DEVICE_ATTRIBUTE_`, and the number of each attribute, in the
        /// order of their numbers.
        pub static ATTRIBUTES: &[(&str, i32)] = &[$((stringify!($name), $number)),*];
    };
}

super::numbers::device_attributes!(attributes);
