//! Ranks that do not read, requests that never end, strangers in numbers, and secrets.

use std::{io, net::Shutdown, sync::Arc};

use super::{
    super::{
        secret::{Facts, nonce},
        server::{GREETINGS_MAX, WAITING_MAX},
        wire::{Frame, Message, VERSION, Verb, Verdict, take},
    },
    *,
};
use crate::world::{local_store::LocalStore, rendezvous::VALUE_BYTES_MAX};

/// The time within which a call returns that has nothing to wait for.
const SOON: Duration = Duration::from_secs(10);

fn request(mut to: &TcpStream, verb: Verb, id: u64, key: &str) {
    let mut message = Message::new(verb, id);
    message.key = key.to_owned();
    Frame::from(message).write(&mut to).expect("sent");
}

fn send(mut to: &TcpStream, bytes: Vec<u8>) {
    to.write_all(&bytes).expect("sent");
}

/// Returns rank 0, rank 1, and the connection of a rank 2 that the test itself serves.
fn three() -> (TcpRendezvous, TcpRendezvous, TcpStream) {
    let (listener, port) = listener();
    let others = thread::spawn(move || {
        let raw = raw_rank(port, 2, 3);
        (connect(port, 1, 3, LONG).expect("all connect"), raw)
    });
    let server = TcpRendezvous::serve(listener, 3, b"", LONG).expect("all connect");
    let (client, raw) = others.join().expect("no panic");
    (server, client, raw)
}

#[test]
fn a_rank_that_does_not_read_its_answers_stalls_no_other() {
    let (server, client, slow) = three();
    let big = vec![1; 32 << 20];
    server.set("big", &big).expect("set");
    (0..20).for_each(|id| request(&slow, Verb::Get, id, "later"));
    (20..40).for_each(|id| request(&slow, Verb::Get, id, "big"));
    thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    client.set("later", &big).expect("set");
    server.set("later", &big).expect("set");
    for store in [&client, &server] {
        store.set("a", b"1").expect("set");
        assert_eq!(store.get("a", SOON).expect("get"), b"1");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    // What the slow rank has asked for is bounded, however much that is.
    drop(slow);
}

#[test]
fn a_rank_0_that_does_not_read_keeps_no_rank_beyond_its_deadline() {
    let (listener, port) = listener();
    let rank_0 = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        Greeting::read(&mut stream).expect("a greeting");
        let challenge = Greeting::new(2, Verdict::Challenge as u64).to_bytes();
        let own = nonce();
        send(&stream, [&challenge[..], &own].concat());
        let nonces = [own, take(&mut stream).expect("a nonce")];
        let _: [u8; 32] = take(&mut stream).expect("a proof");
        let (size, rank) = (2, 1);
        let proof = Facts { size, rank, nonces }.prove(&Secret::default(), b"rank 0");
        let admitted = Greeting::new(2, Verdict::Admitted as u64).to_bytes();
        send(&stream, [&admitted[..], &proof].concat());
        let complete = Frame::from(Message::new(Verb::Complete, 0));
        complete.write(&mut stream).expect("sent");
        stream
    });
    let client = connect(port, 1, 2, LONG).expect("rank 0 admits this rank");
    let stream = rank_0.join().expect("no panic");
    let big = vec![1; VALUE_BYTES_MAX];
    thread::scope(|scope| {
        let setting = scope.spawn(|| client.set("big", &big));
        thread::sleep(Duration::from_secs(1));
        let start = Instant::now();
        let error = client.get("a", Duration::from_millis(300)).unwrap_err();
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        assert_eq!(error.to_string(), "the key `a` was not set within 300ms");
        stream.shutdown(Shutdown::Both).expect("it is connected");
        setting
            .join()
            .expect("no panic")
            .expect_err("rank 0 is gone");
    });
}

#[test]
fn a_greeting_that_arrives_byte_by_byte_is_not_waited_for() {
    let (listener, port) = listener();
    let serving = thread::spawn(move || TcpRendezvous::serve(listener, 2, b"", LONG));
    let mut trickle = TcpStream::connect(("127.0.0.1", port)).expect("rank 0 listens");
    let start = Instant::now();
    let closed = Greeting::new(2, 1).to_bytes().iter().position(|byte| {
        thread::sleep(Duration::from_millis(400));
        trickle.write_all(&[*byte]).is_err()
    });
    assert!(closed.is_some(), "{:?}", start.elapsed());
    connect(port, 1, 2, LONG).map(drop).expect("both connect");
    let joined = serving.join().expect("no panic");
    joined.map(drop).expect("both connect");
}

