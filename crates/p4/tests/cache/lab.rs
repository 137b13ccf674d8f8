//! Runs two targets of one program on the same input, with and without a cache.
//!
//! Also generates the packets and writes.

use std::sync::Arc;
use std::time::Duration;

use num_bigint::BigUint;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_p4::program::ids::{
    ActionId, CalculationId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};
use thalweg_p4::program::table::{KeyPart, Match, MatchKind};
use thalweg_p4::run::WORK_MAX;
use thalweg_p4::state::{
    ActionCall, Counter, CrcParameters, EntryAction, MeterRates, Mirror, Mode, Rate, Replica,
    TableEntry, Update,
};
use thalweg_p4::{CacheConfig, ClassifierKind, Config, Outbox, Program, Target};
use thalweg_packet::Instant;

/// The result of one packet.
#[derive(PartialEq, Eq, Debug)]
struct Answer {
    sent: Vec<(u32, Vec<u8>)>,
    digests: Vec<(u32, Vec<u64>)>,
}

/// The two targets.
pub(crate) struct Twins {
    pub(crate) program: Arc<Program>,
    pub(crate) plain: Target,
    pub(crate) cached: Target,
    pub(crate) now: Instant,
    outbox: Outbox,
    pub(crate) packets: u64,
}

impl Twins {
    pub(crate) fn new(program: Program, cache: CacheConfig) -> Twins {
        Twins::with_work(program, cache, WORK_MAX)
    }

    /// The same with another limit of work per packet.
    pub(crate) fn with_work(program: Program, cache: CacheConfig, work_max: u64) -> Twins {
        let program = Arc::new(program);
        let target = |cache: Option<CacheConfig>| {
            let classifier = cache.map_or(ClassifierKind::MergedTuples, |cache| cache.classifier);
            let config = Config {
                classifier,
                work_max,
                ..Config::default()
            };
            let target = Target::new(program.clone(), config);
            let mut target = target.expect("own entries");
            target.cache_traversals(cache);
            target
        };
        Twins {
            plain: target(None),
            cached: target(Some(cache)),
            program,
            now: Instant::ZERO,
            outbox: Outbox::new(),
            packets: 0,
        }
    }

    fn answer(
        target: &mut Target,
        outbox: &mut Outbox,
        packet: &(u32, Vec<u8>),
        now: Instant,
    ) -> Answer {
        outbox.clear();
        target.receive(packet.0, &packet.1, now, outbox);
        target.train();
        Answer {
            sent: outbox
                .sent()
                .map(|sent| (sent.port, sent.bytes.to_vec()))
                .collect(),
            digests: outbox
                .digests()
                .map(|digest| (digest.list.0, digest.words.to_vec()))
                .collect(),
        }
    }

    /// Gives both a packet, and compares the results.
    pub(crate) fn receive(&mut self, packet: &(u32, Vec<u8>), what: &str) {
        self.now = self.now + Duration::from_micros(1);
        let plain = Twins::answer(&mut self.plain, &mut self.outbox, packet, self.now);
        let cached = Twins::answer(&mut self.cached, &mut self.outbox, packet, self.now);
        assert_eq!(plain, cached, "{what}: {packet:x?}");
        assert_eq!(self.plain.counts(), self.cached.counts(), "{what}");
        self.packets += 1;
    }

    /// Writes the same to both, and returns whether it was done.
    pub(crate) fn write(&mut self, updates: &[Update], what: &str) -> bool {
        let plain = self.plain.write(updates, self.now);
        let cached = self.cached.write(updates, self.now);
        let text = |outcome: &Result<(), _>| format!("{outcome:?}");
        assert_eq!(text(&plain), text(&cached), "{what}: {updates:?}");
        plain.is_ok()
    }

    /// Compares everything that packets have changed.
    pub(crate) fn compare(&mut self, what: &str) {
        let plain = self.plain.state();
        let difference = plain.difference(self.cached.state(), &self.program);
        assert_eq!(difference, None, "{what}");
    }

    /// Compares every cached segment with a new recording.
    pub(crate) fn check(&mut self, what: &str) {
        if let Err(wrong) = self.cached.check_cache(self.now) {
            panic!("{what}: {wrong}");
        }
    }
}

