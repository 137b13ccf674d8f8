//! A running switch with a client, and how a case is run on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_control::openflow::{OpenFlowConfig, OpenFlowServer};
use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_openflow::message::flow::{
    ALL_TABLES, FlowCommand, FlowMod, FlowStats, FlowStatsRequest,
};
use thalweg_openflow::message::group::{
    ALL_BUCKETS, ALL_GROUPS, ANY_GROUP, GroupCommand, GroupMod, GroupType,
};
use thalweg_openflow::message::meter::{ALL_METERS, MeterCommand, MeterConfig, MeterMod};
use thalweg_openflow::message::packet::reason;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{Context, decode};
use thalweg_packet::PortId;
use thalweg_pipeline::BridgeId;
use thalweg_switch::{Interrupter, OpenFlowIdentity, Switch, SwitchConfig, SwitchPort};

use crate::cases::{Case, Expected, Step};
use crate::client::Client;

/// Packets that the queue of a port holds.
const QUEUE: usize = 8_192;
/// How far a share may be from what a case expects, as a part of it.
const MARGIN: f64 = 0.1;

/// Lookups and matches by table.
type TableCounts = BTreeMap<u8, (u64, u64)>;

/// A running switch with three ports.
pub(crate) struct Bench {
    pub(crate) client: Client,
    /// The ports 1, 2 and 3.
    ports: Vec<MemoryHandle>,
    is_over: Arc<AtomicBool>,
    interrupter: Interrupter,
    owner: JoinHandle<()>,
    // It holds the socket.
    _folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn start() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("switch.mgmt");
        let (inner, ports): (Vec<_>, Vec<_>) = (1..=3)
            .map(|number| {
                let (port, handle) = MemoryPort::new(PortId(number), QUEUE);
                (SwitchPort::new(PortId(number), Box::new(port)), handle)
            })
            .unzip();
        let mut switch = Switch::start(SwitchConfig::default(), inner).expect("it starts");
        let plane = switch.open_flow(BridgeId(0), OpenFlowIdentity::new(1, "switch"));
        let address = format!("punix:{}", socket.display());
        let config = OpenFlowConfig {
            listen: vec![address.parse().expect("it is an address")],
            ..OpenFlowConfig::default()
        };
        let mut server = OpenFlowServer::start(plane, config).expect("the socket can be made");
        let is_over = Arc::new(AtomicBool::new(false));
        let interrupter = switch.interrupter();
        let told = is_over.clone();
        let owner = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                switch.poll(Duration::from_secs(1));
            }
            switch.close_openflow(BridgeId(0));
            server.stop();
            switch.stop();
        });
        Bench {
            client: Client::connect(&socket),
            ports,
            is_over,
            interrupter,
            owner,
            _folder: folder,
        }
    }

    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.interrupter.interrupt();
        self.owner.join().expect("the switch ends well");
    }

    /// Runs a case.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn run(&mut self, case: &Case) -> Result<(), String> {
        self.clear()?;
        for message in &case.messages {
            self.install(&message.0)?;
        }
        for step in &case.steps {
            self.step(step)?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), String> {
        for message in [no_flows(), no_groups(), no_meters()] {
            self.client.send(&message);
        }
        self.client.barrier()
    }

    /// Sends a message, and reads back what it has made.
    fn install(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.client.send_bytes(bytes);
        self.client.barrier()?;
        let frame = decode(bytes, Context::default());
        match frame.expect("the switch has read it, too").message {
            Message::FlowMod(flow) => self.check_flow(&flow),
            Message::GroupMod(group) => self.check_group(&group),
            Message::MeterMod(meter) => self.check_meter(&meter),
            other => panic!("no case sends {other:?}"),
        }
    }

    fn check_flow(&mut self, wanted: &FlowMod) -> Result<(), String> {
        let told = self.flows()?;
        let is_wanted = |flow: &FlowStats| {
            (flow.table, flow.priority, flow.cookie)
                == (wanted.table, wanted.priority, wanted.new_cookie)
                && flow.idle_timeout_s == wanted.idle_timeout_s
                && flow.hard_timeout_s == wanted.hard_timeout_s
                && flow.matching == wanted.matching
                && flow.instructions == wanted.instructions
        };
        match told.iter().any(is_wanted) {
            true => Ok(()),
            false => Err(format!("installed {wanted:?}, told {told:?}")),
        }
    }

    /// All flow entries, as the switch tells them.
    pub(crate) fn flows(&mut self) -> Result<Vec<FlowStats>, String> {
        let request = FlowStatsRequest::all();
        let mut told = Vec::new();
        for reply in self.client.ask(Request::Flow(request))? {
            if let Reply::Flow(_, flows) = reply {
                told.extend(flows);
            }
        }
        Ok(told)
    }

    fn check_group(&mut self, wanted: &GroupMod) -> Result<(), String> {
        let told = self.client.ask(Request::GroupDesc(ALL_GROUPS))?;
        let is_wanted = |reply: &Reply| match reply {
            Reply::GroupDesc(groups) => groups.iter().any(|group| {
                (group.group, group.kind) == (wanted.group, wanted.kind)
                    && group.buckets == wanted.buckets
            }),
            _ => false,
        };
        match told.iter().any(is_wanted) {
            true => Ok(()),
            false => Err(format!("installed {wanted:?}, told {told:?}")),
        }
    }

    fn check_meter(&mut self, wanted: &MeterMod) -> Result<(), String> {
        let told = self.client.ask(Request::MeterConfig(ALL_METERS))?;
        let is_wanted = |reply: &Reply| match reply {
            Reply::MeterConfig(meters) => meters.contains(&wanted.meter),
            _ => false,
        };
        match told.iter().any(is_wanted) {
            true => Ok(()),
            false => Err(format!("installed {wanted:?}, told {told:?}")),
        }
    }

    /// Sends a step's packets, and compares what becomes of them.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        if matches!(step.expected, Expected::Rates) {
            return Err("rates are not measured".to_owned());
        }
        self.client.packet_ins.clear();
        let before = self.tables()?;
        let packets = step.packets();
        for packet in (0..step.rounds).flat_map(|_| &packets) {
            while !self.ports[0].inject(packet) {
                std::thread::yield_now();
            }
        }
        while self.ports[0].waiting() > 0 {
            std::thread::yield_now();
        }
        // A worker answers between bursts, so what it has received has left, too.
        let after = self.tables()?;
        let sent: Vec<Vec<Vec<u8>>> = self.ports.iter().map(collect).collect();
        let count = step.rounds * packets.len();
        match &step.expected {
            Expected::Egress(packet) => check_egress(&sent, packet.0.as_slice(), count),
            Expected::PacketIn(packet) => {
                self.client.wait_for_packets(count);
                check_sent(&sent, [0; 3])?;
                self.check_packet_ins(&packet.0, count)
            }
            Expected::TableMiss(tables) => {
                check_sent(&sent, [0; 3])?;
                check_miss(tables, &before, &after)
            }
            Expected::Shares(shares) => check_shares(shares, &sent, count),
            Expected::Rates => Ok(()),
        }
    }

    fn tables(&mut self) -> Result<TableCounts, String> {
        let mut tables = BTreeMap::new();
        for reply in self.client.ask(Request::Table)? {
            if let Reply::Table(rows) = reply {
                let counts = |row: &thalweg_openflow::message::switch::TableStats| {
                    (row.table, (row.lookups, row.matched))
                };
                tables.extend(rows.iter().map(counts));
            }
        }
        Ok(tables)
    }

    fn check_packet_ins(&mut self, wanted: &[u8], count: usize) -> Result<(), String> {
        if self.client.packet_ins.len() != count {
            return Err(format!("{} packet-ins came", self.client.packet_ins.len()));
        }
        for packet in &self.client.packet_ins {
            if matches!(packet.reason, reason::NO_MATCH | reason::INVALID_TTL) {
                return Err(format!("a packet-in for reason {}", packet.reason));
            }
            same(wanted, &packet.data)?;
        }
        Ok(())
    }
}

