//! Lists of parameters and results. A list of elements is one array; any other list, such as one of
//! arrays or of layers, is a `Vec` of what each item is. The kind of the items decides.

use std::task::{Context, Poll, ready};

use ndarray::{ArrayBase, ArrayView1, ArrayViewMut1, Data, Ix1, RawData};

use crate::{
    Array, Packed, Region,
    element::{CompositeKind, Element, ElementKind, ListItem},
    error::{Line, Result, UsageError, UsageErrorKind},
    host::{
        files::{TensorReader, TensorWriter, part_name},
        input::{Input, Parameter},
        on_device::OnDevice,
        output::{ArrayDownload, Keep, Output, OutputNode, PendingStruct, PendingValue},
        packed::Unpacked,
        write_back::{HostWriteBack, InputMut, WriteBack, WriteBacks},
    },
};

/// A kind of items, for lists as parameters and as fields of structs.
#[doc(hidden)]
pub trait ListKind<Q> {
    /// The list's type in the body.
    type List;
    /// The pending transfer of the list.
    type Pending: PendingValue<Value = Vec<Q>>;

    /// Calls `visit` with the node of each array.
    fn visit_nodes(list: &Self::List, visit: &mut dyn FnMut(OutputNode));

    /// Begins the downloads of arrays whose work is enqueued.
    fn begin_transfer(list: Self::List, region: &Region) -> Result<Self::Pending>;

    /// Reads the list from a file, from the tensors of this name.
    fn read(reader: &TensorReader<'_>, name: &str) -> Result<Self::List>;

    /// Adds the tensors of the list to a file, under this name.
    fn write(list: &Self::List, writer: &mut TensorWriter<'_>, name: &str) -> Result<()>;
}

/// The type of a list of `Q` in the body.
type ListOf<Q> = <<Q as ListItem>::Kind as ListKind<Q>>::List;

/// A kind of items, for lists as results.
#[doc(hidden)]
pub trait ResultKind<R> {
    /// The list's type in the body.
    type Body;
    /// The list that the caller gets.
    type Value;
    /// The pending transfer of the list.
    type Pending: PendingValue<Value = Self::Value>;

    /// Calls `visit` with the node of each array, or returns the error that the body returned.
    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()>;

    /// Begins the downloads of arrays whose work is enqueued.
    fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending>;
}

/// The kind of items `Y` that callers pass for a list of `Q`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a list of `{Y}` cannot be passed for a list of `{Q}`",
    note = "numbers have the same type; an array has the same element type and number of axes, on \
            the host or on the device"
)]
pub trait ArgumentKind<Y, Q: ListItem<Kind: ListKind<Q>>> {
    /// Captures the items as the body's value.
    fn capture(items: &[Y], region: &Region, line: Line) -> ListOf<Q>;
}

/// The kind of items `Y` that callers pass as `&mut` for a list of `Q`.
#[doc(hidden)]
pub trait ArgumentMutKind<'m, Y, Q: ListItem<Kind: ListKind<Q>>>: ArgumentKind<Y, Q> {
    /// Returns the write-back that replaces the caller's items by the body's.
    fn write_back(items: &'m mut [Y], list: ListOf<Q>, line: Line) -> Box<dyn WriteBack + 'm>;
}

impl<T: Element> ListKind<T> for ElementKind {
    type List = Array<T, Ix1>;
    type Pending = PendingStruct<ArrayDownload<T, Ix1>, Vec<T>>;

    fn visit_nodes(list: &Array<T, Ix1>, visit: &mut dyn FnMut(OutputNode)) {
        visit(OutputNode::of(list));
    }

    fn begin_transfer(list: Array<T, Ix1>, region: &Region) -> Result<Self::Pending> {
        let download = ArrayDownload::begin_transfer(&list, region)?;
        Ok(PendingStruct::new(download, |array| {
            array.into_raw_vec_and_offset().0
        }))
    }

    fn read(reader: &TensorReader<'_>, name: &str) -> Result<Array<T, Ix1>> {
        reader.array(name)
    }

    fn write(list: &Array<T, Ix1>, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
        writer.array(name, list);
        Ok(())
    }
}

impl<T: Element> ResultKind<T> for ElementKind {
    type Body = Array<T, Ix1>;
    type Value = Vec<T>;
    type Pending = <Self as ListKind<T>>::Pending;

    fn visit_nodes(body: &Array<T, Ix1>, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        visit(OutputNode::of(body));
        Ok(())
    }

    fn begin_transfer(body: Array<T, Ix1>, region: &Region) -> Result<Self::Pending> {
        <Self as ListKind<T>>::begin_transfer(body, region)
    }
}

impl<T: Element> ArgumentKind<T, T> for ElementKind {
    fn capture(items: &[T], region: &Region, line: Line) -> Array<T, Ix1> {
        region.upload(&ArrayView1::from(items), line)
    }
}

