//! Checked integer arithmetic in `requires` clauses.
//!
//! A clause compares sizes before a launch, and a size that wraps around would let a wrong launch
//! pass. Every operand of an operator therefore becomes a checked integer of 128 bits if it is an
//! integer of any type: a parameter, a field, an element, a constant, a literal, the result of a
//! call. Arithmetic that this rewriting cannot reach is rejected: casts, compound assignments,
//! macros, and the standard library's arithmetic as a function (`Mul::mul`, `u32::pow`).
//!
//! `arithmetic` lists the methods and functions by name, and `rewrite` rewrites the expressions.

mod arithmetic;
mod rewrite;

use proc_macro2::Span;
use quote::quote;
use syn::{Expr, Ident};

use crate::{kernel::Kernel, text::one_line};
use rewrite::Rewriter;

/// A rewritten clause, for the method that launches its kernel.
pub(crate) struct Clause {
    /// The clause's source text, on one line.
    pub(crate) text: String,
    pub(crate) checked: Expr,
    /// The clause with checked arithmetic that also records each operand's value in the variable
    /// `values`.
    pub(crate) recording: Expr,
    /// The variable that receives the operands' values.
    pub(crate) values: Ident,
}

impl Clause {
    pub(crate) fn of(clause: &Expr, kernel: &Kernel) -> syn::Result<Self> {
        let values = Ident::new("values", Span::mixed_site());
        let rewrite = |values| Rewriter::new(kernel, values).rewrite(clause);
        Ok(Self {
            text: one_line(quote! { #clause }),
            checked: rewrite(None)?,
            recording: rewrite(Some(&values))?,
            values,
        })
    }
}
