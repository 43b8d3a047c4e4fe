//! The syntax of a module of kernels and variables: `pub unsafe mod NAME from PTX { … }`.

use syn::{
    Attribute, Expr, Ident, Token, Visibility, braced,
    parse::{Parse, ParseStream},
};

use crate::{
    kernel::{Kernel, KernelAttributes},
    variable::Variable,
};

/// The keyword between a module's name and its PTX.
mod keyword {
    syn::custom_keyword!(from);
    syn::custom_keyword!(cuda);
    syn::custom_keyword!(ptx);
}

pub(crate) struct Modules(pub(crate) Vec<Module>);

pub(crate) struct Module {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    pub(crate) source: Source,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) variables: Vec<Variable>,
}

/// The source of a module: expressions of type `&'static str`.
pub(crate) enum Source {
    /// PTX.
    Ptx(Expr),
    /// CUDA C++ that is compiled when the module is loaded.
    Cuda(Expr),
    /// CUDA C++, and the PTX that was compiled from it.
    Compiled { cuda: Box<Expr>, ptx: Box<Expr> },
}

impl Parse for Source {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        // `cuda` alone may be the name of a constant that holds PTX.
        let is_cuda = input.peek(keyword::cuda) && !input.peek2(Token![::]);
        if !is_cuda || input.peek2(syn::token::Brace) {
            return Ok(Self::Ptx(Expr::parse_without_eager_brace(input)?));
        }
        input.parse::<keyword::cuda>()?;
        let cuda = Expr::parse_without_eager_brace(input)?;
        if !input.peek(Token![,]) {
            return Ok(Self::Cuda(cuda));
        }
        input.parse::<Token![,]>()?;
        if !input.peek(keyword::ptx) {
            return Err(input.error(
                "expected `ptx`, then the PTX that `millstream compile` has written: \
                 `ptx include_str!(\"photo.ptx\")`",
            ));
        }
        input.parse::<keyword::ptx>()?;
        let ptx = Expr::parse_without_eager_brace(input)?;
        Ok(Self::Compiled {
            cuda: Box::new(cuda),
            ptx: Box::new(ptx),
        })
    }
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
        let mut attributes = input.call(Attribute::parse_outer)?;
        let own = KernelAttributes::take(&mut attributes)?;
        if let Some(name) = own.name {
            return Err(syn::Error::new(
                name.span(),
                "a module has no name in the PTX: give it to the kernel",
            ));
        }
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
        let source = input.parse()?;
        let content;
        braced!(content in input);
        let mut kernels: Vec<Kernel> = Vec::new();
        let mut variables: Vec<Variable> = Vec::new();
        while !content.is_empty() {
            let is_variable = Variable::follows(&content);
            let name = if is_variable {
                let variable: Variable = content.parse()?;
                variables.push(variable);
                &variables[variables.len() - 1].name
            } else {
                let mut kernel: Kernel = content.parse()?;
                kernel.abi = kernel.abi.or(own.abi);
                kernels.push(kernel);
                &kernels[kernels.len() - 1].name
            };
            let declared = kernels.iter().map(|kernel| &kernel.name);
            let declared = declared.chain(variables.iter().map(|variable| &variable.name));
            if declared.filter(|&other| other == name).count() > 1 {
                let message = format!("`{name}` is declared twice");
                return Err(syn::Error::new(name.span(), message));
            }
        }
        Ok(Self {
            attributes,
            visibility,
            name,
            source,
            kernels,
            variables,
        })
    }
}
