//! The server of metrics, by plain HTTP on sockets of the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_metrics::{FRESH, MetricsServer, Snapshot};

/// A server, and an owner on a thread of its own that counts how often it counted.
struct Owner {
    server: MetricsServer,
    taken: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    fn start() -> Owner {
        let (wake, woken) = std::sync::mpsc::channel();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let started = MetricsServer::start(address, move || {
            let _ = wake.send(());
        });
        let (server, mut desk) = started.expect("a free port");
        let (taken, is_over): (Arc<AtomicU64>, Arc<AtomicBool>) = (Arc::default(), Arc::default());
        let (counted, ended) = (taken.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                let _ = woken.recv_timeout(Duration::from_millis(20));
                desk.serve(|| {
                    let mut snapshot = Snapshot::default();
                    let before = counted.fetch_add(1, Ordering::SeqCst);
                    snapshot.totals.datapath.packets = before + 1;
                    snapshot
                });
            }
        });
        Owner {
            server,
            taken,
            is_over,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).expect("it listens");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a time-out");
        stream
    }

    /// Sends a request, and reads the whole answer.
    fn ask(&self, first_line: &str) -> String {
        let mut stream = self.connect();
        let request = format!("{first_line}\r\nHost: switch\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        answer
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }
}

#[test]
fn metrics_are_read_and_nothing_else_is() {
    let owner = Owner::start();
    let answer = owner.ask("GET /metrics HTTP/1.1");
    let (head, text) = answer.split_once("\r\n\r\n").expect("an empty line");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(
        head.contains("content-type: application/openmetrics-text"),
        "{head}"
    );
    assert!(text.contains("\nthalweg_packets_total 1\n"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let answer = owner.ask("GET / HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("/metrics"), "{answer}");
    let answer = owner.ask("POST /metrics HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    assert!(answer.contains("allow: GET, HEAD"), "{answer}");
}

#[test]
fn readers_do_not_make_the_owner_count_more_than_once_in_a_while() {
    let owner = Owner::start();
    let begun = Instant::now();
    for _ in 0..50 {
        let answer = owner.ask("GET /metrics HTTP/1.1");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let seconds = begun.elapsed().as_secs_f64() / FRESH.as_secs_f64();
    let taken = owner.taken.load(Ordering::SeqCst);
    assert!(
        taken as f64 <= seconds + 1.0,
        "{taken} in {seconds} times FRESH"
    );
}

#[test]
fn connections_without_a_request_leave_room_when_they_end() {
    let owner = Owner::start();
    // The most that it keeps.
    let idle: Vec<TcpStream> = (0..16).map(|_| owner.connect()).collect();
    let begun = Instant::now();
    loop {
        // The server has accepted them when it closes one more without an answer.
        let mut more = owner.connect();
        more.set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a time-out");
        if matches!(more.read(&mut [0; 1]), Ok(0)) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it has no bound");
    }
    drop(idle);
    loop {
        let mut stream = owner.connect();
        let request = b"GET /metrics HTTP/1.1\r\nHost: switch\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        let sent = stream.write_all(request);
        if sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no room again");
    }
}

#[test]
fn a_request_that_is_too_long_is_refused() {
    let owner = Owner::start();
    let answer = owner.ask(&format!("GET /{} HTTP/1.1", "x".repeat(100_000)));
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[test]
fn an_owner_that_is_gone_is_told() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let (server, desk) = MetricsServer::start(address, || ()).expect("a free port");
    drop(desk);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    let request = b"GET /metrics HTTP/1.1\r\nHost: switch\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is text");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    // A taken address is an error, not a panic.
    assert!(MetricsServer::start(server.address(), || ()).is_err());
}
