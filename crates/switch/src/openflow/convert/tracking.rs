//! `ct` and `nat`, in both directions.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_conntrack::{AddressTranslation, Alg, Selection, TranslationKind};
use thalweg_openflow::action::{self as of_action, Ct, CtZone, Nat};
use thalweg_openflow::{ErrorCode, Refusal, refuse};
use thalweg_pipeline::{Subfield, TableId, Tracking, Zone};

/// Flags of `ct` (`NX_CT_F_*`).
const COMMIT: u16 = 1;
const FORCE: u16 = 2;

/// The table that stands for none (`NX_CT_RECIRC_NONE`).
const NO_TABLE: u8 = 0xff;

/// Flags of `nat` (`NX_NAT_F_*`).
const SOURCE: u16 = 1;
const DESTINATION: u16 = 2;
const PERSISTENT: u16 = 4;
const HASH: u16 = 8;
const RANDOM: u16 = 16;

/// The ports of the protocols that announce connections.
const ALGS: [(u16, Alg); 2] = [(21, Alg::Ftp), (69, Alg::Tftp)];

/// Converts a `ct`, without its nested actions.
///
/// # Errors
/// If its zone is in a field that the pipeline does not have, or its protocol is not known.
pub(super) fn without_actions(
    asked: &Ct,
    subfield: impl Fn(of_action::Subfield) -> Result<Subfield, Refusal>,
) -> Result<Tracking, Refusal> {
    let zone = match asked.zone {
        CtZone::Number(zone) => Zone::Number(zone),
        CtZone::Field(bits) => Zone::Field(subfield(bits)?),
    };
    let alg = match asked.alg {
        0 => None,
        port => match ALGS.iter().find(|(known, _)| *known == port) {
            Some((_, alg)) => Some(*alg),
            None => {
                let what = format!("connections are followed for FTP and TFTP, not for {port}");
                return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
            }
        },
    };
    let table = Some(asked.recirc_table).filter(|table| *table != NO_TABLE);
    Ok(Tracking {
        zone,
        is_commit: asked.flags & COMMIT != 0,
        is_forced: asked.flags & FORCE != 0,
        table: table.map(|table| TableId(table.into())),
        translation: None,
        alg,
        exec: [].into(),
    })
}

/// How a `nat` translates.
pub(super) fn translation(nat: &Nat) -> AddressTranslation {
    let kind = match nat.flags & (SOURCE | DESTINATION) {
        0 => None,
        SOURCE => Some(TranslationKind::Source),
        _ => Some(TranslationKind::Destination),
    };
    let ipv4 = |address: [u8; 4]| Ipv4Addr::from(address).to_ipv6_mapped();
    let (first, last) = match nat.ipv4.0 {
        Some(_) => (nat.ipv4.0.map(ipv4), nat.ipv4.1.map(ipv4)),
        None => (
            nat.ipv6.0.map(Ipv6Addr::from),
            nat.ipv6.1.map(Ipv6Addr::from),
        ),
    };
    let addresses = first.map(|first| (first, last.unwrap_or(first)));
    let ports = nat
        .ports
        .0
        .map(|first| (first, nat.ports.1.unwrap_or(first)));
    AddressTranslation {
        target: kind.map(|kind| (kind, addresses, ports)),
        selection: match nat.flags & (HASH | RANDOM) {
            0 => Selection::Any,
            HASH => Selection::Hash,
            _ => Selection::Random,
        },
        is_persistent: nat.flags & PERSISTENT != 0,
    }
}

/// A `ct` as OpenFlow tells it.
pub(super) fn told(asked: &Tracking, zone: CtZone, mut exec: Vec<of_action::Action>) -> Ct {
    let flag = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
    if let Some(translation) = &asked.translation {
        exec.insert(0, of_action::Action::Nat(Box::new(told_nat(translation))));
    }
    let port = |alg: Alg| ALGS.iter().find(|(_, known)| *known == alg);
    Ct {
        flags: flag(asked.is_commit, COMMIT) | flag(asked.is_forced, FORCE),
        zone,
        recirc_table: asked.table.map_or(NO_TABLE, |table| table.number()),
        alg: asked.alg.and_then(port).map_or(0, |(port, _)| *port),
        actions: exec,
    }
}

fn told_nat(asked: &AddressTranslation) -> Nat {
    let Some((kind, addresses, ports)) = asked.target else {
        return Nat::default();
    };
    let kind = match kind {
        TranslationKind::Source => SOURCE,
        TranslationKind::Destination => DESTINATION,
    };
    let selection = match asked.selection {
        Selection::Any => 0,
        Selection::Hash => HASH,
        Selection::Random => RANDOM,
    };
    let persistent = if asked.is_persistent { PERSISTENT } else { 0 };
    let mut nat = Nat {
        flags: kind | selection | persistent,
        ..Nat::default()
    };
    if let Some((first, last)) = addresses {
        let last = Some(last).filter(|last| *last != first);
        match first.to_ipv4_mapped() {
            Some(first) => {
                let last = last.and_then(|last| last.to_ipv4_mapped());
                nat.ipv4 = (Some(first.octets()), last.map(|last| last.octets()));
            }
            None => nat.ipv6 = (Some(first.octets()), last.map(|last| last.octets())),
        }
    }
    if let Some((first, last)) = ports {
        nat.ports = (Some(first), Some(last).filter(|last| *last != first));
    }
    nat
}
