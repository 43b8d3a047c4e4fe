//! Rewrites the expressions of `requires` clauses so that their integer arithmetic is checked.
//!
//! Every operand of an operator becomes a wide, checked integer if it is an integer of any type: a
//! parameter, a field, an element, a constant, a literal, the result of a call. What the rewriting
//! cannot see through is refused: casts, compound assignments, macros, and the standard library's
//! arithmetic as a function (`Mul::mul`, `u32::pow`).

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    BinOp, Expr, ExprClosure, ExprConst, ExprLit, ExprMacro, ExprMethodCall, ExprPath,
    GenericArgument, Ident, Item, Lit, Local, Macro, Pat, PatGuard, Stmt, Token, Type, UnOp,
    parse::ParseStream, spanned::Spanned, visit::Visit, visit_mut, visit_mut::VisitMut,
};

use crate::{
    kernel::{Kernel, Kind},
    text::one_line,
};

/// Methods that the clause's wide integers have, checked, in place of Rust's own.
const WIDE_METHODS: [&str; 13] = [
    "abs",
    "abs_diff",
    "clamp",
    "div_ceil",
    "div_euclid",
    "is_multiple_of",
    "is_power_of_two",
    "max",
    "min",
    "next_multiple_of",
    "next_power_of_two",
    "pow",
    "rem_euclid",
];

/// Functions of integer types and of traits that overflow unseen, or panic.
const UNCHECKED_FUNCTIONS: [&str; 17] = [
    "abs",
    "add",
    "div",
    "div_ceil",
    "div_euclid",
    "mul",
    "neg",
    "next_multiple_of",
    "next_power_of_two",
    "pow",
    "product",
    "rem",
    "rem_euclid",
    "shl",
    "shr",
    "sub",
    "sum",
];

/// Methods of the same kind that the wide integers do not have.
const UNCHECKED_METHODS: [&str; 10] = [
    "add", "div", "mul", "neg", "product", "rem", "shl", "shr", "sub", "sum",
];

/// A clause, ready to be written into the method that launches its kernel.
pub(crate) struct Clause {
    /// As it stands in the declaration, on one line.
    pub(crate) text: String,
    /// With checked arithmetic.
    pub(crate) checked: Expr,
    /// The same, noting the value of each operand in the variable `values`.
    pub(crate) noting: Expr,
    /// That variable.
    pub(crate) values: Ident,
}

impl Clause {
    /// Rewrites one clause of the kernel.
    pub(crate) fn of(clause: &Expr, kernel: &Kernel) -> syn::Result<Self> {
        let values = Ident::new("values", Span::mixed_site());
        let rewrite = |noting| {
            let mut rewriter = Rewriter {
                kernel,
                noting,
                refused: None,
            };
            let mut rewritten = clause.clone();
            rewriter.condition(&mut rewritten);
            rewriter.refused.map_or(Ok(rewritten), Err)
        };
        Ok(Self {
            text: one_line(quote! { #clause }),
            checked: rewrite(None)?,
            noting: rewrite(Some(&values))?,
            values,
        })
    }
}

/// Rewrites an expression in place. As a [`VisitMut`] it keeps the type of what it visits, unless
/// that is itself an operator.
struct Rewriter<'a> {
    kernel: &'a Kernel,
    /// The variable that takes the values of operands, if they are to be noted.
    noting: Option<&'a Ident>,
    /// The first refusal.
    refused: Option<syn::Error>,
}

impl Rewriter<'_> {
    fn refuse(&mut self, span: Span, message: &str) {
        self.refused
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
                let notes = self.notes_of_parameters(expr);
                self.visit_expr_mut(expr);
                if !notes.is_empty() {
                    *expr = syn::parse_quote! { { #notes #expr } };
                }
            }
        }
    }

