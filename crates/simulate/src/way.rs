//! `--trace-packet`: shows one packet's way, hop by hop, in each run of a plan.

use anyhow::Result;
use serde_json::json;
use thalweg_fabric::{PacketStep, Simulation};

use super::files::Traffic;
use super::placing;
use super::runs::Run;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::report::Table;

/// A packet: the number of its flow in the trace, and its number in the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PacketId {
    flow: u32,
    number: u32,
}

pub(super) fn packet(text: &str) -> Result<PacketId, String> {
    let (flow, number) = text.split_once(':').unwrap_or((text, "0"));
    match (flow.parse(), number.parse()) {
        (Ok(flow), Ok(number)) => Ok(PacketId { flow, number }),
        _ => Err("give the number of a flow, or FLOW:NUMBER, such as 17:0".to_owned()),
    }
}

/// Does all runs, and shows what happened to the packet in each.
///
/// # Errors
/// If a run cannot begin, or no run has such a packet.
pub(super) fn explain(
    packet: PacketId,
    runs: &[&Run],
    traffic: &Traffic,
    console: &Console,
) -> Result<()> {
    if !traffic.trace.iter().any(|line| line.flow == packet.flow) {
        return Err(bad_input(format!(
            "--trace-packet: the trace has no flow {}; give the fourth column of one of its lines",
            packet.flow
        )));
    }
    let (mut ways, mut texts, mut is_found) = (Vec::new(), Vec::new(), false);
    for run in runs {
        let config = placing::placed(run, traffic)?;
        let simulation = Simulation::new(&config, &traffic.trace);
        let mut simulation = simulation.map_err(bad_input)?;
        simulation.watch_packet(packet.flow, packet.number);
        simulation.run();
        let steps = simulation.packet_steps();
        is_found |= !steps.is_empty();
        texts.push((run.text(), table(steps).to_text()));
        ways.push(json!({
            "scheme": run.kind.name(),
            "cache_percent": run.percent(),
            "cache_entries": run.entries,
            "seed": run.config.seed,
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
        }));
    }
    if !is_found {
        return Err(bad_input(format!(
            "--trace-packet: flow {} never sends a packet {}; they are counted from 0",
            packet.flow, packet.number
        )));
    }
    for (title, text) in texts {
        console.headline(&title)?;
        console.print(&format!("{text}\n"))?;
    }
    console.print_json(&json!({
        "flow": packet.flow,
        "packet": packet.number,
        "runs": ways,
    }))
}

fn table(steps: &[PacketStep]) -> Table {
    let mut table = Table::new("")
        .with_numbers("µs")
        .with_words("at")
        .with_words("what happens");
    for step in steps {
        let at = format!("{:.3}", step.at.as_micros_f64());
        table.push(vec![at, step.node.clone(), step.what.clone()]);
    }
    table
}

fn step(step: &PacketStep) -> serde_json::Value {
    json!({
        "at_us": step.at.as_micros_f64(),
        "node": step.node,
        "what": step.what,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_named_by_its_flow_and_number() {
        let id = |flow, number| Ok(PacketId { flow, number });
        assert_eq!(packet("17"), id(17, 0));
        assert_eq!(packet("17:3"), id(17, 3));
        for text in ["", "x", "1:", "1:2:3", "-1"] {
            assert!(packet(text).is_err(), "{text}");
        }
    }
}
