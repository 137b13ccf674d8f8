//! Finds clocks, sockets, threads and unseeded randomness in the pure crates.
//!
//! Their results depend on their arguments alone: time and seeds are passed in. Tests and
//! benches of these crates are exempt.

use super::Finding;
use super::source::Source;

/// The crates whose code is values in, values out.
const PURE: [&str; 12] = [
    "openflow",
    "ovsdb",
    "binding",
    "packet",
    "classifier",
    "pipeline",
    "p4",
    "datapath",
    "v2p",
    "conntrack",
    "tunnel",
    "fabric",
];

const CLOCK: &str = "take the time as an argument";
const SOCKET: &str = "sockets belong in the io or the switch crate";
const THREAD: &str = "threads belong in the switch crate; yield the work as a value";
const CHANCE: &str = "take a seed as an argument";

/// Consecutive parts of a path that reveal the effect.
const FORBIDDEN: [(&[&str], &str); 22] = [
    (&["Instant", "now"], CLOCK),
    (&["std", "time", "Instant"], CLOCK),
    (&["SystemTime"], CLOCK),
    (&["UNIX_EPOCH"], CLOCK),
    (&["TcpStream"], SOCKET),
    (&["TcpListener"], SOCKET),
    (&["UdpSocket"], SOCKET),
    (&["UnixStream"], SOCKET),
    (&["UnixListener"], SOCKET),
    (&["UnixDatagram"], SOCKET),
    (&["std", "thread"], THREAD),
    (&["thread", "spawn"], THREAD),
    (&["thread", "scope"], THREAD),
    (&["rayon"], THREAD),
    (&["rand", "rng"], CHANCE),
    (&["rand", "random"], CHANCE),
    (&["thread_rng"], CHANCE),
    (&["ThreadRng"], CHANCE),
    (&["OsRng"], CHANCE),
    (&["from_os_rng"], CHANCE),
    (&["from_entropy"], CHANCE),
    (&["RandomState"], CHANCE),
];

/// Finds every forbidden effect in a source of a pure crate.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let Some(folder) = source.crate_folder() else {
        return Vec::new();
    };
    let is_library = source.path.starts_with(&format!("crates/{folder}/src/"));
    if !PURE.contains(&folder) || !is_library {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut last_line = 0;
    let mut paths = source.paths();
    paths.sort_by_key(|(path, line)| (*line, std::cmp::Reverse(path.len())));
    for (path, line) in paths {
        // An import is seen twice: whole, and in its parts.
        if source.is_test_line(line) || line == last_line {
            continue;
        }
        let reason = FORBIDDEN.iter().find(|(parts, _)| has_parts(&path, parts));
        if let Some((_, remedy)) = reason {
            let what = format!("`{}` in the pure crate `{folder}`", path.join("::"));
            findings.push(Finding::error(source.path, line, what, *remedy));
            last_line = line;
        }
    }
    findings
}

fn has_parts(path: &[String], parts: &[&str]) -> bool {
    path.windows(parts.len())
        .any(|window| window.iter().zip(parts).all(|(a, b)| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text, false).unwrap();
        check(&source).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn effects_are_found_however_they_are_written() {
        for text in [
            "fn f() { let now = std::time::Instant::now(); }",
            "use std::{net::{IpAddr, UdpSocket}};",
            "use std::thread;",
            "fn f() { g!(rand::rng()); }",
            "type Map = HashMap<u8, u8, std::hash::RandomState>;",
        ] {
            assert_eq!(
                findings("crates/datapath/src/a.rs", text).len(),
                1,
                "{text}"
            );
            assert!(
                findings("crates/switch/src/a.rs", text).is_empty(),
                "{text}"
            );
            assert!(
                findings("crates/datapath/tests/a.rs", text).is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn our_own_instant_addresses_and_tests_are_allowed() {
        let text = "use crate::Instant;\nuse std::net::Ipv4Addr;\nfn f(now: Instant) {}\n\
                    #[cfg(test)]\nmod tests { use std::thread; }\n";
        assert!(findings("crates/packet/src/a.rs", text).is_empty());
    }

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let found = findings("crates/v2p/src/a.rs", "\nfn f() { Instant::now(); }");
        assert_eq!(
            found,
            [
                "crates/v2p/src/a.rs:2: `Instant::now` in the pure crate `v2p`; \
              take the time as an argument"
            ]
        );
    }
}
