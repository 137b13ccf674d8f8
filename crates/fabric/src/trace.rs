//! Reads the files of SwitchV2P's published traces: the traffic, and the placement of
//! machines.
//!
//! A trace has no header, and on each line `source,destination,start,flow,bytes`: two
//! machines, the time in nanoseconds (with or without a fraction), the number of the flow and
//! a size. A line is a TCP flow or a UDP packet. A placement is JSON: an object with a list of
//! machines for each server, in the order of the numbers in the key names.
//!
//! Readers take the name of their input, which errors show with line and remedy.

use std::io::{BufRead, Read};

use thiserror::Error;

use crate::Time;

const PICOS_DIGITS: usize = 3;

/// A line of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceLine {
    /// The sending machine.
    pub source: u32,
    /// The receiving machine.
    pub destination: u32,
    /// The start time.
    pub start: Time,
    /// The number of the flow.
    pub flow: u32,
    /// The size of the flow, or of the packet.
    pub bytes: u64,
}

/// Why a trace or a placement cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The input cannot be read.
    #[error("{file}:{line}: {error}; check the file, and that it is not compressed")]
    Unreadable {
        /// Its name.
        file: String,
        /// The line being read, from 1.
        line: usize,
        /// The cause.
        error: std::io::Error,
    },
    /// A line does not have five columns.
    #[error("{file}:{line}: {found} columns; write `source,destination,start_ns,flow,bytes`")]
    Columns {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Columns found.
        found: usize,
    },
    /// A column is not a valid number.
    #[error("{file}:{line}: {column} `{text}` is {problem}")]
    Number {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column's name.
        column: &'static str,
        /// The text in the column.
        text: String,
        /// The fault, and what to write.
        problem: &'static str,
    },
    /// A placement is not valid JSON of the expected form.
    #[error(
        "{file}:{line}: {problem}; write {{\"p1\": [\"0\", \"1\"], \"p2\": [..]}}, a list for each server"
    )]
    Placement {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The fault.
        problem: String,
    },
}

/// Reads a trace in the order of its lines; empty lines are skipped.
///
/// # Errors
/// At the first line that is not five numbers.
pub fn read_trace(reader: impl BufRead, file: &str) -> Result<Vec<TraceLine>, TraceError> {
    let mut lines = Vec::new();
    for (index, text) in reader.lines().enumerate() {
        let line = index + 1;
        let text = text.map_err(|error| TraceError::Unreadable {
            file: file.to_owned(),
            line,
            error,
        })?;
        if !text.trim().is_empty() {
            lines.push(parse_line(&text, file, line)?);
        }
    }
    Ok(lines)
}

fn parse_line(text: &str, file: &str, line: usize) -> Result<TraceLine, TraceError> {
    let mut columns = [""; 5];
    let mut found = 0;
    for column in text.split(',') {
        if let Some(place) = columns.get_mut(found) {
            *place = column.trim();
        }
        found += 1;
    }
    if found != columns.len() {
        let file = file.to_owned();
        return Err(TraceError::Columns { file, line, found });
    }
    let bad = |column, text: &str, problem| TraceError::Number {
        file: file.to_owned(),
        line,
        column,
        text: text.to_owned(),
        problem,
    };
    let number = |column, text: &str| {
        let problem = "no number from 0 to 4294967295";
        text.parse().map_err(|_| bad(column, text, problem))
    };
    let [source, destination, start, flow, bytes] = columns;
    let bad_time = || {
        bad(
            "start_ns",
            start,
            "no time in nanoseconds, such as 1500 or 1500.0",
        )
    };
    let bad_size = || bad("bytes", bytes, "no number of bytes");
    Ok(TraceLine {
        source: number("source", source)?,
        destination: number("destination", destination)?,
        start: parse_nanos(start).ok_or_else(bad_time)?,
        flow: number("flow", flow)?,
        bytes: bytes.parse().map_err(|_| bad_size())?,
    })
}

/// Parses nanoseconds with a fraction; the first three digits of the fraction count.
fn parse_nanos(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut picos = 0;
    for index in 0..PICOS_DIGITS {
        let digit = fraction
            .as_bytes()
            .get(index)
            .map_or(0, |digit| digit - b'0');
        picos = picos * 10 + u64::from(digit);
    }
    let nanos: u64 = whole.parse().ok()?;
    let total = nanos.checked_mul(1000)?.checked_add(picos)?;
    Some(Time::from_picos(total))
}

/// The machines of each server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    servers: Vec<Vec<u32>>,
}

impl Placement {
    /// Places `machines` machines on `servers` servers, in order and as evenly as possible.
    pub fn even(machines: u32, servers: u32) -> Placement {
        let start = |server: u32| {
            let share = u64::from(machines) * u64::from(server) / u64::from(servers.max(1));
            share as u32
        };
        let of_server = |server| (start(server)..start(server + 1)).collect();
        Placement {
            servers: (0..servers).map(of_server).collect(),
        }
    }

