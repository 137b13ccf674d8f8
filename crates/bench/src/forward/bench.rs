//! A switch between a source and a sink in memory, which the cases and other benchmarks drive.

use std::fmt::Write as _;

use anyhow::Result;
use thalweg_io::{CyclePort, NullPort, Port};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::text;
use thalweg_switch::{Config, Engine};
use thalweg_workload::MicroCase;

/// Makes the pipeline read the five-tuple; no packet comes from port 99.
pub(crate) const READS_FIVE_TUPLE: &str = "priority=1,in_port=99,udp,nw_src=192.0.2.1,nw_dst=192.0.2.2,\
                                tp_src=1,tp_dst=2,actions=drop\n";

/// A switch with room for this many entries.
pub(crate) fn config(microflows: usize, megaflows: usize) -> Config {
    let mut config = Config::default();
    config.datapath.microflow.entries = microflows;
    config.datapath.microflow.admit_one_in = 1;
    config.datapath.megaflow.entries = megaflows;
    config.datapath.megaflow.bytes = 1 << 30;
    config
}

/// Their packets, of 60 bytes.
pub(super) fn packets_of(flows: impl Iterator<Item = thalweg_workload::Flow>) -> Vec<Packet> {
    flows
        .map(|flow| Packet::from_bytes(&flow.packet(60)))
        .collect()
}

/// A switch between a source and a sink in memory.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    source: CyclePort,
    sink: NullPort,
    received: Vec<Packet>,
    sending: Vec<Packet>,
}

impl Bench {
    /// A switch with the rules of a workload and some others, and a source of its flows.
    ///
    /// # Errors
    /// If the switch cannot be made, or does not take the rules.
    pub(crate) fn of(
        name: &str,
        workload: &MicroCase,
        extra_rules: &str,
        config: Config,
    ) -> Result<Bench> {
        let mut engine = Engine::new(config)?;
        for port in [1, 2, 99] {
            engine.add_port(PortId(port), Instant::ZERO);
        }
        let rules = workload.rules_text() + extra_rules;
        let rules = text::parse_rules(name, &rules).map_err(|errors| {
            let lines = errors.iter().fold(String::new(), |mut lines, error| {
                let _ = writeln!(lines, "{error}");
                lines
            });
            anyhow::anyhow!(lines)
        })?;
        engine.apply(&rules.into_change(), Instant::ZERO)?;
        let mut packets = packets_of(workload.flows.iter().copied());
        while packets.len() < 64 {
            packets.extend_from_within(..);
        }
        Ok(Bench {
            engine,
            source: CyclePort::new(PortId(1), packets),
            sink: NullPort::default(),
            received: Vec::with_capacity(32),
            sending: Vec::with_capacity(32),
        })
    }

    /// Forwards packets of the source's flows.
    pub(crate) fn forward(&mut self, packets: u64) {
        let mut forwarded = 0;
        while forwarded < packets {
            let now = Instant::ZERO;
            self.source
                .receive(&mut self.engine.outbox().pool, &mut self.received, now);
            forwarded += self.received.len() as u64;
            self.engine.forward(&mut self.received, now);
            let outbox = self.engine.outbox();
            self.sending
                .extend(outbox.sent.drain(..).map(|(_, packet)| packet));
            self.sink.send(&mut outbox.pool, &mut self.sending);
        }
    }
}
