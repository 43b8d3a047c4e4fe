//! `Option`s, tuples and arrays of Rust's, whose parts are transferred one by one.

use crate::{
    Region,
    element::{CompositeKind, ListItem},
    error::{Line, Result},
    host::{
        files::{TensorReader, TensorWriter, part_name},
        input::{Input, Parameter},
        list::write_backs,
        on_device::OnDevice,
        output::{DeviceValue, Output, OutputNode, PendingStruct},
        write_back::{InputMut, WriteBack, WriteBacks},
    },
};

impl<V: DeviceValue> DeviceValue for Vec<V>
where
    V::Host: ListItem<Kind = CompositeKind>,
{
    type Host = Vec<V::Host>;
}

/// An array of Rust's, as the macro below names containers.
type Items<P, const N: usize> = [P; N];

/// Implements all traits for containers of values of one type, which are transferred as a list.
macro_rules! containers {
    ($(
        $form:ident [$($generic:tt)*] [$($argument:tt)*]: $by_reference:ident,
        |$values:ident| $assembled:expr,
        |$reader:ident, $name:ident| $read:expr,
        |$body:ident, $writer:ident| $write:expr;
    )*) => {$(
        impl<P, $($generic)*> ListItem for $form<P, $($argument)*> {
            type Kind = CompositeKind;
        }

        impl<V: DeviceValue, $($generic)*> DeviceValue for $form<V, $($argument)*> {
            type Host = $form<V::Host, $($argument)*>;
        }

        impl<P: Parameter, $($generic)*> Parameter for $form<P, $($argument)*> {
            type Body = $form<P::Body, $($argument)*>;
        }

        impl<P: Parameter, X: Input<P>, $($generic)*> Input<$form<P, $($argument)*>>
            for $form<X, $($argument)*>
        {
            fn capture(self, region: &Region, line: Line) -> $form<P::Body, $($argument)*> {
                self.map(|value| value.capture(region, line))
            }
        }

        impl<'a, P: Parameter, X, $($generic)*> Input<$form<P, $($argument)*>>
            for &'a $form<X, $($argument)*>
        where
            &'a X: Input<P>,
        {
            fn capture(self, region: &Region, line: Line) -> $form<P::Body, $($argument)*> {
                self.$by_reference().map(|value| value.capture(region, line))
            }
        }

        impl<'m, P: Parameter, X, $($generic)*> InputMut<'m, $form<P, $($argument)*>>
            for &'m mut $form<X, $($argument)*>
        where
            for<'a> &'a X: Input<P>,
            &'m mut X: InputMut<'m, P>,
        {
            fn capture(&self, region: &Region, line: Line) -> $form<P::Body, $($argument)*> {
                Input::<$form<P, $($argument)*>>::capture(&**self, region, line)
            }

            fn write_back(
                self,
                body: $form<P::Body, $($argument)*>,
                line: Line,
            ) -> Box<dyn WriteBack + 'm> {
                write_backs::<P, _>(self.iter_mut(), body.into_iter(), line)
            }
        }

        impl<P: OnDevice, $($generic)*> OnDevice for $form<P, $($argument)*> {
            type Pending = PendingStruct<Vec<P::Pending>, Self>;

            fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) {
                body.iter().for_each(|body| P::visit_nodes(body, visit));
            }

            fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending> {
                let bodies = body.into_iter();
                let begun = bodies.map(|body| P::begin_transfer(body, region));
                Ok(PendingStruct::new(begun.collect::<Result<_>>()?, |$values| $assembled))
            }

            fn read($reader: &TensorReader<'_>, $name: &str) -> Result<Self::Body> {
                $read
            }

            fn write(
                $body: &Self::Body,
                $writer: &mut TensorWriter<'_>,
                $name: &str,
            ) -> Result<()> {
                $write
            }
        }

        impl<R: Output, $($generic)*> Output for $form<R, $($argument)*> {
            type Body = $form<R::Body, $($argument)*>;
            type Value = $form<R::Value, $($argument)*>;
            type Pending = PendingStruct<Vec<R::Pending>, Self::Value>;

            fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                body.iter().try_for_each(|body| R::visit_nodes(body, visit))
            }

            fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending> {
                let bodies = body.into_iter();
                let begun = bodies.map(|body| R::begin_transfer(body, region));
                Ok(PendingStruct::new(begun.collect::<Result<_>>()?, |$values| $assembled))
            }
        }
    )*};
}

containers! {
    Option [] []: as_ref,
    |values| values.into_iter().next(),
    |reader, name| reader.has(name).then(|| P::read(reader, name)).transpose(),
    |body, writer| body.iter().try_for_each(|body| writer.present(name, body, P::write));

    Items [const N: usize] [N]: each_ref,
    |values| {
        let values = values.try_into().ok();
        values.expect("there is a transfer for each of the values")
    },
    |reader, name| {
        let items = (0..N).map(|item| P::read(reader, &part_name(name, &item.to_string())));
        let items: Vec<P::Body> = items.collect::<Result<_>>()?;
        Ok(items.try_into().ok().expect("there are N items"))
    },
    |body, writer| writer.items(name, body, P::write);
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
