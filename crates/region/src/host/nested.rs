//! `Option`s, tuples and arrays of Rust's, whose parts are transferred one by one.

use std::task::{Context, Poll};

use crate::{
    Region,
    element::{CompositeKind, ListItem},
    error::{Line, Result},
    host::{
        files::{TensorReader, TensorWriter, part_name},
        input::{Input, Parameter},
        list::{OtherForm, write_items},
        on_device::OnDevice,
        output::{DeviceValue, Output, OutputNode, PendingStruct, PendingValue},
        write_back::{InputMut, WriteBack, WriteBacks},
    },
};

impl<V: DeviceValue> DeviceValue for Vec<V>
where
    V::Host: ListItem<Kind = CompositeKind>,
{
    type Host = Vec<V::Host>;
}

impl<V: DeviceValue> DeviceValue for Option<V> {
    type Host = Option<V::Host>;
}

impl<V: DeviceValue, const N: usize> DeviceValue for [V; N] {
    type Host = [V::Host; N];
}

impl<P: Parameter> Parameter for Option<P> {
    type Body = Option<P::Body>;
}

impl<P: Parameter, X: Input<P>> Input<Option<P>> for Option<X> {
    fn capture(self, region: &Region, line: Line) -> Option<P::Body> {
        self.map(|value| value.capture(region, line))
    }
}

impl<'a, P: Parameter, X> Input<Option<P>> for &'a Option<X>
where
    &'a X: Input<P>,
{
    fn capture(self, region: &Region, line: Line) -> Option<P::Body> {
        self.as_ref().map(|value| value.capture(region, line))
    }
}

impl<'m, P: Parameter, X> InputMut<'m, Option<P>> for &'m mut Option<X>
where
    for<'a> &'a X: Input<P>,
    &'m mut X: InputMut<'m, P>,
{
    fn capture(&self, region: &Region, line: Line) -> Option<P::Body> {
        Input::<Option<P>>::capture(&**self, region, line)
    }

    fn write_back(self, body: Option<P::Body>, line: Line) -> Box<dyn WriteBack + 'm> {
        match (self, body) {
            (Some(value), Some(body)) => value.write_back(body, line),
            (None, None) => Box::new(WriteBacks(Vec::new())),
            (found, left) => {
                let [found, left] = [found.is_some(), left.is_some()].map(usize::from);
                OtherForm::boxed(found, left, line)
            }
        }
    }
}

impl<P: PendingValue> PendingValue for Option<P> {
    type Value = Option<P::Value>;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.as_mut()
            .map_or(Poll::Ready(Ok(())), |pending| pending.poll(context))
    }

    fn wait(&mut self) -> Result<()> {
        self.as_mut().map_or(Ok(()), PendingValue::wait)
    }

    fn is_download(&self) -> bool {
        self.as_ref().is_some_and(PendingValue::is_download)
    }

    fn take(self) -> Self::Value {
        self.map(PendingValue::take)
    }
}

impl<P: OnDevice> OnDevice for Option<P> {
    type Pending = Option<P::Pending>;

    fn visit_nodes(body: &Option<P::Body>, visit: &mut dyn FnMut(OutputNode)) {
        body.iter().for_each(|body| P::visit_nodes(body, visit));
    }

    fn begin_transfer(body: Option<P::Body>, region: &Region) -> Result<Self::Pending> {
        body.map(|body| P::begin_transfer(body, region)).transpose()
    }

    fn read(reader: &TensorReader<'_>, name: &str) -> Result<Option<P::Body>> {
        reader.has(name).then(|| P::read(reader, name)).transpose()
    }

    fn write(body: &Option<P::Body>, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
        body.iter()
            .try_for_each(|body| P::write(body, writer, name))
    }
}

impl<R: Output> Output for Option<R> {
    type Body = Option<R::Body>;
    type Value = Option<R::Value>;
    type Pending = Option<R::Pending>;

    fn visit_nodes(body: &Option<R::Body>, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        body.iter().try_for_each(|body| R::visit_nodes(body, visit))
    }

    fn begin_transfer(body: Option<R::Body>, region: &Region) -> Result<Self::Pending> {
        body.map(|body| R::begin_transfer(body, region)).transpose()
    }
}

impl<P: Parameter, const N: usize> Parameter for [P; N] {
    type Body = [P::Body; N];
}

impl<P: Parameter, X: Input<P>, const N: usize> Input<[P; N]> for [X; N] {
    fn capture(self, region: &Region, line: Line) -> [P::Body; N] {
        self.map(|value| value.capture(region, line))
    }
}

impl<'a, P: Parameter, X, const N: usize> Input<[P; N]> for &'a [X; N]
where
    &'a X: Input<P>,
{
    fn capture(self, region: &Region, line: Line) -> [P::Body; N] {
        self.each_ref().map(|value| value.capture(region, line))
    }
}

impl<'m, P: Parameter, X, const N: usize> InputMut<'m, [P; N]> for &'m mut [X; N]
where
    for<'a> &'a X: Input<P>,
    &'m mut X: InputMut<'m, P>,
{
    fn capture(&self, region: &Region, line: Line) -> [P::Body; N] {
        Input::<[P; N]>::capture(&**self, region, line)
    }

    fn write_back(self, body: [P::Body; N], line: Line) -> Box<dyn WriteBack + 'm> {
        let backs = self.iter_mut().zip(body);
        let backs = backs.map(|(value, body)| value.write_back(body, line));
        Box::new(WriteBacks(backs.collect()))
    }
}

