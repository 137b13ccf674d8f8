//! Reads the map of a fabric that caches virtual addresses: a text with one item per line.
//!
//! ```text
//!   # what a control plane says of the fabric; `version` counts its changes
//!   version 2
//!   switch 10.0.0.1 pod 0
//!   switch 10.0.0.2 pod 1
//!   gateway 10.9.0.1 tor 10.0.0.2
//!   host 10.1.0.1 tor 10.0.0.1
//!   machine 7 172.16.0.1 host 10.1.0.1 mac 02:00:00:00:07:01 port vm1 since 2
//! ```
//!
//! A machine has a tenant (VNI), a virtual address and a port on its host's switch. `since` is
//! the version since which it is there, 1 by default. All switches of a fabric read the same
//! map; the name of a port means something only on the machine's host.
//!
//! 1. Each address occurs at most once as a switch, gateway or host, and each machine at most
//!    once.
//! 2. A line refers only to items of earlier lines.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::str::FromStr;

use thalweg_packet::PortId;
use thalweg_packet::wire::MacAddress;
use thalweg_switch::{Machine, V2pMap};
use thalweg_v2p::{Address, Attachment, Key, MapVersion, SwitchId, Vni};

use crate::error::ConfigError;
use crate::read_text;

type Result<T> = std::result::Result<T, ConfigError>;

/// Reads a map; `ports` maps names of this switch's ports to numbers.
///
/// # Errors
/// If it cannot be read, or contains something impossible.
pub fn read_map(path: &Path, ports: &dyn Fn(&str) -> Option<PortId>) -> Result<V2pMap> {
    parse_map(&path.display().to_string(), &read_text(path)?, ports)
}

/// Parses a map; `name` is its name in errors.
///
/// # Errors
/// If it contains something impossible.
pub fn parse_map(name: &str, text: &str, ports: &dyn Fn(&str) -> Option<PortId>) -> Result<V2pMap> {
    let mut reader = Reader {
        map: V2pMap {
            version: MapVersion(1),
            ..V2pMap::default()
        },
        attachments: HashMap::new(),
        addresses: HashSet::new(),
        keys: HashSet::new(),
        ports,
    };
    for (index, line) in text.lines().enumerate() {
        let mut words = Words::new(name, index + 1, line);
        reader.take(&mut words)?;
    }
    Ok(reader.map)
}

struct Reader<'a> {
    map: V2pMap,
    /// The ToR and pod of each switch.
    attachments: HashMap<Address, Attachment>,
    addresses: HashSet<Address>,
    keys: HashSet<Key>,
    ports: &'a dyn Fn(&str) -> Option<PortId>,
}

impl Reader<'_> {
    fn take(&mut self, words: &mut Words<'_>) -> Result<()> {
        let Some(what) = words.next() else {
            return Ok(());
        };
        match what {
            "version" => self.map.version = MapVersion(words.value("a version, from 1")?),
            "switch" => {
                let address = self.new_address(words)?;
                let pod = words.valued("pod", "the number of a pod")?;
                let tor = SwitchId(self.map.switches.len() as u32);
                self.map.switches.push((address, pod));
                self.attachments.insert(address, Attachment { tor, pod });
            }
            "gateway" => {
                let attached = (self.new_address(words)?, self.tor(words)?);
                self.map.gateways.push(attached);
            }
            "host" => {
                let attached = (self.new_address(words)?, self.tor(words)?);
                self.map.hosts.push(attached);
            }
            "machine" => {
                let machine = self.machine(words)?;
                self.map.machines.push(machine);
            }
            _ => {
                let wanted = "give version, switch, gateway, host or machine";
                return Err(words.refuse(format!("{what:?} is nothing that a map has; {wanted}")));
            }
        }
        match words.next() {
            None => Ok(()),
            Some(word) => Err(words.refuse(format!("{word:?} is one word too many; remove it"))),
        }
    }

    fn new_address(&mut self, words: &mut Words<'_>) -> Result<Address> {
        let address = words.address()?;
        match self.addresses.insert(address) {
            true => Ok(address),
            false => Err(words.refuse(format!(
                "{address} is there before; give each switch, gateway and host its own"
            ))),
        }
    }

    fn tor(&self, words: &mut Words<'_>) -> Result<Attachment> {
        words.keyword("tor")?;
        let address = words.address()?;
        let found = self.attachments.get(&address).copied();
        found.ok_or_else(|| {
            words.refuse(format!("there is no switch {address}; add its line before"))
        })
    }

    fn machine(&mut self, words: &mut Words<'_>) -> Result<Machine> {
        let vni: u32 = words.value("the number of a tenant (VNI)")?;
        let vni = Vni::new(vni)
            .ok_or_else(|| words.refuse(format!("{vni} is no VNI; give one of at most 24 bits")))?;
        let address = words.address()?;
        let key = Key { vni, address };
        if !self.keys.insert(key) {
            let number = vni.number();
            return Err(words.refuse(format!(
                "machine {number} {address} is there before; remove one of the two"
            )));
        }
        words.keyword("host")?;
        let host = words.address()?;
        let mut hosts = self.map.hosts.iter();
        if !hosts.any(|(known, _)| *known == host) {
            return Err(words.refuse(format!("there is no host {host}; add its line before")));
        }
        let mac: MacAddress = words.valued("mac", "an Ethernet address, as 02:00:00:00:00:01")?;
        let mut machine = Machine {
            key,
            host,
            mac,
            port: None,
            since: MapVersion(1),
        };
        while let Some(word) = words.next() {
            match word {
                "port" => machine.port = (self.ports)(words.word("the name of a port")?),
                "since" => machine.since = MapVersion(words.value("a version, from 1")?),
                _ => {
                    let what = format!("{word:?} is nothing that a machine has; say port or since");
                    return Err(words.refuse(what));
                }
            }
        }
        Ok(machine)
    }
}

