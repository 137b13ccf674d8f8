//! `thalweg bench forward --attack`: measures what chosen packets cost other senders.
//!
//! ```text
//!   alone:         each sender by itself, in a switch of its own
//!   under attack:  the attacker sends all of its packets once; then, in turns,
//!                  128 packets of the attacker, 1,024 of the victim, 1,024 of the newcomer
//! ```
//!
//! The victim's flows exist before the attack, the newcomer's begin during it. All packets
//! arrive on one port. Each sender's packets are timed separately, by the thread's processor
//! time. Long work for indexes is not counted, since a running switch does it on another
//! thread. The switch has the default configuration, except for its seed:
//!
//! | attack | packets of the attacker |
//! | --- | --- |
//! | `tse`, `tse6` | 8,192, each with a mask of its own, by IPv4 and by IPv6 |
//! | `collide` | 4,096 whose keys have one slot in the wildcard cache under the seed 0: in a switch with that seed, and in one with a seed of its own |
//! | `evict` | 400,000 with an entry each, twice as many as the wildcard cache has room for |

use anyhow::{Context, Result};
use serde::Serialize;
use thalweg_classifier::MaskedWords;
use thalweg_classifier::hash::WordHash;
use thalweg_io::{CyclePort, NullPort, Port};
use thalweg_packet::{BURST, Instant, Packet, PortId, standard};
use thalweg_pipeline::text;
use thalweg_switch::{Config, Engine};
use thalweg_workload::{AttackCase, packet_of_source};

use super::clock::processor_time_ns;
use super::forward::arguments::{Arguments, Attack};
use super::spread::Spread;
use thalweg_command::console::Console;
use thalweg_command::seed;

/// Flows of the victim, and of the newcomer: more than the exact-match cache holds.
const FLOWS: usize = 20_000;

/// Packets in a turn.
const ATTACKER_TURN: u64 = 128;
const TURN: u64 = 1_024;

/// Number of keys that share a slot, in a table of at most `SLOTS` slots.
const COLLIDING: usize = 4_096;
const SLOTS: u64 = 1 << 15;

/// The seed that the attacker is assumed to know.
const KNOWN_SEED: u64 = 0;

/// A sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Attacker,
    Victim,
    Newcomer,
}

impl Who {
    const ALL: [Who; 3] = [Who::Victim, Who::Newcomer, Who::Attacker];

    fn name(self) -> &'static str {
        match self {
            Who::Attacker => "attacker",
            Who::Victim => "victim",
            Who::Newcomer => "newcomer",
        }
    }

    fn turn(self) -> u64 {
        match self {
            Who::Attacker => ATTACKER_TURN,
            _ => TURN,
        }
    }
}

