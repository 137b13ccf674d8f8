//! Prints `ct(...)`: as a rule asks for it, and as a datapath does.

use std::fmt;
use std::net::Ipv6Addr;

use thalweg_conntrack::{AddressTranslation, Alg, Selection, TrackRequest, TranslationKind};

use super::subfield::subfield;
use super::{Context, Out, text};
use crate::tracking::{Tracking, Zone};

/// Writes the action of a rule, as `format_CT` of Open vSwitch does; `exec` are the actions in
/// it, as text.
pub(super) fn tracking(
    out: Out<'_, '_>,
    asked: &Tracking,
    exec: &str,
    context: Context<'_>,
) -> fmt::Result {
    let mut parts = Vec::new();
    let mut flag = |is_set: bool, word: &str| {
        if is_set {
            parts.push(word.to_owned());
        }
    };
    flag(asked.is_commit, "commit");
    flag(asked.is_forced, "force");
    if let Some(table) = asked.table {
        parts.push(format!("table={}", table.number()));
    }
    match &asked.zone {
        Zone::Number(0) => {}
        Zone::Number(zone) => parts.push(format!("zone={zone}")),
        Zone::Field(bits) => {
            parts.push(text(|out| {
                out.write_str("zone=")?;
                subfield(out, bits, context)
            }));
        }
    }
    parts.extend(asked.translation.as_ref().map(print_translation));
    if !asked.exec.is_empty() {
        parts.push(format!("exec({exec})"));
    }
    parts.extend(asked.alg.map(|alg| format!("alg={}", name(alg))));
    write!(out, "ct({})", parts.join(","))
}

/// Prints what a datapath asks of its tracker, as `format_odp_conntrack_action` of Open vSwitch
/// does.
pub fn print_request(request: &TrackRequest) -> String {
    let mut parts = Vec::new();
    match (request.is_commit, request.is_forced) {
        (_, true) => parts.push("force_commit".to_owned()),
        (true, false) => parts.push("commit".to_owned()),
        (false, false) => {}
    }
    if request.zone != 0 {
        parts.push(format!("zone={}", request.zone));
    }
    if let Some(mark) = request.mark {
        let (value, mask) = (mark.value.into(), mark.mask.into());
        parts.push(format!("mark={}/{}", number(value), number(mask)));
    }
    if let Some(label) = request.label {
        parts.push(match label.mask {
            u128::MAX => format!("label={}", number(label.value)),
            mask => format!("label={}/{}", number(label.value), number(mask)),
        });
    }
    parts.extend(request.alg.map(|alg| format!("helper={}", name(alg))));
    parts.extend(request.translation.as_ref().map(print_translation));
    match parts.is_empty() {
        true => "ct".to_owned(),
        false => format!("ct({})", parts.join(",")),
    }
}

/// A number like C's `%#x`: zero has no prefix.
fn number(number: u128) -> String {
    match number {
        0 => "0".to_owned(),
        _ => format!("{number:#x}"),
    }
}

fn name(alg: Alg) -> &'static str {
    match alg {
        Alg::Ftp => "ftp",
        Alg::Tftp => "tftp",
    }
}

/// Prints `nat(...)`.
pub fn print_translation(asked: &AddressTranslation) -> String {
    let Some((kind, addresses, ports)) = asked.target else {
        return "nat".to_owned();
    };
    let kind = match kind {
        TranslationKind::Source => "src",
        TranslationKind::Destination => "dst",
    };
    let Some((first, last)) = addresses else {
        return format!("nat({kind})");
    };
    let address = |address: Ipv6Addr| match address.to_ipv4_mapped() {
        Some(address) => address.to_string(),
        None if ports.is_some() => format!("[{address}]"),
        None => address.to_string(),
    };
    let mut range = format!("{kind}={}", address(first));
    if last != first {
        range += &format!("-{}", address(last));
    }
    match ports {
        Some((first, last)) if first == last => range += &format!(":{first}"),
        Some((first, last)) => range += &format!(":{first}-{last}"),
        None => {}
    }
    if asked.is_persistent {
        range += ",persistent";
    }
    range += match asked.selection {
        Selection::Any => "",
        Selection::Hash => ",hash",
        Selection::Random => ",random",
    };
    format!("nat({range})")
}
