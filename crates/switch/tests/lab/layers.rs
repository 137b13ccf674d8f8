//! Rules that put headers in front of packets and take them off, and packets with such headers.

use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// What rules do before they send.
const CHANGES: [&str; 9] = [
    "encap(nsh)",
    "encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),set_field:7->nsh_spi",
    "encap(mpls),set_mpls_label:9,encap(mpls)",
    "decap()",
    "decap(),encap(ethernet),mod_dl_dst:02:00:00:00:00:09",
    "decap(),decap(packet_type(ns=0,type=0))",
    "encap(nsh(md_type=1)),encap(ethernet),set_field:5->nsh_c1,decap(),decap()",
    "encap(mpls_mc),decap(packet_type(ns=1,type=0x8847)),encap(ethernet)",
    "decap(),encap(mpls),encap(ethernet)",
];

/// Rules for packets of all types.
pub(crate) const RULES: &str = "
priority=65530,dl_type=0x894f,nsh_mdtype=1,actions=dec_nsh_ttl,output:2,decap(),resubmit(,1)
priority=65530,dl_type=0x894f,actions=decap(),resubmit(,1)
priority=65529,in_port=1,ip,actions=decap(),resubmit(,1),output:2
priority=65529,mpls,actions=decap(),resubmit(,1)
priority=65528,in_port=2,actions=encap(nsh),set_field:254->nsh_si,resubmit(,1)
table=1,priority=65530,packet_type=(1,0x894f),nsh_np=3,actions=output:3,decap(),resubmit(,1)
table=1,priority=65529,packet_type=(1,0x894f),nsh_spi=7,actions=move:nsh_c1[]->reg0[],decap(),output:1
table=1,priority=65528,packet_type=(1,0x8847),actions=decap(packet_type(ns=0,type=0)),resubmit(,1)
table=1,priority=65528,packet_type=(1,0x800),actions=dec_ttl,mod_dl_src:02:00:00:00:00:01,output:4
table=1,priority=65528,packet_type=(1,0x86dd),actions=push_vlan:0x8100,encap(ethernet),output:4
";

/// The same rules; those that end with an output change the headers in front of it.
pub(crate) fn with_layers(rules: &str) -> String {
    let lines = rules.lines().map(|line| match line.rfind(",output:") {
        Some(place) if line[place + 8..].bytes().all(|byte| byte.is_ascii_digit()) => {
            let change = CHANGES[line.len() % CHANGES.len()];
            format!("{},{change}{}\n", &line[..place], &line[place..])
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// A packet behind Ethernet and a network service header, which may be damaged.
pub(crate) fn any_service(random: &mut Pcg64Mcg, inner: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..12).map(|_| random.random_range(0..3)).collect();
    let md_type = random.random_range(1..=3_u8);
    let words = if md_type == 2 { 3 } else { 6 };
    let next_protocol = random.random_range(1..=4_u8);
    let ttl = random.random_range(0..3_u8);
    bytes.extend([
        0x89,
        0x4f,
        ttl >> 2,
        ttl << 6 | words,
        md_type,
        next_protocol,
    ]);
    bytes.extend([0, 0, random.random_range(6..9), 255]);
    let context = usize::from(words) * 4 - 8;
    bytes.extend((0..context).map(|_| random.random_range(0..2_u8)));
    bytes.extend_from_slice(match next_protocol {
        3 => inner,
        _ => inner.get(14..).unwrap_or_default(),
    });
    if random.random_ratio(1, 10) {
        bytes.truncate(random.random_range(14..=bytes.len()));
    }
    bytes
}
