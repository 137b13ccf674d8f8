//! Stores what controllers have written, the entities of one program, so that they can be read.
//!
//! ```text
//!   an update --> checked against the catalog and what is there --> the store, changed
//!                                                              \--> operations for the target
//! ```
//!
//! The store keeps what a data plane does not need (metadata, the form in which an action was
//! given). It also keeps what decides whether an update is valid (which entries exist, what
//! refers to what). Only the target knows what packets change (counters, registers, times of
//! last hits).
//!
//! 1. Every change of the store goes through a `put_*` function, which records the previous
//!    state; so [`Store::undo_to`] restores any earlier state of the same batch.
//! 2. An update that fails leaves the store and the list of operations unchanged.
//! 3. A member's use count is the number of groups and entries that refer to it; a group's,
//!    that of entries. Neither can be deleted while its count is above zero.
//! 4. Objects that P4Info has and the program lacks have no rows, and no update changes that.
//! 5. Applied to a target with this store's earlier state, the operations produce the later
//!    state.

mod action;
mod arrays;
mod entry;
mod matching;
mod page;
mod profile;
mod read;
mod reading;
mod replication;
mod rows;
mod sets;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

pub use self::matching::messages_of;
pub use self::reading::Reading;
pub(crate) use self::reading::Step;
pub(crate) use self::rows::IdleEntry;
use self::rows::{Rows, Undo};
pub(crate) use self::values::Live;
use crate::change::Change;
use crate::p4info::Catalog;
use crate::problem::Problem;
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::entity::Entity as Kind;
use crate::proto::p4::v1::update::Type;
use crate::target::Initial;

type Result<T> = std::result::Result<T, Problem>;

/// The entities of a program.
pub(crate) struct Store {
    catalog: Arc<Catalog>,
    /// Objects of the catalog that the program lacks; invariant 4.
    absent: BTreeSet<u32>,
    rows: Arc<Rows>,
    undo: Vec<Undo>,
}

/// A position in a batch, for undoing.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    undo: usize,
    operations: usize,
}

impl Store {
    /// Creates a store with the program's own entries.
    pub(crate) fn new(catalog: Arc<Catalog>, mut initial: Initial) -> Store {
        let absent = std::mem::take(&mut initial.absent);
        let rows = Arc::new(Rows::new(&catalog, initial));
        Store {
            catalog,
            absent,
            rows,
            undo: Vec::new(),
        }
    }

    /// A snapshot for reading. The two share their rows until one is written.
    fn snapshot(&self) -> Store {
        Store {
            catalog: self.catalog.clone(),
            absent: self.absent.clone(),
            rows: self.rows.clone(),
            undo: Vec::new(),
        }
    }

    /// The program's P4Info.
    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Marks the current position of the store and the operations.
    pub(crate) fn mark(&self, change: &Change) -> Mark {
        Mark {
            undo: self.undo.len(),
            operations: change.len(),
        }
    }

    /// Undoes everything since a mark of the same batch.
    pub(crate) fn undo_to(&mut self, mark: Mark, change: &mut Change) {
        // Invariant 1: the last change is undone first.
        while self.undo.len() > mark.undo {
            let undo = self.undo.pop().expect("it is longer than the mark");
            Arc::make_mut(&mut self.rows).put(undo);
        }
        change.truncate(mark.operations);
    }

