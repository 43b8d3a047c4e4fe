//! The syntax of a module's variable: `static NAME: [T];`.

use syn::{
    Attribute, Ident, LitStr, Token, Type, Visibility,
    parse::{Parse, ParseStream},
    spanned::Spanned,
};

use crate::kernel::{KernelAttributes, check_name};

/// The declaration of a variable in global or constant memory.
pub(crate) struct Variable {
    /// The attributes, without `#[kernel]`.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    /// The name in the PTX, if it differs.
    pub(crate) ptx_name: Option<LitStr>,
    pub(crate) element: Type,
    /// True if it is declared as one element, not as an array.
    pub(crate) is_single: bool,
}

impl Variable {
    /// Returns whether the next declaration is that of a variable.
    pub(crate) fn follows(input: ParseStream<'_>) -> bool {
        let ahead = input.fork();
        let parsed =
            ahead.call(Attribute::parse_outer).is_ok() && ahead.parse::<Visibility>().is_ok();
        parsed && ahead.peek(Token![static])
    }
}

impl Parse for Variable {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let own = KernelAttributes::take(&mut attributes)?;
        let visibility = input.parse()?;
        input.parse::<Token![static]>()?;
        if input.peek(Token![mut]) {
            return Err(input.error(
                "a variable has no `mut`: the method that is made of it returns a `Global`, which \
                 is mutable if it is bound so",
            ));
        }
        let name: Ident = input.parse()?;
        check_name(&name)?;
        input.parse::<Token![:]>()?;
        let (element, is_single) = match input.parse()? {
            Type::Slice(array) => (*array.elem, false),
            single => (single, true),
        };
        if !matches!(&element, Type::Path(path) if path.qself.is_none()) {
            return Err(syn::Error::new(
                element.span(),
                "a variable is `[T]`, an array, or `T`, one element, of a type that is named by a \
                 path",
            ));
        }
        if input.peek(Token![=]) {
            return Err(input.error("the initial value of a variable is in the PTX"));
        }
        input.parse::<Token![;]>()?;
        Ok(Self {
            attributes,
            visibility,
            name,
            ptx_name: own.name,
            element,
            is_single,
        })
    }
}
