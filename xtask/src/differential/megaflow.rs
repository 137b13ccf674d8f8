//! Counts the bits that a cache entry matches, for Open vSwitch and for us.
//!
//! Both count the bits of the packet and of its input port. Bits that every entry of Open
//! vSwitch matches (recirculation id, kind of packet) are left out on both sides. The input
//! port has 16 bits on both, as in OpenFlow 1.0.

use anyhow::Context;
use thalweg_packet::standard as f;
use thalweg_pipeline::Pipeline;

use super::datapath_text::parse_number;

/// Bits of an input port.
const PORT_BITS: u32 = 16;

/// Counts the bits of our mask.
pub(super) fn our_bits(pipeline: &Pipeline, mask: &[u64]) -> u32 {
    let fields = pipeline.layout().fields_in(mask);
    let bits = fields.map(|(field, bits)| match field {
        f::RECIRC_ID => 0,
        f::IN_PORT => PORT_BITS,
        _ => bits.count_ones(),
    });
    bits.sum()
}

/// Counts the bits of a `Megaflow:` line.
pub(super) fn their_bits(text: &str) -> anyhow::Result<u32> {
    let mut total = 0;
    let mut has_vlan_id = [false; 2];
    for term in text.split(',') {
        let bits = match term.split_once('=') {
            None => keyword_bits(term),
            Some(("dl_vlan", _)) => {
                has_vlan_id[0] = true;
                Some(13)
            }
            Some(("dl_vlan1", _)) => {
                has_vlan_id[1] = true;
                Some(13)
            }
            Some(("dl_vlan_pcp", _)) => Some(4 - u32::from(has_vlan_id[0])),
            Some(("dl_vlan_pcp1", _)) => Some(4 - u32::from(has_vlan_id[1])),
            Some((key, value)) => term_bits(key, value)?,
        };
        total += bits.with_context(|| format!("the term `{term}` of {text} is not known"))?;
    }
    Ok(total)
}

fn keyword_bits(word: &str) -> Option<u32> {
    Some(match word {
        "eth" => 0,
        "ip" | "ipv6" | "arp" | "rarp" | "mpls" | "mplsm" => 16,
        "tcp" | "udp" | "sctp" | "icmp" | "tcp6" | "udp6" | "sctp6" | "icmp6" => 24,
        _ => return None,
    })
}

fn term_bits(key: &str, value: &str) -> anyhow::Result<Option<u32>> {
    // Open vSwitch lists these where a walk is frozen or a packet gets a queue; they are the
    // same for every packet.
    if key.starts_with("reg") || matches!(key, "metadata" | "skb_priority") {
        return Ok(Some(0));
    }
    if let Some((_, mask)) = value.split_once('/') {
        let is_address = matches!(
            key,
            "nw_src" | "nw_dst" | "arp_spa" | "arp_tpa" | "ipv6_src" | "ipv6_dst" | "nd_target"
        );
        let is_length = is_address && !mask.contains(['.', ':']);
        let mask = parse_number(mask)?;
        return Ok(Some(if is_length {
            mask as u32
        } else {
            mask.count_ones()
        }));
    }
    Ok(Some(match key {
        "recirc_id" | "packet_type" => 0,
        "pkt_mark" => 32,
        "in_port" => PORT_BITS,
        "dl_src" | "dl_dst" | "arp_sha" | "arp_tha" | "nd_sll" | "nd_tll" => 48,
        "dl_type" | "vlan_tci" | "vlan_tci1" | "tp_src" | "tp_dst" => 16,
        "nw_src" | "nw_dst" | "arp_spa" | "arp_tpa" | "mpls_lse1" | "mpls_lse2" => 32,
        "ipv6_src" | "ipv6_dst" | "nd_target" => 128,
        "ipv6_label" | "mpls_label" => 20,
        "nw_proto" | "nw_ttl" | "mpls_ttl" | "icmp_type" | "icmp_code" | "arp_op" => 8,
        "nw_tos" => 6,
        "nw_ecn" => 2,
        "mpls_tc" => 3,
        "mpls_bos" => 1,
        "nw_frag" if matches!(value, "yes" | "not_later") => 1,
        "nw_frag" => 2,
        "tcp_flags" => match value.matches(['+', '-']).count() as u32 {
            0 => 12,
            count => count,
        },
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_term_by_term() {
        for (text, bits) in [
            (
                "recirc_id=0,eth,udp,in_port=1,nw_dst=10.0.0.0/24,nw_ttl=64,nw_frag=no",
                74,
            ),
            (
                "recirc_id=0,eth,ipv6,ipv6_src=::/ff::fff,ipv6_dst=1::/16",
                16 + 20 + 16,
            ),
            (
                "eth,tcp,dl_vlan=7,dl_vlan_pcp=1,vlan_tci1=0x0000/0x1000",
                24 + 16 + 1,
            ),
            ("eth,tcp,tcp_flags=+syn-ack,tp_dst=0x50/0xfff0", 24 + 2 + 12),
            (
                "eth,dl_vlan_pcp=1,dl_type=0x88b5,dl_src=02:00:00:00:00:00/ff:ff:00:00:00:00",
                36,
            ),
        ] {
            assert_eq!(their_bits(text).unwrap(), bits, "{text}");
        }
        assert!(their_bits("eth,ct_state=+trk").is_err());
    }
}
