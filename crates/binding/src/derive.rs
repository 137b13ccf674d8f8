//! Derives P4Info from a program, for when its own is not available.
//!
//! It uses what the program has: tables, keys, actions, profiles, counters, meters, registers,
//! digests and value sets, with their names and widths. Ids are those that p4c assigns: the
//! kind in the first byte, then a hash of the name. So a controller with the compiler's P4Info
//! finds the ids it knows. The id of a field or parameter is its position, from 1.
//!
//! Information that the JSON lacks is lost; a controller that needs it needs the compiler's
//! P4Info:
//!
//! | lost | derived as |
//! | --- | --- |
//! | numbers given by `@id` | numbers from names |
//! | `optional` fields | ternary |
//! | slices of fields | whole fields |
//! | where an action may stand (`@defaultonly`, `@tableonly`) | anywhere |
//! | whether a counter counts packets or bytes | both |
//! | types of their own (`@p4runtime_translation`), structs of registers and digests | bits; a struct of a digest's fields |
//! | `@controller_header` | instances named `packet_in` and `packet_out` |
//! | tables that only ever run one action | left out: nothing can be written to them |
//!
//! 1. Derived P4Info fits its program: it binds without an error.
//!
//! Reference: P4Runtime Specification 1.5.0, "ID Allocation for P4Info Objects".

use std::collections::{BTreeMap, BTreeSet};

use thalweg_control::proto::p4::config::v1 as info;
use thalweg_control::proto::p4::config::v1::p4_ids::Prefix;
use thalweg_p4::Program;
use thalweg_p4::program::table::{KeyPart, MatchKind, Table};

/// The bits of an id below its kind.
const NAME_BITS: u32 = 0xff_ffff;

