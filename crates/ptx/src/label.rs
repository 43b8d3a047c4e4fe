//! Labels: what callers want to read in reports instead of, or beside, an operation's number.

use std::{borrow::Cow, cell::RefCell, fmt, marker::PhantomData, panic::Location};

thread_local! {
    static CURRENT: RefCell<Option<Site>> = const { RefCell::new(None) };
}

/// What the calling thread says it is doing, from now on; gives what it said before. A thread that
/// is destroying its variables has nothing to say any more, but may still call.
fn replace(site: Option<Site>) -> Option<Site> {
    CURRENT
        .try_with(|current| current.replace(site))
        .ok()
        .flatten()
}

/// A label with its source line; the simulator notes it with each operation and allocation. Its
/// text is that of [reports](Label): `` `first pass` at src/main.rs:12 ``.
///
/// ```
/// use millstream_ptx::Site;
/// let site = Site::at(std::panic::Location::caller());
/// assert_eq!(site.label(), None);
/// assert!(site.to_string().starts_with("at "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    text: Cow<'static, str>,
    location: &'static Location<'static>,
}

impl Site {
    /// What the calling thread is doing, if it says so.
    pub fn current() -> Option<Self> {
        CURRENT
            .try_with(|current| current.borrow().clone())
            .ok()
            .flatten()
    }

    /// The name, if there is one.
    pub fn label(&self) -> Option<&str> {
        (!self.text.is_empty()).then_some(&*self.text)
    }

    /// A place in the source.
    pub fn at(location: &'static Location<'static>) -> Self {
        Self {
            text: Cow::Borrowed(""),
            location,
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.text.is_empty() {
            write!(f, "`{}` ", self.text)?;
        }
        // The same on every system.
        let file = self.location.file().replace('\\', "/");
        write!(f, "at {file}:{}", self.location.line())
    }
}

/// Names what the calling thread makes the simulated driver do, until it is dropped: operations,
/// allocations, host accesses.
///
/// A source line does not cross `dyn Driver`, so the caller in front of the driver sets a label
/// where it knows what it is about to do.
///
/// ```
/// use millstream_ptx::{Label, Site};
/// {
///     let _label = Label::new("first pass");
///     assert!(Site::current().unwrap().to_string().starts_with("`first pass` at "));
/// }
/// assert_eq!(Site::current(), None);
/// ```
#[derive(Debug)]
#[must_use = "dropping a label ends it"]
pub struct Label {
    outer: Option<Site>,
    /// It belongs to the thread it was made on.
    thread: PhantomData<*const ()>,
}

impl Label {
    /// Names what this thread does from here on; the caller's source line goes with the name.
    #[track_caller]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self::at(text, Location::caller())
    }

    /// The same with a source line that was taken further out.
    pub fn at(text: impl Into<Cow<'static, str>>, location: &'static Location<'static>) -> Self {
        let site = Site {
            text: text.into(),
            location,
        };
        Self {
            outer: replace(Some(site)),
            thread: PhantomData,
        }
    }
}

impl Drop for Label {
    fn drop(&mut self) {
        replace(self.outer.take());
    }
}
