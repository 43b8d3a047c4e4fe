//! The body of a region function: constructors of `ndarray` are replaced by the region's, and
//! idioms that do not work on device arrays are rejected with advice.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    BinOp, Block, Error, Expr, ExprAssign, ExprBinary, ExprCall, ExprCast, ExprClosure, ExprIf,
    ExprMatch, ExprMethodCall, ExprPath, ExprUnary, GenericArgument, Ident, Item, Local, Pat,
    PatIdent, PathArguments, PathSegment, Type, UnOp,
    spanned::Spanned,
    visit::{self, Visit},
    visit_mut::{self, VisitMut},
};

/// A body with its constructors replaced.
pub(super) struct Body {
    pub(super) block: Block,
    /// Set if the block refers to the region.
    pub(super) needs_region: bool,
    /// The errors of all rejected idioms, if there are any.
    pub(super) error: Option<Error>,
}

impl Body {
    /// Converts the body of a function. `arrays` are the function's array parameters, and
    /// constructors are called on `region`.
    pub(super) fn of(block: &Block, arrays: Vec<&Ident>, region: &Ident) -> Self {
        let mut block = block.clone();
        let mut bound = BoundNames(Vec::new());
        bound.visit_block(&block);
        let arrays = arrays
            .into_iter()
            .filter(|name| !bound.0.contains(name))
            .cloned();
        let mut check = IdiomCheck {
            arrays: arrays.collect(),
            bound: &bound.0,
            error: None,
        };
        check.visit_block(&block);
        let mut constructors = ConstructorReplacer {
            region,
            found: false,
        };
        constructors.visit_block_mut(&mut block);
        Self {
            block,
            needs_region: constructors.found,
            error: check.error,
        }
    }
}

/// A visitor that collects the names that patterns of a block bind.
struct BoundNames(Vec<Ident>);

impl<'a> Visit<'a> for BoundNames {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

/// A visitor that replaces constructors of `ndarray`: `Array1::zeros(n)` becomes `region.zeros::<_,
/// Ix1>(n)`.
struct ConstructorReplacer<'a> {
    region: &'a Ident,
    found: bool,
}

/// The dimension type of each of `ndarray`'s aliases.
const AXES: [(&str, &str); 8] = [
    ("Array0", "Ix0"),
    ("Array1", "Ix1"),
    ("Array2", "Ix2"),
    ("Array3", "Ix3"),
    ("Array4", "Ix4"),
    ("Array5", "Ix5"),
    ("Array6", "Ix6"),
    ("ArrayD", "IxDyn"),
];

impl VisitMut for ConstructorReplacer<'_> {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        visit_mut::visit_expr_mut(self, expression);
        if let Expr::Call(call) = expression
            && let Some(replacement) = self.replacement(call)
        {
            *expression = Expr::Verbatim(replacement);
            self.found = true;
        }
    }

    fn visit_item_mut(&mut self, _item: &mut Item) {
        // Items within the body do not run in the region.
    }
}

impl ConstructorReplacer<'_> {
    /// Returns the region's constructor call if the call names a constructor of an imported array
    /// type.
    fn replacement(&self, call: &ExprCall) -> Option<TokenStream> {
        let Expr::Path(ExprPath {
            qself: None, path, ..
        }) = &*call.func
        else {
            return None;
        };
        if path.leading_colon.is_some() || path.segments.len() != 2 {
            return None;
        }
        let (array, constructor) = (path.segments.first()?, path.segments.last()?);
        let [element, of_type] = type_arguments(array);
        let axes = match AXES.iter().find(|(name, _)| array.ident == name) {
            Some((_, axes)) => {
                let axes = Ident::new(axes, array.ident.span());
                quote! { ::millstream_region::axes::#axes }
            }
            None if array.ident == "Array" => of_type,
            None => return None,
        };
        let (name, has_axes) = match constructor.ident.to_string().as_str() {
            "zeros" | "ones" | "from_elem" => (constructor.ident.clone(), true),
            "eye" | "linspace" => (constructor.ident.clone(), false),
            "range" => (Ident::new("arange", constructor.ident.span()), false),
            _ => return None,
        };
        let generics = if has_axes {
            quote! { #element, #axes }
        } else {
            element
        };
        let (region, arguments, imported) = (self.region, &call.args, &array.ident);
        // This uses the import of the host's type, so that the compiler does not report it as
        // unused.
        Some(quote_spanned! { call.span() => {
            #[allow(unused_imports)]
            use #imported as _;
            #region.#name::<#generics>(#arguments)
        } })
    }
}

/// Returns the first two type arguments of a path segment, `_` for each that is missing.
fn type_arguments(segment: &PathSegment) -> [TokenStream; 2] {
    let mut types = Vec::new();
    if let PathArguments::AngleBracketed(arguments) = &segment.arguments {
        types.extend(arguments.args.iter().filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(quote! { #ty }),
            _ => None,
        }));
    }
    let mut types = types.into_iter();
    [(); 2].map(|()| types.next().unwrap_or_else(|| quote! { _ }))
}

/// A visitor that rejects idioms of the host on the function's own arrays: element-wise functions
/// in calls of `mapv`, `max` with a number, and assignments to temporary views.
struct IdiomCheck<'b> {
    /// The parameters that are arrays, and the variables that were made of them.
    arrays: Vec<Ident>,
    /// The names that patterns bind, each as often as it is bound.
    bound: &'b [Ident],
    error: Option<Error>,
}

