//! First light.
use millstream::Device;
use millstream_region::RegionExt;
use ndarray::{Axis, array, s};

#[test]
fn first() {
    let device = Device::simulated().unwrap();
    let (x, y) = (array![[1.0_f32, 2.0], [3.0, 4.0]], array![10.0_f32, 20.0]);
    let z = device
        .region(|g| (g.array(&x) + g.array(&y)).t() * 2.0)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(z, array![[22.0, 26.0], [44.0, 48.0]]);
    let x = ndarray::Array2::from_shape_fn((300, 1000), |(i, j)| (i * 1000 + j) as f32);
    let (a, b, c, d) = device
        .region(|g| {
            let x = g.array(&x);
            let y = &x * 2.0 + &x;
            (
                y.sum(),
                y.sum_axis(Axis(0)),
                x.sum_axis(Axis(1)),
                x.slice(s![..;-7, 3..]).max(),
            )
        })
        .unwrap()
        .wait()
        .unwrap();
    let y = &x * 2.0 + &x;
    assert!((a[()] as f64 - y.mapv(|v| v as f64).sum()).abs() / (a[()] as f64) < 1e-6);
    for (b, e) in b.iter().zip(&y.mapv(|v| v as f64).sum_axis(Axis(0))) {
        assert!((*b as f64 - e).abs() / e.abs() < 1e-6, "{b} {e}");
    }
    for (b, e) in c.iter().zip(&x.mapv(|v| v as f64).sum_axis(Axis(1))) {
        assert!((*b as f64 - e).abs() / e.abs() < 1e-6, "{b} {e}");
    }
    assert_eq!(d[()], 299999.0);
    let made = device
        .region(|g| {
            (
                g.from_elem(2, 7_u8),
                g.ones::<f32, _>((1, 2)),
                g.arange(0, 6, 2),
                g.eye::<f64>(2),
            )
        })
        .unwrap();
    assert_eq!(
        made.wait().unwrap(),
        (
            array![7, 7],
            array![[1.0, 1.0]],
            array![0, 2, 4],
            array![[1.0, 0.0], [0.0, 1.0]]
        )
    );
    let x = device
        .region(|g| {
            let mut x = g.zeros::<i32, _>(5);
            x.slice_mut(s![1..;2]).fill(7);
            x.slice_mut(s![..2]).add_assign(&g.arange(1, 3, 1));
            x
        })
        .unwrap();
    assert_eq!(x.wait().unwrap(), array![1, 9, 0, 7, 0]);
    let v = array![1.0_f32, f32::NAN, -3.0];
    let e = device
        .region(|g| {
            let v = g.array(&v);
            (
                v.argmax(),
                v.less(0.5),
                v.var(1.0),
                g.array(&v) / g.zeros::<f32, _>(2),
            )
        })
        .unwrap_err();
    println!("{e}");
    let u = device
        .region(|g| {
            let x = g.uniform::<f32, _>(1000, 3);
            (x.exp().sum(), x.mean(), g.normal::<f64, _>(1000, 4).std(0.0))
        })
        .unwrap()
        .wait()
        .unwrap();
    println!("{u:?}");
}

#[test]
fn second() {
    let device = Device::simulated().unwrap();
    for n in [1, 5, 64, 65, 255, 1024, 1025, 5000, 40000] {
        let x = ndarray::Array2::from_shape_fn((2, n), |(i, j)| ((i * 31 + j * 7) % 11) as i64 - 4);
        let f = x.mapv(|x| x as f64 / 7.0);
        let s = x.mapv(|x| x as f32);
        let b = x.mapv(|x| x as u8);
        let (a, c, d, e) = device
            .region(|g| {
                (
                    g.array(&x).cumsum(Axis(1)),
                    g.array(&f).t().cummax(Axis(0)),
                    g.array(&s).cumsum(Axis(1)),
                    g.array(&b).cumsum(Axis(1)),
                )
            })
            .unwrap()
            .wait()
            .unwrap();
        let mut want = x.clone();
        want.accumulate_axis_inplace(Axis(1), |&p, c| *c += p);
        assert_eq!(a, want, "{n}");
        assert_eq!(d, want.mapv(|x| x as f32), "{n}");
        assert_eq!(e, want.mapv(|x| x as u8), "{n}");
        let mut want = f.t().to_owned();
        want.accumulate_axis_inplace(Axis(0), |&p, c| *c = c.max(p));
        assert_eq!(c, want);
    }
    let x = array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let i = array![2, 0, 2, 1];
    let r = device
        .region(|g| {
            let x = g.array(&x);
            let i = g.array(&i);
            let v = g.arange(0.0, 4.0, 1.0);
            (
                x.select(Axis(1), &i),
                x.scatter(Axis(1), &i.insert_axis(Axis(0)), &v),
                x.scatter_add(Axis(1), &i.insert_axis(Axis(0)), &v),
            )
        })
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(r.0, x.select(Axis(1), &[2, 0, 2, 1]));
    assert_eq!(r.1, array![[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]]);
    assert_eq!(r.2, array![[2.0, 5.0, 5.0], [5.0, 8.0, 8.0]]);
    let bad = device
        .region(|g| g.array(&x).select(Axis(1), &(g.array(&i) - 1)))
        .unwrap()
        .wait()
        .unwrap_err();
    println!("{bad}");
}