    /// Reads the JSON of a placement.
    ///
    /// # Errors
    /// If it cannot be read, has another form, or has a machine twice.
    pub fn read(mut reader: impl Read, file: &str) -> Result<Placement, TraceError> {
        let mut text = String::new();
        let read = reader.read_to_string(&mut text);
        read.map_err(|error| TraceError::Unreadable {
            file: file.to_owned(),
            line: 1,
            error,
        })?;
        let bad = |line, problem| TraceError::Placement {
            file: file.to_owned(),
            line,
            problem,
        };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| bad(error.line(), error.to_string()))?;
        let servers = parse_servers(&value).map_err(|problem| bad(1, problem))?;
        let mut seen = std::collections::HashSet::new();
        match servers
            .iter()
            .flatten()
            .find(|&&machine| !seen.insert(machine))
        {
            Some(machine) => Err(bad(1, format!("machine {machine} is there twice"))),
            None => Ok(Placement { servers }),
        }
    }

    /// The machines of each server.
    pub fn servers(&self) -> &[Vec<u32>] {
        &self.servers
    }
}

fn parse_servers(value: &serde_json::Value) -> Result<Vec<Vec<u32>>, String> {
    let map = value.as_object().ok_or("no object at the top")?;
    let mut servers = Vec::new();
    for (name, machines) in map {
        let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let number: u32 = digits
            .parse()
            .map_err(|_| format!("no number in the name `{name}` of a server"))?;
        let machines = machines.as_array();
        let machines = machines.ok_or_else(|| format!("`{name}` is no list"))?;
        let parsed: Option<Vec<u32>> = machines.iter().map(parse_machine).collect();
        let problem = || format!("`{name}` has something else than numbers of machines");
        servers.push((number, parsed.ok_or_else(problem)?));
    }
    servers.sort_by_key(|(number, _)| *number);
    match servers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(format!("server {} is there twice", pair[0].0)),
        None => Ok(servers.into_iter().map(|(_, machines)| machines).collect()),
    }
}

fn parse_machine(value: &serde_json::Value) -> Option<u32> {
    match value {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_u64()?.try_into().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_and_without_fractions() {
        let text = "7455,5830,146,1,122\n\n0, 5200, 1000.25, 2, 64\n";
        let lines = read_trace(text.as_bytes(), "a.csv").unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].start, Time::from_nanos(146));
        assert_eq!((lines[0].source, lines[0].destination), (7455, 5830));
        assert_eq!(lines[1].start, Time::from_picos(1_000_250));
        assert_eq!((lines[1].flow, lines[1].bytes), (2, 64));
    }

    #[test]
    fn errors_say_where_and_what_to_write() {
        for (text, message) in [
            (
                "1,2,3,4,5\n1,2,3,4\n",
                "a.csv:2: 4 columns; write `source,destination,start_ns,flow,bytes`",
            ),
            (
                "1,2,3,4,5,6",
                "a.csv:1: 6 columns; write `source,destination,start_ns,flow,bytes`",
            ),
            (
                "-1,2,3,4,5",
                "a.csv:1: source `-1` is no number from 0 to 4294967295",
            ),
            (
                "1,x,3,4,5",
                "a.csv:1: destination `x` is no number from 0 to 4294967295",
            ),
            (
                "1,2,3.,4,5",
                "a.csv:1: start_ns `3.` is no time in nanoseconds, such as 1500 or 1500.0",
            ),
            (
                "1,2,1e3,4,5",
                "a.csv:1: start_ns `1e3` is no time in nanoseconds, such as 1500 or 1500.0",
            ),
            (
                "1,2,18446744073709551615,4,5",
                "a.csv:1: start_ns `18446744073709551615` is no time in nanoseconds, such as 1500 or 1500.0",
            ),
            ("1,2,3,4,-5", "a.csv:1: bytes `-5` is no number of bytes"),
        ] {
            let error = read_trace(text.as_bytes(), "a.csv").unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let error = read_trace(&b"1,2,3,4,5\n\xff\n"[..], "a.csv").unwrap_err();
        assert!(error.to_string().starts_with("a.csv:2: "), "{error}");
    }

    #[test]
    fn placements_are_read_in_the_order_of_their_numbers() {
        let text = r#"{"p10": ["4"], "p2": [2, "3"], "p1": ["0"]}"#;
        let placement = Placement::read(text.as_bytes(), "p.json").unwrap();
        assert_eq!(placement.servers(), [vec![0], vec![2, 3], vec![4]]);
        for (text, part) in [
            ("[]", "p.json:1: no object"),
            ("{\n\"p1\": [,]}", "p.json:2: "),
            (r#"{"p1": ["0"], "p2": ["0"]}"#, "machine 0 is there twice"),
            (r#"{"p1": ["0"], "q1": ["1"]}"#, "server 1 is there twice"),
            (r#"{"p": ["0"]}"#, "no number in the name `p`"),
            (r#"{"p1": [-1]}"#, "`p1` has something else"),
            (r#"{"p1": 1}"#, "`p1` is no list"),
        ] {
            let error = Placement::read(text.as_bytes(), "p.json").unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn an_even_placement_has_each_machine_once() {
        let placement = Placement::even(410_865, 12_800);
        let all: Vec<u32> = placement.servers().iter().flatten().copied().collect();
        assert!(all.into_iter().eq(0..410_865));
        let counts = placement.servers().iter().map(Vec::len);
        assert_eq!((counts.clone().min(), counts.max()), (Some(32), Some(33)));
    }
}