    /// Ends a batch and keeps its changes.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Takes the entries whose time-out was set since the last call.
    pub(crate) fn take_touched(&mut self) -> Vec<IdleEntry> {
        if self.rows.touched.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut Arc::make_mut(&mut self.rows).touched)
    }

    /// Whether the entity's object is in P4Info but not in the program.
    pub(crate) fn is_absent(&self, entity: &Kind) -> bool {
        object_of(entity).is_some_and(|(_, id)| self.absent.contains(&id))
    }

    /// Whether a table's default entry differs from the program's.
    pub(crate) fn has_own_default(&self, table: u32) -> bool {
        let rows = self.rows.tables.get(&table);
        rows.is_some_and(|rows| rows.default.action.is_some())
    }

    /// Whether an entry with this match and priority exists.
    pub(crate) fn has_entry(&self, entry: &p4::TableEntry) -> bool {
        self.entry_named(&self.catalog, Some(entry)).is_ok()
    }

    /// Changes a row, and records its previous state.
    fn put(&mut self, state: Undo) {
        let before = Arc::make_mut(&mut self.rows).put(state);
        self.undo.push(before);
    }

    /// Does one update of a batch.
    ///
    /// # Errors
    /// Fails if it cannot be done; invariant 2 holds.
    pub(crate) fn update(&mut self, update: &p4::Update, change: &mut Change) -> Result<()> {
        let mark = self.mark(change);
        let done = self.dispatch(update, change);
        if done.is_err() {
            self.undo_to(mark, change);
        }
        done
    }

    fn dispatch(&mut self, update: &p4::Update, change: &mut Change) -> Result<()> {
        let kind = update.r#type();
        if kind == Type::Unspecified {
            return Err(Problem::invalid(
                "the update's type is not set; use INSERT, MODIFY or DELETE",
            ));
        }
        let entity = update
            .entity
            .as_ref()
            .and_then(|entity| entity.entity.as_ref());
        let Some(entity) = entity else {
            return Err(Problem::invalid("the update has no entity"));
        };
        if let Some((object, id)) = object_of(entity)
            && self.absent.contains(&id)
        {
            return Err(Problem::unsupported(format!(
                "the {object} {id:#010x} is in P4Info and not in the program, since the compiler \
                 removes what no packet meets; leave it out"
            )));
        }
        match entity {
            Kind::TableEntry(entry) => self.table_entry(kind, entry, change),
            Kind::ActionProfileMember(member) => self.member(kind, member, change),
            Kind::ActionProfileGroup(group) => self.group(kind, group, change),
            Kind::CounterEntry(entry) => self.counter(only_modify(kind)?, entry, change),
            Kind::DirectCounterEntry(entry) => {
                self.direct_counter(only_modify(kind)?, entry, change)
            }
            Kind::MeterEntry(entry) => self.meter(only_modify(kind)?, entry, change),
            Kind::DirectMeterEntry(entry) => self.direct_meter(only_modify(kind)?, entry, change),
            Kind::RegisterEntry(entry) => self.register(only_modify(kind)?, entry, change),
            Kind::PacketReplicationEngineEntry(entry) => self.replication(kind, entry, change),
            Kind::ValueSetEntry(entry) => self.value_set(only_modify(kind)?, entry, change),
            Kind::DigestEntry(entry) => self.digest(kind, entry),
            Kind::ExternEntry(entry) => Err(Problem::unsupported(format!(
                "extern type {:#010x} is not known; v1model has no externs of its own",
                entry.extern_type_id
            ))),
        }
    }
}

/// The P4Info object that an entity belongs to, if any.
fn object_of(entity: &Kind) -> Option<(&'static str, u32)> {
    let table_of = |entry: Option<&p4::TableEntry>| entry.map(|entry| ("table", entry.table_id));
    match entity {
        Kind::TableEntry(entry) => table_of(Some(entry)),
        Kind::DirectCounterEntry(entry) => table_of(entry.table_entry.as_ref()),
        Kind::DirectMeterEntry(entry) => table_of(entry.table_entry.as_ref()),
        Kind::ActionProfileMember(member) => Some(("action profile", member.action_profile_id)),
        Kind::ActionProfileGroup(group) => Some(("action profile", group.action_profile_id)),
        Kind::CounterEntry(entry) => Some(("counter", entry.counter_id)),
        Kind::MeterEntry(entry) => Some(("meter", entry.meter_id)),
        Kind::RegisterEntry(entry) => Some(("register", entry.register_id)),
        Kind::ValueSetEntry(entry) => Some(("value set", entry.value_set_id)),
        Kind::DigestEntry(entry) => Some(("digest", entry.digest_id)),
        Kind::PacketReplicationEngineEntry(_) | Kind::ExternEntry(_) => None,
    }
}

/// Proof that an update of a permanent entity is a modification.
struct Modify;

fn only_modify(kind: Type) -> Result<Modify> {
    match kind {
        Type::Modify => Ok(Modify),
        _ => Err(Problem::invalid(
            "this entity is always there; it can only be modified",
        )),
    }
}

/// Copies a message with its own bytes. The bytes of a decoded message are slices of the
/// request's buffer, which they would keep in memory.
pub(crate) fn owned<M: Message + Default>(message: &M) -> M {
    let bytes = Bytes::from(message.encode_to_vec());
    M::decode(bytes).expect("what was encoded decodes")
}

/// The error for an id that is not in P4Info.
fn unknown(kind: &str, id: u32) -> Problem {
    Problem::invalid(format!("there is no {kind} {id:#010x} in P4Info"))
}
