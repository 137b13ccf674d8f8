//! Copies of a traced packet that a tracker has seen: each goes on as a trace of its own.
//!
//! The tracker's answer is not known. The trace assumes a new connection, or what `--ct-next`
//! says, and that addresses become the first of their range, as `ofproto-dpif-trace.c` does.

use std::net::Ipv6Addr;

use thalweg_conntrack::{AddressTranslation, CtState, TranslationKind};
use thalweg_packet::{PortId, standard as f};
use thalweg_pipeline::BridgeId;

use super::arguments::TraceQuestion;
use super::connection_state::ConnectionState;
use super::frozen::FrozenTrace;
use super::sights::Fork;
use crate::datapath_text::FieldBits;

/// Most copies of a packet that are followed.
pub(super) const FOLLOWED_MAX: usize = 4_096;

/// A copy that goes on.
pub(super) struct Resumed {
    number: u32,
    translation: Option<AddressTranslation>,
    pub(super) question: TraceQuestion,
}

impl Resumed {
    /// A copy of the packet of `former`, which goes on where `frozen` stopped.
    pub(super) fn new(
        fork: Fork,
        (number, frozen): (u32, FrozenTrace),
        former: &TraceQuestion,
        has_bridges: bool,
    ) -> Resumed {
        let mut question = former.clone();
        question.flow.key = fork.key;
        let key = &mut question.flow.key;
        key.set(f::RECIRC_ID, number.into());
        key.set(f::CT_ZONE, fork.zone.into());
        if has_bridges {
            question.bridge = BridgeId::of_port(PortId(key.get(f::IN_PORT) as u32));
        }
        question.actions = None;
        question.frozen = Some(frozen);
        Resumed {
            number,
            translation: fork.translation,
            question,
        }
    }

    /// Gives the packet its next state; returns the lines that say so.
    pub(super) fn resume(&mut self, next: Option<ConnectionState>) -> String {
        let line = "=".repeat(79);
        let mut text = format!(
            "\n\n{line}\nrecirc({:#x}) - resume conntrack with ",
            self.number
        );
        let state = match next {
            Some(state) => {
                text += &format!("ct_state={state}");
                state.bits()
            }
            None => {
                text += "default ct_state=trk|new (use --ct-next to customize)";
                (CtState::TRACKED | CtState::NEW).0
            }
        };
        text.push('\n');
        let key = &mut self.question.flow.key;
        key.set(f::CT_STATE, state.into());
        if let Some(translation) = &self.translation {
            text += "Replacing src/dst IP/ports to simulate NAT:\n Initial flow: ";
            text += &ends(key, translation);
            translate(key, translation);
            text += " Modified flow: ";
            text += &ends(key, translation);
        }
        text + &line + "\n\n"
    }
}

/// The line for copies that are not followed any more.
pub(super) fn too_many(left: usize) -> String {
    let line = "=".repeat(79);
    format!(
        "\n\n{line}\nTrace reached the recirculation limit.  Sopping the trace here.\nQueued but \
         not processed: {left} recirculations."
    )
}

/// Gives the packet the first address and the first port of the range.
fn translate(key: &mut FieldBits, translation: &AddressTranslation) {
    let Some((kind, Some((first, _)), ports)) = translation.target else {
        return;
    };
    let is_source = kind == TranslationKind::Source;
    let (field, value) = match first.to_ipv4_mapped() {
        Some(address) => {
            let field = if is_source { f::IP_SRC } else { f::IP_DST };
            (field, u128::from(address.to_bits()))
        }
        None => {
            let field = if is_source { f::IPV6_SRC } else { f::IPV6_DST };
            (field, u128::from(first))
        }
    };
    key.set(field, value);
    if let Some((port, _)) = ports {
        let field = if is_source { f::TP_SRC } else { f::TP_DST };
        key.set(field, port.into());
    }
}

/// The ends of a connection; nothing if the translation names no address.
fn ends(key: &FieldBits, translation: &AddressTranslation) -> String {
    let Some((_, Some((first, _)), _)) = translation.target else {
        return "\n".to_owned();
    };
    let ports = (key.get(f::TP_SRC), key.get(f::TP_DST));
    if first.to_ipv4_mapped().is_some() {
        let address = |field| std::net::Ipv4Addr::from_bits(key.get(field) as u32);
        return format!(
            "nw_src={},tp_src={},nw_dst={},tp_dst={}\n",
            address(f::IP_SRC),
            ports.0,
            address(f::IP_DST),
            ports.1
        );
    }
    let address = |field| Ipv6Addr::from_bits(key.get(field));
    format!(
        "ipv6_src=[{}],tp_src={},ipv6_dst=[{}],tp_dst={}\n",
        address(f::IPV6_SRC),
        ports.0,
        address(f::IPV6_DST),
        ports.1
    )
}
