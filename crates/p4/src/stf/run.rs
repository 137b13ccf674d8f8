//! Runs a script against a program.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use num_bigint::BigUint;
use thalweg_packet::Instant;

use crate::program::ids::{CounterId, MeterId, RegisterId, TableId};
use crate::program::table::Match;
use crate::run::Outbox;
use crate::state::{Counter, EntryAction, MeterRates, Mirror, Mode, Replica, TableEntry, Update};
use crate::target::Target;

use super::parse::{Comparison, CounterCheck, Script, Statement};
use super::resolve;

/// The vectors count bytes as on an Ethernet wire, with each packet's frame check sequence
/// (IEEE 802.3, 3.2.9). Injected packets, and our counters, are without it.
const FRAME_CHECK_BYTES: u64 = 4;

/// A failure of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The line; `None` if the failure was only found at the end.
    pub line: Option<usize>,
    /// A description of the failure.
    pub what: String,
}

/// Runs a script and returns all failures.
///
/// Time advances by a microsecond with each line.
pub fn run(script: &Script, target: &mut Target) -> Vec<Failure> {
    let named = script
        .statements
        .iter()
        .filter_map(|(_, statement)| match statement {
            Statement::Packet { port, .. } | Statement::Expect { port, .. } => Some(*port),
            _ => None,
        });
    let mut runner = Runner {
        target,
        ports: named.collect(),
        outbox: Outbox::new(),
        expected: BTreeMap::new(),
        seen: BTreeMap::new(),
        labels: HashMap::new(),
        nodes: Vec::new(),
        now: Instant::ZERO,
        failures: Vec::new(),
    };
    for (line, statement) in &script.statements {
        runner.now = runner.now + std::time::Duration::from_micros(1);
        if let Err(what) = runner.statement(*line, statement) {
            runner.failures.push(Failure {
                line: Some(*line),
                what,
            });
        }
    }
    runner.finish()
}

/// An expected packet.
struct Expected {
    line: usize,
    nibbles: Option<Vec<Option<u8>>>,
    is_whole: bool,
}

struct Runner<'t> {
    target: &'t mut Target,
    /// The ports that exist: those that the script names.
    ports: BTreeSet<u32>,
    outbox: Outbox,
    expected: BTreeMap<u32, VecDeque<Expected>>,
    seen: BTreeMap<u32, Vec<Vec<u8>>>,
    labels: HashMap<String, (TableId, Vec<Match>, u32)>,
    nodes: Vec<Vec<Replica>>,
    now: Instant,
    failures: Vec<Failure>,
}