fn collect(port: &MemoryHandle) -> Vec<Vec<u8>> {
    let packets = port.collect().into_iter();
    packets.map(|packet| packet.bytes().to_vec()).collect()
}

/// Compares how many packets have left from each port.
fn check_sent(sent: &[Vec<Vec<u8>>], wanted: [usize; 3]) -> Result<(), String> {
    let counts: Vec<usize> = sent.iter().map(Vec::len).collect();
    match counts == wanted {
        true => Ok(()),
        false => Err(format!(
            "the ports have sent {counts:?} packets, not {wanted:?}"
        )),
    }
}

fn check_egress(sent: &[Vec<Vec<u8>>], wanted: &[u8], count: usize) -> Result<(), String> {
    check_sent(sent, [0, count, 0])?;
    sent[1].iter().try_for_each(|packet| same(wanted, packet))
}

fn same(wanted: &[u8], found: &[u8]) -> Result<(), String> {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    match wanted == found {
        true => Ok(()),
        false => Err(format!("wanted {}\n    found  {}", hex(wanted), hex(found))),
    }
}

/// Checks that a table was asked, and that no packet matched in those that were.
fn check_miss(tables: &[u8], before: &TableCounts, after: &TableCounts) -> Result<(), String> {
    let asked = |table: &&u8| after[*table].0 > before[*table].0;
    let asked: Vec<&u8> = tables.iter().filter(asked).collect();
    if asked.is_empty() {
        return Err("no packet was looked up".to_owned());
    }
    match asked
        .iter()
        .find(|table| after[**table].1 > before[**table].1)
    {
        Some(table) => Err(format!("a packet matched in table {table}")),
        None => Ok(()),
    }
}

fn check_shares(shares: &[(u32, f64)], sent: &[Vec<Vec<u8>>], count: usize) -> Result<(), String> {
    for (port, share) in shares {
        let found = sent[*port as usize - 1].len() as f64 / count as f64;
        if (found - share).abs() > share * MARGIN {
            return Err(format!(
                "port {port} has sent {found:.3} of them, not {share:.3}"
            ));
        }
    }
    Ok(())
}

fn no_flows() -> Message {
    Message::FlowMod(Box::new(flow_mod(FlowCommand::Delete, ALL_TABLES)))
}

/// A change of flow entries that match everything and do nothing.
pub(crate) fn flow_mod(command: FlowCommand, table: u8) -> FlowMod {
    FlowMod {
        is_nicira: false,
        command,
        table,
        new_cookie: 0,
        cookie: 0,
        cookie_mask: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 0,
        buffer: None,
        out_port: PortNumber::ANY,
        out_group: ANY_GROUP,
        flags: Default::default(),
        importance: 0,
        matching: Default::default(),
        instructions: Default::default(),
    }
}

fn no_groups() -> Message {
    Message::GroupMod(GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group: ALL_GROUPS,
        command_bucket: ALL_BUCKETS,
        buckets: Vec::new(),
        selection: None,
    })
}

fn no_meters() -> Message {
    Message::MeterMod(MeterMod {
        command: MeterCommand::Delete,
        meter: MeterConfig {
            id: ALL_METERS,
            flags: 0,
            bands: Vec::new(),
        },
    })
}