/// One row of the table.
#[derive(Serialize, Debug)]
struct Row {
    attack: &'static str,
    /// The switch's seed.
    seed: u64,
    sender: &'static str,
    is_under_attack: bool,
    ns_per_packet: Spread,
    packets_per_second: f64,
    /// Cost of a packet relative to the same sender alone.
    ratio: f64,
    /// Upcalls, as a share of the sender's packets.
    upcalls: f64,
    /// Sub-tables searched per packet.
    subtables: f64,
    /// Masks in the wildcard cache at the end.
    masks: usize,
    megaflows: usize,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    rows: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// If the result cannot be printed.
pub(super) fn execute(attacks: &[Attack], arguments: &Arguments, console: &Console) -> Result<()> {
    let progress = console.progress(attacks.len() as u64);
    let mut rows = Vec::new();
    for &attack in attacks {
        let (name, drawn) = (name_of(attack), seed::drawn());
        progress.set_message(name);
        let case = match attack {
            Attack::Tse => AttackCase::explosion(false, FLOWS, arguments.seed)?,
            Attack::Tse6 => AttackCase::explosion(true, FLOWS, arguments.seed)?,
            Attack::Evict => AttackCase::sources(FLOWS, 400_000, arguments.seed)?,
            Attack::Collide => colliding(arguments.seed)?,
        };
        if attack == Attack::Collide {
            measure(
                "collide, seed known",
                &case,
                KNOWN_SEED,
                arguments,
                &mut rows,
            )?;
            measure("collide, seed drawn", &case, drawn, arguments, &mut rows)?;
        } else {
            measure(name, &case, drawn, arguments, &mut rows)?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    console.headline("Cost of forwarding a packet, processor time, alone and under attack")?;
    console.print(&table(&rows).to_string())?;
    console.print_json(&Report {
        command: "bench forward",
        seed: arguments.seed,
        rows,
    })
}

fn name_of(attack: Attack) -> &'static str {
    match attack {
        Attack::Tse => "tse",
        Attack::Tse6 => "tse6",
        Attack::Collide => "collide",
        Attack::Evict => "evict",
    }
}

/// Sources whose keys share a slot of the wildcard cache, in a switch with the known seed.
fn colliding(seed: u64) -> Result<AttackCase> {
    let mut case = AttackCase::sources(FLOWS, 1, seed)?;
    let mut scene = Scene::new(&case.rules, KNOWN_SEED)?;
    scene.forward(&mut source_of(&case.attacker), 1);
    let entries = scene.engine.datapath().entries();
    let entry = entries.first().context("a packet has made an entry")?;
    let (words, hash) = (MaskedWords::new(&entry.mask), WordHash::new(KNOWN_SEED));
    let pipeline = scene.engine.pipeline();
    let (layout, mut key) = (pipeline.layout(), entry.key.clone());
    case.attacker.clear();
    let mut address = 0x0600_0000_0000_u64;
    let end = address + 64 * COLLIDING as u64 * SLOTS;
    while case.attacker.len() < COLLIDING {
        anyhow::ensure!(
            address < end,
            "the cache's hash is another than this looks for"
        );
        layout.set(&mut key, standard::ETH_SRC, address.into());
        // The upper half of the hash selects the slot of a sub-table.
        if (words.hash(&key, hash) >> 33).is_multiple_of(SLOTS) {
            case.attacker.push(packet_of_source(address));
        }
        address += 1;
    }
    Ok(case)
}

/// A switch between sources and a sink in memory.
struct Scene {
    engine: Engine,
    sink: NullPort,
    received: Vec<Packet>,
    sending: Vec<Packet>,
}

fn source_of(packets: &[Vec<u8>]) -> CyclePort {
    let mut packets: Vec<Packet> = packets
        .iter()
        .map(|bytes| Packet::from_bytes(bytes))
        .collect();
    while packets.len() < 2 * BURST {
        packets.extend_from_within(..);
    }
    CyclePort::new(PortId(1), packets)
}

impl Scene {
    fn new(rules: &str, seed: u64) -> Result<Scene> {
        let mut config = Config::default();
        (config.pipeline.index_seed, config.datapath.seed) = (seed, seed);
        let mut engine = Engine::new(config)?;
        for port in [1, 2] {
            engine.add_port(PortId(port), Instant::ZERO);
        }
        let rules = text::parse_rules("attack", rules);
        let rules = rules.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        engine.apply(&rules.into_change(), Instant::ZERO)?;
        Ok(Scene {
            engine,
            sink: NullPort::default(),
            received: Vec::with_capacity(BURST),
            sending: Vec::with_capacity(BURST),
        })
    }

    /// Forwards packets; returns the processor time in nanoseconds.
    fn forward(&mut self, source: &mut CyclePort, packets: u64) -> u64 {
        let start = processor_time_ns();
        let mut forwarded = 0;
        while forwarded < packets {
            let now = Instant::ZERO;
            source.receive(&mut self.engine.outbox().pool, &mut self.received, now);
            forwarded += self.received.len() as u64;
            self.engine.forward(&mut self.received, now);
            let outbox = self.engine.outbox();
            let sent = outbox.sent.drain(..).map(|(_, packet)| packet);
            self.sending.extend(sent);
            self.sink.send(&mut outbox.pool, &mut self.sending);
        }
        let spent = processor_time_ns() - start;
        self.engine.train();
        spent
    }
}

/// The measurements of one sender.
#[derive(Clone, Default)]
struct Account {
    samples: Vec<f64>,
    packets: u64,
    upcalls: u64,
    subtables: u64,
}

/// Lets the senders take turns, for the requested number of samples.
fn turns(
    scene: &mut Scene,
    sources: &mut [(Who, CyclePort)],
    arguments: &Arguments,
) -> Vec<Account> {
    let mut accounts = vec![Account::default(); sources.len()];
    let rounds = (arguments.packets / TURN / 10).max(1);
    for _ in 0..arguments.samples {
        let mut spent = vec![0; sources.len()];
        for _ in 0..rounds {
            for (index, (who, source)) in sources.iter_mut().enumerate() {
                let before = scene.engine.datapath().statistics().clone();
                spent[index] += scene.forward(source, who.turn());
                let after = scene.engine.datapath().statistics();
                let account = &mut accounts[index];
                account.packets += after.packets - before.packets;
                account.upcalls += after.upcalls - before.upcalls;
                account.subtables += after.lookups.subtables - before.lookups.subtables;
            }
        }
        for (index, (who, _)) in sources.iter().enumerate() {
            let sample = spent[index] as f64 / (rounds * who.turn()) as f64;
            accounts[index].samples.push(sample);
        }
    }
    accounts
}

fn measure(
    name: &'static str,
    case: &AttackCase,
    seed: u64,
    arguments: &Arguments,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let packets = |who| match who {
        Who::Attacker => &case.attacker,
        Who::Victim => &case.victim,
        Who::Newcomer => &case.newcomer,
    };
    let mut alone = Vec::new();
    for who in Who::ALL {
        let mut scene = Scene::new(&case.rules, seed)?;
        let mut sources = [(who, source_of(packets(who)))];
        scene.forward(&mut sources[0].1, 2 * packets(who).len() as u64);
        let mut accounts = turns(&mut scene, &mut sources, arguments);
        let account = accounts.remove(0);
        let median = Spread::of(&account.samples).median;
        rows.push(row((name, seed, who, false), &account, median, &scene));
        alone.push(median);
    }
    let mut scene = Scene::new(&case.rules, seed)?;
    let mut sources = Who::ALL.map(|who| (who, source_of(packets(who))));
    let [(_, victim), _, (_, attacker)] = &mut sources;
    scene.forward(victim, 2 * case.victim.len() as u64);
    scene.forward(attacker, case.attacker.len() as u64);
    let accounts = turns(&mut scene, &mut sources, arguments);
    for ((who, account), alone) in Who::ALL.into_iter().zip(accounts).zip(alone) {
        rows.push(row((name, seed, who, true), &account, alone, &scene));
    }
    Ok(())
}

fn row(
    (attack, seed, who, is_under_attack): (&'static str, u64, Who, bool),
    account: &Account,
    alone: f64,
    scene: &Scene,
) -> Row {
    let spread = Spread::of(&account.samples);
    let datapath = scene.engine.datapath();
    Row {
        attack,
        seed,
        sender: who.name(),
        is_under_attack,
        packets_per_second: 1e9 / spread.median,
        ratio: spread.median / alone,
        ns_per_packet: spread,
        upcalls: account.upcalls as f64 / account.packets as f64,
        subtables: account.subtables as f64 / account.packets as f64,
        masks: datapath.mask_count(),
        megaflows: datapath.megaflow_count(),
    }
}

fn table(rows: &[Row]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "attack",
        "sender",
        "",
        "ns/packet",
        "min",
        "max",
        "ratio",
        "upcalls",
        "sub-tables",
        "masks",
        "megaflows",
    ]);
    for row in rows {
        let ns = row.ns_per_packet;
        table.add_row([
            row.attack.to_owned(),
            row.sender.to_owned(),
            match row.is_under_attack {
                true => "under attack",
                false => "alone",
            }
            .to_owned(),
            format!("{:.1}", ns.median),
            format!("{:.1}", ns.min),
            format!("{:.1}", ns.max),
            format!("{:.2}", row.ratio),
            format!("{:.1} %", 100.0 * row.upcalls),
            format!("{:.1}", row.subtables),
            row.masks.to_string(),
            row.megaflows.to_string(),
        ]);
    }
    table
}
