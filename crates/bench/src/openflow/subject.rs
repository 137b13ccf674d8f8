//! The switches that are measured: Thalweg in this process, and Open vSwitch beside it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Wall};

use anyhow::{Context, Result, ensure};
use thalweg_command::input;
use thalweg_control::openflow::{OpenFlowConfig, OpenFlowServer};
use thalweg_io::{CyclePort, NullPort, Port, PortCounters, PortStatus};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{BridgeId, Change, text};
use thalweg_switch::{Interrupter, OpenFlowIdentity, Switch, SwitchConfig, SwitchPort};
use thalweg_workload::{Flow, MicroCase};

use crate::forward::bench::READS_FIVE_TUPLE;
use crate::memory::{processor_ns_of, resident_bytes};
use crate::private_switch::PrivateSwitch;

/// How long the caches may take to fill.
const FILLING_MAX: Duration = Duration::from_secs(120);
/// The longest wait of the switch's owner between two looks at whether it must end.
const POLL: Duration = Duration::from_millis(50);

/// A switch that is measured.
pub(super) enum Subject {
    Thalweg(Box<Thalweg>),
    OpenVSwitch(PrivateSwitch),
}

impl Subject {
    /// Its name in rows.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Subject::Thalweg(_) => "Thalweg",
            Subject::OpenVSwitch(_) => "Open vSwitch",
        }
    }

    /// The socket that clients connect to.
    pub(super) fn socket(&self) -> PathBuf {
        match self {
            Subject::Thalweg(thalweg) => thalweg.socket(),
            Subject::OpenVSwitch(peer) => peer.management(),
        }
    }

    /// Bytes of memory that its process uses now.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        match self {
            Subject::Thalweg(_) => resident_bytes(),
            Subject::OpenVSwitch(peer) => peer.resident_bytes(),
        }
    }

    /// Nanoseconds that the processors have spent on it, without the client, which is the
    /// process's first thread.
    pub(super) fn processor_ns(&self) -> Option<u64> {
        match self {
            Subject::Thalweg(_) => processor_ns_of("self", Some(&std::process::id().to_string())),
            Subject::OpenVSwitch(peer) => peer.processor_ns(),
        }
    }
}

/// The flows that are forwarded meanwhile.
pub(super) struct Traffic {
    flows: Vec<Flow>,
}

impl Traffic {
    /// Flows with a source address each, in random order.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn new(flows: usize, seed: u64) -> Result<Traffic> {
        let flows = MicroCase::macs(flows, seed)?.flows;
        Ok(Traffic { flows })
    }

    /// A rule for each source address, so that each flow has a cached entry of its own; and one
    /// that makes keys have the fields of the client's rules from the start.
    fn rules_text(&self) -> String {
        let rule = |flow: &Flow| {
            let mac = flow.eth_src;
            format!("priority=10,dl_src={mac},actions=output:2\n")
        };
        let rules = self.flows.iter().map(rule);
        rules.chain([READS_FIVE_TUPLE.to_owned()]).collect()
    }

    fn packets(&self) -> Vec<Packet> {
        let packets = self.flows.iter().map(|flow| flow.packet(60));
        packets.map(|bytes| Packet::from_bytes(&bytes)).collect()
    }
}

/// A source that notes the longest time between two looks at it: a packet that arrives just
/// after a look waits for that long.
struct Watched {
    port: CyclePort,
    last: Option<Wall>,
    longest_ns: Arc<AtomicU64>,
}

impl Port for Watched {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let look = Wall::now();
        if let Some(last) = self.last.replace(look) {
            let gap = u64::try_from((look - last).as_nanos()).unwrap_or(u64::MAX);
            self.longest_ns.fetch_max(gap, Ordering::Relaxed);
        }
        self.port.receive(pool, burst, now);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.port.send(pool, burst);
    }

    fn status(&mut self) -> PortStatus {
        self.port.status()
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }
}

