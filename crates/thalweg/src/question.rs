//! Reads the packet that the user asks about, and walks it through the pipeline.
//!
//! ```text
//!   FLOW        in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80     as `ofproto/trace` takes it
//!               recirc_id=0,eth,ip,in_port=1,...            a cache entry, as `trace` prints it
//!               recirc_id(0),in_port(1),eth_type(0x0800)    the same in the datapath's spelling
//!   FLOW HEX    port, tunnel and registers from FLOW, the rest from the packet's bytes
//!   HEX         the bytes, from port 1
//! ```
//!
//! Registers, metadata and tunnel fields are the packet's initial values, as in
//! `ofproto/trace`. An entry stands for many packets; the question's packet has zeros outside
//! the entry's mask.

mod packet;
mod place;

use std::sync::Arc;

use anyhow::Result;
use thalweg_packet::{
    Connection, Headers, Instant, Layout, Packet, PacketPool, PortId, Receipt, TunnelValues,
    standard as f,
};
use thalweg_pipeline::text::TextError;
use thalweg_pipeline::{Beginning, Match, Outbox, Pass, Passes, Pipeline, Term};

use thalweg_command::failure::bad_input;
use thalweg_command::ports::PortNames;

/// Arguments that give the packet.
#[derive(Debug, clap::Args)]
pub(crate) struct PacketArguments {
    /// The packet, as `in_port=1,tcp,nw_src=10.0.0.1,...`, where absent fields are zero,
    /// except a TTL of 64; as a cache entry in either of its spellings; or as its bytes in
    /// hexadecimal, from port 1
    #[arg(value_name = "FLOW")]
    flow: String,
    /// The packet's bytes in hexadecimal, instead of those made from FLOW
    #[arg(value_name = "HEX", conflicts_with = "packet")]
    bytes: Option<String>,
    /// The same
    #[arg(long, value_name = "HEX")]
    packet: Option<String>,
}

/// The packet that the user asks about.
#[derive(Debug)]
pub(crate) struct Question {
    /// Its ingress port.
    pub(crate) in_port: PortId,
    bytes: Vec<u8>,
    beginning: Beginning,
}

/// The spellings of FLOW.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Flow,
    Entry,
    Datapath,
}

impl Spelling {
    fn of(flow: &str) -> Spelling {
        let flow = flow.trim_start();
        let mark = flow.find(['(', '=', ',']).map(|place| &flow[place..=place]);
        match mark {
            Some("(") => Spelling::Datapath,
            _ if flow.starts_with("ufid:") => Spelling::Datapath,
            _ if flow.starts_with("recirc_id=") => Spelling::Entry,
            // Only the mark stands in front of it.
            _ if flow.starts_with("pkt_mark=") && flow.contains(",recirc_id=") => Spelling::Entry,
            _ => Spelling::Flow,
        }
    }

    fn read(self, flow: &str, names: &PortNames) -> Result<Match, TextError> {
        names.with_parser(|parser| match self {
            Spelling::Flow => parser.parse_match(flow),
            Spelling::Entry => parser.parse_megaflow(flow),
            Spelling::Datapath => parser.parse_datapath_flow(flow),
        })
    }
}

/// Reads a description of packets.
///
/// # Errors
/// If the text is not such a description.
pub(crate) fn read_flow(flow: &str, names: &PortNames) -> Result<Match> {
    let read = Spelling::of(flow).read(flow, names);
    read.map_err(|error| place::explain(flow, &error))
}

