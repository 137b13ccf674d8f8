//! Faults of a datapath flow's text, in the words of Open vSwitch where it has any.

/// The longest frame that the parser of packets takes.
pub(super) const LONGEST_FRAME: usize = 65_534;

/// Why the text of a datapath flow was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatapathTextError {
    /// The text is malformed from here on.
    #[error("syntax error at {0}")]
    Syntax(Box<str>),
    /// An attribute occurs twice.
    #[error("duplicate {0} attribute in flow key")]
    Duplicate(&'static str),
    /// The number is a length, not a type.
    #[error("invalid Ethertype {0} in flow key")]
    EtherType(u16),
    /// ARP operations above 255 have no place in a key.
    #[error("unsupported ARP opcode {0} in flow key")]
    ArpOperation(u16),
    /// A tag without the bit that says that it is there.
    #[error("OVS_KEY_ATTR_VLAN {0:#06x} is nonzero but CFI bit is not set")]
    TagWithoutPresence(u16),
    /// A label behind the last one.
    #[error("MPLS BOS set in non-innermost label")]
    LabelBehindBottom,
    /// A port that the datapath does not have.
    #[error("there is no port `{0}`; give the number or the name of a port of the datapath")]
    UnknownPort(Box<str>),
    /// A part of a flow that no key here can hold.
    #[error("`{name}={value}` is not supported; leave `{name}` out of the flow, or set it to 0")]
    Unsupported {
        /// The attribute, with its member behind a dot if it has one.
        name: Box<str>,
        /// Its value.
        value: Box<str>,
    },
}

/// Why the arguments of `netdev-dummy/receive` are no frames.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameArgumentError {
    /// An argument is neither bytes nor a flow.
    #[error(transparent)]
    Text(#[from] DatapathTextError),
    /// Shorter than an Ethernet frame without its check sequence.
    #[error("too small packet len")]
    TooSmall,
    /// Not a number, or more than a frame may have.
    #[error("`{0}` is not a length of 60 to {most} bytes", most = LONGEST_FRAME)]
    Length(Box<str>),
    /// The headers of the flow need more.
    #[error("a frame of {asked} bytes has no room for the flow's {needed} bytes of headers")]
    NoRoom {
        /// The length that the argument asks for.
        asked: usize,
        /// The length of the headers.
        needed: usize,
    },
}
