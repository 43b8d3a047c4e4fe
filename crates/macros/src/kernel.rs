//! The syntax of one kernel: `safe fn NAME(…) requires …;` or `unsafe fn NAME(…);`.

use proc_macro2::Group;
use syn::{
    Attribute, Expr, Ident, Lifetime, LitStr, Pat, Token, Type, TypeReference, Visibility,
    parenthesized,
    parse::{Parse, ParseStream},
    parse_quote,
    punctuated::Punctuated,
    spanned::Spanned,
    visit_mut::VisitMut,
};

mod keyword {
    syn::custom_keyword!(safe);
    syn::custom_keyword!(requires);
}

pub(crate) struct Kernel {
    /// The attributes, without `#[kernel]`.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) safety: Safety,
    pub(crate) name: Ident,
    /// The name in the PTX, if it differs.
    pub(crate) ptx_name: Option<LitStr>,
    /// The way in which arrays are passed, if it is declared.
    pub(crate) abi: Option<Abi>,
    pub(crate) params: Vec<Param>,
    pub(crate) clauses: Vec<Expr>,
}

/// The way in which arrays are passed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Abi {
    /// As their address.
    C,
    /// As their address and their length.
    Rust,
}

#[derive(Default)]
pub(crate) struct KernelAttributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) abi: Option<Abi>,
}

/// The party that guarantees a valid launch.
pub(crate) enum Safety {
    /// The clauses, which are checked before each launch.
    Safe,
    /// The caller of the method.
    Unsafe(Token![unsafe]),
}

pub(crate) struct Param {
    /// The lines of its documentation.
    pub(crate) docs: Vec<Expr>,
    pub(crate) name: Ident,
    pub(crate) kind: ParamKind,
}

/// The kind of a parameter, with its element or scalar type.
pub(crate) enum ParamKind {
    /// An array that is only read: `&[T]`.
    Read(Type),
    /// An array that is written: `&mut [T]`.
    Write(Type),
    /// A value: `T`.
    Scalar(Type),
}

const ALLOWED: &str = "a kernel's parameter is `&[T]` (read), `&mut [T]` (written), \
                       `&Texture<T>`, `&mut Surface<T>` or a plain value whose type is a path";

impl Parse for Kernel {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let own = KernelAttributes::take(&mut attributes)?;
        let visibility = input.parse()?;
        let safety = parse_safety(input)?;
        input.parse::<Token![fn]>()?;
        let name: Ident = input.parse()?;
        check_name(&name)?;
        if input.peek(Token![<]) {
            return Err(input
                .error("a kernel has no generic parameters, because its PTX is already compiled"));
        }
        let content;
        parenthesized!(content in input);
        let params = Punctuated::<Param, Token![,]>::parse_terminated(&content)?;
        if input.peek(Token![->]) {
            let arrow: Token![->] = input.parse()?;
            return Err(syn::Error::new(
                arrow.span(),
                "a kernel returns nothing: give it a `&mut [T]` to write its results to",
            ));
        }
        let mut clauses = Punctuated::new();
        if input.peek(keyword::requires) {
            input.parse::<keyword::requires>()?;
            while !input.peek(Token![;]) {
                clauses.push_value(input.parse::<Expr>()?);
                if !input.peek(Token![,]) {
                    break;
                }
                clauses.push_punct(input.parse::<Token![,]>()?);
            }
            if clauses.is_empty() {
                return Err(input
                    .error("expected a clause after `requires`, as in `requires x.len() >= n`"));
            }
        }
        if input.peek(syn::token::Brace) {
            let body: Group = input.parse()?;
            return Err(syn::Error::new(
                body.span(),
                "a kernel's body is in its PTX: end the declaration with `;`",
            ));
        }
        if !input.peek(Token![;]) {
            return Err(input.error("expected `requires` with its clauses, or `;`"));
        }
        input.parse::<Token![;]>()?;
        Ok(Self {
            attributes,
            visibility,
            safety,
            name,
            ptx_name: own.name,
            abi: own.abi,
            params: params.into_iter().collect(),
            clauses: clauses.into_iter().collect::<Vec<Expr>>(),
        })
    }
}

/// Returns an error if the name of a kernel or a variable is taken by the module's loader.
pub(crate) fn check_name(name: &Ident) -> syn::Result<()> {
    if name == "load" {
        return Err(syn::Error::new(
            name.span(),
            "`load` is the function that loads the module; choose another name for the declaration \
             and add `#[kernel(name = \"load\")]`",
        ));
    }
    Ok(())
}

fn parse_safety(input: ParseStream<'_>) -> syn::Result<Safety> {
    if input.peek(keyword::safe) {
        input.parse::<keyword::safe>()?;
        Ok(Safety::Safe)
    } else if input.peek(Token![unsafe]) {
        Ok(Safety::Unsafe(input.parse()?))
    } else if input.peek(Token![fn]) {
        Err(input.error(
            "write `safe fn`, with the `requires` clauses that make every call valid, or \
             `unsafe fn`, whose callers guarantee that their calls are valid",
        ))
    } else {
        Err(input.error("expected `safe fn` or `unsafe fn`, or `static` for a variable"))
    }
}

