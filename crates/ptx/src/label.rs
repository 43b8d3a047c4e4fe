//! Labels: names for the operations of a thread, shown in reports.

use std::{borrow::Cow, cell::RefCell, fmt, marker::PhantomData, panic::Location};

thread_local! {
    static CURRENT: RefCell<Option<Site>> = const { RefCell::new(None) };
}

/// Replaces the calling thread's current site and returns the previous one. Does nothing while the
/// thread's local variables are being destroyed.
fn replace(site: Option<Site>) -> Option<Site> {
    CURRENT
        .try_with(|current| current.replace(site))
        .ok()
        .flatten()
}

/// A source line with an optional label, which the simulator stores with each operation and
/// allocation. Its display form is that of [reports](Label): `` `first pass` at src/main.rs:12 ``.
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
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Line(&'static Location<'static>),
    /// A number of the caller's.
    Numbered(u32),
}

impl Site {
    /// Returns the calling thread's current site, if a label is set.
    pub fn current() -> Option<Self> {
        CURRENT
            .try_with(|current| current.borrow().clone())
            .ok()
            .flatten()
    }

    /// Returns the label, if there is one.
    pub fn label(&self) -> Option<&str> {
        (!self.text.is_empty()).then_some(&*self.text)
    }

    /// Creates a site without a label.
    pub fn at(location: &'static Location<'static>) -> Self {
        Self {
            text: Cow::Borrowed(""),
            place: Place::Line(location),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.text.is_empty() {
            write!(f, "`{}` ", self.text)?;
        }
        match self.place {
            Place::Line(location) => {
                // Paths are displayed with `/` on every system.
                let file = location.file().replace('\\', "/");
                write!(f, "at {file}:{}", location.line())
            }
            Place::Numbered(number) => write!(f, "at site{number}"),
        }
    }
}

/// A label for everything that the calling thread makes the simulated driver do until the label is
/// dropped: operations, allocations, host accesses.
///
/// The simulator cannot see its caller's source line through `dyn Driver`, so the caller sets a
/// label before it calls the driver.
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
    /// A marker that binds the label to the thread that created it.
    thread: PhantomData<*const ()>,
}

impl Label {
    /// Labels the calling thread's operations from here on; the label includes the caller's source
    /// line.
    #[track_caller]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self::at(text, Location::caller())
    }

    /// Labels the calling thread's operations from here on, with a source line from further up the
    /// stack.
    pub fn at(text: impl Into<Cow<'static, str>>, location: &'static Location<'static>) -> Self {
        Self::of(Site {
            text: text.into(),
            place: Place::Line(location),
        })
    }

    /// Gives the calling thread's operations from here on the number of a place that the caller
    /// knows: texts have `at site7`, which the caller replaces by its description.
    ///
    /// ```
    /// use millstream_ptx::{Label, Site};
    /// let _label = Label::numbered(7);
    /// assert_eq!(Site::current().unwrap().to_string(), "at site7");
    /// ```
    pub fn numbered(number: u32) -> Self {
        Self::of(Site {
            text: Cow::Borrowed(""),
            place: Place::Numbered(number),
        })
    }

    fn of(site: Site) -> Self {
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
