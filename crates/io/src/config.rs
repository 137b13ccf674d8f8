//! From a port's configuration to an open port.
//!
//! The structures are plain: the program reads them from TOML, tests build them by hand. This is
//! the only place that knows all kinds of port.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thalweg_packet::PortId;

use crate::{Error, NullPort, Port};

/// What is behind a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum PortKind {
    /// [`PortKind::AfPacket`] if the interface exists, else [`PortKind::Tap`].
    #[default]
    Auto,
    /// An existing Linux interface, by a packet socket.
    AfPacket,
    /// A Linux tap interface, created if it does not exist.
    Tap,
    /// Capture files: one to read, one to write, or both.
    Pcap,
    /// Nothing outside this process. Opened from a configuration it is a sink that counts.
    Memory,
}

impl PortKind {
    /// The words that [`PortKind::from_str`] takes, for messages.
    pub const SUPPORTED: &str = "`auto`, `af_packet`, `tap`, `pcap`, `memory`";

    fn word(self) -> &'static str {
        match self {
            PortKind::Auto => "auto",
            PortKind::AfPacket => "af_packet",
            PortKind::Tap => "tap",
            PortKind::Pcap => "pcap",
            PortKind::Memory => "memory",
        }
    }
}

impl FromStr for PortKind {
    type Err = Error;

    fn from_str(word: &str) -> Result<PortKind, Error> {
        match word {
            "auto" => Ok(PortKind::Auto),
            "af_packet" => Ok(PortKind::AfPacket),
            "tap" => Ok(PortKind::Tap),
            "pcap" => Ok(PortKind::Pcap),
            "memory" => Ok(PortKind::Memory),
            "af_xdp" => Err(Error::UnsupportedKind { kind: word.into() }),
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
/// assert!("af_xdp".parse::<PortKind>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// The number rules use.
    pub number: PortId,
    /// The name people use.
    pub name: String,
    /// What is behind it.
    pub kind: PortKind,
    /// The interface, if its name is not the port's.
    pub interface: Option<String>,
    /// The longest payload of a frame, in bytes, set on a tap; others keep their own.
    pub mtu_bytes: Option<u32>,
    /// The capture a `pcap` port receives from.
    pub read: Option<PathBuf>,
    /// The capture a `pcap` port sends to; an existing file is replaced.
    pub write: Option<PathBuf>,
}

impl PortConfig {
    /// A port of kind [`PortKind::Auto`] on the interface of its own name.
    pub fn new(number: PortId, name: &str) -> PortConfig {
        PortConfig {
            number,
            name: name.to_owned(),
            kind: PortKind::Auto,
            interface: None,
            mtu_bytes: None,
            read: None,
            write: None,
        }
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.interface.as_deref().unwrap_or(&self.name)
    }
}

/// Opens the port that `config` describes.
///
/// # Errors
/// If the interface or file is missing, unusable or not permitted; see [`Error`].
pub fn open(config: &PortConfig) -> Result<Box<dyn Port>, Error> {
    match config.kind {
        PortKind::Memory => Ok(Box::new(NullPort::default())),
        _ => todo!(),
    }
}