impl<'m, T: Element> ArgumentMutKind<'m, T, T> for ElementKind {
    fn write_back(items: &'m mut [T], list: Array<T, Ix1>, line: Line) -> Box<dyn WriteBack + 'm> {
        HostWriteBack::boxed(list, ArrayViewMut1::from(items), line)
    }
}

impl<Q: OnDevice> ListKind<Q> for CompositeKind {
    type List = Vec<Q::Body>;
    type Pending = Vec<Q::Pending>;

    fn visit_nodes(list: &Vec<Q::Body>, visit: &mut dyn FnMut(OutputNode)) {
        list.iter().for_each(|body| Q::visit_nodes(body, visit));
    }

    fn begin_transfer(list: Vec<Q::Body>, region: &Region) -> Result<Self::Pending> {
        let bodies = list.into_iter();
        bodies.map(|body| Q::begin_transfer(body, region)).collect()
    }

    fn read(reader: &TensorReader<'_>, name: &str) -> Result<Vec<Q::Body>> {
        let items = 0..reader.items(name)?;
        items
            .map(|item| Q::read(reader, &part_name(name, &item.to_string())))
            .collect()
    }

    fn write(list: &Vec<Q::Body>, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
        writer.list(name, list, Q::write)
    }
}

impl<R: Output> ResultKind<R> for CompositeKind {
    type Body = Vec<R::Body>;
    type Value = Vec<R::Value>;
    type Pending = Vec<R::Pending>;

    fn visit_nodes(body: &Vec<R::Body>, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        body.iter().try_for_each(|body| R::visit_nodes(body, visit))
    }

