//! Traces one packet: where it goes, and which of its bits decided that.
//!
//! [`translate`] is the interpreter. It walks the tables with a packet's key. It returns the
//! effects, the mask (the bits that the walk depended on) and the trace, step by step. Here a
//! register carries part of an address to the second table, so the mask has the bits that were
//! copied. `dec_ttl` reads only whether the TTL is above 1, so one entry serves all larger
//! TTLs.
//!
//! Prints:
//!
//! ```text
//! table 0: table=0,priority=9,ip,in_port=1,actions=move:NXM_OF_IP_DST[0..7]->NXM_NX_REG0[0..7],goto_table:1
//!     adds in_port/0xffffffff eth_type/0xffff
//! table 1: table=1,priority=5,ip,reg0=0x2,actions=dec_ttl,output:2
//!     adds nw_dst/0xff nw_proto/0xf0 nw_ttl_above_1/0x1 present:ipv4/0x1
//! megaflow: recirc_id=0,eth,ip,in_port=1,nw_dst=0.0.0.2/0.0.0.255,nw_proto=0x10/0xf0,nw_ttl_above_1=0x1
//! effects: dec_ttl,2
//! ```

use std::error::Error;
use std::io::Write;
use std::net::Ipv4Addr;

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Headers, Instant, Layout, PortId, Receipt};
use thalweg_pipeline::text::{self, MegaflowStyle};
use thalweg_pipeline::{StepKind, translate};
use thalweg_switch::{Config, Engine};

const RULES: &str = "
    table=0,priority=9,in_port=1,ip,actions=move:nw_dst[0..7]->reg0[0..7],goto_table:1
    table=1,priority=9,reg0=2,tcp,actions=drop
    table=1,priority=5,reg0=2,ip,actions=dec_ttl,output:2
";

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}

/// Walks one packet through two tables and prints what each step read.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut engine = Engine::new(Config::default())?;
    engine.add_port(PortId(2), Instant::ZERO);
    let rules = text::parse_rules("rules", RULES).map_err(|faults| faults[0].clone())?;
    engine.apply(&rules.into_change(), Instant::ZERO)?;
    let pipeline = engine.pipeline();

    let packet = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::BROADCAST)
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
        .udp(5000, 53)
        .build();
    // The key has room for the fields that these rules read, and for no others.
    let layout = pipeline.layout();
    let mut key = vec![0; layout.ingress_words()];
    let (headers, receipt) = (Headers::parse(&packet)?, Receipt::from_port(1));
    layout.extract(&packet, &headers, &receipt, &mut key);

    let answer = translate(&pipeline, &key, pipeline.version());
    for step in answer.trace.steps() {
        if let StepKind::Lookup { table, rule } = step.kind {
            let rule = rule.and_then(|id| pipeline.flow_of(id));
            let (rule, added) = (rule.ok_or("a rule matches")?, spell(layout, step.added));
            writeln!(out, "table {}: {rule:#}\n    adds {added}", table.number())?;
        }
    }
    let mask = &answer.mask;
    let megaflow = text::print_megaflow(layout, &key, mask, MegaflowStyle::OpenFlow);
    let effects = text::print_effects(&answer.effects, layout, &key, mask);
    writeln!(out, "megaflow: {megaflow}\neffects: {effects}")?;
    Ok(())
}

fn spell(layout: &Layout, mask: &[u64]) -> String {
    let fields = layout.fields_in(mask);
    let spelt = fields.map(|(field, bits)| format!("{}/{bits:#x}", layout.descriptor(field).name));
    spelt.collect::<Vec<_>>().join(" ")
}