    /// Rewrites an operand of an operator: if it is an integer, it becomes a wide one.
    fn operand(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Paren(paren) => self.operand(&mut paren.expr),
            Expr::Group(group) => self.operand(&mut group.expr),
            Expr::Binary(_) | Expr::Range(_) => self.visit_expr_mut(expr),
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => self.visit_expr_mut(expr),
            Expr::Lit(ExprLit { lit, .. }) => match lit {
                Lit::Int(literal) if literal.suffix().is_empty() => *expr = wide(literal),
                Lit::Int(_) | Lit::Byte(_) => *expr = widened(expr),
                _ => {}
            },
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|it| self.operand(it)),
            Expr::Array(array) => array.elems.iter_mut().for_each(|it| self.operand(it)),
            Expr::If(conditional) => {
                self.visit_expr_mut(&mut conditional.cond);
                self.tail(&mut conditional.then_branch.stmts);
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
            Expr::Block(block) => self.tail(&mut block.block.stmts),
            // A slice, which has no arithmetic, and no size to be passed by value.
            Expr::Index(index) if matches!(*index.index, Expr::Range(_)) => self.index(expr),
            Expr::MethodCall(call) if is_wide(&call.method) => {
                self.visit_expr_mut(expr);
                *expr = widened(expr);
            }
            _ => self.leaf(expr),
        }
    }

    /// Rewrites the statements of a block whose value is an operand.
    fn tail(&mut self, stmts: &mut [Stmt]) {
        let Some((last, others)) = stmts.split_last_mut() else {
            return;
        };
        others.iter_mut().for_each(|stmt| self.visit_stmt_mut(stmt));
        match last {
            Stmt::Expr(expr, None) => self.operand(expr),
            other => self.visit_stmt_mut(other),
        }
    }

    /// Widens an operand that is no operator, and notes its value.
    fn leaf(&mut self, expr: &mut Expr) {
        let text = one_line(quote! { #expr });
        // Its parts are not noted one by one.
        let noting = self.noting.take();
        self.visit_expr_mut(expr);
        self.noting = noting;
        *expr = widened(expr);
        if let Some(values) = noting {
            let span = expr.span();
            // In parentheses, so that the compiler takes an error of both rewritings for one.
            *expr = syn::parse_quote_spanned! { span=>
                (#values.noted(#text, #expr, |operand| ::millstream::kernel::clause::Shown(operand).text()))
            };
        }
    }

    /// An argument of a call, or a field: its type stays, also if it is a literal.
    fn argument(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Lit(_) => {}
            Expr::Unary(unary)
                if matches!((&unary.op, &*unary.expr), (UnOp::Neg(_), Expr::Lit(_))) => {}
            _ => self.visit_expr_mut(expr),
        }
    }

    fn method_call(&mut self, call: &mut ExprMethodCall) {
        if UNCHECKED_METHODS.contains(&call.method.to_string().as_str()) {
            let message = format!(
                "`{}` may overflow unseen: write an operator, or call a function that sees to it",
                call.method
            );
            self.refuse(call.method.span(), &message);
        }
        let of_wide = is_wide(&call.method);
        let constructed = matches!(bare(&call.receiver), Expr::Array(_) | Expr::Range(_));
        if of_wide || matches!(bare(&call.receiver), Expr::Array(_)) {
            self.operand(&mut call.receiver);
        } else {
            self.visit_expr_mut(&mut call.receiver);
        }
        for argument in &mut call.args {
            match argument {
                argument if of_wide => self.operand(argument),
                // `[1, 2, 4].contains(&n)`: the element is as wide as those that it is compared
                // with.
                Expr::Reference(reference) if constructed => self.operand(&mut reference.expr),
                argument => self.argument(argument),
            }
        }
    }

    /// Rewrites the index of an array: one that is not there makes the clause not hold.
    fn index(&mut self, expr: &mut Expr) {
        let span = expr.span();
        let Expr::Index(index) = expr else { return };
        match bare(&index.expr) {
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
        let mut names = path
            .path
            .segments
            .iter()
            .rev()
            .map(|it| it.ident.to_string());
        let Some(name) = names.next() else { return };
        // A function of a type or of a trait; one of a module is the author's.
        let of_type = names.next().is_some_and(|of| is_type_name(&of));
        if UNCHECKED_FUNCTIONS.contains(&name.as_str()) && (of_type || path.qself.is_some()) {
            let message = if WIDE_METHODS.contains(&name.as_str()) {
                format!(
                    "this may overflow unseen: write `a.{name}(…)`, which is checked in a clause"
                )
            } else {
                "this may overflow unseen: write an operator, which is checked in a clause"
                    .to_owned()
            };
            self.refuse(path.span(), &message);
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
                Err(error) => self.refuse(error.span(), &error.to_string()),
            },
            _ => self.refuse(
                call.span(),
                "a clause does not see through a macro but `matches!` and `cfg!`: call a function in its place",
            ),
        }
    }

    /// Notes of the parameters that an expression names, which is no operator.
    fn notes_of_parameters(&self, expr: &Expr) -> TokenStream {
        let Some(values) = self.noting else {
            return TokenStream::new();
        };
        let mut named = Named(Vec::new());
        named.visit_expr(expr);
        let params = self.kernel.params.iter();
        let notes = params
            .filter(|param| named.0.contains(&param.name))
            .map(|param| {
                let name = &param.name;
                let (text, value) = match param.kind {
                    Kind::Scalar(_) => (name.to_string(), quote! { #name }),
                    Kind::Read(_) | Kind::Write(_) => {
                        (format!("{name}.len()"), quote! { #name.len() })
                    }
                };
                quote! {
                    #values.note(#text, ::millstream::kernel::clause::Shown(&#value).text());
                }
            });
        notes.collect()
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
                _ => self.refuse(
                    binary.op.span(),
                    "no compound assignment in a clause, for it may overflow unseen: write `a = a + b`",
                ),
            },
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => self.operand(&mut unary.expr),
            Expr::Range(range) => {
                for end in [&mut range.start, &mut range.end].into_iter().flatten() {
                    self.operand(end);
                }
            }
            Expr::Cast(cast) => self.refuse(
                cast.as_token.span,
                "no casts in a clause, for they may cut a value off: its integers mix whatever their \
                 types, and `f64::from` makes floating-point numbers",
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
            // The number of elements is calculated by the compiler, which checks it.
            Expr::Repeat(repeat) => self.argument(&mut repeat.expr),
            Expr::Verbatim(tokens) => {
                let span = tokens.span();
                self.refuse(span, "a clause does not see through this expression");
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
        // Of a literal's own type too little is known where the variable is used.
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

    // What the compiler calculates it checks as well, and a function is its author's.
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
}

/// Finds the single names in an expression.
struct Named(Vec<Ident>);

impl Visit<'_> for Named {
    fn visit_expr_path(&mut self, path: &ExprPath) {
        self.0.extend(path.path.get_ident().cloned());
    }
}

fn is_wide(method: &Ident) -> bool {
    WIDE_METHODS.contains(&method.to_string().as_str())
}

/// Whether a name is that of a type or a trait, by the ways of naming them.
fn is_type_name(name: &str) -> bool {
    let primitive = [
        "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i128", "u128", "isize", "usize",
    ];
    primitive.contains(&name) || name.starts_with(char::is_uppercase)
}

/// The expression within parentheses.
fn bare(mut expr: &Expr) -> &Expr {
    loop {
        match expr {
            Expr::Paren(paren) => expr = &paren.expr,
            Expr::Group(group) => expr = &group.expr,
            other => return other,
        }
    }
}

/// A literal as a wide integer.
fn wide(literal: &syn::LitInt) -> Expr {
    let span = literal.span();
    syn::parse_quote_spanned! { span=> ::millstream::kernel::clause::Int::new(#literal) }
}

/// Any expression as a wide integer, if it is an integer.
fn widened(expr: &Expr) -> Expr {
    let span = expr.span();
    syn::parse_quote_spanned! { span=> ::millstream::kernel::clause::Value(#expr).in_clause() }
}

/// The parts of a call of `matches!`.
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
