//! The server of the dashboard, by plain HTTP on sockets of the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_dashboard::{
    DashboardAnswer, DashboardConfig, DashboardError, DashboardQuestion, DashboardServer,
    ExplanationKind,
};

const LOOPBACK: DashboardConfig = DashboardConfig {
    listen: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0),
    allows_remote: false,
};

/// A server, and an owner on a thread of its own.
struct Owner {
    server: DashboardServer,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the owner says: it repeats the question.
fn answered(question: &DashboardQuestion) -> DashboardAnswer {
    match question {
        DashboardQuestion::Live => Ok("{\"live\":1}".into()),
        DashboardQuestion::Entries => Ok("{\"entries\":1}".into()),
        DashboardQuestion::Explain(asked) if asked.kind == ExplanationKind::Drop => {
            Err("no such bridge".to_owned())
        }
        DashboardQuestion::Explain(asked) => Ok(asked.arguments.join("|").into()),
    }
}

impl Owner {
    fn start() -> Owner {
        let (wake, woken) = std::sync::mpsc::channel();
        let started = DashboardServer::start(LOOPBACK, move || {
            let _ = wake.send(());
        });
        let (server, mut desk) = started.expect("a free port");
        let is_over: Arc<AtomicBool> = Arc::default();
        let ended = is_over.clone();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                let _ = woken.recv_timeout(Duration::from_millis(20));
                while let Some(waiting) = desk.next_question() {
                    let answer = answered(waiting.question());
                    waiting.answer(answer);
                }
            }
        });
        Owner {
            server,
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

    /// Sends the lines of a request's head, and reads the whole answer.
    fn ask_lines(&self, lines: &[&str]) -> String {
        let mut stream = self.connect();
        let head = [lines, &["Connection: close", "", ""]]
            .concat()
            .join("\r\n");
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        answer
    }

    fn get(&self, path: &str) -> String {
        self.ask_lines(&[&format!("GET {path} HTTP/1.1"), "Host: localhost"])
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

fn status(answer: &str) -> u16 {
    let status = answer
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    status
        .unwrap_or_default()
        .parse()
        .unwrap_or_else(|_| panic!("no answer: {answer}"))
}

#[test]
fn the_page_and_its_files_are_served() {
    let owner = Owner::start();
    let page = owner.get("/");
    let (head, text) = page.split_once("\r\n\r\n").expect("an empty line");
    assert_eq!(status(&page), 200);
    for part in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    // What the page names is there, with its type.
    let files = text
        .split('"')
        .filter(|part| part.starts_with('/') && part.contains('.'));
    let files: Vec<&str> = files.collect();
    assert_eq!(files, ["/icon.svg", "/style.css", "/main.js"]);
    for (path, kind) in files
        .iter()
        .zip(["image/svg+xml", "text/css", "text/javascript"])
    {
        let answer = owner.get(path);
        assert_eq!(status(&answer), 200, "{path}");
        assert!(answer.contains(&format!("content-type: {kind}")), "{path}");
    }
    assert_eq!(status(&owner.get("/../Cargo.toml")), 404);
    assert_eq!(status(&owner.get("/api/")), 404);
}

#[test]
fn questions_reach_the_owner() {
    let owner = Owner::start();
    for (path, expected) in [
        ("/api/live", "{\"live\":1}"),
        ("/api/entries", "{\"entries\":1}"),
        ("/api/explain?bridge=br0&flow=in_port%3D1", "br0|in_port=1"),
        ("/api/explain?flow=in_port(1)&kind=steps", "in_port(1)"),
    ] {
        let answer = owner.get(path);
        assert_eq!(status(&answer), 200, "{path}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
        assert!(answer.contains("cache-control: no-store"), "{answer}");
    }
    for (path, part) in [
        ("/api/explain", "give a flow"),
        ("/api/explain?flow=a&kind=drop", "no such bridge"),
        ("/api/explain?flow=a&kind=x", "kind is entry"),
    ] {
        let answer = owner.get(path);
        assert_eq!(status(&answer), 400, "{path}: {answer}");
        assert!(answer.contains(part), "{answer}");
    }
    let refused = owner.ask_lines(&["POST /api/live HTTP/1.1", "Host: localhost"]);
    assert_eq!(status(&refused), 405);
}

#[test]
fn other_names_and_other_sites_have_no_answer() {
    let owner = Owner::start();
    let port = owner.server.address().port();
    for (host, expected) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        ("[::1]:1".to_owned(), 200),
        ("example.org".to_owned(), 421),
        (format!("example.org:{port}"), 421),
        ("localhost.example.org".to_owned(), 421),
    ] {
        for path in ["/", "/api/live"] {
            let lines = [format!("GET {path} HTTP/1.1"), format!("Host: {host}")];
            let answer = owner.ask_lines(&[&lines[0], &lines[1]]);
            assert_eq!(status(&answer), expected, "{host}: {answer}");
        }
    }
    let none = owner.ask_lines(&["GET /api/live HTTP/1.1"]);
    assert_eq!(status(&none), 400);
    let two = [
        "GET /api/live HTTP/1.1",
        "Host: localhost",
        "Host: localhost",
    ];
    assert_eq!(status(&owner.ask_lines(&two)), 400);
    let absolute = [
        "GET http://example.org/api/live HTTP/1.1",
        "Host: localhost",
    ];
    assert_eq!(status(&owner.ask_lines(&absolute)), 421);
    for (site, expected) in [
        ("same-origin", 200),
        ("none", 200),
        ("same-site", 403),
        ("cross-site", 403),
    ] {
        let site = format!("Sec-Fetch-Site: {site}");
        let answer = owner.ask_lines(&["GET /api/live HTTP/1.1", "Host: localhost", &site]);
        assert_eq!(status(&answer), expected, "{site}");
    }
}

#[test]
fn connections_and_requests_are_bounded() {
    let owner = Owner::start();
    let long = owner.get(&format!("/api/explain?flow={}", "x".repeat(100_000)));
    assert!((400..500).contains(&status(&long)), "{long}");
    let field = format!("X: {}", "x".repeat(100_000));
    let long = owner.ask_lines(&["GET / HTTP/1.1", "Host: localhost", &field]);
    assert!((400..500).contains(&status(&long)), "{long}");
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
        let request = b"GET /api/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        let sent = stream.write_all(request);
        if sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
            assert_eq!(status(&answer), 200);
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no room again");
    }
}

#[test]
fn an_owner_that_is_gone_is_told() {
    let (server, desk) = DashboardServer::start(LOOPBACK, || ()).expect("a free port");
    drop(desk);
    let owner = Owner {
        server,
        is_over: Arc::default(),
        thread: None,
    };
    assert_eq!(status(&owner.get("/api/live")), 503);
    assert_eq!(status(&owner.get("/")), 200);
}

#[test]
fn other_machines_are_let_in_only_if_that_is_asked_for() {
    let config = |listen: &str, allows_remote| DashboardConfig {
        listen: listen.parse().expect("an address"),
        allows_remote,
    };
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let refused = DashboardServer::start(config(listen, false), || ());
        let refused = refused.expect_err(listen);
        assert!(matches!(refused, DashboardError::Remote(_)), "{refused}");
        assert!(
            refused.to_string().contains("neither encryption"),
            "{refused}"
        );
    }
    assert!(DashboardServer::start(config("0.0.0.0:0", true), || ()).is_ok());
    let (taken, _desk) = DashboardServer::start(LOOPBACK, || ()).expect("a free port");
    let again = DashboardConfig {
        listen: taken.address(),
        ..LOOPBACK
    };
    let refused = DashboardServer::start(again, || ()).expect_err("it is taken");
    assert!(matches!(refused, DashboardError::Listen(..)), "{refused}");
}
