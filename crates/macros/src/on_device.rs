//! `#[derive(OnDevice)]`: derives a device struct from a struct of arrays.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Generics, Ident, Index, LitStr, Member, Result,
    Type, Visibility, ext::IdentExt, parse_quote, spanned::Spanned,
};

/// Expands the derive for one struct.
pub(crate) fn expand(item: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message = "a struct with `OnDevice` has no lifetimes: its fields are owned";
        return Err(Error::new_spanned(lifetime, message));
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => return Err(only_structs(data.enum_token.span)),
        Data::Union(data) => return Err(only_structs(data.union_token.span)),
    };
    if fields.is_empty() {
        let message = "a struct with `OnDevice` has fields: add arrays or plain values";
        return Err(Error::new_spanned(&input.ident, message));
    }
    Ok(StructPair::of(&input, fields)?.generate())
}

fn only_structs(span: Span) -> Error {
    Error::new(
        span,
        "`OnDevice` is derived for structs of arrays and plain values",
    )
}

struct Field<'a> {
    documentation: Vec<&'a Attribute>,
    visibility: &'a Visibility,
    member: Member,
    ty: &'a Type,
    /// The variable that holds the field's value in generated code.
    local: Ident,
    /// The name of its tensors in files, without that of the struct; `None` if it is not in files.
    part: Option<String>,
}

/// Returns the name of a field in files, as its attributes say.
fn part(field: &syn::Field, usual: String) -> Result<Option<String>> {
    let mut part = Some(usual);
    for attribute in &field.attrs {
        if !attribute.path().is_ident("on_device") {
            continue;
        }
        attribute.parse_nested_meta(|option| {
            if option.path.is_ident("skip") {
                part = None;
            } else if option.path.is_ident("name") {
                part = Some(option.value()?.parse::<LitStr>()?.value());
            } else {
                return Err(option.error("the options are `name = \"…\"` and `skip`"));
            }
            Ok(())
        })?;
    }
    Ok(part)
}

/// The host struct and the device struct derived from it.
struct StructPair<'a> {
    visibility: &'a Visibility,
    host: &'a Ident,
    device: Ident,
    generics: &'a Generics,
    fields: Vec<Field<'a>>,
    is_tuple: bool,
}

/// One struct of a pair.
#[derive(Clone, Copy)]
enum Side {
    Host,
    Device,
}

