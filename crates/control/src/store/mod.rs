//! What controllers have written: the entities of one program, as they are to be read again.
//!
//! ```text
//!   an update --> checked against the catalog and what is there --> the store, changed
//!                                                              \--> operations for the target
//! ```
//!
//! The store holds what a data plane has no use for (metadata, the form in which an action was
//! given) and what decides whether an update is right (which entries exist, what refers to what).
//! What packets change (counters, registers, when an entry was last met) only the target knows.
//!
//! 1. Every change of the store is made by a `put_*` function, which notes how it was before; so
//!    [`Store::undo_to`] restores any earlier state of the same batch.
//! 2. An update that fails leaves the store and the list of operations as they were.
//! 3. A member is counted once for each group and each entry that refers to it, a group once for
//!    each entry; neither goes while its count is above zero.
//! 4. What the program does not have, though P4Info does, has no rows, and no update changes that.
//! 5. Applied to a target that held this store's earlier state, the operations make it hold the
//!    later one.

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

pub(crate) use self::matching::messages_of;
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
    /// Objects of the catalog that the program does not have; invariant 4.
    absent: BTreeSet<u32>,
    rows: Arc<Rows>,
    undo: Vec<Undo>,
}

/// How far a batch has come.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    undo: usize,
    operations: usize,
}

impl Store {
    /// A store with what the program brings along.
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

    /// The store as it is now, for reading. The two share their rows until one is written.
    fn snapshot(&self) -> Store {
        Store {
            catalog: self.catalog.clone(),
            absent: self.absent.clone(),
            rows: self.rows.clone(),
            undo: Vec::new(),
        }
    }

    /// What the program has.
    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Where the store and the operations are now.
    pub(crate) fn mark(&self, change: &Change) -> Mark {
        Mark {
            undo: self.undo.len(),
            operations: change.len(),
        }
    }

    /// Goes back to a mark of the same batch.
    pub(crate) fn undo_to(&mut self, mark: Mark, change: &mut Change) {
        // Invariant 1: the last change is undone first.
        while self.undo.len() > mark.undo {
            let undo = self.undo.pop().expect("it is longer than the mark");
            Arc::make_mut(&mut self.rows).put(undo);
        }
        change.truncate(mark.operations);
    }

    /// The end of a batch: its changes stay.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Entries whose time-out was set since this was last called.
    pub(crate) fn take_touched(&mut self) -> Vec<IdleEntry> {
        if self.rows.touched.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut Arc::make_mut(&mut self.rows).touched)
    }

    /// Whether the program does not have what this names, though P4Info does.
    pub(crate) fn is_absent(&self, entity: &Kind) -> bool {
        object_of(entity).is_some_and(|(_, id)| self.absent.contains(&id))
    }

    /// Whether a table's default entry is not as the program says.
    pub(crate) fn has_own_default(&self, table: u32) -> bool {
        let rows = self.rows.tables.get(&table);
        rows.is_some_and(|rows| rows.default.action.is_some())
    }

    /// Whether there is an entry of this match and priority.
    pub(crate) fn has_entry(&self, entry: &p4::TableEntry) -> bool {
        self.entry_named(&self.catalog, Some(entry)).is_ok()
    }

    /// Changes something, and notes how it was.
    fn put(&mut self, state: Undo) {
        let before = Arc::make_mut(&mut self.rows).put(state);
        self.undo.push(before);
    }

    /// Does one update of a batch.
    ///
    /// # Errors
    /// If it cannot be done; invariant 2.
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

/// The object of P4Info that an entity is of, if it is of one.
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

/// That an entity which is always there was only to be modified.
struct Modify;

fn only_modify(kind: Type) -> Result<Modify> {
    match kind {
        Type::Modify => Ok(Modify),
        _ => Err(Problem::invalid(
            "this entity is always there; it can only be modified",
        )),
    }
}

/// A copy with bytes of its own: those of a decoded message are parts of the whole request's buffer,
/// which they would keep.
pub(crate) fn owned<M: Message + Default>(message: &M) -> M {
    let bytes = Bytes::from(message.encode_to_vec());
    M::decode(bytes).expect("what was encoded decodes")
}

/// What a number that is not in P4Info is answered with.
fn unknown(kind: &str, id: u32) -> Problem {
    Problem::invalid(format!("there is no {kind} {id:#010x} in P4Info"))
}
