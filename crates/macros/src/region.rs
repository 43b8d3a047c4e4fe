//! `#[region]`: turns a function over the host's arrays into one that captures its arguments and
//! runs its body over device arrays.

mod body;
mod mesh;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Error, FnArg, GenericArgument, GenericParam, Generics, Ident, ItemFn, Lifetime, Pat, PatIdent,
    PatType, PathArguments, PathSegment, Result, ReturnType, Safety, Signature, Type,
    TypeReference,
    spanned::Spanned,
    visit::Visit,
    visit_mut::{self, VisitMut},
};

use body::Body;

/// The name of the generic parameter for the target.
const TARGET: &str = "AtTarget";
/// The name of the lifetime for which `&mut` arguments stay borrowed.
const PENDING: &str = "'pending";

/// Expands the attribute on one function. `has_meshes` says whether there are regions of a mesh.
pub(crate) fn expand(
    arguments: &TokenStream,
    item: TokenStream,
    has_meshes: bool,
) -> Result<TokenStream> {
    let is_on_mesh = arguments.to_string() == "mesh";
    if is_on_mesh && !has_meshes {
        let message = "`#[region(mesh)]` needs the feature `mesh` of millstream-region: \
                       `cargo add millstream-region --features mesh`";
        return Err(Error::new_spanned(arguments, message));
    }
    if !arguments.is_empty() && !is_on_mesh {
        return Err(Error::new_spanned(
            arguments,
            "`#[region]` takes no arguments, or `mesh`",
        ));
    }
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        let message = format!("`#[region]` applies to a function with a body ({error})");
        Error::new(error.span(), message)
    })?;
    let mut function = function;
    reject(&function.sig)?;
    if is_on_mesh {
        let parameters = parameters(&function.sig, mesh::is_region)?;
        return mesh::generate(&function, &parameters);
    }
    for input in &mut function.sig.inputs {
        if let FnArg::Typed(declared) = input {
            NameLifetimes.visit_type_mut(&mut declared.ty);
        }
    }
    let parameters = parameters(&function.sig, is_region)?;
    Ok(generate(&function, &parameters))
}

/// A visitor that names the lifetimes omitted in `ArrayView2<f32>` or written as `'_`. An
/// argument's type is `impl Input<…>`, in which lifetimes cannot be omitted. Any lifetime will do,
/// because the body sees a device array.
struct NameLifetimes;

impl VisitMut for NameLifetimes {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = Lifetime::new("'static", lifetime.span());
        }
    }

    fn visit_path_segment_mut(&mut self, segment: &mut PathSegment) {
        visit_mut::visit_path_segment_mut(self, segment);
        let name = segment.ident.to_string();
        if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments
            && (name.starts_with("ArrayView") || name == "CowArray")
            && !matches!(arguments.args.first(), Some(GenericArgument::Lifetime(_)))
        {
            let lifetime = Lifetime::new("'static", segment.ident.span());
            arguments
                .args
                .insert(0, GenericArgument::Lifetime(lifetime));
        }
    }
}

fn reject(signature: &Signature) -> Result<()> {
    let unsafety = match &signature.safety {
        Safety::Unsafe(token) => Some(token),
        _ => None,
    };
    let refused: [(Option<&dyn ToTokens>, &str); 5] = [
        (
            signature.asyncness.as_ref().map(|token| token as _),
            "a region function is not `async`: a call returns at once, and its result can be \
             awaited",
        ),
        (
            signature.constness.as_ref().map(|token| token as _),
            "a region function is not `const`: it drives a device",
        ),
        (
            unsafety.map(|token| token as _),
            "a region function is not `unsafe`: its body needs no unsafe operations",
        ),
        (
            signature.abi.as_ref().map(|token| token as _),
            "a region function is not `extern`: it is generic",
        ),
        (
            signature.variadic.as_ref().map(|token| token as _),
            "a region function has a fixed number of parameters",
        ),
    ];
    for (token, message) in refused {
        if let Some(token) = token {
            return Err(Error::new_spanned(token, message));
        }
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        reject_impl(ty, "the result of a region function has a named type")?;
    }
    Ok(())
}

fn reject_impl(ty: &Type, message: &str) -> Result<()> {
    struct Finder(Option<Span>);
    impl<'a> Visit<'a> for Finder {
        fn visit_type_impl_trait(&mut self, ty: &'a syn::TypeImplTrait) {
            self.0.get_or_insert(ty.impl_token.span);
        }
    }
    let mut finder = Finder(None);
    finder.visit_type(ty);
    match finder.0 {
        Some(span) => Err(Error::new(span, message)),
        None => Ok(()),
    }
}

