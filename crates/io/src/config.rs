//! Opens a port from its configuration.
//!
//! The structures are plain: the program reads them from TOML, tests build them by hand. Only
//! this module knows all kinds of port.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thalweg_packet::PortId;

use crate::af_xdp::open_best;
use crate::{
    AfPacketPort, AfXdpPort, CapturePort, Error, NullPort, Port, ReceiveMethod, TapPort, XdpMode,
    XdpSettings,
};

/// The kinds of port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum PortKind {
    /// An existing Linux interface, by AF_XDP where that is surely better, else by a packet socket:
    /// the default where an interface is named without a kind.
    ///
    /// A missing interface is an error: no tap is made for it.
    #[default]
    Auto,
    /// An existing Linux interface, by a packet socket.
    AfPacket,
    /// An existing Linux interface, by AF_XDP sockets.
    AfXdp,
    /// A Linux tap interface, created if it does not exist.
    Tap,
    /// Capture files: one to read, one to write, or both.
    Pcap,
    /// Nothing outside this process. A configured port of this kind is a sink that counts.
    Memory,
}

impl PortKind {
    /// The words that [`PortKind::from_str`] accepts, for messages.
    pub const SUPPORTED: &str = "`auto`, `af_packet`, `af_xdp`, `tap`, `pcap`, `memory`";

    fn word(self) -> &'static str {
        match self {
            PortKind::Auto => "auto",
            PortKind::AfPacket => "af_packet",
            PortKind::AfXdp => "af_xdp",
            PortKind::Tap => "tap",
            PortKind::Pcap => "pcap",
            PortKind::Memory => "memory",
        }
    }
}

impl FromStr for PortKind {
    type Err = Error;

    fn from_str(word: &str) -> Result<PortKind, Error> {
        match word.replace('-', "_").as_str() {
            "auto" => Ok(PortKind::Auto),
            "af_packet" => Ok(PortKind::AfPacket),
            "af_xdp" => Ok(PortKind::AfXdp),
            "tap" => Ok(PortKind::Tap),
            "pcap" => Ok(PortKind::Pcap),
            "memory" => Ok(PortKind::Memory),
            _ => Err(Error::UnknownKind { given: word.into() }),
        }
    }
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A port as the configuration describes it.
///
/// ```
/// use thalweg_io::{PortConfig, PortKind};
/// use thalweg_packet::PortId;
///
/// let config = PortConfig {
///     kind: "memory".parse().expect("a kind that exists"),
///     ..PortConfig::new(PortId(1), "p1")
/// };
/// let mut port = thalweg_io::open(&config).expect("needs nothing");
/// assert_eq!(port.counters().sent_packets, 0);
/// assert!("dpdk".parse::<PortKind>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// The number that rules use.
    pub number: PortId,
    /// The name that people use.
    pub name: String,
    /// The kind of port.
    pub kind: PortKind,
    /// The interface, if its name is not the port's.
    pub interface: Option<String>,
    /// The longest payload of a frame, in bytes; set on a tap, ignored by other kinds.
    pub mtu_bytes: Option<u32>,
    /// How a packet socket receives, if not by default; other kinds of port refuse it.
    pub receive: Option<ReceiveMethod>,
    /// What an AF_XDP port is asked for, if not the best; other kinds of port refuse it.
    pub xdp: XdpSettings,
    /// The capture that a `pcap` port receives from.
    pub read: Option<PathBuf>,
    /// The capture that a `pcap` port sends to; an existing file is replaced.
    pub write: Option<PathBuf>,
}

impl PortConfig {
    /// Creates a port of kind [`PortKind::Auto`] on the interface called `name`.
    pub fn new(number: PortId, name: &str) -> PortConfig {
        PortConfig {
            number,
            name: name.to_owned(),
            kind: PortKind::Auto,
            interface: None,
            mtu_bytes: None,
            receive: None,
            xdp: XdpSettings::default(),
            read: None,
            write: None,
        }
    }

    /// Whether its packets are those of an interface, all of them.
    pub fn has_interface(&self) -> bool {
        matches!(
            self.kind,
            PortKind::Auto | PortKind::AfPacket | PortKind::AfXdp | PortKind::Tap
        )
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.interface.as_deref().unwrap_or(&self.name)
    }
}

/// A port that was opened, and what to tell of it.
pub struct OpenedPort {
    /// The port.
    pub port: Box<dyn Port>,
    /// What a log should tell of how it was opened; nothing for most kinds.
    pub remarks: Vec<String>,
    /// The mode in use, of an AF_XDP port.
    pub xdp_mode: Option<XdpMode>,
}

impl OpenedPort {
    /// Makes one of a port of which there is nothing to tell.
    pub(crate) fn new(port: Box<dyn Port>) -> OpenedPort {
        OpenedPort {
            port,
            remarks: Vec::new(),
            xdp_mode: None,
        }
    }

