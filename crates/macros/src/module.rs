//! The syntax of a module of kernels: `pub unsafe mod NAME from PTX { … }`.

use syn::{
    Attribute, Expr, Ident, Token, Visibility, braced,
    parse::{Parse, ParseStream},
};

use crate::kernel::Kernel;

/// The keyword between a module's name and its PTX.
mod keyword {
    syn::custom_keyword!(from);
}

/// The modules of one macro invocation.
pub(crate) struct Modules(pub(crate) Vec<Module>);

/// The declaration of one module of kernels.
pub(crate) struct Module {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    /// An expression of type `&'static str`.
    pub(crate) ptx: Expr,
    pub(crate) kernels: Vec<Kernel>,
}

impl Parse for Modules {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut modules = vec![input.parse()?];
        while !input.is_empty() {
            modules.push(input.parse()?);
        }
        Ok(Self(modules))
    }
}

impl Parse for Module {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if input.peek(Token![mod]) {
            return Err(input.error(
                "write `unsafe mod`: the author guarantees that the declared signatures match the \
                 PTX, which the compiler cannot check",
            ));
        }
        if !input.peek(Token![unsafe]) {
            return Err(input.error(
                "expected `unsafe mod NAME from PTX { … }`, as in \
                 `pub unsafe mod photo from include_str!(\"photo.ptx\") { … }`",
            ));
        }
        input.parse::<Token![unsafe]>()?;
        input.parse::<Token![mod]>()?;
        let name = input.parse()?;
        if !input.peek(keyword::from) {
            return Err(
                input.error("expected `from`, then the PTX: `from include_str!(\"photo.ptx\")`")
            );
        }
        input.parse::<keyword::from>()?;
        let ptx = Expr::parse_without_eager_brace(input)?;
        let content;
        braced!(content in input);
        let mut kernels: Vec<Kernel> = Vec::new();
        while !content.is_empty() {
            let kernel: Kernel = content.parse()?;
            if kernels.iter().any(|other| other.name == kernel.name) {
                return Err(syn::Error::new(
                    kernel.name.span(),
                    format!("kernel `{}` is declared twice", kernel.name),
                ));
            }
            kernels.push(kernel);
        }
        Ok(Self {
            attributes,
            visibility,
            name,
            ptx,
            kernels,
        })
    }
}
