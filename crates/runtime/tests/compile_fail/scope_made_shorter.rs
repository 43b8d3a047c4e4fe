//! The lifetime of a scope's borrows cannot be made shorter, or a slice that ends before the scope
//! would do.

use millstream::Scope;

fn shorter<'short, 'env: 'short>(scope: &'short Scope<'env>) -> &'short Scope<'short> {
    scope //~ "lifetime may not live long enough"
}

fn longer<'short, 'env: 'short>(scope: &'short Scope<'short>) -> &'short Scope<'env> {
    scope //~ "lifetime may not live long enough"
}

fn main() {}
