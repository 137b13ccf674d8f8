//! Prints effects like the datapath actions of `ofproto/trace`.
//!
//! Adjacent writes are gathered by header, as Open vSwitch commits them before the next
//! action. Two things differ, because a cache entry here may cover many values of a field: a
//! decremented TTL is printed as `dec_ttl`, not as its new value, and a write may have a mask.

use std::collections::BTreeMap;

use thalweg_packet::{FieldId, Layout};

use super::datapath::Attributes;
use super::tracking::print_request;
use crate::effect::Effect;
use crate::matching::Match;
use crate::text::shape::Shape;

/// Prints a list of effects, for packets of the cache entry with this key and mask.
///
/// Prints `drop` if there are none. Learning stations and counting drops are not actions of a
/// datapath, and are left out.
pub fn print_effects(effects: &[Effect], layout: &Layout, key: &[u64], mask: &[u64]) -> String {
    let shape = Shape::of(&Match::from_words(layout, key, mask));
    match list(effects, shape) {
        text if text.is_empty() => "drop".to_string(),
        text => text,
    }
}

fn list(effects: &[Effect], mut shape: Shape) -> String {
    let mut texts = Vec::new();
    let mut writes = BTreeMap::new();
    for effect in effects {
        if let Effect::Set { field, value, mask } = effect {
            let written: &mut (u128, u128) = writes.entry(*field).or_default();
            *written = (written.0 & !mask | value, written.1 | mask);
            continue;
        }
        flush(&mut texts, &mut writes, shape);
        match effect {
            Effect::PushMpls { ether_type, .. } | Effect::PopMpls { ether_type } => {
                shape.ether_type = *ether_type;
            }
            Effect::Encapsulate { ether_type, .. } => shape.ether_type = *ether_type,
            _ => {}
        }
        texts.extend(one(effect, shape));
    }
    flush(&mut texts, &mut writes, shape);
    texts.join(",")
}

/// Writes the gathered writes.
fn flush(texts: &mut Vec<String>, writes: &mut BTreeMap<FieldId, (u128, u128)>, shape: Shape) {
    let mut bits = Match::default();
    for (field, (value, mask)) in std::mem::take(writes) {
        // Each field occurs once, so no conditions contradict.
        let _ = bits.add(field, value, mask);
    }
    let attributes = Attributes::of(&bits, shape).each();
    texts.extend(attributes.iter().map(|text| format!("set({text})")));
}

/// Writes an effect, if it shows; one match, an arm for each effect.
fn one(effect: &Effect, shape: Shape) -> Option<String> {
    Some(match effect {
        Effect::LearnRule {
            outcomes: Some((with, without)),
            ..
        } => format!("recirc({with:#x}|{without:#x})"),
        Effect::Set { .. }
        | Effect::Learn { .. }
        | Effect::LearnRule { .. }
        | Effect::FinTimeout { .. }
        | Effect::Drop { .. }
        | Effect::LeaveTunnel
        | Effect::Slow { meter: None } => return None,
        Effect::Meter(meter) | Effect::Remark(meter) | Effect::Slow { meter: Some(meter) } => {
            format!("meter({})", meter.0)
        }
        Effect::DecTtl => "dec_ttl".to_string(),
        Effect::DecMplsTtl => "dec_mpls_ttl".to_string(),
        Effect::PushVlan { tpid, tci } => {
            let tpid = match tpid {
                0x8100 => String::new(),
                _ => format!("tpid={tpid:#06x},"),
            };
            format!("push_vlan({tpid}vid={},pcp={})", tci & 0x0fff, tci >> 13)
        }
        Effect::PopVlan => "pop_vlan".to_string(),
        Effect::PushMpls { ether_type, entry } => format!(
            "push_mpls(label={},tc={},ttl={},bos={},eth_type={ether_type:#x})",
            entry >> 12,
            entry >> 9 & 7,
            entry & 0xff,
            entry >> 8 & 1,
        ),
        Effect::PopMpls { ether_type } => format!("pop_mpls(eth_type={ether_type:#x})"),
        Effect::PushEthernet => "push_eth()".to_string(),
        Effect::PopEthernet => "pop_eth".to_string(),
        Effect::Encapsulate { ether_type, header } => {
            let bytes: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("push_header(eth_type={ether_type:#x},0x{bytes})")
        }
        Effect::Decapsulate { packet_type } => {
            let (namespace, kind) = (packet_type >> 16, packet_type & 0xffff);
            format!("pop_header(packet_type({namespace},{kind:#x}))")
        }
        Effect::Queue(queue) => format!("set(skb_priority({queue:#x}))"),
        Effect::Cut { len_bytes } => format!("trunc({len_bytes})"),
        Effect::Output(port) => port.to_string(),
        Effect::Controller {
            reason,
            max_len_bytes,
            meter,
            ..
        } => {
            let reason = reason.number();
            let action =
                format!("userspace(pid=0,controller(reason={reason},max_len={max_len_bytes}))");
            match meter {
                Some(meter) => format!("clone(meter({}),{action})", meter.0),
                None => action,
            }
        }
        Effect::Track(request) => print_request(request),
        Effect::Untrack => "ct_clear".to_string(),
        // A datapath copies the packet where something follows.
        Effect::Clone(nested) if matches!(**nested, [Effect::Recirculate(_)]) => {
            list(nested, shape)
        }
        Effect::Clone(nested) => format!("clone({})", list(nested, shape)),
        Effect::ByLength {
            limit_bytes,
            longer,
            others,
        } => {
            let [longer, others] = [longer, others].map(|effects| match list(effects, shape) {
                text if text.is_empty() => "drop".to_owned(),
                text => text,
            });
            format!("check_pkt_len(size={limit_bytes},gt({longer}),le({others}))")
        }
        Effect::Recirculate(continuation) => format!("recirc({continuation:#x})"),
    })
}
