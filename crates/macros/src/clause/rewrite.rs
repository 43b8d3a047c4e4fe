//! The rewriting of a clause's expressions to checked integers.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    BinOp, Expr, ExprClosure, ExprConst, ExprLit, ExprMacro, ExprMethodCall, ExprPath,
    GenericArgument, Ident, Item, Lit, Local, Macro, Pat, PatGuard, Stmt, Token, Type, UnOp,
    parse::ParseStream, spanned::Spanned, visit::Visit, visit_mut, visit_mut::VisitMut,
};

use super::arithmetic::{is_checked_method, unchecked_function, unchecked_method};
use crate::{
    kernel::{Kernel, ParamKind},
    text::one_line,
};

/// A visitor that rewrites an expression in place. Visiting keeps the expression's type unless the
/// expression is an operator.
pub(super) struct Rewriter<'a> {
    kernel: &'a Kernel,
    /// The variable that records the operands' values, if they are recorded.
    recorder: Option<&'a Ident>,
    error: Option<syn::Error>,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(kernel: &'a Kernel, recorder: Option<&'a Ident>) -> Self {
        Self {
            kernel,
            recorder,
            error: None,
        }
    }

    /// Returns the rewritten clause, or the error of the first part that cannot be checked.
    pub(super) fn rewrite(mut self, clause: &Expr) -> syn::Result<Expr> {
        let mut rewritten = clause.clone();
        self.condition(&mut rewritten);
        self.error.map_or(Ok(rewritten), Err)
    }

    fn reject(&mut self, span: Span, message: &str) {
        self.error
            .get_or_insert_with(|| syn::Error::new(span, message));
    }

    /// Rewrites the clause itself, or an operand of its `&&`, `||` and `!`.
    fn condition(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Paren(paren) => self.condition(&mut paren.expr),
            Expr::Group(group) => self.condition(&mut group.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                self.condition(&mut unary.expr)
            }
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.condition(&mut binary.left);
                self.condition(&mut binary.right);
            }
            Expr::Binary(_) => self.visit_expr_mut(expr),
            _ => {
                let recording = self.record_parameters(expr);
                self.visit_expr_mut(expr);
                if !recording.is_empty() {
                    *expr = syn::parse_quote! { { #recording #expr } };
                }
            }
        }
    }

    /// Rewrites an operand of an operator: an integer becomes a checked integer.
    fn operand(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Paren(paren) => self.operand(&mut paren.expr),
            Expr::Group(group) => self.operand(&mut group.expr),
            Expr::Binary(_) | Expr::Range(_) => self.visit_expr_mut(expr),
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => self.visit_expr_mut(expr),
            Expr::Lit(ExprLit { lit, .. }) => match lit {
                Lit::Int(literal) if literal.suffix().is_empty() => {
                    *expr = checked_literal(literal)
                }
                Lit::Int(_) | Lit::Byte(_) => *expr = checked_integer(expr),
                _ => {}
            },
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|it| self.operand(it)),
            Expr::Array(array) => array.elems.iter_mut().for_each(|it| self.operand(it)),
            Expr::If(conditional) => {
                self.visit_expr_mut(&mut conditional.cond);
                self.block_value(&mut conditional.then_branch.stmts);
                if let Some((_, otherwise)) = &mut conditional.else_branch {
                    self.operand(otherwise);
                }
            }
            Expr::Match(choice) => {
                self.visit_expr_mut(&mut choice.expr);
                for arm in &mut choice.arms {
                    if let Pat::Guard(PatGuard { guard, .. }) = &mut arm.pat {
                        self.visit_expr_mut(guard);
                    }
                    self.operand(&mut arm.body);
                }
            }
            Expr::Block(block) => self.block_value(&mut block.block.stmts),
            // A slice has no arithmetic, and is unsized, so it cannot be passed by value.
            Expr::Index(index) if matches!(*index.index, Expr::Range(_)) => self.index(expr),
            Expr::MethodCall(call) if is_checked_method(&call.method) => {
                self.visit_expr_mut(expr);
                *expr = checked_integer(expr);
            }
            _ => self.leaf(expr),
        }
    }

    /// Rewrites the statements of a block whose value is an operand.
    fn block_value(&mut self, stmts: &mut [Stmt]) {
        let Some((last, others)) = stmts.split_last_mut() else {
            return;
        };
        others.iter_mut().for_each(|stmt| self.visit_stmt_mut(stmt));
        match last {
            Stmt::Expr(expr, None) => self.operand(expr),
            other => self.visit_stmt_mut(other),
        }
    }

    /// Converts an operand without operators to a checked integer, and records its value.
    fn leaf(&mut self, expr: &mut Expr) {
        let text = one_line(quote! { #expr });
        // The operand's value is recorded as a whole, without those of its parts.
        let recorder = self.recorder.take();
        self.visit_expr_mut(expr);
        self.recorder = recorder;
        *expr = checked_integer(expr);
        if let Some(values) = recorder {
            let span = expr.span();
            // The parentheses make the compiler report an error in both rewritings once.
            *expr = syn::parse_quote_spanned! { span=>
                (#values.noted(
                    #text,
                    #expr,
                    |operand| ::millstream::kernel::clause::Shown(operand).text()
                ))
            };
        }
    }

    /// Rewrites an argument of a call, or a field, and keeps its type, even that of a literal.
    fn argument(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Lit(_) => {}
            Expr::Unary(unary)
                if matches!((&unary.op, &*unary.expr), (UnOp::Neg(_), Expr::Lit(_))) => {}
            _ => self.visit_expr_mut(expr),
        }
    }

    fn method_call(&mut self, call: &mut ExprMethodCall) {
        if let Some(message) = unchecked_method(&call.method) {
            self.reject(call.method.span(), &message);
        }
        let of_checked = is_checked_method(&call.method);
        let constructed = matches!(
            without_parentheses(&call.receiver),
            Expr::Array(_) | Expr::Range(_)
        );
        if of_checked || matches!(without_parentheses(&call.receiver), Expr::Array(_)) {
            self.operand(&mut call.receiver);
        } else {
            self.visit_expr_mut(&mut call.receiver);
        }
        for argument in &mut call.args {
            match argument {
                argument if of_checked => self.operand(argument),
                // `[1, 2, 4].contains(&n)`: the element has the type of the array's elements.
                Expr::Reference(reference) if constructed => self.operand(&mut reference.expr),
                argument => self.argument(argument),
            }
        }
    }

    /// Rewrites the index of an array so that an index out of range makes the clause fail.
    fn index(&mut self, expr: &mut Expr) {
        let span = expr.span();
        let Expr::Index(index) = expr else { return };
        match without_parentheses(&index.expr) {
            Expr::Array(_) => self.operand(&mut index.expr),
            _ => self.visit_expr_mut(&mut index.expr),
        }
        match &mut *index.index {
            Expr::Range(range) => {
                for end in [&mut range.start, &mut range.end].into_iter().flatten() {
                    if !matches!(**end, Expr::Lit(_)) {
                        self.operand(end);
                        let value =
                            quote_spanned! { span=> ::millstream::kernel::clause::Value(#end) };
                        **end = syn::parse_quote_spanned! { span=> #value.into_index() };
                    }
                }
            }
            Expr::Lit(_) => {}
            at => {
                self.visit_expr_mut(at);
                let array = &index.expr;
                let array =
                    quote_spanned! { span=> ::millstream::kernel::clause::Indexed(&#array) };
                *expr = syn::parse_quote_spanned! { span=> (*#array.at(#at)) };
            }
        }
    }

    fn path(&mut self, path: &ExprPath) {
        if let Some(message) = unchecked_function(path) {
            self.reject(path.span(), &message);
        }
    }

    fn macro_call(&mut self, call: &mut Macro) {
        let name = call.path.segments.last().map(|it| it.ident.to_string());
        match name.as_deref() {
            Some("cfg") => {}
            Some("matches") => match call.parse_body_with(parse_matches) {
                Ok((mut expr, pattern, mut guard)) => {
                    self.visit_expr_mut(&mut expr);
                    let guard = guard.as_mut().map(|guard| {
                        self.visit_expr_mut(guard);
                        quote! { if #guard }
                    });
                    call.tokens = quote! { #expr, #pattern #guard };
                }
                Err(error) => self.reject(error.span(), &error.to_string()),
            },
            _ => self.reject(
                call.span(),
                "a clause cannot check the arithmetic in a macro other than `matches!` and `cfg!`: \
                 call a function instead",
            ),
        }
    }

    /// Returns code that records the parameters named in an expression without operators.
    fn record_parameters(&self, expr: &Expr) -> TokenStream {
        let Some(values) = self.recorder else {
            return TokenStream::new();
        };
        let mut names = NameCollector(Vec::new());
        names.visit_expr(expr);
        let params = self.kernel.params.iter();
        let recording = params
            .filter(|param| names.0.contains(&param.name))
            .map(|param| {
                let name = &param.name;
                let (text, value) = match param.kind {
                    ParamKind::Scalar(_) => (name.to_string(), quote! { #name }),
                    ParamKind::Read(_) | ParamKind::Write(_) => {
                        (format!("{name}.len()"), quote! { #name.len() })
                    }
                };
                quote! {
                    #values.note(#text, ::millstream::kernel::clause::Shown(&#value).text());
                }
            });
        recording.collect()
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Binary(binary) => match binary.op {
                BinOp::And(_) | BinOp::Or(_) => visit_mut::visit_expr_binary_mut(self, binary),
                BinOp::Add(_)
                | BinOp::Sub(_)
                | BinOp::Mul(_)
                | BinOp::Div(_)
                | BinOp::Rem(_)
                | BinOp::BitXor(_)
                | BinOp::BitAnd(_)
                | BinOp::BitOr(_)
                | BinOp::Shl(_)
                | BinOp::Shr(_)
                | BinOp::Eq(_)
                | BinOp::Lt(_)
                | BinOp::Le(_)
                | BinOp::Ne(_)
                | BinOp::Ge(_)
                | BinOp::Gt(_) => {
                    self.operand(&mut binary.left);
                    self.operand(&mut binary.right);
                }
                _ => self.reject(
                    binary.op.span(),
                    "no compound assignment in a clause: it may overflow unchecked; \
                     write `a = a + b`",
                ),
            },
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => {
                self.operand(&mut unary.expr);
            }
            Expr::Range(range) => {
                for end in [&mut range.start, &mut range.end].into_iter().flatten() {
                    self.operand(end);
                }
            }
            Expr::Cast(cast) => self.reject(
                cast.as_token.span,
                "no casts in a clause: a cast may truncate its value; integers of different \
                 types mix without casts, and `f64::from` converts to floating point",
            ),
            Expr::Index(_) => self.index(expr),
            Expr::Call(call) => {
                self.visit_expr_mut(&mut call.func);
                call.args.iter_mut().for_each(|it| self.argument(it));
            }
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Struct(value) => {
                value
                    .fields
                    .iter_mut()
                    .for_each(|field| self.argument(&mut field.expr));
                if let Some(rest) = &mut value.rest {
                    self.visit_expr_mut(rest);
                }
            }
            Expr::Path(path) => self.path(path),
            Expr::Macro(ExprMacro { mac, .. }) => self.macro_call(mac),
            // The compiler evaluates the number of elements and checks its arithmetic.
            Expr::Repeat(repeat) => self.argument(&mut repeat.expr),
            Expr::Verbatim(tokens) => {
                let span = tokens.span();
                self.reject(
                    span,
                    "a clause cannot check the arithmetic in this expression",
                );
            }
            other => visit_mut::visit_expr_mut(self, other),
        }
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        match stmt {
            Stmt::Macro(call) => self.macro_call(&mut call.mac),
            other => visit_mut::visit_stmt_mut(self, other),
        }
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        // A literal becomes a checked integer here, because the variable's type is unknown later.
        if let Some(init) = &mut local.init {
            match &mut *init.expr {
                literal @ Expr::Lit(_) => self.operand(literal),
                other => self.visit_expr_mut(other),
            }
            if let Some((_, diverge)) = &mut init.diverge {
                self.visit_expr_mut(diverge);
            }
        }
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        self.visit_expr_mut(&mut closure.body);
    }

    // The compiler checks constant expressions, and a function is its author's responsibility.
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
}

/// A visitor that collects the variables that an expression names.
struct NameCollector(Vec<Ident>);

impl Visit<'_> for NameCollector {
    fn visit_expr_path(&mut self, path: &ExprPath) {
        self.0.extend(path.path.get_ident().cloned());
    }
}

/// Returns the expression inside any parentheses.
fn without_parentheses(mut expr: &Expr) -> &Expr {
    loop {
        match expr {
            Expr::Paren(paren) => expr = &paren.expr,
            Expr::Group(group) => expr = &group.expr,
            other => return other,
        }
    }
}

fn checked_literal(literal: &syn::LitInt) -> Expr {
    let span = literal.span();
    syn::parse_quote_spanned! { span=> ::millstream::kernel::clause::Int::new(#literal) }
}

/// Converts any expression to a checked integer if it is an integer.
fn checked_integer(expr: &Expr) -> Expr {
    let span = expr.span();
    syn::parse_quote_spanned! { span=> ::millstream::kernel::clause::Value(#expr).in_clause() }
}

/// Parses the arguments of `matches!`: the expression, the pattern and the guard.
fn parse_matches(input: ParseStream<'_>) -> syn::Result<(Expr, Pat, Option<Expr>)> {
    let expr = input.parse()?;
    input.parse::<Token![,]>()?;
    let pattern = Pat::parse_multi_with_leading_vert(input)?;
    let guard = if input.peek(Token![if]) {
        input.parse::<Token![if]>()?;
        Some(input.parse()?)
    } else {
        None
    };
    input.parse::<Option<Token![,]>>()?;
    Ok((expr, pattern, guard))
}