/// The words of a line, with their places.
struct Words<'a> {
    file: &'a str,
    line: usize,
    text: &'a str,
    /// Start of the last word and of the rest, in bytes.
    start: usize,
    end: usize,
}

impl<'a> Words<'a> {
    fn new(file: &'a str, line: usize, text: &'a str) -> Words<'a> {
        let text = text.split('#').next().unwrap_or_default();
        Words {
            file,
            line,
            text,
            start: 0,
            end: 0,
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.end..];
        let word = rest.trim_start();
        self.start = self.end + rest.len() - word.len();
        let len = word.find(char::is_whitespace).unwrap_or(word.len());
        self.end = self.start + len;
        (len > 0).then(|| &word[..len])
    }

    fn word(&mut self, wanted: &str) -> Result<&'a str> {
        let word = self.next();
        word.ok_or_else(|| self.refuse(format!("the line ends here; add {wanted}")))
    }

    fn keyword(&mut self, keyword: &str) -> Result<()> {
        let word = self.word(&format!("{keyword:?} and its value"))?;
        match word == keyword {
            true => Ok(()),
            false => Err(self.refuse(format!("{word:?} is not expected; say {keyword:?} here"))),
        }
    }

    fn value<T: FromStr>(&mut self, wanted: &str) -> Result<T> {
        let word = self.word(wanted)?;
        let value = word.parse();
        value.map_err(|_| self.refuse(format!("{word:?} is not {wanted}; mend it")))
    }

    fn valued<T: FromStr>(&mut self, keyword: &str, wanted: &str) -> Result<T> {
        self.keyword(keyword)?;
        self.value(wanted)
    }

    fn address(&mut self) -> Result<Address> {
        let address = self.value("an IP address")?;
        Address::new(address).ok_or_else(|| self.refuse("\"::\" is nobody's address; mend it"))
    }

    fn refuse(&self, what: impl Into<String>) -> ConfigError {
        ConfigError::Refused {
            file: self.file.to_owned(),
            line: self.line,
            column: self.text[..self.start].chars().count() + 1,
            what: crate::on_one_line(&what.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<V2pMap> {
        parse_map("fabric.map", text, &|name| {
            (name == "vm1").then_some(PortId(5))
        })
    }

    const FABRIC: &str = "\
        # a fabric\n\
        version 2\n\
        \n\
        switch 10.0.0.1 pod 0\n\
        switch 10.0.0.2 pod 1 # with the gateway\n\
        gateway 10.9.0.1 tor 10.0.0.2\n\
        host 10.1.0.1 tor 10.0.0.1\n\
        machine 7 172.16.0.1 host 10.1.0.1 mac 02:00:00:00:07:01 since 2 port vm1\n\
        machine 8 172.16.0.1 host 10.1.0.1 mac 02:00:00:00:08:01 port elsewhere\n";

    #[test]
    fn a_fabric_is_read() {
        let map = parse(FABRIC).unwrap();
        assert_eq!(map.version, MapVersion(2));
        assert_eq!((map.switches.len(), map.hosts.len()), (2, 1));
        let (gateway, attachment) = map.gateways[0];
        assert_eq!(gateway.to_string(), "10.9.0.1");
        assert_eq!((attachment.tor, attachment.pod), (SwitchId(1), 1));
        let [first, second] = &map.machines[..] else {
            panic!("two machines");
        };
        assert_eq!((first.port, first.since), (Some(PortId(5)), MapVersion(2)));
        assert_eq!((second.port, second.since), (None, MapVersion(1)));
        assert_eq!(second.key.vni, Vni::new(8).unwrap());
    }

    #[test]
    fn slips_are_found_where_they_are() {
        let fabric = |line: &str| format!("{FABRIC}{line}\n");
        for (line, column, what) in [
            (
                "swich 10.0.0.3 pod 1",
                1,
                "\"swich\" is nothing that a map has",
            ),
            ("switch 10.0.0.3", 16, "the line ends here; add \"pod\""),
            (
                "switch 10.0.0.3 pod",
                20,
                "the line ends here; add the number of a pod",
            ),
            ("switch 10.0.0.3 pod 1 2", 23, "\"2\" is one word too many"),
            (
                "switch 10.0.0.x pod 1",
                8,
                "\"10.0.0.x\" is not an IP address",
            ),
            ("host 10.0.0.1 tor 10.0.0.1", 6, "10.0.0.1 is there before"),
            (
                "host 10.1.0.2 tor 10.0.0.9",
                19,
                "there is no switch 10.0.0.9",
            ),
            (
                "machine 7 172.16.0.1 host 10.1.0.1",
                11,
                "machine 7 172.16.0.1 is there before",
            ),
            ("machine 16777216 172.16.0.2", 9, "16777216 is no VNI"),
            (
                "machine 7 172.16.0.2 host 10.1.0.9",
                27,
                "there is no host 10.1.0.9",
            ),
            (
                "machine 7 172.16.0.2 host 10.1.0.1 mac 2",
                40,
                "\"2\" is not an Ethernet address",
            ),
        ] {
            let said = parse(&fabric(line)).unwrap_err().to_string();
            let expected = format!("fabric.map:10:{column}: {what}");
            assert!(said.starts_with(&expected), "{said}, not {expected}");
        }
    }
}
