//! `encap(...)` and `decap(...)`.

use crate::encap::{Encap, NEXT_PROTOCOL, ServiceContext, ServiceHeader};
use crate::text::error::Parsed;
use crate::text::line::{Line, Mark, Pair};

/// Reads `encap(ethernet)`, `encap(mpls)`, `encap(mpls_mc)` or
/// `encap(nsh(md_type=1,tlv(CLASS,TYPE,0xVALUE),...))`.
pub(super) fn encap<'a>(line: &'a Line<'a>, pair: Pair<'a>) -> Parsed<Encap> {
    let known = "there are ethernet, mpls, mpls_mc and nsh";
    if pair.mark != Mark::Parenthesis {
        return Err(line.syntax(pair.key, "write encap(HEADER)"));
    }
    let mut headers = line.pairs(pair.value);
    let Some(header) = headers.next()? else {
        return Err(line.syntax(pair.key, "write encap(HEADER)"));
    };
    let encap = match header.key {
        "ethernet" => Encap::Ethernet,
        "mpls" => Encap::Mpls(0x8847),
        "mpls_mc" => Encap::Mpls(0x8848),
        "nsh" => return Ok(Encap::Nsh(Box::new(service_header(line, header)?))),
        _ => return Err(line.unknown(header.key, "header of `encap`", known)),
    };
    match line.pairs(header.value).next()? {
        Some(property) => Err(line.syntax(property.key, "this header has no properties")),
        None => Ok(encap),
    }
}

fn service_header<'a>(line: &'a Line<'a>, pair: Pair<'a>) -> Parsed<ServiceHeader> {
    let (mut md_type, mut contexts) = (None, Vec::new());
    let mut properties = line.pairs(pair.value);
    while let Some(property) = properties.next()? {
        match property.key {
            "md_type" => {
                let kind: u8 = line.integer(property.value)?;
                if !(1..=2).contains(&kind) {
                    return Err(line.value(property.value, "an MD type (1 or 2)"));
                }
                md_type = Some(kind);
            }
            "tlv" => contexts.push(context(line, property.value)?),
            _ => {
                let known = "there are md_type and tlv";
                return Err(line.unknown(property.key, "property of `nsh`", known));
            }
        }
    }
    Ok(ServiceHeader {
        md_type,
        contexts: contexts.into(),
    })
}

/// Reads `CLASS,TYPE,0xVALUE`.
fn context<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<ServiceContext> {
    let form = "write tlv(CLASS,TYPE,0xVALUE)";
    let mut parts = text.splitn(3, ',');
    let (Some(class), Some(kind), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(line.syntax(text, form));
    };
    let digits = value.strip_prefix("0x").unwrap_or(value).as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    });
    let bytes: Option<Box<[u8]>> = bytes.collect();
    let Some(bytes) = bytes.filter(|bytes| bytes.len() <= ServiceContext::MAX_BYTES) else {
        let expected = format!(
            "up to {} bytes of two hexadecimal digits each",
            ServiceContext::MAX_BYTES
        );
        return Err(line.value(value, expected));
    };
    Ok(ServiceContext {
        class: line.integer(class)?,
        kind: line.integer(kind)?,
        value: bytes,
    })
}

/// Reads `decap()` or `decap(packet_type(ns=NAMESPACE,type=TYPE))`.
pub(super) fn decap<'a>(line: &'a Line<'a>, pair: Pair<'a>) -> Parsed<u32> {
    let mut packet_type = NEXT_PROTOCOL;
    let mut properties = line.pairs(if pair.mark == Mark::Parenthesis {
        pair.value
    } else {
        ""
    });
    while let Some(property) = properties.next()? {
        if property.key != "packet_type" {
            let known = "there is packet_type";
            return Err(line.unknown(property.key, "property of `decap`", known));
        }
        let (mut namespace, mut kind) = (0_u16, 0_u16);
        let mut parts = line.pairs(property.value);
        while let Some(part) = parts.next()? {
            match part.key {
                "ns" => namespace = line.integer(part.value)?,
                "type" => kind = line.integer(part.value)?,
                _ => return Err(line.syntax(part.key, "write packet_type(ns=0,type=0)")),
            }
        }
        packet_type = u32::from(namespace) << 16 | u32::from(kind);
    }
    Ok(packet_type)
}