impl<'a> Visit<'a> for IdiomCheck<'_> {
    fn visit_local(&mut self, local: &'a Local) {
        visit::visit_local(self, local);
        let pattern = match &local.pat {
            Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        if let (Pat::Ident(PatIdent { ident, .. }), Some(init)) = (pattern, &local.init)
            && self.is_array(&init.expr)
            && self.bound.iter().filter(|name| *name == ident).count() == 1
        {
            self.arrays.push(ident.clone());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        let Some(argument) = call.args.first().filter(|_| self.is_array(&call.receiver)) else {
            return;
        };
        match (call.method.to_string().as_str(), argument) {
            ("map" | "mapv" | "mapv_inplace", Expr::Path(path)) => {
                self.function(&call.method, path);
            }
            ("map" | "mapv" | "mapv_inplace", Expr::Closure(closure)) => {
                self.closure(&call.method, closure);
            }
            (name, _) => {
                let Some(whole) = of_two_arrays(name) else {
                    return;
                };
                let message = format!(
                    "`{name}` of an array takes no argument and gives its greatest or least \
                     element: write `.{whole}(…)`, which compares element by element"
                );
                self.reject(&call.method, message);
            }
        }
    }

    fn visit_expr_assign(&mut self, assignment: &'a ExprAssign) {
        visit::visit_expr_assign(self, assignment);
        self.assigned(&assignment.left, "=", Some("assign"));
    }

    fn visit_expr_binary(&mut self, binary: &'a ExprBinary) {
        visit::visit_expr_binary(self, binary);
        let method = match binary.op {
            BinOp::AddAssign(_) => Some("add_assign"),
            BinOp::SubAssign(_) => Some("sub_assign"),
            BinOp::MulAssign(_) => Some("mul_assign"),
            BinOp::DivAssign(_) => Some("div_assign"),
            BinOp::RemAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_) => None,
            _ => return,
        };
        let operator = binary.op.to_token_stream().to_string();
        self.assigned(&binary.left, &operator, method);
    }

    fn visit_item(&mut self, _item: &'a Item) {}
}

impl IdiomCheck<'_> {
    fn is_array(&self, expression: &Expr) -> bool {
        root(expression).is_some_and(|name| self.arrays.contains(name))
    }

    /// Rejects an assignment to a mutable view that no variable holds.
    fn assigned(&mut self, left: &Expr, operator: &str, method: Option<&str>) {
        let Expr::MethodCall(view) = left else { return };
        if !self.is_array(&view.receiver) {
            return;
        }
        let name = &view.method;
        let bind = format!("`let mut part = ….{name}(…); part {operator} …`");
        let message = match method {
            Some(method) => format!(
                "`{operator}` cannot assign to what a call returns: write `.{name}(…).{method}(…)`"
            ),
            None => format!("`{operator}` cannot assign to what a call returns: write {bind}"),
        };
        self.reject(left, message);
    }

    fn reject(&mut self, place: &impl quote::ToTokens, message: String) {
        let error = Error::new_spanned(place, message);
        match &mut self.error {
            Some(first) => first.combine(error),
            None => self.error = Some(error),
        }
    }

    /// Checks a function given by its path, such as `f32::exp`.
    fn function(&mut self, method: &Ident, function: &ExprPath) {
        let names: Vec<_> = function
            .path
            .segments
            .iter()
            .map(|segment| &segment.ident)
            .collect();
        if let [ty, name] = names[..]
            && is_element(ty)
        {
            let message = format!(
                "`{method}` calls its function once, with the whole array, but `{ty}::{name}` \
                 takes one element: write `.{method}(|v| v.{name}())`"
            );
            self.reject(function, message);
        }
    }

    fn closure(&mut self, method: &Ident, closure: &ExprClosure) {
        let parameter = match closure.inputs.first() {
            Some(Pat::Ident(parameter)) => &parameter.ident,
            Some(Pat::Reference(reference)) => {
                let message = format!(
                    "`{method}` calls its closure once, with the whole array: write `{}` without \
                     `&`",
                    reference.pat.to_token_stream()
                );
                self.reject(reference, message);
                return;
            }
            Some(Pat::Type(typed)) => {
                if let Type::Path(ty) = &*typed.ty
                    && ty.path.get_ident().is_some_and(is_element)
                {
                    let message = format!(
                        "`{method}` calls its closure once, with the whole array: omit the \
                         element type"
                    );
                    self.reject(&typed.ty, message);
                }
                return;
            }
            _ => return,
        };
        let mut within = MapvClosure {
            method,
            parameter,
            check: self,
        };
        within.visit_expr(&closure.body);
    }
}