    fn begin_transfer(body: Vec<R::Body>, region: &Region) -> Result<Self::Pending> {
        let bodies = body.into_iter();
        bodies.map(|body| R::begin_transfer(body, region)).collect()
    }
}

impl<Y, Q: OnDevice + ListItem<Kind = Self>> ArgumentKind<Y, Q> for CompositeKind
where
    for<'a> &'a Y: Input<Q>,
{
    fn capture(items: &[Y], region: &Region, line: Line) -> Vec<Q::Body> {
        let items = items.iter();
        items
            .map(|item| Input::<Q>::capture(item, region, line))
            .collect()
    }
}

impl<'m, Y: 'm, Q: OnDevice + ListItem<Kind = Self>> ArgumentMutKind<'m, Y, Q> for CompositeKind
where
    for<'a> &'a Y: Input<Q>,
    &'m mut Y: InputMut<'m, Q>,
{
    fn write_back(items: &'m mut [Y], list: Vec<Q::Body>, line: Line) -> Box<dyn WriteBack + 'm> {
        write_backs::<Q, _>(items.iter_mut(), list.into_iter(), line)
    }
}

impl<P: PendingValue> PendingValue for Vec<P> {
    type Value = Vec<P::Value>;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        for pending in self {
            ready!(pending.poll(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn wait(&mut self) -> Result<()> {
        self.iter_mut().try_for_each(PendingValue::wait)
    }

    fn is_download(&self) -> bool {
        self.iter().any(PendingValue::is_download)
    }

    fn take(self) -> Self::Value {
        self.into_iter().map(PendingValue::take).collect()
    }
}

impl<Q: ListItem<Kind: ListKind<Q>>> Parameter for [Q] {
    type Body = ListOf<Q>;
}

impl<Q: ListItem<Kind: ListKind<Q>>> Parameter for Vec<Q> {
    type Body = ListOf<Q>;
}

/// Declares types that are no elements.
macro_rules! composites {
    ($([$($generic:tt)*] $type:ty;)*) => {$(
        impl<$($generic)*> ListItem for $type {
            type Kind = CompositeKind;
        }
    )*};
}

composites! {
    [Q] Vec<Q>;
    [Q] &[Q];
    [S: RawData, D] ArrayBase<S, D>;
    [S: RawData, D] &ArrayBase<S, D>;
    [T, D] Array<T, D>;
    [T, D] &Array<T, D>;
    [T, D] Keep<T, D>;
    [T, D] Packed<T, D>;
    [T, D] Unpacked<T, D>;
    [R, E] Result<R, E>;
}

impl<Q: ListItem<Kind: ListKind<Q>>> OnDevice for Vec<Q> {
    type Pending = <Q::Kind as ListKind<Q>>::Pending;

    fn visit_nodes(body: &ListOf<Q>, visit: &mut dyn FnMut(OutputNode)) {
        Q::Kind::visit_nodes(body, visit);
    }

    fn begin_transfer(body: ListOf<Q>, region: &Region) -> Result<Self::Pending> {
        Q::Kind::begin_transfer(body, region)
    }

    fn read(reader: &TensorReader<'_>, name: &str) -> Result<ListOf<Q>> {
        Q::Kind::read(reader, name)
    }

    fn write(body: &ListOf<Q>, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
        Q::Kind::write(body, writer, name)
    }
}

impl<R: ListItem<Kind: ResultKind<R>>> Output for Vec<R> {
    type Body = <R::Kind as ResultKind<R>>::Body;
    type Value = <R::Kind as ResultKind<R>>::Value;
    type Pending = <R::Kind as ResultKind<R>>::Pending;

    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        R::Kind::visit_nodes(body, visit)
    }

    fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending> {
        R::Kind::begin_transfer(body, region)
    }
}

/// A type that callers may pass for a list of `Q`: a slice, a `Vec` or an array of Rust's, or an
/// array of one axis for a list of elements.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a list of `{Q}`",
    note = "for a list of numbers, that is an array of one axis with the same element type, on the \
            host or on the device, a slice or a `Vec`; for another list, a slice or a `Vec`"
)]
pub trait ListSource<Q: ListItem<Kind: ListKind<Q>>> {
    /// Captures the items as the body's value.
    fn list(self, region: &Region, line: Line) -> ListOf<Q>;
}

impl<Q: ListItem<Kind: ListKind<Q>>, X: ListSource<Q>> Input<[Q]> for X {
    fn capture(self, region: &Region, line: Line) -> ListOf<Q> {
        self.list(region, line)
    }
}

impl<Q: ListItem<Kind: ListKind<Q>>, X: ListSource<Q>> Input<Vec<Q>> for X {
    fn capture(self, region: &Region, line: Line) -> ListOf<Q> {
        self.list(region, line)
    }
}

macro_rules! sources {
    (arrays: $([$($generic:tt)*] $source:ty;)*) => {$(
        impl<T: Element, $($generic)*> ListSource<T> for $source {
            fn list(self, region: &Region, line: Line) -> Array<T, Ix1> {
                Input::<Array<T, Ix1>>::capture(self, region, line)
            }
        }
    )*};
    (lists: $([$($generic:tt)*] $source:ty;)*) => {$(
        impl<Q, Y, $($generic)*> ListSource<Q> for $source
        where
            // Either type may be the one that is known, with numbers in the other.
            Q: ListItem<Kind: ListKind<Q> + ArgumentKind<Y, Q>>,
            Y: ListItem<Kind: ArgumentKind<Y, Q>>,
        {
            fn list(self, region: &Region, line: Line) -> ListOf<Q> {
                <Y::Kind as ArgumentKind<Y, Q>>::capture(&self[..], region, line)
            }
        }
    )*};
    (mutable: $([$($generic:tt)*] $parameter:ty, $list:ty;)*) => {$(
        impl<'m, Q, Y, $($generic)*> InputMut<'m, $parameter> for &'m mut $list
        where
            Q: ListItem<Kind: ListKind<Q> + ArgumentMutKind<'m, Y, Q>>,
            Y: ListItem<Kind: ArgumentMutKind<'m, Y, Q>>,
        {
            fn capture(&self, region: &Region, line: Line) -> ListOf<Q> {
                <Y::Kind as ArgumentKind<Y, Q>>::capture(&self[..], region, line)
            }

            fn write_back(self, body: ListOf<Q>, line: Line) -> Box<dyn WriteBack + 'm> {
                <Y::Kind as ArgumentMutKind<'m, Y, Q>>::write_back(&mut self[..], body, line)
            }
        }
    )*};
}

sources! {
    arrays:
    [S: Data<Elem = T>] ArrayBase<S, Ix1>;
    [S: Data<Elem = T>] &ArrayBase<S, Ix1>;
    [] Array<T, Ix1>;
    [] &Array<T, Ix1>;
}

sources! {
    lists:
    [] &[Y];
    [] &Vec<Y>;
    [] Vec<Y>;
    [const N: usize] &[Y; N];
}

sources! {
    mutable:
    [] [Q], [Y];
    [] [Q], Vec<Y>;
    [const N: usize] [Q], [Y; N];
    [] Vec<Q>, Vec<Y>;
}

/// Returns the write-back of each item of a list or an `Option`. If the body has left another
/// number of items, the region fails.
pub(super) fn write_backs<'m, P: Parameter, Y: InputMut<'m, P>>(
    items: impl ExactSizeIterator<Item = Y>,
    bodies: impl ExactSizeIterator<Item = P::Body>,
    line: Line,
) -> Box<dyn WriteBack + 'm> {
    let (found, left) = (items.len(), bodies.len());
    if found != left {
        let detail = format!(
            "a region changes the items of a `&mut` list or option, but not their number: the \
             caller's has {found}, and the body left {left}; return the new one instead"
        );
        let problem = UsageErrorKind::argument(detail);
        return Box::new(OtherForm(UsageError::new("region", problem, line)));
    }
    let backs = items.zip(bodies);
    let backs = backs.map(|(item, body)| item.write_back(body, line));
    Box::new(WriteBacks(backs.collect()))
}

/// The write-back to a list or an `Option` to which the body has given another form.
struct OtherForm(UsageError);

impl WriteBack for OtherForm {
    fn begin_transfer(&mut self, _region: &Region) -> Result<()> {
        Err(self.0.clone().into())
    }

    fn commit(self: Box<Self>) {
        unreachable!("the region has failed");
    }

    fn commit_within(self: Box<Self>, region: &Region, _line: Line) {
        region.session().record_failure(self.0.into());
    }
}