#[test]
fn silent_strangers_keep_no_rank_out_and_hold_few_connections() {
    let (listener, port) = listener();
    let serving = thread::spawn(move || TcpRendezvous::serve(listener, 2, b"", LONG));
    let strangers: Vec<TcpStream> = (0..GREETINGS_MAX + 40)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("rank 0 listens"))
        .collect();
    let rank = raw_rank(port, 1, 2);
    let joined = serving.join().expect("no panic");
    joined.map(drop).expect("both connect");
    // The oldest was closed when the newest came.
    let is_open = |mut stranger: &TcpStream| {
        stranger.set_nonblocking(true).expect("it is a socket");
        let read = stranger.read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    };
    let open: Vec<bool> = strangers.iter().map(is_open).collect();
    assert!(!open[0] && open.is_sorted(), "{open:?}");
    drop(rank);
}

#[test]
fn requests_are_taken_back_and_their_number_is_bounded() {
    let (_server, client, mut raw) = three();
    for _ in 0..WAITING_MAX + 10 {
        let error = client.get("never", Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("was not set"), "{error}");
    }
    let error = client.get("never", Duration::from_millis(200)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the key `never` was not set within 200ms"
    );
    (0..=WAITING_MAX as u64).for_each(|id| request(&raw, Verb::Get, id, "never"));
    let mut next = || Message::read(&mut raw).expect("an answer");
    assert_eq!(next().verb, Verb::Complete);
    let refused = next();
    assert_eq!(
        (refused.verb, refused.id),
        (Verb::Refused, WAITING_MAX as u64)
    );
    // A length that no message has.
    let mut head = vec![Verb::Set as u8; 13];
    head.extend(u64::MAX.to_le_bytes());
    raw.write_all(&head).expect("sent");
    let end = raw.read(&mut [0]);
    assert!(
        matches!(end, Ok(0)) || end.is_err_and(|it| it.kind() == io::ErrorKind::ConnectionReset)
    );
}

#[test]
fn a_store_does_not_grow_without_bound() {
    let store = LocalStore::default();
    let value: Arc<[u8]> = vec![0; VALUE_BYTES_MAX].into();
    let set = |key: usize| store.set_after(&key.to_string(), Arc::clone(&value), || {});
    // A replaced value counts no more.
    (0..100).for_each(|_| set(0).expect("there is room"));
    let full = (1..20)
        .find_map(|key| set(key).err())
        .expect("the store is full");
    assert!(
        full.to_string().contains("exceeds the limit of 1073741824"),
        "{full}"
    );
    assert!(store.get("0", Duration::ZERO).is_ok());
}

#[test]
fn a_world_is_limited_before_anything_is_allocated() {
    let (listener, port) = listener();
    let size = 1_000_000_000_000;
    let text = "a world of 1000000000000 ranks exceeds the limit of 65536";
    for error in [
        TcpRendezvous::serve(listener, size, b"", LONG).unwrap_err(),
        connect(port, 1, size, LONG).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_rank_without_the_secret_is_refused_on_either_end() {
    let (listener, port) = listener();
    let with = |rank, secret: &'static [u8]| {
        move || TcpRendezvous::connect("127.0.0.1", port, rank, 2, secret, LONG).map(drop)
    };
    thread::scope(|scope| {
        let serve = || TcpRendezvous::serve(listener, 2, b"keep secret", LONG);
        let serving = scope.spawn(serve);
        for wrong in [&b""[..], b"keep secre", b"keep secret\0"] {
            let error = with(1, wrong)().unwrap_err().to_string();
            let at = format!("rank 1 and rank 0 at 127.0.0.1:{port} have different secrets");
            assert!(error.starts_with(&at) && !error.contains("tell"), "{error}");
        }
        // A rank that ends in the middle, and a proof that proves nothing.
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("rank 0 listens");
        send(&stranger, Greeting::new(2, 1).to_bytes());
        let challenge = Greeting::read(&mut stranger).expect("an answer");
        assert_eq!(
            (challenge.version, challenge.word),
            (VERSION, Verdict::Challenge as u64)
        );
        let own: [u8; 32] = take(&mut stranger).expect("a nonce");
        send(&stranger, [own, own].concat());
        let answer = Greeting::read(&mut stranger).expect("an answer");
        assert_eq!(answer.word, Verdict::OtherSecret as u64);
        with(1, b"keep secret")().expect("both connect");
        let joined = serving.join().expect("no panic");
        joined.map(drop).expect("both connect");
    });
    // A rank 0 that does not know the secret either.
    let (listener, port) = super::listener();
    let fake = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let challenge = Greeting::new(2, Verdict::Challenge as u64).to_bytes();
        send(&stream, [&challenge[..], &[7; 32]].concat());
        let mut heard = [0; 24 + 64];
        stream
            .read_exact(&mut heard)
            .expect("a greeting and a proof");
        let admitted = Greeting::new(2, Verdict::Admitted as u64).to_bytes();
        send(&stream, [&admitted[..], &heard[56..]].concat());
        heard
    });
    let connected = TcpRendezvous::connect("127.0.0.1", port, 1, 2, b"secret!", LONG);
    let error = connected.map(drop).unwrap_err().to_string();
    assert!(error.contains("have different secrets"), "{error}");
    let heard = fake.join().expect("no panic");
    assert!(!heard.windows(7).any(|bytes| bytes == b"secret!"));
}
