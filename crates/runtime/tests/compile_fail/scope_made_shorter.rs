//! `Scope` is invariant in the lifetime of its borrows: a shorter one would accept a slice that
//! ends before the scope.

use millstream::Scope;

fn shorter<'short, 'env: 'short>(scope: &'short Scope<'env>) -> &'short Scope<'short> {
    scope //~ "lifetime may not live long enough"
}

fn longer<'short, 'env: 'short>(scope: &'short Scope<'short>) -> &'short Scope<'env> {
    scope //~ "lifetime may not live long enough"
}

fn main() {}
