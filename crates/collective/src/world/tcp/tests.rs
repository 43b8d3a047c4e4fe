//! Ranks that meet, ranks that do not, and strangers.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{client::attempt, wire::Greeting, *};

/// The time within which everything here succeeds.
const LONG: Duration = Duration::from_secs(30);

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

/// Connects to rank 0 and is admitted; the test itself writes and reads messages.
fn raw_rank(port: u16, rank: usize, size: usize) -> TcpStream {
    let (at, ranks) = (("127.0.0.1", port), (rank, size));
    let admitted = attempt(at, ranks, &Secret::default(), LONG, &"rank 0".into());
    admitted.ok().expect("rank 0 admits this rank")
}

fn connect(port: u16, rank: usize, size: usize, deadline: Duration) -> Result<TcpRendezvous> {
    TcpRendezvous::connect("127.0.0.1", port, rank, size, b"", deadline)
}

/// Returns the error of a rank that cannot connect.
fn refused(port: u16, rank: usize, size: usize) -> String {
    let connected = connect(port, rank, size, LONG);
    connected.unwrap_err().to_string()
}

#[test]
fn all_ranks_exchange_values() {
    let (listener, port) = listener();
    let size = 5;
    let program = |store: &TcpRendezvous, rank: usize| {
        let own = store.set(&format!("from/{rank}"), &[rank as u8]);
        own.expect("set");
        for other in 0..size {
            let value = store.get(&format!("from/{other}"), LONG).expect("get");
            assert_eq!(value, [other as u8]);
        }
        store.set(&format!("done/{rank}"), &[]).expect("set");
    };
    thread::scope(|scope| {
        let rank = |rank: usize| {
            let store = connect(port, rank, size, LONG).expect("all ranks connect");
            program(&store, rank);
            store.get("end", LONG).expect("get");
        };
        let others: Vec<_> = (1..size)
            .map(|other| scope.spawn(move || rank(other)))
            .collect();
        let store = TcpRendezvous::serve(listener, size, b"", LONG).expect("all ranks connect");
        program(&store, 0);
        for rank in 0..size {
            store.get(&format!("done/{rank}"), LONG).expect("get");
        }
        store.set("end", &[1; 1 << 20]).expect("set");
        // Rank 0 serves the store until the others have read from it.
        for other in others {
            other.join().expect("no panic");
        }
        let error = store.set(&"k".repeat(2000), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the key of 2000 bytes exceeds the limit of 1024"
        );
    });
}

/// Returns two connected ranks.
fn pair() -> (TcpRendezvous, TcpRendezvous) {
    let (listener, port) = listener();
    let other = thread::spawn(move || connect(port, 1, 2, LONG).expect("both connect"));
    let server = TcpRendezvous::serve(listener, 2, b"", LONG).expect("both connect");
    (server, other.join().expect("no panic"))
}

#[test]
fn a_wait_for_one_key_holds_up_no_other_call() {
    let (server, client) = pair();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get("late", LONG));
        thread::sleep(Duration::from_millis(20));
        client.set("a", b"1").expect("set");
        assert_eq!(client.get("a", LONG).expect("get"), b"1");
        client.set("a", b"2").expect("set");
        assert_eq!(server.get("a", LONG).expect("get"), b"2");
        let error = client.get("never", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.to_string(), "the key `never` was not set within 20ms");
        server.set("late", b"3").expect("set");
        assert_eq!(waiting.join().expect("no panic").expect("get"), b"3");
    });
}

#[test]
fn missing_ranks_are_named_on_every_rank() {
    let (listener, port) = listener();
    let deadline = Duration::from_millis(300);
    let other = thread::spawn(move || connect(port, 2, 4, deadline).unwrap_err().to_string());
    let text = TcpRendezvous::serve(listener, 4, b"", 3 * deadline)
        .unwrap_err()
        .to_string();
    let at = format!("ranks have not connected to 127.0.0.1:{port} within");
    assert_eq!(
        other.join().expect("no panic"),
        format!("2 of 4 {at} 300ms: 1, 3")
    );
    // Rank 2 has gone meanwhile.
    assert_eq!(text, format!("3 of 4 {at} 900ms: 1, 2, 3"));
}