/// A running switch with a server, as `thalweg run` has them.
pub(super) struct Thalweg {
    folder: tempfile::TempDir,
    server: OpenFlowServer,
    is_over: Arc<AtomicBool>,
    interrupter: Interrupter,
    /// The owner of the switch, which polls it.
    owner: Option<JoinHandle<()>>,
    longest_ns: Arc<AtomicU64>,
}

impl Thalweg {
    /// Starts a switch with room for `rules` rules of the client, with its traffic if there is
    /// some; returns when all flows are cached.
    ///
    /// # Errors
    /// If it cannot start, or the flows do not fit into its caches.
    pub(super) fn start(rules: usize, traffic: Option<&Traffic>) -> Result<Thalweg> {
        let longest_ns = Arc::new(AtomicU64::new(0));
        let flows = traffic.map_or(0, |traffic| traffic.flows.len());
        let mut switch = start_switch(rules, traffic, &longest_ns)?;
        fill(&mut switch, flows)?;
        let folder = tempfile::Builder::new()
            .prefix("thalweg-bench-openflow-")
            .tempdir()?;
        let plane = switch.open_flow(BridgeId(0), OpenFlowIdentity::new(1, "bench"));
        let socket = format!("punix:{}", folder.path().join("br0.mgmt").display());
        let config = OpenFlowConfig {
            listen: vec![socket.parse()?],
            ..OpenFlowConfig::default()
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let interrupter = switch.interrupter();
        let told = is_over.clone();
        let owner = std::thread::Builder::new().name("owner".to_owned());
        let owner = owner.spawn(move || {
            while !told.load(Ordering::Relaxed) {
                switch.poll(POLL);
            }
            switch.close_openflow(BridgeId(0));
            switch.stop();
        })?;
        Ok(Thalweg {
            folder,
            server: OpenFlowServer::start(plane, config).context("starting a server")?,
            is_over,
            interrupter,
            owner: Some(owner),
            longest_ns,
        })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("br0.mgmt")
    }

    /// The longest time in which no packet was taken, since the last call.
    pub(super) fn take_longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Thalweg {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.interrupter.interrupt();
        if let Some(owner) = self.owner.take() {
            // Its panic was printed.
            let _ = owner.join();
        }
        self.server.stop();
    }
}

/// Forwards until every flow has its cached entry.
fn fill(switch: &mut Switch, flows: usize) -> Result<()> {
    let start = Wall::now();
    loop {
        let cached = switch.totals().megaflows;
        if cached >= flows {
            return Ok(());
        }
        ensure!(
            start.elapsed() < FILLING_MAX,
            "{cached} of {flows} flows were cached in {FILLING_MAX:?}"
        );
        let pause = Wall::now();
        while pause.elapsed() < POLL {
            switch.poll(POLL);
        }
    }
}

fn start_switch(
    rules: usize,
    traffic: Option<&Traffic>,
    longest_ns: &Arc<AtomicU64>,
) -> Result<Switch> {
    let mut config = SwitchConfig {
        packet_bytes: 128,
        ..SwitchConfig::default()
    };
    let (mut first_rules, mut source) = (Change::default(), None);
    if let Some(traffic) = traffic {
        let text = traffic.rules_text();
        let read = text::parse_rules("the traffic's rules", &text).map_err(input::faults)?;
        first_rules = read.into_change();
        config.datapath.megaflow.entries = 2 * traffic.flows.len();
        config.datapath.megaflow.bytes = usize::MAX;
        config.datapath.megaflow.max_idle = None;
        source = Some(Watched {
            port: CyclePort::new(PortId(1), traffic.packets()),
            last: None,
            longest_ns: longest_ns.clone(),
        });
    }
    let needed = rules + first_rules.operations.len();
    config.pipeline.rules = config.pipeline.rules.max(needed);
    let first: Box<dyn Port> = match source {
        Some(source) => Box::new(source),
        None => Box::new(NullPort::default()),
    };
    let ports = vec![
        SwitchPort::new(PortId(1), first),
        SwitchPort {
            number: PortId(2),
            port: Box::new(NullPort::default()),
            is_source: false,
        },
    ];
    Switch::start_with(config, ports, &first_rules).context("starting a switch")
}