/// Derives P4Info from a program.
pub fn derive(program: &Program) -> info::P4Info {
    let mut deriver = Deriver {
        program,
        numbers: BTreeMap::new(),
        made: info::P4Info {
            pkg_info: Some(info::PkgInfo {
                arch: "v1model".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        },
    };
    deriver.number_all();
    deriver.actions();
    deriver.tables();
    deriver.profiles();
    deriver.arrays();
    deriver.digests();
    deriver.value_sets();
    deriver.packet_headers();
    deriver.made
}

struct Deriver<'p> {
    program: &'p Program,
    numbers: BTreeMap<(i32, &'p str), u32>,
    made: info::P4Info,
}

impl<'p> Deriver<'p> {
    /// Assigns ids to the names of each kind, in name order as in p4c.
    fn number_all(&mut self) {
        let program = self.program;
        let arrays = &program.arrays;
        let actions = program.tables.iter().flat_map(|table| &table.actions);
        self.number(
            Prefix::Action,
            actions.map(|action| &program.action(*action).name),
        );
        self.number(Prefix::Table, program.tables.iter().map(|one| &one.name));
        let profiles = program.profiles.iter().map(|one| &one.name);
        self.number(Prefix::ActionProfile, profiles);
        for (prefix, is_direct) in [(Prefix::Counter, false), (Prefix::DirectCounter, true)] {
            let counters = arrays.counters.iter();
            let wanted = counters.filter(|one| one.direct_table.is_some() == is_direct);
            self.number(prefix, wanted.map(|one| &one.name));
        }
        for (prefix, is_direct) in [(Prefix::Meter, false), (Prefix::DirectMeter, true)] {
            let meters = arrays.meters.iter();
            let wanted = meters.filter(|one| one.direct_table.is_some() == is_direct);
            self.number(prefix, wanted.map(|one| &one.name));
        }
        self.number(
            Prefix::Register,
            arrays.registers.iter().map(|one| &one.name),
        );
        self.number(
            Prefix::Digest,
            arrays.learn_lists.iter().map(|one| &one.name),
        );
        let sets = program.parser.value_sets.iter().map(|one| &one.name);
        self.number(Prefix::ValueSet, sets);
    }

    fn number(&mut self, prefix: Prefix, names: impl Iterator<Item = &'p String>) {
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        let mut taken = BTreeSet::new();
        for name in names {
            let mut low = one_at_a_time(name.as_bytes()) & NAME_BITS;
            while !taken.insert(low) {
                low = (low + 1) & NAME_BITS;
            }
            let number = (prefix as u32) << 24 | low;
            self.numbers.insert((prefix as i32, name), number);
        }
    }

    fn id(&self, prefix: Prefix, name: &str) -> u32 {
        self.numbers[&(prefix as i32, name)]
    }

    fn preamble(&self, prefix: Prefix, name: &str) -> Option<info::Preamble> {
        Some(info::Preamble {
            id: self.id(prefix, name),
            name: name.to_owned(),
            alias: self.alias(name),
            ..Default::default()
        })
    }

    /// The shortest sequence of last parts that identifies a name.
    fn alias(&self, name: &str) -> String {
        let mut from = name.len();
        loop {
            from = name[..from].rfind('.').map_or(0, |dot| dot);
            let alias = name[from..].trim_start_matches('.');
            let is_of = |other: &str| {
                other == alias
                    || other
                        .strip_suffix(alias)
                        .is_some_and(|rest| rest.ends_with('.'))
            };
            let mut others = self.numbers.keys().map(|(_, other)| *other);
            if from == 0 || !others.any(|other| other != name && is_of(other)) {
                return alias.to_owned();
            }
        }
    }

    fn actions(&mut self) {
        let mut seen = BTreeSet::new();
        let program = self.program;
        for table in &program.tables {
            for id in &table.actions {
                let action = program.action(*id);
                if !seen.insert(&action.name) {
                    continue;
                }
                let parameters = action.parameters.iter().zip(1..);
                let params = parameters.map(|(parameter, id)| info::action::Param {
                    id,
                    name: parameter.name.clone(),
                    bitwidth: parameter.width_bits as i32,
                    ..Default::default()
                });
                let preamble = self.preamble(Prefix::Action, &action.name);
                self.made.actions.push(info::Action {
                    preamble,
                    params: params.collect(),
                });
            }
        }
    }

    fn tables(&mut self) {
        for table in &self.program.tables {
            let made = self.table(table);
            self.made.tables.push(made);
        }
    }

    fn table(&self, table: &Table) -> info::Table {
        let program = self.program;
        let name_of = |action| &program.action(action).name;
        let references = table.actions.iter().map(|action| info::ActionRef {
            id: self.id(Prefix::Action, name_of(*action)),
            ..Default::default()
        });
        let arrays = &program.arrays;
        let mut direct = Vec::new();
        if let Some(counter) = table.counter {
            let name = &arrays.counters[counter.index()].name;
            direct.push(self.id(Prefix::DirectCounter, name));
        }
        if let Some(meter) = table.meter {
            direct.push(self.id(Prefix::DirectMeter, &arrays.meters[meter.index()].name));
        }
        let default = table.default.as_ref();
        let constant = default.filter(|default| default.is_action_constant);
        let action_id = |default: &thalweg_p4::program::table::DefaultEntry| {
            self.id(Prefix::Action, name_of(default.action))
        };
        let behavior = match table.has_timeouts {
            true => info::table::IdleTimeoutBehavior::NotifyControl,
            false => info::table::IdleTimeoutBehavior::NoTimeout,
        };
        let profile = table.profile.map(|id| &program.profiles[id.index()].name);
        info::Table {
            preamble: self.preamble(Prefix::Table, &table.name),
            match_fields: table
                .key
                .iter()
                .zip(1..)
                .map(|(part, id)| field(part, id))
                .collect(),
            action_refs: references.collect(),
            const_default_action_id: constant.map_or(0, action_id),
            implementation_id: profile.map_or(0, |name| self.id(Prefix::ActionProfile, name)),
            direct_resource_ids: direct,
            size: i64::from(table.max_size),
            idle_timeout_behavior: behavior as i32,
            is_const_table: table.is_constant,
            has_initial_entries: !table.entries.is_empty(),
            ..Default::default()
        }
    }

    fn profiles(&mut self) {
        let program = self.program;
        for (index, profile) in program.profiles.iter().enumerate() {
            let mut users = program.tables.iter();
            let users = users
                .by_ref()
                .filter(|table| table.profile.is_some_and(|id| id.index() == index));
            let tables = users.map(|table| self.id(Prefix::Table, &table.name));
            let made = info::ActionProfile {
                preamble: self.preamble(Prefix::ActionProfile, &profile.name),
                table_ids: tables.collect(),
                with_selector: profile.selector.is_some(),
                size: i64::from(profile.max_size),
                ..Default::default()
            };
            self.made.action_profiles.push(made);
        }
    }

    fn arrays(&mut self) {
        let program = self.program;
        for counter in &program.arrays.counters {
            let spec = Some(info::CounterSpec {
                unit: info::counter_spec::Unit::Both as i32,
            });
            match &counter.direct_table {
                None => {
                    let preamble = self.preamble(Prefix::Counter, &counter.name);
                    self.made.counters.push(info::Counter {
                        preamble,
                        spec,
                        size: i64::from(counter.size),
                        ..Default::default()
                    });
                }
                Some(table) if program.find_table(table).is_some() => {
                    let preamble = self.preamble(Prefix::DirectCounter, &counter.name);
                    let direct_table_id = self.id(Prefix::Table, table);
                    self.made.direct_counters.push(info::DirectCounter {
                        preamble,
                        spec,
                        direct_table_id,
                    });
                }
                Some(_) => {}
            }
        }
        for meter in &program.arrays.meters {
            let unit = match meter.counts_bytes {
                true => info::meter_spec::Unit::Bytes,
                false => info::meter_spec::Unit::Packets,
            };
            let spec = Some(info::MeterSpec {
                unit: unit as i32,
                ..Default::default()
            });
            match &meter.direct_table {
                None => {
                    let preamble = self.preamble(Prefix::Meter, &meter.name);
                    self.made.meters.push(info::Meter {
                        preamble,
                        spec,
                        size: i64::from(meter.size),
                        ..Default::default()
                    });
                }
                Some(table) if program.find_table(table).is_some() => {
                    let preamble = self.preamble(Prefix::DirectMeter, &meter.name);
                    let direct_table_id = self.id(Prefix::Table, table);
                    self.made.direct_meters.push(info::DirectMeter {
                        preamble,
                        spec,
                        direct_table_id,
                    });
                }
                Some(_) => {}
            }
        }
        for register in &program.arrays.registers {
            let preamble = self.preamble(Prefix::Register, &register.name);
            self.made.registers.push(info::Register {
                preamble,
                type_spec: Some(bits(register.width_bits)),
                size: register.size as i32,
                ..Default::default()
            });
        }
    }

    /// A learn list is a struct with the list's name.
    fn digests(&mut self) {
        use info::p4_data_type_spec::TypeSpec;
        let program = self.program;
        let mut structs = std::collections::HashMap::new();
        for list in &program.arrays.learn_lists {
            let members = list
                .fields
                .iter()
                .map(|field| info::p4_struct_type_spec::Member {
                    name: program.headers.field(*field).name.clone(),
                    type_spec: Some(bits(program.headers.field(*field).width_bits)),
                });
            let members = members.collect();
            structs.insert(
                list.name.clone(),
                info::P4StructTypeSpec {
                    members,
                    ..Default::default()
                },
            );
            let named = info::P4NamedType {
                name: list.name.clone(),
            };
            let preamble = self.preamble(Prefix::Digest, &list.name);
            self.made.digests.push(info::Digest {
                preamble,
                type_spec: Some(info::P4DataTypeSpec {
                    type_spec: Some(TypeSpec::Struct(named)),
                }),
            });
        }
        if !structs.is_empty() {
            self.made.type_info = Some(info::P4TypeInfo {
                structs,
                ..Default::default()
            });
        }
    }

    fn value_sets(&mut self) {
        let parser = &self.program.parser;
        for (index, set) in parser.value_sets.iter().enumerate() {
            // The parts of the key it is compared with; one part, if it is unused.
            let mut uses = parser.uses.iter();
            let used = uses.find(|one| one.set.index() == index);
            let widths = used.map_or(vec![set.width_bits], |used| used.widths.clone());
            let fields = widths.iter().zip(1..).map(|(width, id)| info::MatchField {
                id,
                name: format!("part{id}"),
                bitwidth: *width as i32,
                r#match: Some(info::match_field::Match::MatchType(
                    info::match_field::MatchType::Exact as i32,
                )),
                ..Default::default()
            });
            let preamble = self.preamble(Prefix::ValueSet, &set.name);
            self.made.value_sets.push(info::ValueSet {
                preamble,
                r#match: fields.collect(),
                size: set.max_size.map_or(0, |size| size as i32),
            });
        }
    }

    fn packet_headers(&mut self) {
        let headers = &self.program.headers;
        for (low, name) in [(1, "packet_in"), (2, "packet_out")] {
            let Some(header) = headers.find_header(name) else {
                continue;
            };
            let fields = headers.header(header).fields().zip(1..);
            let metadata = fields.map(|(field, id)| {
                let field = headers.field(field);
                info::controller_packet_metadata::Metadata {
                    id,
                    name: field.name.clone(),
                    bitwidth: field.width_bits as i32,
                    ..Default::default()
                }
            });
            let preamble = info::Preamble {
                id: (Prefix::ControllerHeader as u32) << 24 | low,
                name: name.to_owned(),
                alias: name.to_owned(),
                ..Default::default()
            };
            let made = info::ControllerPacketMetadata {
                preamble: Some(preamble),
                metadata: metadata.collect(),
            };
            self.made.controller_packet_metadata.push(made);
        }
    }
}