#[test]
fn a_missing_rank_0_is_an_error_within_the_deadline() {
    let (listener, port) = listener();
    drop(listener);
    let start = Instant::now();
    let error = connect(port, 1, 2, Duration::from_millis(200))
        .unwrap_err()
        .to_string();
    assert!(start.elapsed() < Duration::from_secs(10));
    let expected = format!("rank 1 cannot reach rank 0 at 127.0.0.1:{port} within 200ms: ");
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn rank_0_may_start_last() {
    let (listener, port) = listener();
    drop(listener);
    let other = thread::spawn(move || connect(port, 1, 2, LONG).map(drop));
    thread::sleep(Duration::from_millis(100));
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free again");
    let server = TcpRendezvous::serve(listener, 2, b"", LONG).expect("both connect");
    other.join().expect("no panic").expect("both connect");
    drop(server);
}

#[test]
fn a_wrong_world_a_rank_in_use_and_a_wrong_version_are_refused() {
    let (listener, port) = listener();
    let at = format!("127.0.0.1:{port}");
    thread::scope(|scope| {
        let serving = scope.spawn(|| TcpRendezvous::serve(listener, 3, b"", LONG));
        let error = refused(port, 1, 2);
        let expected = format!("rank 1 has a world of 2 ranks, but rank 0 at {at} has one of 3");
        assert_eq!(error, expected);
        let taken = |rank| format!("another process is connected to {at} as rank {rank} already");
        assert_eq!(refused(port, 0, 3), taken(0));
        assert_eq!(refused(port, 3, 3), "rank 3 is not in a world of 3 ranks");
        // A rank 1 that stays, then another one.
        let first = raw_rank(port, 1, 3);
        assert_eq!(refused(port, 1, 3), taken(1));
        // A newer program.
        let mut newer = TcpStream::connect(&at).expect("rank 0 listens");
        let mut greeting = Greeting::new(3, 2);
        greeting.version = 9;
        newer.write_all(&greeting.to_bytes()).expect("sent");
        let answer = Greeting::read(&mut newer).expect("rank 0 answers");
        assert_eq!((answer.version, answer.word), (2, 1));
        // Once the first rank 1 is gone, another may take its place.
        drop(first);
        thread::sleep(Duration::from_millis(50));
        let last = scope.spawn(move || connect(port, 2, 3, LONG).map(drop));
        connect(port, 1, 3, LONG)
            .map(drop)
            .expect("all ranks connect");
        last.join().expect("no panic").expect("all ranks connect");
        let joined = serving.join().expect("no panic");
        joined.map(drop).expect("all ranks connect");
    });
}

#[test]
fn a_program_of_another_version_or_protocol_at_the_port_is_named() {
    for (reply, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "is not rank 0"),
        (
            b"\x89MSWORLD\x07\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0",
            "speaks version 7",
        ),
    ] {
        let (listener, port) = listener();
        let stranger = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(reply).expect("sent");
            // Until the other closes.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let error = refused(port, 1, 2);
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&port.to_string()), "{error}");
        stranger.join().expect("no panic");
    }
}

#[test]
fn strangers_do_not_disturb_the_ranks() {
    let (listener, port) = listener();
    let stranger = || TcpStream::connect(("127.0.0.1", port)).expect("rank 0 listens");
    let silent = stranger();
    stranger()
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("sent");
    stranger().write_all(&[0; 100]).expect("sent");
    drop(stranger());
    let other = thread::spawn(move || connect(port, 1, 2, LONG).expect("both connect"));
    let server = TcpRendezvous::serve(listener, 2, b"", LONG).expect("both connect");
    let client = other.join().expect("no panic");
    stranger().write_all(&[0xff; 1000]).expect("sent");
    server.set("a", b"1").expect("set");
    assert_eq!(client.get("a", LONG).expect("get"), b"1");
    drop(silent);
}

#[test]
fn a_rank_that_sends_garbage_later_loses_only_its_own_connection() {
    let (listener, port) = listener();
    let others = thread::spawn(move || {
        let bad = raw_rank(port, 2, 3);
        (bad, connect(port, 1, 3, LONG).expect("all connect"))
    });
    let server = TcpRendezvous::serve(listener, 3, b"", LONG).expect("all connect");
    let (mut bad, client) = others.join().expect("no panic");
    bad.write_all(&[0x77; 64]).expect("sent");
    let closed = bad.read_to_end(&mut Vec::new());
    assert!(
        closed.is_ok()
            || closed.is_err_and(|error| { error.kind() == std::io::ErrorKind::ConnectionReset })
    );
    server.set("a", b"1").expect("set");
    assert_eq!(client.get("a", LONG).expect("get"), b"1");
}

#[test]
fn the_end_of_rank_0_ends_every_wait_and_closes_the_port() {
    let (server, client) = pair();
    let text = format!("{server:?}");
    let port: u16 = text
        .trim_end_matches(')')
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("the text has the port");
    let waiting = thread::spawn(move || client.get("never", LONG));
    thread::sleep(Duration::from_millis(20));
    drop(server);
    let error = waiting.join().expect("no panic").unwrap_err().to_string();
    let expected = format!("the connection to rank 0 at 127.0.0.1:{port} is lost: ");
    assert!(error.starts_with(&expected), "{error}");
    let start = Instant::now();
    while TcpListener::bind(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < LONG, "the port stays open");
        thread::sleep(Duration::from_millis(10));
    }
}

mod attacks;
