//! Maps of a fabric that caches virtual addresses, as text.
//!
//! 1. No text makes the reader panic.
//! 2. An error is one line, names a place in the text, and says what to do.
//! 3. In an accepted map, attachments are to its switches, machines are on its hosts, and
//!    nothing occurs twice.

use std::collections::HashSet;

use thalweg_config::{ConfigError, parse_map};
use thalweg_packet::PortId;
use thalweg_switch::V2pMap;

/// Every error contains one of these words.
const ADVICE: [&str; 5] = ["add", "give", "mend", "remove", "say"];

/// Runs one input.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let ports = |name: &str| (name == "vm1").then_some(PortId(1));
    match parse_map("fuzz.map", &text, &ports) {
        Ok(map) => check_map(&map),
        Err(error) => check_error(&text, &error),
    }
}

fn check_map(map: &V2pMap) {
    let switches = map.switches.iter().map(|(address, _)| address);
    let attached = map.gateways.iter().chain(&map.hosts);
    let mut seen = HashSet::new();
    for address in switches.chain(attached.clone().map(|(address, _)| address)) {
        assert!(seen.insert(address), "{address} is there twice");
    }
    for (address, attachment) in attached {
        let tor = map.switches.get(attachment.tor.0 as usize);
        let pod = tor.map(|(_, pod)| *pod);
        assert_eq!(pod, Some(attachment.pod), "{address}");
    }
    let mut keys = HashSet::new();
    for machine in &map.machines {
        assert!(keys.insert(machine.key), "{machine:?} is there twice");
        let mut hosts = map.hosts.iter();
        assert!(hosts.any(|(host, _)| *host == machine.host), "{machine:?}");
    }
}

fn check_error(text: &str, error: &ConfigError) {
    let said = error.to_string();
    assert!(!said.contains(char::is_control), "{said:?}");
    let ConfigError::Refused {
        line, column, what, ..
    } = error
    else {
        panic!("no file was read: {said}");
    };
    let place = text.lines().nth(*line - 1).expect("the line is there");
    assert!((1..=place.chars().count() + 1).contains(column), "{said}");
    assert!(ADVICE.iter().any(|word| what.contains(word)), "{said}");
}