/// Generates random packets and writes that resemble a program's own packets and entries.
pub(crate) struct Chance {
    pub(crate) random: Pcg64Mcg,
    program: Arc<Program>,
    /// The program's own packets.
    templates: Vec<(u32, Vec<u8>)>,
    /// Recently generated packets, some of which are repeated.
    recent: Vec<(u32, Vec<u8>)>,
    /// The program's own entries, by table.
    entries: Vec<Vec<TableEntry>>,
    ports: Vec<u32>,
}

impl Chance {
    pub(crate) fn new(twins: &mut Twins, templates: Vec<(u32, Vec<u8>)>, seed: u64) -> Chance {
        let program = twins.program.clone();
        let state = twins.plain.state();
        let entries = (0..program.tables.len() as u32)
            .map(|table| state.entries(&program, TableId(table)))
            .collect();
        let mut ports: Vec<u32> = templates.iter().map(|packet| packet.0).collect();
        ports.extend([0, 1, 2, 3]);
        Chance {
            random: Pcg64Mcg::seed_from_u64(seed),
            program,
            templates,
            recent: Vec::new(),
            entries,
            ports,
        }
    }

    /// Generates a packet: a recent one, or a variation of the program's own.
    pub(crate) fn packet(&mut self) -> (u32, Vec<u8>) {
        if self.recent.len() >= 8 && self.random.random_ratio(1, 2) {
            return self.recent.choose(&mut self.random).expect("some").clone();
        }
        let mut packet = self
            .templates
            .choose(&mut self.random)
            .expect("some")
            .clone();
        for _ in 0..self.random.random_range(0..4) {
            self.spoil(&mut packet.1);
        }
        if self.random.random_ratio(1, 4) {
            packet.0 = *self.ports.choose(&mut self.random).expect("some");
        }
        match self.recent.len() < 64 {
            true => self.recent.push(packet.clone()),
            false => {
                let place = self.random.random_range(0..64);
                self.recent[place] = packet.clone();
            }
        }
        packet
    }

    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.random.random_range(0..bytes.len().min(96));
        match self.random.random_range(0..6) {
            0 => bytes[at] = self.random.random(),
            1 => bytes[at] ^= 1 << self.random.random_range(0..8),
            2 => bytes[at] = bytes[at].wrapping_add(1),
            3 => {
                bytes[at] = *[0, 1, 2, 6, 17, 0xff]
                    .choose(&mut self.random)
                    .expect("some")
            }
            4 => bytes.truncate(at + 1),
            _ => {
                // Copies bytes of another packet, at the same place.
                let other = &self.templates.choose(&mut self.random).expect("some").1;
                let end = other.len().min(bytes.len()).min(at + 6);
                if at < end {
                    bytes[at..end].copy_from_slice(&other[at..end]);
                }
            }
        }
    }

    /// A number of `width_bits` bits: from a packet, small, or any.
    fn number(&mut self, width_bits: u32) -> BigUint {
        let ones = (BigUint::from(1_u8) << width_bits) - 1_u8;
        let number = match self.random.random_range(0..8) {
            0..=3 => {
                let bytes = match self.random.random_ratio(1, 2) {
                    true => self.templates.choose(&mut self.random),
                    false => self
                        .recent
                        .choose(&mut self.random)
                        .or(self.templates.first()),
                };
                let bytes = &bytes.expect("some").1;
                let size = width_bits.div_ceil(8) as usize;
                let from = self.random.random_range(0..bytes.len().max(1));
                let slice = &bytes[from.min(bytes.len())..(from + size).min(bytes.len())];
                BigUint::from_bytes_be(slice)
            }
            4..=6 => BigUint::from(self.random.random_range(0..5_u32)),
            _ => BigUint::from(self.random.random::<u64>()),
        };
        number & ones
    }

    fn one_match(&mut self, part: &KeyPart, known: Option<&Match>) -> Match {
        if let Some(known) = known
            && self.random.random_ratio(2, 3)
        {
            return known.clone();
        }
        let width = part.width_bits;
        let ones = (BigUint::from(1_u8) << width) - 1_u8;
        let value = self.number(width);
        match part.kind {
            MatchKind::Exact => Match::Exact(value),
            MatchKind::Lpm => Match::Lpm(value, self.random.random_range(0..=width)),
            MatchKind::Optional if self.random.random_ratio(1, 3) => Match::Any,
            MatchKind::Optional => Match::Exact(value),
            MatchKind::Ternary => match self.random.random_range(0..4) {
                0 => Match::Any,
                1 => Match::Exact(value),
                2 => {
                    let mask = self.number(width);
                    Match::Ternary(&value & &mask, mask)
                }
                _ => {
                    let length = self.random.random_range(0..=width);
                    let mask = &ones >> (width - length) << (width - length);
                    Match::Ternary(&value & &mask, mask)
                }
            },
            MatchKind::Range => {
                let other = self.number(width);
                Match::Range(value.clone().min(other.clone()), value.max(other))
            }
        }
    }

    fn call(&mut self, actions: &[ActionId]) -> Option<ActionCall> {
        let action = *actions.choose(&mut self.random)?;
        let program = self.program.clone();
        let parameters = &program.action(action).parameters;
        let data = parameters
            .iter()
            .map(|parameter| self.number(parameter.width_bits))
            .collect();
        Some(ActionCall { action, data })
    }

    /// An entry that resembles the table's own, or any.
    fn entry(&mut self, id: TableId) -> Option<TableEntry> {
        let program = self.program.clone();
        let table = program.table(id);
        let known = self.entries[id.index()].choose(&mut self.random).cloned();
        if let Some(known) = &known
            && self.random.random_ratio(1, 3)
        {
            return Some(known.clone());
        }
        let matches = table.key.iter().enumerate().map(|(index, part)| {
            let known = known.as_ref().map(|known| &known.matches[index]);
            self.one_match(part, known)
        });
        let matches = matches.collect();
        let action = match table.profile {
            None => EntryAction::Call(self.call(&table.actions)?),
            Some(_) => match self.random.random_range(0..3) {
                0 => EntryAction::Member(self.random.random_range(0..4)),
                1 => EntryAction::Group(self.random.random_range(0..3)),
                _ => {
                    let calls = 0..self.random.random_range(0..4);
                    let calls = calls.map(|_| Some((self.call(&table.actions)?, 1)));
                    EntryAction::OneShot(calls.collect::<Option<_>>()?)
                }
            },
        };
        let priority = match table.has_priorities {
            true => self.random.random_range(0..4),
            false => 0,
        };
        let idle_timeout_ns = match table.has_timeouts {
            true => self.random.random_range(0..3) * 1_000,
            false => 0,
        };
        Some(TableEntry {
            matches,
            priority,
            action,
            idle_timeout_ns,
        })
    }

    /// A batch of updates, most of which succeed.
    pub(crate) fn updates(&mut self) -> Vec<Update> {
        let count = match self.random.random_ratio(1, 6) {
            true => self.random.random_range(2..5),
            false => 1,
        };
        (0..count).filter_map(|_| self.update()).collect()
    }

    /// Some members of each profile, and groups of them.
    pub(crate) fn members_and_groups(&mut self) -> Vec<Update> {
        let program = self.program.clone();
        let mut updates = Vec::new();
        for (index, profile) in program.profiles.iter().enumerate() {
            let id = ProfileId(index as u32);
            for member in 0..3 {
                let call = self.call(&profile.actions);
                updates.push(Update::Member(Mode::Set, id, member, call));
            }
            for group in 0..3 {
                let members = (0..=group).map(|member| (member, 1)).collect();
                updates.push(Update::Group(Mode::Set, id, group, members));
            }
        }
        updates
    }

    fn index_of(&mut self, count: usize) -> Option<u32> {
        (count > 0).then(|| self.random.random_range(0..count as u32))
    }

    // One match, with an arm for each kind of update.
    fn update(&mut self) -> Option<Update> {
        let program = self.program.clone();
        let arrays = &program.arrays;
        if self.random.random_ratio(1, 5) {
            return self.other_update();
        }
        if !program.profiles.is_empty() && self.random.random_ratio(1, 4) {
            let profile = self.index_of(program.profiles.len())?;
            let actions = &program.profiles[profile as usize].actions;
            let profile = ProfileId(profile);
            let mode = *[Mode::Set, Mode::Set, Mode::Delete]
                .choose(&mut self.random)
                .expect("some");
            return Some(match self.random.random_ratio(1, 2) {
                true => {
                    let member = self.random.random_range(0..4);
                    Update::Member(mode, profile, member, self.call(actions))
                }
                false => {
                    let group = self.random.random_range(0..3);
                    let members = (0..4).filter(|_| self.random.random_ratio(1, 2));
                    let members: Vec<u32> = members.collect();
                    let weighed = members.into_iter().map(|member| (member, 1));
                    Update::Group(mode, profile, group, weighed.collect())
                }
            });
        }
        let table = TableId(self.index_of(program.tables.len())?);
        let shape = program.table(table);
        Some(match self.random.random_range(0..12) {
            0 => Update::SetDefault(table, self.call(&shape.actions)),
            1 => Update::SetDefault(table, None),
            2 if self.random.random_ratio(1, 4) => Update::ClearTable(table),
            2 | 3 => {
                let entry = self.entry(table)?;
                Update::ModifyEntry(table, entry)
            }
            4 => {
                let entry = self.entry(table)?;
                let counter = Counter {
                    packets: self.random.random_range(0..9),
                    bytes: 5,
                };
                Update::SetEntryCounter(table, entry.matches, entry.priority, counter)
            }
            5 => {
                let entry = self.entry(table)?;
                let rates = self.rates();
                Update::SetEntryMeter(table, entry.matches, entry.priority, rates)
            }
            6 | 7 => {
                let entry = self.entry(table)?;
                Update::DeleteEntry(table, entry.matches, entry.priority)
            }
            8 if !arrays.meters.is_empty() => self.set_meter()?,
            _ => {
                let entry = self.entry(table)?;
                self.entries[table.index()].push(entry.clone());
                if self.entries[table.index()].len() > 24 {
                    let place = self.random.random_range(0..24);
                    self.entries[table.index()].swap_remove(place);
                }
                Update::InsertEntry(table, entry)
            }
        })
    }

    fn rates(&mut self) -> Option<MeterRates> {
        let rate = |random: &mut Pcg64Mcg| Rate {
            per_second: random.random_range(0..2_000_000),
            burst: random.random_range(0..200),
        };
        let rates = MeterRates {
            committed: rate(&mut self.random),
            peak: rate(&mut self.random),
        };
        self.random.random_ratio(4, 5).then_some(rates)
    }

    fn set_meter(&mut self) -> Option<Update> {
        let array = self.index_of(self.program.arrays.meters.len())?;
        let size = self.program.arrays.meters[array as usize].size.min(8);
        let index = self.index_of(size as usize)?;
        Some(Update::SetMeter(MeterId(array), index, self.rates()))
    }

    fn replicas(&mut self) -> Vec<Replica> {
        let count = self.random.random_range(0..3);
        let replica = |instance| Replica {
            port: *self.ports.choose(&mut self.random).expect("some"),
            instance,
        };
        (0..count).map(replica).collect()
    }

    fn other_update(&mut self) -> Option<Update> {
        let program = self.program.clone();
        let arrays = &program.arrays;
        Some(match self.random.random_range(0..7) {
            0 => {
                let array = self.index_of(arrays.counters.len())?;
                let size = arrays.counters[array as usize].size.min(8);
                let index = self.index_of(size as usize)?;
                Update::SetCounter(CounterId(array), index, Counter::default())
            }
            1 => self.set_meter()?,
            2 => {
                let array = self.index_of(arrays.registers.len())?;
                let shape = &arrays.registers[array as usize];
                let index = self.index_of(shape.size.min(8) as usize)?;
                Update::SetRegister(RegisterId(array), index, self.number(shape.width_bits))
            }
            3 => {
                let set = self.index_of(program.parser.value_sets.len())?;
                let width = program.parser.value_sets[set as usize].width_bits;
                let values = (0..2).map(|_| self.number(width)).collect();
                Update::SetValues(ValueSetId(set), values)
            }
            4 => {
                let mirror = Mirror {
                    group: None,
                    replicas: self.replicas(),
                    length_max_bytes: None,
                };
                Update::Mirror(Mode::Set, self.random.random_range(0..6), mirror)
            }
            5 => {
                let group = self.random.random_range(1..4);
                Update::Multicast(Mode::Set, group, self.replicas())
            }
            _ => {
                let count = program.calculations.calculations.len();
                let parameters = CrcParameters {
                    polynomial: self.random.random_range(1..255),
                    initial: 0,
                    final_xor: 0,
                    is_data_reflected: self.random.random(),
                    is_remainder_reflected: self.random.random(),
                };
                Update::SetCrc(CalculationId(self.index_of(count)?), parameters)
            }
        })
    }
}