/// Rejects references without a lifetime within a type, which `impl Input<…>` cannot omit.
fn reject_references(ty: &Type) -> Result<()> {
    struct Finder(Option<Error>);
    impl<'a> Visit<'a> for Finder {
        fn visit_type_reference(&mut self, reference: &'a TypeReference) {
            if reference.lifetime.is_none() {
                let owned = reference
                    .elem
                    .to_token_stream()
                    .to_string()
                    .replace(' ', "");
                let message = format!(
                    "a parameter has no references within its type: write `{owned}` here; callers \
                     can pass references for it"
                );
                self.0.get_or_insert(Error::new_spanned(reference, message));
            }
        }
    }
    let mut finder = Finder(None);
    match ty {
        Type::Reference(reference) => finder.visit_type(&reference.elem),
        ty => finder.visit_type(ty),
    }
    finder.0.map_or(Ok(()), Err)
}

struct Parameter<'a> {
    /// The parameter as the user declared it.
    declared: &'a PatType,
    /// The name of the argument in the generated function.
    name: Ident,
    kind: ParameterKind<'a>,
}

/// The way in which the body takes a parameter.
enum ParameterKind<'a> {
    /// The region itself, which callers do not pass.
    Region,
    Read(&'a TypeReference),
    Write(&'a TypeReference),
    Value(&'a Type),
}

fn parameters(signature: &Signature, is_region: fn(&Type) -> bool) -> Result<Vec<Parameter<'_>>> {
    let mut parameters = Vec::new();
    for (at, input) in signature.inputs.iter().enumerate() {
        let declared = match input {
            FnArg::Typed(declared) => declared,
            FnArg::Receiver(receiver) => {
                let message = "a region function has no `self`: name the parameter, and derive \
                               `millstream_region::OnDevice` for its type";
                return Err(Error::new_spanned(receiver, message));
            }
        };
        reject_impl(
            &declared.ty,
            "the parameters of a region function have named types; declare a generic parameter \
             instead",
        )?;
        reject_references(&declared.ty)?;
        if let Some(attribute) = declared.attrs.first() {
            return Err(Error::new_spanned(
                attribute,
                "a parameter of a region function has no attributes: remove this one",
            ));
        }
        let name = match &*declared.pat {
            Pat::Ident(PatIdent { ident, .. }) => ident.clone(),
            other => format_ident!(
                "argument_{at}",
                span = Span::mixed_site().located_at(other.span())
            ),
        };
        let kind = match &*declared.ty {
            Type::Reference(reference) if is_region(&reference.elem) => {
                if at > 0 || reference.mutability.is_some() {
                    let message =
                        "the region itself is the first parameter, with the type `&Region`";
                    return Err(Error::new_spanned(reference, message));
                }
                ParameterKind::Region
            }
            Type::Reference(reference) if reference.mutability.is_some() => {
                ParameterKind::Write(reference)
            }
            Type::Reference(reference) => ParameterKind::Read(reference),
            value if last_name(value).is_some_and(|name| name.starts_with("ArrayViewMut")) => {
                let message = "a region's changes to an `ArrayViewMut` that it takes by value \
                               would be lost: declare the parameter as `&mut Array…`, for which \
                               callers can pass a view";
                return Err(Error::new_spanned(value, message));
            }
            value => ParameterKind::Value(value),
        };
        parameters.push(Parameter {
            declared,
            name,
            kind,
        });
    }
    Ok(parameters)
}

fn is_region(ty: &Type) -> bool {
    last_name(ty).is_some_and(|name| name == "Region")
}

fn last_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

impl Parameter<'_> {
    /// Returns the type without `&` or `&mut`, or `None` for the region.
    fn ty(&self) -> Option<&Type> {
        match self.kind {
            ParameterKind::Region => None,
            ParameterKind::Read(reference) | ParameterKind::Write(reference) => {
                Some(&reference.elem)
            }
            ParameterKind::Value(ty) => Some(ty),
        }
    }

    /// Returns whether the body receives an array for this parameter, judging by the type's name.
    fn is_array(&self) -> bool {
        match self.ty() {
            Some(Type::Slice(list)) => {
                last_name(&list.elem).is_some_and(|name| body::is_element(&name))
            }
            Some(Type::Path(path)) => path.path.segments.last().is_some_and(|last| {
                last.ident.to_string().starts_with("Array")
                    || last.ident == "Vec" && body::holds_elements(last)
            }),
            _ => false,
        }
    }

    /// Returns the parameter in the generated function's signature, if callers pass it.
    fn for_callers(&self) -> Option<TokenStream> {
        let name = &self.name;
        let lifetime = Lifetime::new(PENDING, Span::call_site());
        let ty = self.ty()?;
        let taken = match self.kind {
            ParameterKind::Write(_) => {
                quote_spanned! { ty.span() => impl ::millstream_region::InputMut<#lifetime, #ty> }
            }
            _ => quote_spanned! { ty.span() => impl ::millstream_region::Input<#ty> },
        };
        Some(quote! { #name: #taken })
    }

    fn for_body(&self) -> TokenStream {
        let pattern = &self.declared.pat;
        let on_device = |ty: &Type| {
            quote_spanned! { ty.span() => <#ty as ::millstream_region::Parameter>::Body }
        };
        let seen = match self.kind {
            ParameterKind::Region => self.declared.ty.to_token_stream(),
            ParameterKind::Read(reference) | ParameterKind::Write(reference) => {
                let (and, ty) = (reference.and_token, on_device(&reference.elem));
                let (lifetime, mutability) = (&reference.lifetime, reference.mutability);
                quote! { #and #lifetime #mutability #ty }
            }
            ParameterKind::Value(ty) => on_device(ty),
        };
        quote! { #pattern: #seen }
    }
}

/// Returns the generated function, which contains the body as an inner function.
fn generate(function: &ItemFn, parameters: &[Parameter<'_>]) -> TokenStream {
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let local = |name: &str| Ident::new(name, Span::mixed_site());
    let [target, region, location, result, backs] =
        ["target", "region", "location", "result", "backs"].map(local);
    // Functions are not hygienic, so the name is one that no function called in the body is likely
    // to have.
    let body = Ident::new("__region_body", Span::mixed_site());
    let name = &sig.ident;
    let at_target = Ident::new(TARGET, Span::call_site());
    let pending = Lifetime::new(PENDING, Span::call_site());
    let output = match &sig.output {
        ReturnType::Default => quote! { () },
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    let given = quote_spanned! { output.span() => <#output as ::millstream_region::Output>::Body };
    let returned = quote_spanned! { output.span() =>
        <#at_target as ::millstream_region::RegionTarget>::Output<#pending, #output>
    };
    let leaving =
        quote_spanned! { output.span() => ::millstream_region::RegionTarget::leave::<#output> };
    let generics = for_callers(&sig.generics, &pending, &at_target);
    let clause = &sig.generics.where_clause;
    let arrays = parameters.iter().filter(|parameter| parameter.is_array());
    let Body {
        block,
        needs_region,
        error,
    } = Body::of(
        block,
        arrays.map(|parameter| &parameter.name).collect(),
        &region,
    );
    let (advice, block) = match error {
        // The body is left out, because its type errors would only repeat this error.
        Some(error) => (
            error.into_compile_error(),
            quote! { { ::core::unimplemented!() } },
        ),
        None => (TokenStream::new(), block.into_token_stream()),
    };
    let own_generics = &sig.generics;
    let own_arguments = sig
        .generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Lifetime(_) => None,
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Const(parameter) => Some(&parameter.ident),
        });
    let taken = parameters.iter().filter_map(Parameter::for_callers);
    let mut seen: Vec<_> = parameters.iter().map(Parameter::for_body).collect();

    let mut captures = TokenStream::new();
    let mut passed = Vec::new();
    if needs_region {
        seen.insert(0, quote! { #region: &::millstream_region::Region });
        passed.push(quote! { &#region });
    }
    let mut given_back = Vec::new();
    for parameter in parameters {
        let Some(ty) = parameter.ty() else {
            passed.push(quote! { &#region });
            continue;
        };
        let name = &parameter.name;
        let held = Ident::new(&format!("{name}_held"), Span::mixed_site());
        if let ParameterKind::Write(_) = parameter.kind {
            captures.extend(quote_spanned! { ty.span() =>
                let mut #held =
                    ::millstream_region::InputMut::<#ty>::capture(&#name, &#region, #location);
            });
            passed.push(quote! { &mut #held });
            given_back.push(quote_spanned! { ty.span() =>
                ::millstream_region::InputMut::<#ty>::write_back(#name, #held, #location)
            });
            continue;
        }
        captures.extend(quote_spanned! { ty.span() =>
            let #held = ::millstream_region::Input::<#ty>::capture(#name, &#region, #location);
        });
        passed.push(match parameter.kind {
            ParameterKind::Read(_) => quote! { &#held },
            _ => quote! { #held },
        });
    }
    quote! {
        #advice

        #(#attrs)*
        #[track_caller]
        #[allow(clippy::too_many_arguments, reason = "one for each parameter, and the target")]
        #vis fn #name #generics (#target: #at_target, #(#taken),*)
            -> #returned
        #clause
        {
            fn #body #own_generics (#(#seen),*) -> #given #clause #block

            let #location = ::core::panic::Location::caller();
            let #region = ::millstream_region::RegionTarget::enter(&#target);
            #captures
            let #result = #body::<#(#own_arguments),*>(#(#passed),*);
            let #backs = ::std::vec![#(#given_back),*];
            #leaving(#target, #region, #result, #backs)
        }
    }
}

/// Returns the function's generic parameters with two more: the lifetime first, the target last.
fn for_callers(generics: &Generics, pending: &Lifetime, target: &Ident) -> TokenStream {
    let (lifetimes, others): (Vec<_>, Vec<_>) = generics
        .params
        .iter()
        .partition(|parameter| matches!(parameter, GenericParam::Lifetime(_)));
    quote! { <#pending, #(#lifetimes,)* #(#others,)* #target: ::millstream_region::RegionTarget> }
}

#[cfg(test)]
mod tests;