impl<'a> StructPair<'a> {
    fn of(input: &'a DeriveInput, fields: &'a Fields) -> Result<Self> {
        let field_of = |(at, field): (usize, &'a syn::Field)| -> Result<Field<'a>> {
            let usual = field
                .ident
                .as_ref()
                .map_or(at.to_string(), |name| name.unraw().to_string());
            Ok(Field {
                part: part(field, usual)?,
                documentation: field
                    .attrs
                    .iter()
                    .filter(|attribute| attribute.path().is_ident("doc"))
                    .collect(),
                visibility: &field.vis,
                member: match &field.ident {
                    Some(name) => Member::Named(name.clone()),
                    None => Member::Unnamed(Index::from(at)),
                },
                ty: &field.ty,
                local: Ident::new(&format!("field_{at}"), Span::mixed_site()),
            })
        };
        Ok(Self {
            visibility: &input.vis,
            host: &input.ident,
            device: format_ident!("{}OnDevice", input.ident),
            generics: &input.generics,
            fields: fields
                .iter()
                .enumerate()
                .map(field_of)
                .collect::<Result<_>>()?,
            is_tuple: matches!(fields, Fields::Unnamed(_)),
        })
    }

    fn name(&self, side: Side) -> TokenStream {
        let (_, arguments, _) = self.generics.split_for_impl();
        let name = match side {
            Side::Host => self.host,
            Side::Device => &self.device,
        };
        quote! { #name #arguments }
    }

    /// Returns the generic parameters of impls, those of impls for `&'pending mut`, and the clause.
    fn parameters(&self) -> [TokenStream; 3] {
        let (parameters, _, clause) = self.generics.split_for_impl();
        let mut pending = self.generics.clone();
        pending.params.insert(0, parse_quote! { 'pending });
        let (with_pending, ..) = pending.split_for_impl();
        [
            parameters.to_token_stream(),
            with_pending.to_token_stream(),
            clause.to_token_stream(),
        ]
    }

    fn generate(&self) -> TokenStream {
        let (host, device) = (self.name(Side::Host), self.name(Side::Device));
        let [parameters, _, clause] = self.parameters();
        let definition = self.definition();
        let sides = [Side::Host, Side::Device].map(|side| {
            let (name, on_device) = (self.name(side), self.on_device(side));
            quote! {
                impl #parameters ::millstream_region::ListItem for #name #clause {
                    type Kind = ::millstream_region::CompositeKind;
                }

                impl #parameters ::millstream_region::Parameter for #name #clause {
                    type Body = #device;
                }

                #on_device
            }
        });
        let inputs = [(&host, &host), (&host, &device), (&device, &device)]
            .map(|(parameter, argument)| self.input(parameter, argument));
        quote! {
            #definition

            impl #parameters ::millstream_region::DeviceValue for #device #clause {
                type Host = #host;
            }

            #(#sides)*
            #(#inputs)*
        }
    }

    /// Returns the definition of the device struct.
    fn definition(&self) -> TokenStream {
        let (visibility, device, generics) = (self.visibility, &self.device, self.generics);
        let clause = &generics.where_clause;
        let documentation = format!("[`{}`] on a device.", self.host);
        let fields = self.fields.iter().map(|field| {
            let Field {
                documentation,
                visibility,
                member,
                ty,
                ..
            } = field;
            let ty = device_type(ty);
            match member {
                Member::Named(name) => quote! { #(#documentation)* #visibility #name: #ty },
                Member::Unnamed(_) => quote! { #(#documentation)* #visibility #ty },
            }
        });
        let fields = if self.is_tuple {
            quote! { (#(#fields),*) #clause; }
        } else {
            quote! { #clause { #(#fields),* } }
        };
        quote! {
            #[doc = #documentation]
            #[derive(Clone, Debug)]
            #visibility struct #device #generics #fields
        }
    }

    /// Returns the impls by which one struct of the pair leaves a region as its result.
    fn on_device(&self, side: Side) -> TokenStream {
        let (name, device) = (self.name(side), self.name(Side::Device));
        let constructor = &self.device;
        let visited = quote! {
            body: &#device, visit: &mut dyn ::core::ops::FnMut(::millstream_region::OutputNode)
        };
        let begun = quote! { body: #device, region: &::millstream_region::Region };
        let [parameters, _, clause] = self.parameters();
        let types: Vec<TokenStream> = self
            .fields
            .iter()
            .map(|Field { ty, .. }| match side {
                Side::Host => ty.to_token_stream(),
                Side::Device => device_type(ty),
            })
            .collect();
        let members: Vec<_> = self.fields.iter().map(|field| &field.member).collect();
        let locals: Vec<_> = self.fields.iter().map(|field| &field.local).collect();
        let spans = self.fields.iter().map(|field| field.ty.span());
        let arriving = types.iter().zip(spans).map(|(ty, span)| {
            quote_spanned! { span => <#ty as ::millstream_region::OnDevice>::Pending }
        });
        let arriving = nested(arriving);
        let departing = nested(types.iter().zip(&members).map(|(ty, member)| {
            quote! { <#ty as ::millstream_region::OnDevice>::begin_transfer(body.#member, region)? }
        }));
        let arrived = nested(locals.iter().map(ToTokens::to_token_stream));
        let parts: Vec<_> = self.fields.iter().map(|field| &field.part).collect();
        let reads = types.iter().zip(&parts).map(|(ty, part)| match part {
            Some(part) => quote! {
                <#ty as ::millstream_region::OnDevice>::read(
                    reader,
                    &::millstream_region::part_name(name, #part),
                )?
            },
            None => quote! { ::core::default::Default::default() },
        });
        let written = types.iter().zip(&members).zip(&parts);
        let writes = written.filter_map(|((ty, member), part)| {
            let part = part.as_ref()?;
            Some(quote! {
                <#ty as ::millstream_region::OnDevice>::write(
                    &body.#member,
                    writer,
                    &::millstream_region::part_name(name, #part),
                )?;
            })
        });
        quote! {
            impl #parameters ::millstream_region::OnDevice for #name #clause {
                type Pending = ::millstream_region::PendingStruct<#arriving, Self>;

                fn visit_nodes(#visited) {
                    #(
                        <#types as ::millstream_region::OnDevice>::visit_nodes(
                            &body.#members,
                            visit,
                        );
                    )*
                }

                fn begin_transfer(#begun) -> ::millstream_region::Result<Self::Pending> {
                    ::core::result::Result::Ok(::millstream_region::PendingStruct::new(
                        #departing,
                        |#arrived| Self { #(#members: #locals),* },
                    ))
                }

                fn read(
                    reader: &::millstream_region::TensorReader<'_>,
                    name: &str,
                ) -> ::millstream_region::Result<#device> {
                    ::core::result::Result::Ok(#constructor { #(#members: #reads),* })
                }

                fn write(
                    body: &#device,
                    writer: &mut ::millstream_region::TensorWriter<'_>,
                    name: &str,
                ) -> ::millstream_region::Result<()> {
                    #(#writes)*
                    ::core::result::Result::Ok(())
                }
            }

            impl #parameters ::millstream_region::Output for #name #clause {
                type Body = #device;
                type Value = Self;
                type Pending = <Self as ::millstream_region::OnDevice>::Pending;

                fn visit_nodes(#visited) -> ::millstream_region::Result<()> {
                    <Self as ::millstream_region::OnDevice>::visit_nodes(body, visit);
                    ::core::result::Result::Ok(())
                }

                fn begin_transfer(#begun) -> ::millstream_region::Result<Self::Pending> {
                    <Self as ::millstream_region::OnDevice>::begin_transfer(body, region)
                }
            }
        }
    }

    /// Returns the impls by which one struct of the pair is an argument for a parameter, by value
    /// and by reference.
    fn input(&self, parameter: &TokenStream, argument: &TokenStream) -> TokenStream {
        let (device, constructor) = (self.name(Side::Device), &self.device);
        let [parameters, with_pending, clause] = self.parameters();
        let types: Vec<_> = self.fields.iter().map(|field| field.ty).collect();
        let members: Vec<_> = self.fields.iter().map(|field| &field.member).collect();
        let line = quote! { &'static ::core::panic::Location<'static> };
        quote! {
            impl #parameters ::millstream_region::Input<#parameter> for &#argument #clause {
                fn capture(self, region: &::millstream_region::Region, location: #line) -> #device {
                    #constructor {
                        #(
                            #members: ::millstream_region::Input::<#types>::capture(
                                &self.#members,
                                region,
                                location,
                            ),
                        )*
                    }
                }
            }

            impl #parameters ::millstream_region::Input<#parameter> for #argument #clause {
                fn capture(self, region: &::millstream_region::Region, location: #line) -> #device {
                    ::millstream_region::Input::<#parameter>::capture(&self, region, location)
                }
            }

            impl #with_pending ::millstream_region::InputMut<'pending, #parameter>
                for &'pending mut #argument #clause
            {
                fn capture(
                    &self,
                    region: &::millstream_region::Region,
                    location: #line,
                ) -> #device {
                    ::millstream_region::Input::<#parameter>::capture(&**self, region, location)
                }

                fn write_back(
                    self,
                    body: #device,
                    location: #line,
                ) -> ::std::boxed::Box<dyn ::millstream_region::WriteBack + 'pending> {
                    ::std::boxed::Box::new(::millstream_region::WriteBacks(::std::vec![
                        #(
                            ::millstream_region::InputMut::<#types>::write_back(
                                &mut self.#members,
                                body.#members,
                                location,
                            )
                        ),*
                    ]))
                }
            }
        }
    }
}

/// Returns a field's type on the device.
fn device_type(ty: &Type) -> TokenStream {
    quote_spanned! { ty.span() => <#ty as ::millstream_region::Parameter>::Body }
}

/// Nests the items as pairs of an item and the rest, because tuples have a maximum number of
/// elements.
fn nested(items: impl DoubleEndedIterator<Item = TokenStream>) -> TokenStream {
    items.rfold(quote! { () }, |rest, item| quote! { (#item, #rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_other_than_structs_with_fields_are_rejected_at_their_place() {
        for (source, message, place) in [
            ("enum E { A }", "derived for structs", "enum"),
            ("union U { a: u8 }", "derived for structs", "union"),
            ("struct S;", "has fields", "S"),
            ("struct S<'a>(&'a [f32]);", "no lifetimes", "'a"),
            (
                "struct S(#[on_device(nam = \"x\")] f32);",
                "the options are",
                "nam",
            ),
        ] {
            let error = expand(source.parse().unwrap()).expect_err("a wrong type");
            assert!(error.to_string().contains(message), "{source}: {error}");
            assert_eq!(
                error.span().source_text().as_deref(),
                Some(place),
                "{error}"
            );
        }
    }
}
