//! Code generation for `kernels!`: the module, its loader, and a method for each kernel.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Ident, spanned::Spanned};

use crate::{
    clause::Clause,
    kernel::{Abi, Kernel, Param, ParamKind, Safety},
    module::{Module, Modules, Source},
    text::one_line,
    variable::Variable,
};

pub(crate) fn expand(input: TokenStream) -> syn::Result<TokenStream> {
    let modules: Modules = syn::parse2(input)?;
    modules.0.iter().map(module).collect()
}

fn module(module: &Module) -> syn::Result<TokenStream> {
    let Module {
        attributes,
        visibility,
        name,
        source,
        kernels,
        variables,
    } = module;
    let module_name = name.to_string();
    let no_cuda = quote! { ::core::option::Option::None };
    let (origin, ptx, cuda, check) = match source {
        Source::Ptx(ptx) => (one_line(quote! { #ptx }), quote! { #ptx }, no_cuda, None),
        Source::Cuda(cuda) => (
            one_line(quote! { #cuda }),
            quote! { "" },
            quote! { ::core::option::Option::Some(#cuda) },
            None,
        ),
        Source::Compiled { cuda, ptx } => {
            let origin = one_line(quote! { #ptx });
            let stale = format!(
                "the PTX {origin} was not compiled from {}: run `millstream compile`",
                one_line(quote! { #cuda })
            );
            let check = quote_spanned! { ptx.span()=>
                #[allow(long_running_const_eval, reason = "the source may be long")]
                const _: () = ::millstream::kernel::assert_compiled_from(#ptx, #cuda, #stale);
            };
            (origin, quote! { #ptx }, no_cuda, Some(check))
        }
    };
    let docs = (!has_docs(attributes))
        .then(|| doc(&format!("The kernels of the PTX module `{module_name}`.")));
    let kernels_docs = doc(&format!(
        "The kernels of [`{module_name}`](self), loaded on one device."
    ));
    let signatures = kernels.iter().map(signature);
    let arrays = kernels.iter().map(arrays);
    let params = kernels.iter().flat_map(|kernel| &kernel.params);
    let declared_variables = variables.iter().map(variable_source);
    let has_variables = !variables.is_empty();
    let variables_field = has_variables.then(|| {
        quote! { pub(super) variables: ::millstream::kernel::Variables, }
    });
    let variables_value = has_variables.then(|| {
        quote! { variables: ::millstream::kernel::load_variables(device, &SOURCE)?, }
    });
    let variable_methods = variables.iter().enumerate().map(variable_method);
    let occupancy_methods = kernels.iter().enumerate().map(occupancy_method);
    let alignments = params.filter_map(|Param { kind, .. }| match kind {
        ParamKind::Read(ty) | ParamKind::Write(ty) => Some(quote_spanned! { ty.span()=>
            const _: () = ::millstream::kernel::assert_device_alignment::<#ty>();
        }),
        ParamKind::Scalar(_) => None,
    });
    let methods = kernels
        .iter()
        .enumerate()
        .map(|(index, kernel)| method(&module_name, index, kernel))
        .collect::<syn::Result<Vec<_>>>()?;
    Ok(quote! {
        #docs
        #(#attributes)*
        #visibility mod #name {
            #kernels_docs
            #[derive(Clone, Debug)]
            pub struct Kernels {
                pub(super) functions: ::std::sync::Arc<[::millstream::kernel::Function]>,
                #variables_field
            }

            /// Loads the kernels on `device`, or returns them if they are loaded already.
            ///
            /// # Errors
            ///
            /// If the PTX does not load, lacks a kernel, or a kernel's parameters differ from the
            /// declaration.
            pub fn load(device: &::millstream::Device) -> ::millstream::Result<Kernels> {
                Kernels::load(device)
            }
        }

        #[allow(unsafe_code, reason = "declared by `unsafe mod`")]
        impl #name::Kernels {
            fn load(device: &::millstream::Device) -> ::millstream::Result<Self> {
                #check
                #(#alignments)*
                static SOURCE: ::millstream::kernel::ModuleSource =
                    ::millstream::kernel::ModuleSource {
                    module: #module_name,
                    origin: #origin,
                    declared: ::core::concat!(::core::file!(), ":", ::core::line!()),
                    ptx: #ptx,
                    cuda: #cuda,
                    kernels: &[#(#signatures),*],
                    variables: &[#(#declared_variables),*],
                };
                let functions = ::millstream::kernel::load(device, &SOURCE)?;
                ::millstream::kernel::declare_arrays(&functions, &[#(#arrays),*]);
                ::core::result::Result::Ok(Self { #variables_value functions })
            }

            #(#methods)*
            #(#occupancy_methods)*
            #(#variable_methods)*
        }
    })
}

impl Kernel {
    /// Returns whether the length of each array follows it.
    fn passes_lengths(&self) -> bool {
        self.abi == Some(Abi::Rust)
    }
}

/// Returns the kernel's signature, which loading compares with the PTX.
fn signature(kernel: &Kernel) -> TokenStream {
    let name = kernel
        .ptx_name
        .as_ref()
        .map_or_else(|| kernel.name.to_string(), syn::LitStr::value);
    let param = |name: &str, kind: TokenStream| {
        quote! {
            ::millstream::kernel::Param {
                name: #name,
                kind: ::millstream::kernel::ParamKind::#kind
            }
        }
    };
    let params = kernel.params.iter().flat_map(|Param { name, kind, .. }| {
        let name = name.to_string();
        let (kind, is_array) = match kind {
            ParamKind::Read(_) => (quote! { Slice { writable: false } }, true),
            ParamKind::Write(_) => (quote! { Slice { writable: true } }, true),
            ParamKind::Scalar(ty) => (
                quote! {
                    Scalar {
                        size: ::core::mem::size_of::<#ty>(),
                        align: ::core::mem::align_of::<#ty>()
                    }
                },
                false,
            ),
        };
        let len = (is_array && kernel.passes_lengths())
            .then(|| param(&format!("{name}.len()"), quote! { Len }));
        [Some(param(&name, kind)), len].into_iter().flatten()
    });
    quote! { ::millstream::kernel::Signature { name: #name, params: &[#(#params),*] } }
}

/// Returns the kernel's array parameters with their element types.
fn arrays(kernel: &Kernel) -> TokenStream {
    let mut lengths = 0_usize;
    let arrays = kernel
        .params
        .iter()
        .enumerate()
        .filter_map(|(index, param)| {
            let (ParamKind::Read(ty) | ParamKind::Write(ty)) = &param.kind else {
                return None;
            };
            let name = param.name.to_string();
            let index = index + lengths;
            lengths += usize::from(kernel.passes_lengths());
            Some(quote! {
                ::millstream::kernel::Array {
                    param: #index,
                    name: #name,
                    element: ::millstream::kernel::element::<#ty>
                }
            })
        });
    quote! { &[#(#arrays),*] }
}

/// Returns the description of a variable, which loading compares with the PTX.
fn variable_source(variable: &Variable) -> TokenStream {
    let Variable {
        name,
        ptx_name,
        element,
        is_single,
        ..
    } = variable;
    let name = ptx_name
        .as_ref()
        .map_or_else(|| name.to_string(), syn::LitStr::value);
    quote! {
        ::millstream::kernel::Variable {
            name: #name,
            element: ::millstream::kernel::ElementLayout::of::<#element>(),
            is_single: #is_single
        }
    }
}

fn variable_method((index, variable): (usize, &Variable)) -> TokenStream {
    let Variable {
        attributes,
        visibility,
        name,
        element,
        ..
    } = variable;
    let docs = (!has_docs(attributes)).then(|| doc(&format!("Returns the variable `{name}`.")));
    quote! {
        #docs
        #(#attributes)*
        #[must_use]
        #visibility fn #name(&self) -> ::millstream::Global<#element> {
            self.variables.array(#index)
        }
    }
}

fn occupancy_method((index, kernel): (usize, &Kernel)) -> TokenStream {
    let Kernel {
        visibility, name, ..
    } = kernel;
    let method = format_ident!("{name}_occupancy");
    let docs = doc(&format!(
        "Returns how many blocks of [`{name}`](Self::{name}) run at once."
    ));
    quote! {
        #docs
        #[allow(dead_code, reason = "every kernel has this method")]
        #[must_use]
        #visibility fn #method(&self) -> ::millstream::Occupancy<'_> {
            ::millstream::kernel::occupancy(&self.functions[#index])
        }
    }
}

fn method(module: &str, index: usize, kernel: &Kernel) -> syn::Result<TokenStream> {
    let Kernel {
        attributes,
        visibility,
        safety,
        name,
        params,
        ..
    } = kernel;
    let docs = method_docs(kernel);
    let unsafety = match safety {
        Safety::Safe => None,
        Safety::Unsafe(token) => Some(token),
    };
    // Names in scope of the clauses have the user's spelling; the method's other variables are
    // hygienic, so that clauses cannot name them.
    let grid = Ident::new("grid", Span::call_site());
    let stream = Ident::new("stream", Span::mixed_site());
    let declared = params.iter().map(|Param { name, kind, .. }| match kind {
        ParamKind::Read(ty) => quote! { #name: impl ::millstream::kernel::ReadOperand<#ty> },
        ParamKind::Write(ty) => quote! { mut #name: impl ::millstream::kernel::WriteOperand<#ty> },
        ParamKind::Scalar(ty) => quote! { #name: #ty },
    });
    let with_len = kernel.passes_lengths();
    let arguments = params.iter().map(|Param { name, kind, .. }| {
        let argument = match kind {
            ParamKind::Read(_) if with_len => quote! { read_slice(&#name) },
            ParamKind::Read(_) => quote! { read(&#name) },
            ParamKind::Write(_) if with_len => quote! { write_slice(&mut #name) },
            ParamKind::Write(_) => quote! { write(&mut #name) },
            ParamKind::Scalar(_) => quote! { scalar(&#name) },
        };
        quote! { ::millstream::kernel::Argument::#argument }
    });
    let arguments = quote! { [#(#arguments),*] };
    let launch = if with_len {
        let caller = quote! { ::core::panic::Location::caller() };
        quote! { launch_at(&self.functions[#index], #stream, #grid, &#arguments, #caller) }
    } else {
        quote! { launch(&self.functions[#index], #stream, #grid, #arguments) }
    };
    let checks = checks(&format!("{module}::{name}"), &grid, kernel)?;
    Ok(quote! {
        #(#attributes)*
        #docs
        #[allow(clippy::too_many_arguments, reason = "one for each parameter of the kernel")]
        #[track_caller]
        #visibility #unsafety fn #name(
            &self,
            #stream: &::millstream::Stream,
            #grid: impl ::core::convert::Into<::millstream::LaunchConfig>,
            #(#declared),*
        ) -> ::millstream::Result<()> {
            let #grid: ::millstream::LaunchConfig = ::core::convert::Into::into(#grid);
            #checks
            // SAFETY: the author of `unsafe mod` guarantees that the signature is the kernel's. The
            // kernel stays within its operands because its clauses hold, or because the caller of
            // an unsafe method guarantees it.
            unsafe { ::millstream::kernel::#launch }
        }
    })
}

/// Returns the code that checks the clauses, in order.
fn checks(path: &str, grid: &Ident, kernel: &Kernel) -> syn::Result<Option<TokenStream>> {
    if kernel.clauses.is_empty() {
        return Ok(None);
    }
    let names = kernel
        .params
        .iter()
        .map(|Param { name, kind, .. }| match kind {
            ParamKind::Read(ty) | ParamKind::Write(ty) => quote! {
                let #name = ::millstream::kernel::clause::Slice::new(
                    ::millstream::kernel::ReadOperand::<#ty>::len(&#name),
                );
            },
            ParamKind::Scalar(_) => {
                quote! { let #name = ::millstream::kernel::clause::Value(#name).in_clause(); }
            }
        });
    let clauses = kernel.clauses.iter().map(|clause| {
        let Clause {
            text,
            checked,
            recording,
            values,
        } = Clause::of(clause, kernel)?;
        Ok(quote! {
            if !::millstream::kernel::clause::holds(|| #checked) {
                return ::core::result::Result::Err(::millstream::Error::requires(
                    #path,
                    #text,
                    ::millstream::kernel::clause::values(move |#values| #recording),
                ));
            }
        })
    });
    let clauses = clauses.collect::<syn::Result<Vec<_>>>()?;
    Ok(Some(quote! {
        #[allow(
            unused_imports,
            unused_parens,
            unused_variables,
            reason = "a clause may use only some of the names"
        )]
        {
            use ::millstream::kernel::clause::{Opaque as _, Other as _, OtherIndexed as _};
            #(#names)*
            let #grid = ::millstream::kernel::clause::LaunchShape::from(&#grid);
            #(#clauses)*
        }
    }))
}

fn method_docs(kernel: &Kernel) -> TokenStream {
    let mut docs = TokenStream::new();
    if !has_docs(&kernel.attributes) {
        docs.extend(doc(&format!("Launches the kernel `{}`.", kernel.name)));
    }
    let mut documented = kernel
        .params
        .iter()
        .filter(|param| !param.docs.is_empty())
        .peekable();
    if documented.peek().is_some() {
        docs.extend(doc("\n# Parameters\n"));
        for Param {
            name, docs: lines, ..
        } in documented
        {
            docs.extend(doc(&format!("* `{name}`:")));
            docs.extend(lines.iter().map(|line| quote! { #[doc = #line] }));
        }
    }
    if !kernel.clauses.is_empty() {
        docs.extend(doc(
            "\n# Requires\n\nChecked before the launch, in this order; a requirement whose \
             arithmetic overflows fails.\n",
        ));
        for clause in &kernel.clauses {
            docs.extend(doc(&format!("* `{}`", one_line(quote! { #clause }))));
        }
    }
    docs.extend(doc(
        "\n# Errors\n\nIf a requirement fails, an operand belongs to another device, a written \
         operand overlaps another operand, or the device does not support the launch \
         configuration. Nothing is enqueued then.",
    ));
    if matches!(kernel.safety, Safety::Unsafe(_)) {
        docs.extend(doc(
            "\n# Safety\n\nWith these arguments the kernel stays within its operands, and its \
             threads do not race on any byte.",
        ));
    }
    docs
}

fn has_docs(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("doc"))
}

fn doc(text: &str) -> TokenStream {
    quote! { #[doc = #text] }
}

#[cfg(test)]
mod tests;
