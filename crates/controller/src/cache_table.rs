//! Translates between P4Runtime and the keeper of a program with a cache in front (B-Cache).
//!
//! Digests become reports, and the keeper's operations become updates.
//!
//! ```text
//!   start:   write [threshold, digest]
//!   digest:  Keeper::handle_report(numbers) -> operations -> updates -> write; acknowledge
//!   change:  Keeper::begin_change -> write; the change itself -> write;
//!            Keeper::end_change -> epoch -> write; then it may be acknowledged
//! ```
//!
//! All changes of entries must go through the owner of the [`Keeper`].
//!
//! [`Keeper`]: thalweg_p4::behavior::transform::Keeper

use bytes::Bytes;
use num_bigint::BigUint;
use thalweg_control::proto::p4::config::v1 as info;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::p4_data::Data;
use thalweg_control::proto::p4::v1::update::Type;
use thalweg_p4::behavior::transform::{Operation, PREFIX, Plan};

/// The P4Info ids of a cache table and the objects around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheTable {
    /// The table.
    pub table: u32,
    /// The digest that carries its reports.
    pub digest: u32,
    /// By index in [`Plan::actions`].
    actions: Vec<u32>,
    begin_table: u32,
    begin_action: u32,
    threshold: u32,
}

impl CacheTable {
    /// Finds the ids by name; `None` if the P4Info does not match the plan's program.
    pub fn find(p4info: &info::P4Info, plan: &Plan) -> Option<CacheTable> {
        let find = |preambles: Vec<&Option<info::Preamble>>, name: &str| {
            let mut preambles = preambles.into_iter().flatten();
            let found = preambles.find(|preamble| preamble.name == name);
            found.map(|preamble| preamble.id)
        };
        let name = |what: &str| format!("{PREFIX}.{what}");
        let tables = || p4info.tables.iter().map(|one| &one.preamble).collect();
        let actions = || p4info.actions.iter().map(|one| &one.preamble).collect();
        let registers = p4info.registers.iter().map(|one| &one.preamble).collect();
        let digests = p4info.digests.iter().map(|one| &one.preamble).collect();
        let compound = plan.actions.iter();
        Some(CacheTable {
            table: find(tables(), &name("cache"))?,
            begin_table: find(tables(), &name("begin"))?,
            begin_action: find(actions(), &name("begin"))?,
            threshold: find(registers, &name("threshold"))?,
            digest: find(digests, &name("report"))?,
            actions: compound
                .map(|action| find(actions(), &action.name))
                .collect::<Option<_>>()?,
        })
    }

    /// The first updates: the detector's threshold, and a request for reports.
    pub fn start(&self, threshold: u16, config: p4::digest_entry::Config) -> Vec<p4::Update> {
        let threshold = p4::RegisterEntry {
            register_id: self.threshold,
            index: Some(p4::Index { index: 0 }),
            data: Some(p4::P4Data {
                data: Some(Data::Bitstring(canonical(&threshold.into()))),
            }),
        };
        let digest = p4::DigestEntry {
            digest_id: self.digest,
            config: Some(config),
        };
        vec![
            update(Type::Modify, Kind::RegisterEntry(threshold)),
            update(Type::Insert, Kind::DigestEntry(digest)),
        ]
    }

    /// The updates for the keeper's operations.
    pub fn updates(&self, operations: Vec<Operation>) -> Vec<p4::Update> {
        let updates = operations.into_iter().map(|operation| match operation {
            Operation::Delete(key) => update(Type::Delete, Kind::TableEntry(self.entry(&key))),
            Operation::Insert(key, action, data) => {
                let mut entry = self.entry(&key);
                entry.action = Some(call(self.actions[action], &data));
                update(Type::Insert, Kind::TableEntry(entry))
            }
        });
        updates.collect()
    }

    /// The update that sets the epoch of later packets.
    pub fn epoch(&self, epoch: u32) -> p4::Update {
        let entry = p4::TableEntry {
            table_id: self.begin_table,
            is_default_action: true,
            action: Some(call(self.begin_action, &[epoch.into()])),
            ..p4::TableEntry::default()
        };
        update(Type::Modify, Kind::TableEntry(entry))
    }

    fn entry(&self, key: &[BigUint]) -> p4::TableEntry {
        let parts = key.iter().zip(1..).map(|(value, field_id)| p4::FieldMatch {
            field_id,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(
                p4::field_match::Exact {
                    value: canonical(value),
                },
            )),
        });
        p4::TableEntry {
            table_id: self.table,
            r#match: parts.collect(),
            ..p4::TableEntry::default()
        }
    }
}

/// The numbers of a report; `None` if it is no tuple of numbers.
pub fn report_numbers(data: &p4::P4Data) -> Option<Vec<BigUint>> {
    let Some(Data::Tuple(tuple)) = &data.data else {
        return None;
    };
    let numbers = tuple.members.iter().map(|member| match &member.data {
        Some(Data::Bitstring(bytes)) => Some(BigUint::from_bytes_be(bytes)),
        _ => None,
    });
    numbers.collect()
}

/// The shortest byte string, of at least one byte.
fn canonical(number: &BigUint) -> Bytes {
    number.to_bytes_be().into()
}

fn call(action_id: u32, data: &[BigUint]) -> p4::TableAction {
    let params = data
        .iter()
        .zip(1..)
        .map(|(value, param_id)| p4::action::Param {
            param_id,
            value: canonical(value),
        });
    p4::TableAction {
        r#type: Some(p4::table_action::Type::Action(p4::Action {
            action_id,
            params: params.collect(),
        })),
    }
}

fn update(kind: Type, entity: Kind) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    }
}
