//! `encap` and `decap`, in both directions.

use bytes::Bytes;
use thalweg_openflow::{ErrorCode, Refusal, action as of_action, refuse};
use thalweg_pipeline::{Encap, ServiceContext, ServiceHeader};

const ETHERNET: u32 = 0;
const NSH: u32 = 0x0001_894f;
const ETHER_TYPES: u32 = 1 << 16;

/// The class of the properties of a network service header.
const NSH_CLASS: u16 = 4;
const MD_TYPE: u8 = 1;
const CONTEXT: u8 = 2;

/// A header that OpenFlow asks for; the codec has checked type and properties.
pub(super) fn encap(packet_type: u32, properties: &[u8]) -> Result<Encap, Refusal> {
    match packet_type {
        ETHERNET => Ok(Encap::Ethernet),
        NSH => service_header(properties)
            .map(|header| Encap::Nsh(Box::new(header)))
            .ok_or_else(|| {
                let what = "properties of encap end too soon";
                refuse(ErrorCode::NXBAC_BAD_ED_PROP, what)
            }),
        _ => Ok(Encap::Mpls(packet_type as u16)),
    }
}

/// Reads the properties of a network service header; `None` if they end too soon.
fn service_header(mut properties: &[u8]) -> Option<ServiceHeader> {
    let (mut md_type, mut contexts) = (None, Vec::new());
    while !properties.is_empty() {
        let length = usize::from(*properties.get(3)?);
        match properties.get(2)? {
            &MD_TYPE => md_type = Some(*properties.get(4)?),
            _ => {
                let class = properties.get(4..6)?;
                let value = 8..8 + usize::from(*properties.get(7)?);
                contexts.push(ServiceContext {
                    class: u16::from_be_bytes([class[0], class[1]]),
                    kind: *properties.get(6)?,
                    value: properties.get(value)?.into(),
                });
            }
        }
        properties = properties.get(length.next_multiple_of(8).max(8)..)?;
    }
    Some(ServiceHeader {
        md_type,
        contexts: contexts.into(),
    })
}

/// OpenFlow's action that adds a header.
pub(super) fn told(encap: &Encap) -> of_action::Action {
    let (packet_type, properties) = match encap {
        Encap::Ethernet => (ETHERNET, Vec::new()),
        Encap::Mpls(ether_type) => (ETHER_TYPES | u32::from(*ether_type), Vec::new()),
        Encap::Nsh(header) => (NSH, properties(header)),
    };
    of_action::Action::Encap {
        packet_type,
        header_bytes: 0,
        properties: Bytes::from(properties),
    }
}

fn properties(header: &ServiceHeader) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(md_type) = header.md_type {
        bytes.extend(NSH_CLASS.to_be_bytes());
        bytes.extend([MD_TYPE, 5, md_type, 0, 0, 0]);
    }
    for context in &header.contexts {
        let padded = context.value.len().next_multiple_of(8);
        bytes.extend(NSH_CLASS.to_be_bytes());
        bytes.extend([CONTEXT, (8 + padded) as u8]);
        bytes.extend(context.class.to_be_bytes());
        bytes.extend([context.kind, context.value.len() as u8]);
        bytes.extend_from_slice(&context.value);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}