    /// Makes one of an AF_XDP port.
    pub(crate) fn of_xdp(port: AfXdpPort) -> OpenedPort {
        OpenedPort {
            remarks: port.remarks().to_vec(),
            xdp_mode: Some(port.mode()),
            port: Box::new(port),
        }
    }
}

impl fmt::Debug for OpenedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedPort")
            .field("remarks", &self.remarks)
            .field("xdp_mode", &self.xdp_mode)
            .finish_non_exhaustive()
    }
}

/// Opens the port that `config` describes.
///
/// # Errors
/// If the interface or file is missing, unusable or not permitted; see [`Error`].
pub fn open(config: &PortConfig) -> Result<Box<dyn Port>, Error> {
    open_with_remarks(config).map(|opened| opened.port)
}

/// The same, with what a log should tell.
///
/// # Errors
/// As for [`open`].
pub fn open_with_remarks(config: &PortConfig) -> Result<OpenedPort, Error> {
    let (number, interface, kind) = (config.number, config.interface(), config.kind);
    let port = || config.name.clone();
    if config.receive.is_some() && !matches!(kind, PortKind::Auto | PortKind::AfPacket) {
        return Err(Error::NoReceiveMethod { port: port(), kind });
    }
    if config.xdp != XdpSettings::default() && kind != PortKind::AfXdp {
        return Err(Error::NoXdpSettings { port: port(), kind });
    }
    let opened: Box<dyn Port> = match kind {
        PortKind::Auto => return open_best(number, interface, config.receive),
        PortKind::AfXdp => {
            let port = AfXdpPort::open(number, interface, config.xdp)?;
            return Ok(OpenedPort::of_xdp(port));
        }
        PortKind::AfPacket => {
            let method = config.receive.unwrap_or_default();
            Box::new(AfPacketPort::open(number, interface, method)?)
        }
        PortKind::Tap => Box::new(TapPort::open(number, interface, config.mtu_bytes)?),
        PortKind::Pcap => match (config.read.as_deref(), config.write.as_deref()) {
            (None, None) => return Err(Error::MissingFile { port: port() }),
            (read, write) => Box::new(CapturePort::open(number, read, write)?),
        },
        PortKind::Memory => Box::new(NullPort::default()),
    };
    Ok(OpenedPort::new(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_words_and_others_are_refused() {
        for word in ["auto", "af_packet", "af_xdp", "tap", "pcap", "memory"] {
            let kind: PortKind = word.parse().unwrap();
            assert_eq!(kind.to_string(), word);
            assert!(PortKind::SUPPORTED.contains(word));
            assert_eq!(word.replace('_', "-").parse::<PortKind>().unwrap(), kind);
        }
        let text = "dpdk".parse::<PortKind>().unwrap_err().to_string();
        assert!(text.contains("unknown port kind `dpdk`"), "{text}");
    }

    #[test]
    fn a_configuration_that_cannot_work_says_what_to_do() {
        let error = |config: &PortConfig| open(config).err().unwrap().to_string();
        let config = PortConfig {
            kind: PortKind::Pcap,
            ..PortConfig::new(PortId(1), "p1")
        };
        assert!(error(&config).contains("set `read`, `write`, or both"));
        for kind in [PortKind::Tap, PortKind::Pcap, PortKind::Memory] {
            let config = PortConfig {
                kind,
                receive: Some(ReceiveMethod::Ring),
                ..config.clone()
            };
            let text = error(&config);
            assert!(
                text.contains(&format!("of kind `{kind}`")) && text.contains("remove `receive`"),
                "{text}"
            );
        }
        for kind in [PortKind::Auto, PortKind::AfPacket, PortKind::Tap] {
            let config = PortConfig {
                kind,
                xdp: XdpSettings {
                    mode: XdpMode::Generic,
                    ..XdpSettings::default()
                },
                ..config.clone()
            };
            let text = error(&config);
            assert!(
                text.contains(&format!("of kind `{kind}`")) && text.contains("use kind `af_xdp`"),
                "{text}"
            );
        }
        for kind in [PortKind::Auto, PortKind::AfPacket, PortKind::AfXdp] {
            let config = PortConfig {
                kind,
                interface: Some("thalweg-none".into()),
                ..config.clone()
            };
            let text = error(&config);
            assert!(
                text.contains("no interface `thalweg-none`") && text.contains("which has `lo`"),
                "{text}"
            );
            assert!(crate::interfaces().is_ok_and(|names| !names.contains(&"thalweg-none".into())));
        }
        for name in ["", "sixteen-bytes-xx", "a/b", "a b", "..", "tap%d"] {
            for kind in [
                PortKind::Auto,
                PortKind::AfPacket,
                PortKind::AfXdp,
                PortKind::Tap,
            ] {
                let interface = Some(name.to_owned());
                let config = PortConfig {
                    kind,
                    interface,
                    ..config.clone()
                };
                assert!(
                    error(&config).contains("cannot name an interface"),
                    "{name}"
                );
            }
        }
    }
}
