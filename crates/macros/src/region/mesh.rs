//! `#[region(mesh)]`: a function whose body runs once for each device of a mesh.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Error, Ident, ItemFn, Result, ReturnType, Type, TypeReference, spanned::Spanned};

use super::{Body, Parameter, ParameterKind, last_name};

/// Returns whether a type is the handle of a mesh region.
pub(super) fn is_region(ty: &Type) -> bool {
    last_name(ty).is_some_and(|name| name == "MeshRegion")
}

/// Returns whether the body gets an array for a parameter of this type.
fn is_array(ty: &Type) -> bool {
    last_name(ty).is_some_and(|name| name == "Replicated" || name == "Sharded")
}

/// Returns the generated function, which contains the body as an inner function.
pub(super) fn generate(function: &ItemFn, parameters: &[Parameter<'_>]) -> Result<TokenStream> {
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let local = |name: &str| Ident::new(name, Span::mixed_site());
    let [mesh, region, location] = ["mesh", "region", "location"].map(local);
    let body = Ident::new("__region_body", Span::mixed_site());
    let name = &sig.ident;
    let output = match &sig.output {
        ReturnType::Default => {
            let message = "a region of a mesh returns an array: its arguments stay as they are";
            return Err(Error::new_spanned(name, message));
        }
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    let as_output = quote_spanned! { output.span() =>
        <#output as ::millstream_region::MeshOutput>
    };
    let (mut taken, mut seen, mut captures, mut passed) = (vec![], vec![], vec![], vec![]);
    let mut arrays = Vec::new();
    for Parameter {
        declared,
        name,
        kind,
    } in parameters
    {
        let pattern = &declared.pat;
        let held = Ident::new(&format!("{name}_held"), Span::mixed_site());
        let (ty, argument) = match kind {
            ParameterKind::Region => {
                let ty = &declared.ty;
                seen.push(quote! { #pattern: #ty });
                passed.push(quote! { #region });
                continue;
            }
            ParameterKind::Write(reference) => {
                let message = "a region of a mesh changes no argument: take it as `&`, and return \
                               the new array";
                return Err(Error::new_spanned(reference, message));
            }
            ParameterKind::Read(TypeReference { elem, .. }) => {
                seen.push(quote_spanned! { elem.span() =>
                    #pattern: &<#elem as ::millstream_region::MeshParameter>::Body
                });
                passed.push(quote! { &#held });
                (&**elem, quote! { #name })
            }
            ParameterKind::Value(ty) => {
                seen.push(quote_spanned! { ty.span() =>
                    #pattern: <#ty as ::millstream_region::MeshParameter>::Body
                });
                passed.push(quote! { #held });
                (*ty, quote! { &#name })
            }
        };
        if is_array(ty) {
            arrays.push(name);
        }
        let declared = &declared.ty;
        taken.push(quote! { #name: #declared });
        captures.push(quote_spanned! { ty.span() =>
            let #held = <#ty as ::millstream_region::MeshParameter>::capture(
                #argument, #region, #location,
            );
        });
    }
    let Body {
        block,
        needs_region,
        error,
    } = Body::of(block, arrays, &region);
    let (advice, block) = match error {
        // The body is left out, because its type errors would only repeat this error.
        Some(error) => (
            error.into_compile_error(),
            quote! { { ::core::unimplemented!() } },
        ),
        None => (TokenStream::new(), block.into_token_stream()),
    };
    if needs_region {
        seen.insert(0, quote! { #region: &::millstream_region::Region });
        passed.insert(0, quote! { #region });
    }
    let (generics, clause) = (&sig.generics, &sig.generics.where_clause);
    Ok(quote! {
        #advice

        #(#attrs)*
        #[track_caller]
        #[allow(clippy::too_many_arguments, reason = "one for each parameter, and the mesh")]
        #vis fn #name #generics (#mesh: &::millstream_region::Mesh, #(#taken),*)
            -> ::millstream_region::Result<#as_output::Value>
        #clause
        {
            fn #body #generics (#(#seen),*) -> #as_output::Body #clause #block

            let #location = ::core::panic::Location::caller();
            ::millstream_region::Mesh::run::<#output>(
                #mesh,
                #location,
                |#region: &::millstream_region::MeshRegion| {
                    #(#captures)*
                    #body(#(#passed),*)
                },
            )
        }
    })
}
