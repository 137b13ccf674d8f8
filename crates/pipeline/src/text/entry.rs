//! Reads cache entries back as they were printed.
//!
//! An entry's mask may have any bits of any field: of an address without the EtherType, of a
//! tag behind another, of a header's presence. No rule can have these as conditions. So here a
//! field has no prerequisite, and fields without another name use their catalogue name.
//!
//! 1. A match that `Display` prints, whatever bits it has, reads back as that match. So does
//!    an entry that `print_megaflow` prints in OpenFlow's spelling, except for what Open
//!    vSwitch's entries do not have: presence that the rest implies, and a recirculation id
//!    that is always there. The value of a tunnel's option implies that it is present.

use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::datapath::port_bits;
use super::error::Parsed;
use super::fields::{self, Format, Name};
use super::line::{Line, Mark, Pair};
use super::matches::{piece_bits, shorthand};
use super::value::{Masked, ones};
use crate::matching::Match;

/// Reads an entry's key and mask.
pub(super) fn read_entry<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<Match> {
    let mut matching = Match::default();
    let mut pairs = line.pairs(text);
    while let Some(pair) = pairs.next()? {
        for (field, Masked { value, mask }) in conditions(line, pair)? {
            let added = matching.add(field, value, mask);
            added.map_err(|_| line.contradiction(pair.key))?;
        }
    }
    Ok(matching)
}

/// The conditions on fields that a pair means.
fn conditions(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Vec<(FieldId, Masked)>> {
    if let Some(bits) = presence(pair) {
        return Ok(vec![bits]);
    }
    if pair.mark == Mark::None {
        return words(line, pair.key);
    }
    if let Some(bits) = tag(line, pair)? {
        return Ok(vec![bits]);
    }
    if let Some(bits) = nameless(line, pair)? {
        return Ok(vec![bits]);
    }
    let (word, brackets) = match pair.key.find('[') {
        Some(start) => pair.key.split_at(start),
        None => (pair.key, ""),
    };
    let Some(name) = fields::find(word) else {
        return Err(line.unknown(pair.key, "field", "see ovs-fields(7) for their names"));
    };
    if name.format == Format::Port {
        return Ok(vec![(f::IN_PORT, port_bits(line, pair.value)?)]);
    }
    let bits = match brackets {
        "" => named(line, name, pair.value)?,
        _ => {
            let (offset, width) = line.bit_range(name, brackets)?;
            let value = line.number(pair.value, width)? << offset;
            let mask = ones(width) << offset;
            Masked { value, mask }
        }
    };
    let pieces = name.pieces.iter().map(|piece| {
        let (value, mask) = piece_bits(*piece, bits);
        (piece.field, Masked { value, mask })
    });
    Ok(pieces.collect())
}

/// Reads whether an option of a tunnel is present: `tun_metadata0`, or `tun_metadata0=NP`.
fn presence(pair: Pair<'_>) -> Option<(FieldId, Masked)> {
    let is_present = match (pair.mark, pair.value) {
        (Mark::None, _) => true,
        (_, "NP") => false,
        _ => return None,
    };
    let field = fields::find(pair.key)?.pieces[0].field;
    let mask = 1 << f::tunnel_option_of(field)?;
    let value = if is_present { mask } else { 0 };
    Some((f::TUN_OPTIONS, Masked { value, mask }))
}

/// Reads a word without a value: an EtherType and perhaps a protocol, or `eth`.
fn words(line: &Line<'_>, word: &str) -> Parsed<Vec<(FieldId, Masked)>> {
    let whole = |value: u128, width| Masked {
        value,
        mask: ones(width),
    };
    match shorthand(word) {
        None if word == "eth" => Ok(Vec::new()),
        None => Err(line.unknown(word, "word", "fields have a value, as in reg0=0x1")),
        Some((ether_type, protocol)) => {
            let ether_type = (f::ETH_TYPE, whole(ether_type.into(), 16));
            let protocol = (protocol != 0).then(|| (f::IP_PROTO, whole(protocol.into(), 8)));
            Ok([ether_type].into_iter().chain(protocol).collect())
        }
    }
}

/// Reads a part of a tag, or of the tag behind it.
fn tag(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Option<(FieldId, Masked)>> {
    let (field, word) = match pair.key.strip_suffix('1') {
        Some(word) => (f::VLAN_TCI_INNER, word),
        None => (f::VLAN_TCI, pair.key),
    };
    let present = u128::from(f::VLAN_PRESENT);
    let part = |shift: u32, width| -> Parsed<Masked> {
        let value = line.number(pair.value, width)? << shift;
        Ok(Masked {
            value: value | present,
            mask: ones(width) << shift | present,
        })
    };
    Ok(Some(match word {
        "dl_vlan" => (field, part(0, 12)?),
        "dl_vlan_pcp" => (field, part(13, 3)?),
        "vlan_tci" => (field, line.masked_number(pair.value, 16)?),
        _ => return Ok(None),
    }))
}

/// Reads a field that has only a catalogue name.
fn nameless(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Option<(FieldId, Masked)>> {
    // Such as `present:tcp=0x1`.
    let (name, value) = match (pair.mark, pair.value.split_once('=')) {
        (Mark::Colon, Some((header, value))) => (format!("{}:{header}", pair.key), value),
        _ => (pair.key.to_owned(), pair.value),
    };
    let catalogue = f::fields();
    let place = catalogue.iter().position(|field| field.name == name);
    let field = place.map(|place| FieldId(place as u16));
    let Some(field) = field.filter(|field| fields::name_of(*field).is_none()) else {
        return Ok(None);
    };
    let width = catalogue[field.index()].width_bits;
    Ok(Some((field, line.masked_number(value, width)?)))
}

fn named(line: &Line<'_>, name: &Name, text: &str) -> Parsed<Masked> {
    match name.format {
        Format::Ethernet => line.masked_ethernet(text),
        Format::Ipv4 => line.masked_ipv4(text),
        Format::Ipv6 => line.masked_ipv6(text),
        Format::Fragment => line.fragment(text),
        Format::TcpFlags => line.tcp_flags(text),
        Format::CtState => line.ct_state(text),
        Format::TunFlags => line.tun_flags(text),
        Format::PacketType if text.starts_with('(') => Ok(Masked {
            value: line.packet_type(text)?.into(),
            mask: ones(32),
        }),
        Format::SetOutput if !text.starts_with("0x") => Ok(Masked {
            value: line.set_output(text)?.into(),
            mask: ones(32),
        }),
        _ => line.masked_number(text, name.width_bits),
    }
}