/// A visitor of the body of a closure of `mapv`, whose parameter is the whole array.
struct MapvClosure<'a, 'b> {
    method: &'a Ident,
    parameter: &'a Ident,
    check: &'a mut IdiomCheck<'b>,
}

impl<'a> Visit<'a> for MapvClosure<'_, '_> {
    fn visit_expr_if(&mut self, choice: &'a ExprIf) {
        self.reject_condition(&choice.cond);
        visit::visit_expr_if(self, choice);
    }

    fn visit_expr_match(&mut self, choice: &'a ExprMatch) {
        self.reject_condition(&choice.expr);
        visit::visit_expr_match(self, choice);
    }

    fn visit_expr_cast(&mut self, cast: &'a ExprCast) {
        let (method, v, ty) = (self.method, self.parameter, &cast.ty);
        if mentions(&cast.expr, v) {
            let message = format!(
                "`{method}` calls its closure once, with the whole array `{v}`, which `as` cannot \
                 convert: write `.cast::<{}>()`",
                quote! { #ty }
            );
            self.check.reject(cast, message);
        }
        visit::visit_expr_cast(self, cast);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        if let Some(whole) = of_two_arrays(&call.method.to_string())
            && call.args.len() == 1
            && mentions(&call.receiver, self.parameter)
            && !self.check.is_array(&call.receiver)
        {
            let message = format!(
                "`{}` calls its closure once, with the whole array `{}`, whose `{}` takes no \
                 argument: write `.{whole}(…)`",
                self.method, self.parameter, call.method
            );
            self.check.reject(&call.method, message);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_unary(&mut self, unary: &'a ExprUnary) {
        if let (UnOp::Deref(_), Expr::Path(path)) = (&unary.op, &*unary.expr)
            && path.path.is_ident(self.parameter)
        {
            let (method, v) = (self.method, self.parameter);
            let message = format!(
                "`{method}` calls its closure once, with the whole array `{v}`: write `{v}` \
                 without `*`"
            );
            self.check.reject(unary, message);
        }
        visit::visit_expr_unary(self, unary);
    }
}

impl MapvClosure<'_, '_> {
    fn reject_condition(&mut self, condition: &Expr) {
        let (method, v) = (self.method, self.parameter);
        if mentions(condition, v) {
            let message = format!(
                "`{method}` calls its closure once, with the whole array `{v}`, which is not a \
                 single condition: write `{v}.greater(0.0).where_cond(yes, no)`, which selects \
                 element by element"
            );
            self.check.reject(condition, message);
        }
    }
}

/// Returns whether an expression names a variable.
fn mentions(expression: &Expr, name: &Ident) -> bool {
    struct Finder<'a>(&'a Ident, bool);
    impl<'a> Visit<'a> for Finder<'_> {
        fn visit_expr_path(&mut self, path: &'a ExprPath) {
            self.1 |= path.path.is_ident(self.0);
        }
    }
    let mut finder = Finder(name, false);
    finder.visit_expr(expression);
    finder.1
}

/// Returns the method that compares two arrays element by element, for the name of the reduction.
fn of_two_arrays(name: &str) -> Option<&'static str> {
    match name {
        "max" => Some("maximum"),
        "min" => Some("minimum"),
        _ => None,
    }
}

/// The methods of arrays that return values of the host.
const ON_HOST: [&str; 13] = [
    "to_host",
    "item",
    "shape",
    "len",
    "ndim",
    "dim",
    "raw_dim",
    "nrows",
    "ncols",
    "is_empty",
    "outer_iter",
    "axis_iter",
    "iter",
];

/// Returns the variable that a chain of operations starts with, if the chain stays on the device.
fn root(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) => path.path.get_ident(),
        Expr::MethodCall(call) if ON_HOST.iter().any(|name| call.method == name) => None,
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Reference(reference) => root(&reference.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Unary(unary) => root(&unary.expr),
        Expr::Binary(binary) => root(&binary.left),
        _ => None,
    }
}

/// Returns whether a `Vec` of this type is one array.
pub(super) fn holds_elements(list: &PathSegment) -> bool {
    let [element, _] = type_arguments(list);
    is_element(&element)
}

/// Returns whether this is the name of an element type.
pub(super) fn is_element(name: &impl ToString) -> bool {
    [
        "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool",
    ]
    .contains(&name.to_string().as_str())
}
