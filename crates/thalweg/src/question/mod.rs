//! The packet that somebody asks about, and its way through the pipeline.
//!
//! It is described as a flow (`in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80`) or given as bytes.

mod packet;
mod place;

use anyhow::Result;
use thalweg_packet::{Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text;
use thalweg_pipeline::{Match, Outbox, Pass, Passes, Pipeline};

use crate::failure::bad_input;

/// How the packet is given.
#[derive(Debug, clap::Args)]
pub(crate) struct PacketArguments {
    /// The packet, as `in_port=1,tcp,nw_src=10.0.0.1,...`; what is not said is zero, but for a TTL
    /// of 64
    #[arg(value_name = "FLOW")]
    flow: String,
    /// The packet's bytes in hexadecimal, in place of those made from FLOW
    #[arg(long, value_name = "HEX")]
    packet: Option<String>,
}

/// A packet that somebody asks about.
#[derive(Debug)]
pub(crate) struct Question {
    /// Where it comes in.
    pub(crate) in_port: PortId,
    bytes: Vec<u8>,
}

/// Reads a description of packets.
///
/// # Errors
/// If it is none.
pub(crate) fn read_flow(flow: &str) -> Result<Match> {
    text::parse_match(flow).map_err(|error| place::explain(flow, &error))
}

impl PacketArguments {
    /// The same as given on the command line.
    pub(crate) fn new(flow: String, packet: Option<String>) -> PacketArguments {
        PacketArguments { flow, packet }
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// If there is none of that description.
    pub(crate) fn read(&self) -> Result<Question> {
        let flow = read_flow(&self.flow)?;
        if flow.terms().is_empty() && self.packet.is_none() {
            return Err(bad_input(
                "FLOW says nothing; describe a packet, as in in_port=1,ip,nw_dst=10.0.0.1, or give \
                 its bytes with --packet",
            ));
        }
        let in_port = PortId(flow.term(f::IN_PORT).map_or(0, |term| term.value as u32));
        refuse_what_packets_lack(&flow)?;
        let bytes = match &self.packet {
            Some(digits) => bytes_of(digits)?,
            None => packet::build(&flow)?,
        };
        Ok(Question { in_port, bytes })
    }
}

impl Question {
    /// The packet's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The packet's bytes in hexadecimal.
    pub(crate) fn digits(&self) -> String {
        let digits = self.bytes.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }

    /// Walks the packet and its copies through all their passes.
    ///
    /// # Errors
    /// If it is no frame.
    pub(crate) fn passes(&self, pipeline: &Pipeline) -> Result<Vec<Pass>> {
        let mut packet = Packet::from_bytes(&self.bytes);
        packet.set_received(self.in_port, Instant::ZERO);
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let passes = Passes::new(pipeline, pipeline.version(), packet, &mut outbox);
        let passes = passes.map(|pass| {
            // A packet that is made from FLOW is a frame.
            pass.map_err(|error| {
                bad_input(format!(
                    "--packet: {error}; give all bytes from the destination address on"
                ))
            })
        });
        passes.collect()
    }
}

/// Fields of a flow that no packet can bring along.
fn refuse_what_packets_lack(flow: &Match) -> Result<()> {
    let fields = f::fields();
    let register = flow
        .terms()
        .iter()
        .find(|term| !fields[term.field.index()].is_ingress());
    match register {
        Some(term) => {
            let name = &fields[term.field.index()].name;
            Err(bad_input(format!(
                "FLOW: {name} is zero when a packet comes in; leave it out"
            )))
        }
        None => Ok(()),
    }
}

fn bytes_of(digits: &str) -> Result<Vec<u8>> {
    const EXAMPLE: &str = "give two hexadecimal digits for each byte, as in 0200000000fe";
    let mut values = Vec::new();
    for (index, digit) in digits.chars().enumerate() {
        match digit.to_digit(16) {
            Some(value) => values.push(value as u8),
            None if digit.is_whitespace() => {}
            None => {
                let column = index + 1;
                return Err(bad_input(format!(
                    "--packet:1:{column}: {digit:?} is no hexadecimal digit; {EXAMPLE}"
                )));
            }
        }
    }
    if !values.len().is_multiple_of(2) {
        let count = values.len();
        return Err(bad_input(format!(
            "--packet: {count} is no even number of digits; {EXAMPLE}"
        )));
    }
    let bytes = values.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
    Ok(bytes.collect())
}