impl PacketArguments {
    /// Creates the arguments from their command-line values.
    pub(crate) fn new(
        flow: String,
        bytes: Option<String>,
        packet: Option<String>,
    ) -> PacketArguments {
        PacketArguments {
            flow,
            bytes,
            packet,
        }
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// If no packet fits the description.
    pub(crate) fn read(&self, names: &PortNames) -> Result<Question> {
        let given = match (&self.bytes, &self.packet) {
            (Some(digits), _) => Some(bytes_of("HEX", digits)?),
            (None, Some(digits)) => Some(bytes_of("--packet", digits)?),
            (None, None) if is_hexadecimal(&self.flow) => {
                return Ok(Question {
                    in_port: PortId(1),
                    bytes: bytes_of("HEX", &self.flow)?,
                    beginning: Beginning::default(),
                });
            }
            (None, None) => None,
        };
        let flow = read_flow(&self.flow, names)?;
        if flow.terms().is_empty() && given.is_none() {
            return Err(bad_input(
                "FLOW says nothing; describe a packet, as in in_port=1,ip,nw_dst=10.0.0.1, or give \
                 its bytes in hexadecimal",
            ));
        }
        let value = |field| flow.term(field).map_or(0, |term| term.value);
        if value(f::RECIRC_ID) != 0 {
            return Err(bad_input(
                "FLOW: an entry of a later pass says nothing of what happened before it; ask about \
                 the packet as it came in (recirc_id 0)",
            ));
        }
        let bytes = match given {
            Some(bytes) => bytes,
            None => packet::build(&flow)?,
        };
        let question = Question {
            in_port: PortId(value(f::IN_PORT) as u32),
            bytes,
            beginning: beginning(&flow),
        };
        if Spelling::of(&self.flow) != Spelling::Flow {
            question.require(&flow)?;
        }
        Ok(question)
    }
}

/// The packet's initial state besides its bytes.
fn beginning(flow: &Match) -> Beginning {
    let fields = f::fields();
    let value = |field| flow.term(field).map_or(0, |term| term.value);
    let mut connection = Connection::NONE;
    for term in flow.terms() {
        connection.set(term.field, term.value);
    }
    let registers = flow.terms().iter();
    let registers = registers.filter(|term| !fields[term.field.index()].is_ingress());
    Beginning {
        tunnel: TunnelValues::of_fields(flow.terms().iter().map(|term| (term.field, term.value))),
        mark: value(f::PKT_MARK) as u32,
        datapath_hash: value(f::DP_HASH) as u32,
        connection,
        registers: registers.map(|term| (term.field, term.value)).collect(),
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

    /// Refuses initial values that a P4 program does not have.
    ///
    /// # Errors
    /// If the packet begins with registers or tunnel fields.
    pub(crate) fn refuse_what_programs_lack(&self) -> Result<()> {
        match self.beginning == Beginning::default() {
            true => Ok(()),
            false => Err(bad_input(
                "FLOW: a P4 program has no registers, metadata or tunnel fields of OpenFlow's; \
                 leave them out",
            )),
        }
    }

    /// Refuses a packet outside the entry's region: packets cannot be made from every entry.
    fn require(&self, entry: &Match) -> Result<()> {
        let fields = entry.terms().iter().map(|term| term.field).collect();
        let layout = Layout::new(Arc::new(f::fields()), &fields).map_err(bad_input)?;
        let headers = Headers::parse(&self.bytes).map_err(bad_input)?;
        let receipt = Receipt {
            in_port: self.in_port.0,
            recirculation_id: 0,
            packet_type: 0,
            tunnel: Some(&self.beginning.tunnel),
            mark: self.beginning.mark,
            datapath_hash: self.beginning.datapath_hash,
            connection: self.beginning.connection,
        };
        let mut key = vec![0; layout.words()];
        layout.extract(&self.bytes, &headers, &receipt, &mut key);
        let is_other = |term: &&Term| {
            let is_of_packet = layout.descriptor(term.field).is_ingress();
            let value = layout.get(&key, term.field).unwrap_or(0);
            is_of_packet && value & term.mask != term.value
        };
        match entry.terms().iter().find(is_other) {
            None => Ok(()),
            Some(term) => Err(bad_input(format!(
                "FLOW: the packet does not have {}={:#x}/{:#x}; give the bytes of one that does",
                layout.descriptor(term.field).name,
                term.value,
                term.mask
            ))),
        }
    }

    /// Walks the packet and its copies through all their passes.
    ///
    /// # Errors
    /// If the bytes are not a frame.
    pub(crate) fn passes(&self, pipeline: &Pipeline) -> Result<Vec<Pass>> {
        let mut packet = Packet::from_bytes(&self.bytes);
        packet.set_received(self.in_port, Instant::ZERO);
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let passes = Passes::new(pipeline, pipeline.version(), packet, &mut outbox);
        let passes = passes.with_beginning(self.beginning.clone());
        let passes = passes.map(|pass| {
            // A packet made from FLOW is always a frame, so only given bytes can fail.
            pass.map_err(|error| {
                bad_input(format!(
                    "the packet's bytes: {error}; give all bytes from the destination address on"
                ))
            })
        });
        passes.collect()
    }
}

/// Whether a text is bytes rather than a FLOW: no field name consists of hexadecimal digits
/// alone.
fn is_hexadecimal(text: &str) -> bool {
    let mut digits = text
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .peekable();
    digits.peek().is_some() && digits.all(|digit| digit.is_ascii_hexdigit())
}

fn bytes_of(argument: &str, digits: &str) -> Result<Vec<u8>> {
    const EXAMPLE: &str = "give two hexadecimal digits for each byte, as in 0200000000fe";
    let mut values = Vec::new();
    for (index, digit) in digits.chars().enumerate() {
        match digit.to_digit(16) {
            Some(value) => values.push(value as u8),
            None if digit.is_whitespace() => {}
            None => {
                let column = index + 1;
                return Err(bad_input(format!(
                    "{argument}:1:{column}: {digit:?} is no hexadecimal digit; {EXAMPLE}"
                )));
            }
        }
    }
    if !values.len().is_multiple_of(2) {
        let count = values.len();
        return Err(bad_input(format!(
            "{argument}: {count} is no even number of digits; {EXAMPLE}"
        )));
    }
    let bytes = values.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
    Ok(bytes.collect())
}