impl KernelAttributes {
    /// Removes `#[kernel(name = "…", abi = "…")]` from the attributes and returns its values.
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> syn::Result<Self> {
        let mut own = Self::default();
        let mut kept = Vec::new();
        for attribute in attributes.drain(..) {
            if !attribute.path().is_ident("kernel") {
                kept.push(attribute);
                continue;
            }
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("abi") {
                    let abi: LitStr = meta.value()?.parse()?;
                    own.abi = Some(match abi.value().as_str() {
                        "C" => Abi::C,
                        "rust" => Abi::Rust,
                        _ => {
                            return Err(syn::Error::new(
                                abi.span(),
                                "expected \"rust\", for arrays that are passed as address and \
                                 length, or \"C\", for arrays that are passed as address",
                            ));
                        }
                    });
                    return Ok(());
                }
                if !meta.path.is_ident("name") {
                    return Err(meta.error(
                        "expected `name = \"…\"`, the kernel's name in the PTX, or \
                         `abi = \"rust\"`",
                    ));
                }
                if own.name.is_some() {
                    return Err(meta.error("the kernel's name in the PTX is given twice"));
                }
                own.name = Some(meta.value()?.parse()?);
                Ok(())
            })?;
        }
        *attributes = kept;
        Ok(own)
    }
}

impl Parse for Param {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        if input.peek(Token![self]) || input.peek(Token![&]) {
            return Err(input.error("a kernel has no `self`: expected a parameter's name"));
        }
        let pattern = Pat::parse_single(input)?;
        let name = match pattern {
            Pat::Ident(ident)
                if ident.by_ref.is_none()
                    && ident.mutability.is_none()
                    && ident.subpat.is_none() =>
            {
                ident.ident
            }
            other => {
                return Err(syn::Error::new(
                    other.span(),
                    "expected a parameter's plain name",
                ));
            }
        };
        if name == "stream" || name == "grid" {
            return Err(syn::Error::new(
                name.span(),
                format!("`{name}` is already an argument of every launch: choose another name"),
            ));
        }
        input.parse::<Token![:]>()?;
        Ok(Self {
            docs: attributes
                .into_iter()
                .map(doc_line)
                .collect::<syn::Result<_>>()?,
            name,
            kind: ParamKind::of(input.parse()?)?,
        })
    }
}

/// Returns the text of a documentation attribute, the only attribute that a parameter may have.
fn doc_line(attribute: Attribute) -> syn::Result<Expr> {
    match attribute.meta {
        syn::Meta::NameValue(meta) if meta.path.is_ident("doc") => Ok(meta.value),
        other => Err(syn::Error::new(
            other.span(),
            "a kernel's parameter can have documentation, but no other attribute",
        )),
    }
}

impl ParamKind {
    fn of(mut ty: Type) -> syn::Result<Self> {
        let mut lifetimes = FirstLifetime(None);
        lifetimes.visit_type_mut(&mut ty);
        if let Some(lifetime) = lifetimes.0 {
            return Err(syn::Error::new(
                lifetime.span(),
                "no lifetimes in a parameter's type: the operation itself keeps its operands alive",
            ));
        }
        if let Type::Reference(image) = &ty {
            let (name, kind): (_, fn(Type) -> Self) = match image.mutability {
                Some(_) => ("Surface", Self::Write),
                None => ("Texture", Self::Read),
            };
            if let Type::Path(path) = &*image.elem
                && let Some(last) = path.path.segments.last().filter(|last| last.ident == name)
            {
                let texel = &last.arguments;
                return Ok(kind(parse_quote! { ::millstream::array::Texels #texel }));
            }
        }
        match ty {
            Type::Reference(TypeReference {
                mutability, elem, ..
            }) => match (*elem, mutability) {
                (Type::Slice(slice), mutability) => {
                    let element = scalar_type(*slice.elem)?;
                    Ok(if mutability.is_some() {
                        Self::Write(element)
                    } else {
                        Self::Read(element)
                    })
                }
                (other, _) => Err(syn::Error::new(
                    other.span(),
                    format!("expected a slice `[T]` in the reference: {ALLOWED}"),
                )),
            },
            other => Ok(Self::Scalar(scalar_type(other)?)),
        }
    }
}

/// Returns the type if it is named by a path, else an error.
fn scalar_type(ty: Type) -> syn::Result<Type> {
    let problem = match &ty {
        Type::Path(path) if path.qself.is_none() => return Ok(ty),
        Type::Array(_) => "an array is not passed by value",
        Type::Ptr(_) => "a kernel takes no raw pointers",
        Type::Slice(_) => "a slice is passed by reference",
        _ => "a kernel takes no parameter of this type",
    };
    Err(syn::Error::new(ty.span(), format!("{problem}: {ALLOWED}")))
}

/// A visitor that finds a type's first lifetime.
struct FirstLifetime(Option<Lifetime>);

impl VisitMut for FirstLifetime {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        self.0.get_or_insert_with(|| lifetime.clone());
    }
}
