//! `encap` and `decap`: headers in front of a packet, as data.
//!
//! A packet has a *type*: it begins with Ethernet, or behind it with the header of an EtherType.
//! Adding and removing headers changes the type. See [`crate::interpret`] for what they do.

/// A header that an action adds in front of the packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Encap {
    /// Ethernet, with addresses of zero.
    Ethernet,
    /// A label stack entry; the packet's type becomes this EtherType.
    Mpls(u16),
    /// A network service header (RFC 8300).
    Nsh(Box<ServiceHeader>),
}

/// What a new network service header has that is not the same in all.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ServiceHeader {
    /// The MD type, if one is named: 1 or 2; without it, 1.
    pub md_type: Option<u8>,
    /// Variable-length context headers; a header of MD type 1 has none.
    pub contexts: Box<[ServiceContext]>,
}

/// A variable-length context header (RFC 8300, section 2.5.1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServiceContext {
    /// The class of the type.
    pub class: u16,
    /// The type.
    pub kind: u8,
    /// The value; at most [`ServiceContext::MAX_BYTES`] of it.
    pub value: Box<[u8]>,
}

/// The longest variable-length context of a header, with all its parts (`NSH_CTX_HDRS_MAX_LEN` of
/// Open vSwitch).
const MAX_CONTEXT_BYTES: usize = 248;

/// The EtherType of the network service header.
pub(crate) const ETHER_TYPE_NSH: u16 = 0x894f;

/// The type that lets a header say what follows it.
pub const NEXT_PROTOCOL: u32 = 0xfffe;

impl ServiceContext {
    /// The longest value.
    pub const MAX_BYTES: usize = 240;
}

impl ServiceHeader {
    /// The header's bytes, with a TTL of 63 and the last index, in front of this protocol.
    pub(crate) fn bytes(&self, next_protocol: u8) -> Vec<u8> {
        let is_variable = self.md_type == Some(2);
        let context = match is_variable {
            true => self.variable_context(),
            false => vec![0; 16],
        };
        let words = (8 + context.len()) / 4;
        let first = 63_u16 << 6 | words as u16;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend([1 + u8::from(is_variable), next_protocol, 0, 0, 0, 255]);
        bytes.extend(context);
        bytes
    }

    /// The variable-length context; nothing if it is too long for a header, as in Open vSwitch.
    fn variable_context(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for context in &self.contexts {
            bytes.extend(context.class.to_be_bytes());
            bytes.extend([context.kind, context.value.len() as u8]);
            bytes.extend_from_slice(&context.value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        match bytes.len() {
            ..MAX_CONTEXT_BYTES => bytes,
            _ => Vec::new(),
        }
    }
}