fn field(part: &KeyPart, id: u32) -> info::MatchField {
    let kind = match part.kind {
        MatchKind::Exact => info::match_field::MatchType::Exact,
        MatchKind::Lpm => info::match_field::MatchType::Lpm,
        MatchKind::Ternary => info::match_field::MatchType::Ternary,
        MatchKind::Range => info::match_field::MatchType::Range,
        MatchKind::Optional => info::match_field::MatchType::Optional,
    };
    info::MatchField {
        id,
        name: part.name.clone(),
        bitwidth: part.width_bits as i32,
        r#match: Some(info::match_field::Match::MatchType(kind as i32)),
        ..Default::default()
    }
}

fn bits(width: u32) -> info::P4DataTypeSpec {
    use info::p4_bitstring_like_type_spec::TypeSpec;
    let bit = info::P4BitTypeSpec {
        bitwidth: width as i32,
    };
    let string = info::P4BitstringLikeTypeSpec {
        type_spec: Some(TypeSpec::Bit(bit)),
        ..Default::default()
    };
    info::P4DataTypeSpec {
        type_spec: Some(info::p4_data_type_spec::TypeSpec::Bitstring(string)),
    }
}

/// Jenkins' one-at-a-time hash, from which p4c derives ids.
fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mut hash: u32 = 0;
    for byte in bytes {
        hash = hash.wrapping_add(u32::from(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}
