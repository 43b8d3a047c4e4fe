//! The stack of contexts of each thread, whose top is the current context.

use std::cell::RefCell;

use millstream_driver::{ContextHandle, ResultCode};

use crate::codes::Answer;

thread_local! {
    static STACK: RefCell<Vec<ContextHandle>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with the thread's stack. Fails while the thread's local variables are being
/// destroyed.
fn with<R>(body: impl FnOnce(&mut Vec<ContextHandle>) -> R) -> Answer<R> {
    STACK
        .try_with(|stack| body(&mut stack.borrow_mut()))
        .map_err(|_| ResultCode::DEINITIALIZED)
}

/// Returns the current context of the thread, alive or not.
pub(crate) fn top() -> Answer<Option<ContextHandle>> {
    with(|stack| stack.last().copied())
}

/// Makes a context current and keeps the one before below it.
pub(crate) fn push(context: ContextHandle) -> Answer {
    with(|stack| stack.push(context))
}

/// Makes the context below the current one current, and returns the one that was.
pub(crate) fn pop() -> Answer<ContextHandle> {
    with(Vec::pop)?.ok_or(ResultCode::INVALID_CONTEXT)
}

/// Replaces the current context. `None` removes it.
pub(crate) fn set(context: Option<ContextHandle>) -> Answer {
    with(|stack| {
        stack.pop();
        stack.extend(context);
    })
}
