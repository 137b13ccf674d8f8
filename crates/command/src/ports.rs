//! Names ports for commands that have no configuration.
//!
//! Names come from `--ports`, as `NAME=NUMBER` or as a file. Its lines are `NAME=NUMBER`,
//! `NAME NUMBER`, or port lines of `ovs-ofctl show` (` 1(eth0): addr:...`). Other lines of
//! that command's output are skipped.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use thalweg_packet::PortId;
use thalweg_pipeline::text::Parser;

use crate::failure::bad_input;
use crate::files;
use crate::number;

/// Names listed in a message; the rest are only counted.
const NAMES_SHOWN: usize = 20;

/// The names of ports.
#[derive(Clone, Default, Debug)]
pub struct PortNames {
    by_name: BTreeMap<String, PortId>,
    /// The names, for messages.
    listed: String,
}

impl PortNames {
    /// Reads the `--ports` arguments.
    ///
    /// # Errors
    /// If a file cannot be read, a line of it is not understood, or a name stands for two
    /// ports.
    pub fn read(arguments: &[String]) -> Result<PortNames> {
        let mut names = PortNames::default();
        for argument in arguments {
            match argument.split_once('=') {
                Some((name, number)) if !Path::new(argument).exists() => {
                    names.add(name, number, "--ports")?;
                }
                _ => names.add_file(Path::new(argument))?,
            }
        }
        names.listed = list_names(names.by_name.keys().map(String::as_str));
        Ok(names)
    }

    /// The port named `name`.
    pub fn find(&self, name: &str) -> Option<PortId> {
        self.by_name.get(name).copied()
    }

    /// Finds a port by its number or name.
    ///
    /// # Errors
    /// If `text` is neither; lists the known names.
    pub fn port(&self, text: &str, argument: &str) -> Result<PortId> {
        if let Some(port) = self.find(text) {
            return Ok(port);
        }
        let number = number::port(text);
        number.map(PortId).map_err(|advice| {
            let names = match &*self.listed {
                "" => "name ports with --ports NAME=NUMBER".to_owned(),
                listed => format!("the name of a port: {listed}"),
            };
            bad_input(format!("{argument} {text}: {advice}, or {names}"))
        })
    }

    /// All ports that have names.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        self.by_name.values().copied()
    }

    /// Runs `read` with a parser that knows the names.
    pub fn with_parser<T>(&self, read: impl FnOnce(&mut Parser<'_>) -> T) -> T {
        let find = |name: &str| self.find(name);
        read(
            &mut Parser::new()
                .with_ports(&find)
                .with_known_ports(&self.listed),
        )
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let text = files::contents_or(path, "give the names of ports as text")?;
        for (index, line) in text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default().trim();
            let place = format!("{}:{}", path.display(), index + 1);
            if said.is_empty() {
                continue;
            }
            // Example: ` 1(eth0): addr:aa:55:aa:55:00:01`
            if let Some((number, rest)) = said.split_once('(')
                && let Some((name, _)) = rest.split_once("): addr:")
            {
                // The switch's own port has a word instead of a number.
                if number != "LOCAL" {
                    self.add(name, number, &place)?;
                }
                continue;
            }
            if is_of_show(line) {
                continue;
            }
            let parts = said.split_once('=').or_else(|| said.rsplit_once(' '));
            let Some((name, number)) = parts else {
                return Err(bad_input(format!(
                    "{place}: `{said}` names no port; write NAME=NUMBER, or give what \
                     `ovs-ofctl show` prints"
                )));
            };
            self.add(name, number, &place)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, number: &str, place: &str) -> Result<()> {
        let (name, number) = (name.trim().trim_matches('"'), number.trim());
        let port = number::port(number)
            .map_err(|advice| bad_input(format!("{place}: {number} is no port; {advice}")))?;
        let is_name = !name.is_empty()
            && !name.contains(|character: char| character.is_whitespace() || character == ',')
            && !name.bytes().all(|byte| byte.is_ascii_digit());
        if !is_name {
            return Err(bad_input(format!(
                "{place}: `{name}` is no name for port {port}; write NAME=NUMBER"
            )));
        }
        match self.by_name.insert(name.to_owned(), PortId(port)) {
            Some(earlier) if earlier.0 != port => Err(bad_input(format!(
                "{place}: `{name}` is port {earlier} already; give port {port} another name"
            ))),
            _ => Ok(()),
        }
    }
}

/// Lists names for a message, up to `NAMES_SHOWN`.
pub fn list_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = &names[..names.len().min(NAMES_SHOWN)];
    let mut text = shown.join(", ");
    if let Some(more) = names.len().checked_sub(NAMES_SHOWN + 1) {
        text += &format!(" and {} more", more + 1);
    }
    text
}

/// Whether `ovs-ofctl show` prints such a line about the switch or below a port.
fn is_of_show(line: &str) -> bool {
    const STARTS: [&str; 5] = ["OFPT_", "OFPST_", "n_tables:", "capabilities:", "actions:"];
    let is_of_port = line.starts_with("     ") && line.contains(": ");
    is_of_port || STARTS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PortNames> {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let path = folder.path().join("ports");
        std::fs::write(&path, text).expect("the folder is ours");
        PortNames::read(&[path.display().to_string()])
    }

    #[test]
    fn names_are_read_in_every_form() {
        let show = "OFPT_FEATURES_REPLY (xid=0x2): dpid:0000aa55aa550000\n\
                    n_tables:254, n_buffers:0\n\
                    capabilities: FLOW_STATS TABLE_STATS PORT_STATS QUEUE_STATS ARP_MATCH_IP\n\
                    actions: output enqueue set_vlan_vid\n \
                    1(p1): addr:aa:55:aa:55:00:01\n     config:     PORT_DOWN\n     \
                    state:      LINK_DOWN\n     speed: 0 Mbps now, 0 Mbps max\n \
                    LOCAL(br0): addr:aa:55:aa:55:00:00\n     config:     PORT_DOWN\n\
                    OFPT_GET_CONFIG_REPLY (xid=0x4): frags=normal miss_send_len=0\n";
        for (text, names) in [
            (show, vec![("p1", 1)]),
            (
                "up=7\n# a comment\n\ndown 8\n\"x\" = 9 # nine\n",
                vec![("down", 8), ("up", 7), ("x", 9)],
            ),
        ] {
            let read = read(text).expect("they are names");
            let read = read.by_name.iter().map(|(name, port)| (&**name, port.0));
            assert_eq!(read.collect::<Vec<_>>(), names);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_line() {
        for (text, expected) in [
            (
                "up=7\nup=8",
                "ports:2: `up` is port 7 already; give port 8 another name",
            ),
            (
                "up=7\ndown",
                "ports:2: `down` names no port; write NAME=NUMBER",
            ),
            (
                "up=x",
                "ports:1: x is no port; give a whole number from 1 to 65279",
            ),
            ("7=8", "ports:1: `7` is no name for port 8"),
        ] {
            let error = read(text).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_names_in_a_message_are_bounded() {
        let many: Vec<String> = (1..=30).map(|port| format!("p{port}={port}")).collect();
        let names = PortNames::read(&many).expect("they are names");
        let error = names
            .port("q", "--in-port")
            .expect_err("it is none")
            .to_string();
        assert!(
            error.starts_with("--in-port q: give a whole number"),
            "{error}"
        );
        assert!(
            error.contains("p1, p10") && error.ends_with("and 10 more"),
            "{error}"
        );
        assert_eq!(names.port("p7", "").expect("it is one"), PortId(7));
        assert_eq!(names.port("8", "").expect("it is one"), PortId(8));
    }
}