/// The pending transfers of the values of an array of Rust's.
type PendingArray<P, const N: usize> = PendingStruct<Vec<P>, [<P as PendingValue>::Value; N]>;

fn pending_array<P: PendingValue, B, const N: usize>(
    bodies: [B; N],
    begin: impl FnMut(B) -> Result<P>,
) -> Result<PendingArray<P, N>> {
    let pending: Result<Vec<P>> = bodies.into_iter().map(begin).collect();
    Ok(PendingStruct::new(pending?, |values| {
        let values = values.try_into().ok();
        values.expect("there is a transfer for each of the values")
    }))
}

impl<P: OnDevice, const N: usize> OnDevice for [P; N] {
    type Pending = PendingArray<P::Pending, N>;

    fn visit_nodes(body: &[P::Body; N], visit: &mut dyn FnMut(OutputNode)) {
        body.iter().for_each(|body| P::visit_nodes(body, visit));
    }

    fn begin_transfer(body: [P::Body; N], region: &Region) -> Result<Self::Pending> {
        pending_array(body, |body| P::begin_transfer(body, region))
    }

    fn read(reader: &TensorReader<'_>, name: &str) -> Result<[P::Body; N]> {
        let items = (0..N).map(|item| P::read(reader, &part_name(name, &item.to_string())));
        let items: Vec<P::Body> = items.collect::<Result<_>>()?;
        Ok(items.try_into().ok().expect("there are N items"))
    }

    fn write(body: &[P::Body; N], writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
        write_items::<P>(body, writer, name)
    }
}

impl<R: Output, const N: usize> Output for [R; N] {
    type Body = [R::Body; N];
    type Value = [R::Value; N];
    type Pending = PendingArray<R::Pending, N>;

    fn visit_nodes(body: &[R::Body; N], visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        body.iter().try_for_each(|body| R::visit_nodes(body, visit))
    }

    fn begin_transfer(body: [R::Body; N], region: &Region) -> Result<Self::Pending> {
        pending_array(body, |body| R::begin_transfer(body, region))
    }
}

macro_rules! tuples {
    ($(($($name:ident $given:ident $place:tt),*);)*) => {$(
        impl<$($name),*> ListItem for ($($name,)*) {
            type Kind = CompositeKind;
        }

        impl<$($name: Parameter),*> Parameter for ($($name,)*) {
            type Body = ($($name::Body,)*);
        }

        impl<$($name: Parameter, $given: Input<$name>),*> Input<($($name,)*)> for ($($given,)*) {
            fn capture(self, region: &Region, line: Line) -> ($($name::Body,)*) {
                ($(self.$place.capture(region, line),)*)
            }
        }

        impl<'a, $($name: Parameter, $given),*> Input<($($name,)*)> for &'a ($($given,)*)
        where
            $(&'a $given: Input<$name>),*
        {
            fn capture(self, region: &Region, line: Line) -> ($($name::Body,)*) {
                ($((&self.$place).capture(region, line),)*)
            }
        }

        impl<'m, $($name: Parameter, $given),*> InputMut<'m, ($($name,)*)>
            for &'m mut ($($given,)*)
        where
            $(for<'a> &'a $given: Input<$name>, &'m mut $given: InputMut<'m, $name>),*
        {
            fn capture(&self, region: &Region, line: Line) -> ($($name::Body,)*) {
                Input::<($($name,)*)>::capture(&**self, region, line)
            }

            fn write_back(self, body: ($($name::Body,)*), line: Line) -> Box<dyn WriteBack + 'm> {
                Box::new(WriteBacks(vec![$((&mut self.$place).write_back(body.$place, line)),*]))
            }
        }

        impl<$($name: OnDevice),*> OnDevice for ($($name,)*) {
            type Pending = ($($name::Pending,)*);

            fn visit_nodes(body: &($($name::Body,)*), visit: &mut dyn FnMut(OutputNode)) {
                $($name::visit_nodes(&body.$place, visit);)*
            }

            fn begin_transfer(body: ($($name::Body,)*), region: &Region) -> Result<Self::Pending> {
                Ok(($($name::begin_transfer(body.$place, region)?,)*))
            }

            fn read(reader: &TensorReader<'_>, name: &str) -> Result<($($name::Body,)*)> {
                Ok(($($name::read(reader, &part_name(name, stringify!($place)))?,)*))
            }

            fn write(
                body: &($($name::Body,)*),
                writer: &mut TensorWriter<'_>,
                name: &str,
            ) -> Result<()> {
                $($name::write(&body.$place, writer, &part_name(name, stringify!($place)))?;)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    (A X0 0);
    (A X0 0, B X1 1);
    (A X0 0, B X1 1, C X2 2);
    (A X0 0, B X1 1, C X2 2, E X3 3);
    (A X0 0, B X1 1, C X2 2, E X3 3, F X4 4);
    (A X0 0, B X1 1, C X2 2, E X3 3, F X4 4, G X5 5);
    (A X0 0, B X1 1, C X2 2, E X3 3, F X4 4, G X5 5, H X6 6);
    (A X0 0, B X1 1, C X2 2, E X3 3, F X4 4, G X5 5, H X6 6, I X7 7);
}