impl Runner<'_> {
    fn write(&mut self, update: Update) -> Result<(), String> {
        let written = self.target.write(&[update], self.now);
        written.map_err(|failed| failed.error.to_string())
    }

    // One match, with an arm for each statement.
    fn statement(&mut self, line: usize, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Add {
                table,
                priority,
                matches,
                action,
                arguments,
                label,
            } => {
                let program = self.target.program().clone();
                let table = resolve::table(&program, table)?;
                let shape = program.table(table);
                let matches = resolve::matches(&program, shape, matches)?;
                let call = resolve::call(&program, table, action, arguments)?;
                // A priority may be written where the key has none.
                let priority = if shape.has_priorities {
                    priority.unwrap_or(0)
                } else {
                    0
                };
                if let Some(label) = label {
                    let known = (table, matches.clone(), priority);
                    self.labels.insert(label.clone(), known);
                }
                self.write(Update::InsertEntry(
                    table,
                    TableEntry {
                        matches,
                        priority,
                        action: EntryAction::Call(call),
                        idle_timeout_ns: 0,
                    },
                ))
            }
            Statement::SetDefault {
                table,
                action,
                arguments,
            } => {
                let program = self.target.program().clone();
                let table = resolve::table(&program, table)?;
                let call = resolve::call(&program, table, action, arguments)?;
                self.write(Update::SetDefault(table, Some(call)))
            }
            Statement::Packet { port, bytes } => {
                self.outbox.clear();
                self.target
                    .receive(*port, bytes, self.now, &mut self.outbox);
                let ports = &self.ports;
                for sent in self.outbox.sent().filter(|sent| ports.contains(&sent.port)) {
                    self.seen
                        .entry(sent.port)
                        .or_default()
                        .push(sent.bytes.to_vec());
                }
                Ok(())
            }
            Statement::Expect {
                port,
                nibbles,
                is_whole,
            } => {
                self.expected.entry(*port).or_default().push_back(Expected {
                    line,
                    nibbles: nibbles.clone(),
                    is_whole: *is_whole,
                });
                Ok(())
            }
            Statement::NoPacket => match self.seen.values().all(Vec::is_empty) {
                true => Ok(()),
                false => Err("a packet left, and none should".to_owned()),
            },
            Statement::Wait | Statement::Read => Ok(()),
            Statement::RemoveAll => self.remove_all(),
            Statement::CheckCounter(check) => self.check_counter(check),
            other => self.setting(other),
        }
    }

    /// Runs statements on anything but tables.
    // One match, with an arm for each statement.
    fn setting(&mut self, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::MirrorToPort { session, port } => {
                let replica = Replica {
                    port: *port,
                    instance: 0,
                };
                self.write(Update::Mirror(
                    Mode::Set,
                    *session,
                    Mirror {
                        replicas: vec![replica],
                        ..Mirror::default()
                    },
                ))
            }
            Statement::MirrorToGroup { session, group } => self.write(Update::Mirror(
                Mode::Set,
                *session,
                Mirror {
                    group: Some(*group),
                    ..Mirror::default()
                },
            )),
            Statement::CreateGroup(group) => {
                self.write(Update::Multicast(Mode::Insert, *group, Vec::new()))
            }
            Statement::CreateNode { instance, ports } => {
                let replicas = ports.iter().map(|&port| Replica {
                    port,
                    instance: *instance,
                });
                self.nodes.push(replicas.collect());
                Ok(())
            }
            Statement::Associate { group, node } => {
                let node = self.nodes.get(*node).ok_or("there is no such node")?;
                let before = self.target.state().multicast(*group).unwrap_or_default();
                let all = [before, node].concat();
                self.write(Update::Multicast(Mode::Modify, *group, all))
            }
            Statement::WriteRegister {
                register,
                index,
                value,
            } => {
                let register = self.register(register)?;
                let value = resolve::positive(value)?;
                self.write(Update::SetRegister(register, *index, value))
            }
            Statement::ResetRegister(register) => {
                let register = self.register(register)?;
                let size = self.target.program().arrays.registers[register.index()].size;
                (0..size).try_for_each(|index| {
                    self.write(Update::SetRegister(register, index, BigUint::ZERO))
                })
            }
            Statement::SetRates {
                meter,
                index,
                rates,
            } => self.set_rates(meter, *index, rates),
            _ => unreachable!("the caller has the others"),
        }
    }

    fn register(&self, written: &str) -> Result<RegisterId, String> {
        let registers = &self.target.program().arrays.registers;
        let found = registers
            .iter()
            .position(|array| resolve::is_meant(&array.name, written));
        found
            .map(|index| RegisterId(index as u32))
            .ok_or_else(|| format!("there is no register {written:?}"))
    }

    fn set_rates(
        &mut self,
        meter: &str,
        index: u32,
        rates: &[(String, u64)],
    ) -> Result<(), String> {
        let meters = &self.target.program().arrays.meters;
        let found = meters
            .iter()
            .position(|array| resolve::is_meant(&array.name, meter));
        let id = found.map(|index| MeterId(index as u32));
        let id = id.ok_or_else(|| format!("there is no meter {meter:?}"))?;
        let mut read = Vec::new();
        for (rate, burst) in rates {
            read.push(crate::commands::rate(&format!("{rate}:{burst}"))?);
        }
        let (Some(&committed), Some(&peak)) = (read.first(), read.last()) else {
            return Err("a meter needs a rate".to_owned());
        };
        self.write(Update::SetMeter(
            id,
            index,
            Some(MeterRates { committed, peak }),
        ))
    }

    fn remove_all(&mut self) -> Result<(), String> {
        for index in 0..self.target.program().tables.len() {
            if !self.target.program().tables[index].is_constant {
                self.write(Update::ClearTable(TableId(index as u32)))?;
            }
        }
        Ok(())
    }

    fn check_counter(&mut self, check: &CounterCheck) -> Result<(), String> {
        let program = self.target.program().clone();
        let counters = &program.arrays.counters;
        let found = counters
            .iter()
            .position(|array| resolve::is_meant(&array.name, &check.counter));
        let id = found.ok_or_else(|| format!("there is no counter {:?}", check.counter))?;
        let counter: Counter = match check.index.strip_prefix('$') {
            Some(label) => {
                let known = self.labels.get(label);
                let (table, matches, priority) =
                    known.ok_or_else(|| format!("no entry has the label {label:?}"))?;
                let entry = self
                    .target
                    .state()
                    .entry(&program, *table, matches, *priority);
                let entry = entry.map_err(|error| error.to_string())?;
                entry.ok_or("the entry is gone")?.counter()
            }
            None => {
                let index: u32 = check.index.parse().map_err(|_| "no index".to_owned())?;
                let counter = self.target.state().counter(CounterId(id as u32), index);
                counter.ok_or("the counter has no such cell")?
            }
        };
        let Some((is_bytes, comparison, wanted)) = check.condition else {
            return Ok(());
        };
        let count = match is_bytes {
            true => counter.bytes + FRAME_CHECK_BYTES * counter.packets,
            false => counter.packets,
        };
        let holds = match comparison {
            Comparison::Equal => count == wanted,
            Comparison::NotEqual => count != wanted,
            Comparison::Less => count < wanted,
            Comparison::LessOrEqual => count <= wanted,
            Comparison::Greater => count > wanted,
            Comparison::GreaterOrEqual => count >= wanted,
        };
        match holds {
            true => Ok(()),
            false => Err(format!("the counter is at {counter:?}")),
        }
    }

    /// Compares the packets that left with the expected ones.
    fn finish(mut self) -> Vec<Failure> {
        let mut fail = |line, what| self.failures.push(Failure { line, what });
        for (port, packets) in &self.seen {
            let mut expected = self.expected.remove(port).unwrap_or_default();
            for packet in packets {
                let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
                match expected.pop_front() {
                    None => fail(None, format!("port {port}: nobody expected {hex}")),
                    Some(one) if !one.is_met_by(packet) => {
                        let what = format!("port {port}: expected {}, not {hex}", one.text());
                        fail(Some(one.line), what);
                    }
                    Some(_) => {}
                }
            }
            for one in expected {
                fail(
                    Some(one.line),
                    format!("port {port}: {} did not come", one.text()),
                );
            }
        }
        for (port, expected) in &self.expected {
            for one in expected {
                fail(
                    Some(one.line),
                    format!("port {port}: {} did not come", one.text()),
                );
            }
        }
        self.failures
    }
}

impl Expected {
    fn is_met_by(&self, packet: &[u8]) -> bool {
        let Some(nibbles) = &self.nibbles else {
            return true;
        };
        let there: Vec<u8> = packet
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .collect();
        let has_length = match self.is_whole {
            true => there.len() == nibbles.len(),
            false => there.len() >= nibbles.len(),
        };
        let mut pairs = nibbles.iter().zip(&there);
        has_length && pairs.all(|(wanted, there)| wanted.is_none_or(|wanted| wanted == *there))
    }

    fn text(&self) -> String {
        let Some(nibbles) = &self.nibbles else {
            return "any packet".to_owned();
        };
        let digit = |nibble: &Option<u8>| {
            nibble
                .and_then(|nibble| char::from_digit(nibble.into(), 16))
                .unwrap_or('*')
        };
        let end = if self.is_whole { "$" } else { "" };
        nibbles.iter().map(digit).collect::<String>() + end
    }
}
