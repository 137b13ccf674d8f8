//! Binds P4Info to a program: maps P4Info's ids to the program's indices.
//!
//! Both come from one compilation and are joined by name: a table, action, field or array of
//! P4Info has its name in the program's JSON. Binding detects a P4Info of another program or
//! version before anything is written.
//!
//! 1. Every object of the catalog is bound to one of the program, or known to be absent from
//!    it. The compiler writes P4Info before it removes unreachable objects, such as a table
//!    that is never applied. Everything in a program is in the P4Info compiled with it. So a
//!    P4Info that lacks some of it belongs to another program, and its extra objects were not
//!    removed by the compiler.
//! 2. A field or parameter has the program's width, unless P4Info gives its type a wider width
//!    of its own for controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_control::{Catalog, Field, MatchKind, Problem, Table};
use thalweg_p4::Program;
use thalweg_p4::program::ids::{
    ActionId, CounterId, LearnListId, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};
use thalweg_p4::program::table::MatchKind as Kind;

type Result<T> = std::result::Result<T, Problem>;

/// Capacity of a table where neither P4Info nor the P4 program gives one: the compiler's
/// default.
const DEFAULT_SIZE: u32 = 1_024;

/// The ids of P4Info mapped to those of the program.
#[derive(Debug, Default)]
pub struct Binding {
    /// Tables, by P4Info's number.
    pub tables: BTreeMap<u32, BoundTable>,
    pub(crate) profiles: BTreeMap<u32, BoundProfile>,
    /// Counter arrays, by P4Info's number.
    pub counters: BTreeMap<u32, CounterId>,
    pub(crate) meters: BTreeMap<u32, MeterId>,
    /// Register arrays, by P4Info's number.
    pub registers: BTreeMap<u32, RegisterId>,
    pub(crate) value_sets: BTreeMap<u32, BoundSet>,
    /// By the program's learn list: the digest.
    pub digests: BTreeMap<LearnListId, u32>,
    /// Objects that the program lacks; invariant 1.
    pub absent: BTreeSet<u32>,
    /// For absent registers, how many numbers each holds.
    pub absent_registers: BTreeMap<u32, usize>,
}

/// The names of the program's errors, by number.
pub(crate) type ErrorNames = BTreeMap<u64, String>;

/// A table of the program.
#[derive(Debug, Default)]
pub struct BoundTable {
    /// `None` if the program has no such table: it is absent, or always runs one action.
    pub table: Option<TableId>,
    /// For each part of the program's key, the field of P4Info.
    pub(crate) parts: Vec<Part>,
    /// The program's actions, by P4Info's number.
    pub actions: BTreeMap<u32, ActionId>,
}

/// A part of a key.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The index of the field in P4Info's key.
    pub(crate) field: usize,
    pub(crate) kind: Kind,
    /// The bits of the program's field.
    pub(crate) width: u32,
    /// For a slice, its lowest bit in the program's field.
    pub(crate) shift: u32,
    /// The match kind in P4Info.
    pub(crate) asked: MatchKind,
    /// Number of bits in both fields.
    ///
    /// A slice has fewer bits than the program's field, a translated field has more.
    pub(crate) shared: u32,
    /// The names of its values, if it is of type `error`.
    pub(crate) names: Option<Arc<ErrorNames>>,
}

#[derive(Debug)]
pub(crate) struct BoundProfile {
    pub(crate) profile: ProfileId,
    pub(crate) actions: BTreeMap<u32, ActionId>,
}

/// A value set, with the widths of a member's fields.
#[derive(Debug)]
pub(crate) struct BoundSet {
    pub(crate) set: ValueSetId,
    pub(crate) widths: Vec<u32>,
}

impl Binding {
    /// Binds P4Info to a program.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if they do not belong to the same program.
    pub fn new(catalog: &Catalog, program: &Program) -> Result<Binding> {
        let mut binding = Binding::default();
        let names = program.errors.names.iter();
        let names = Arc::new(names.map(|(code, name)| (*code, name.clone())).collect());
        let mut absent = Absent::of(catalog, program);
        for table in catalog.tables.values() {
            let bound = match program.find_table(&table.name) {
                Some(id) => bind_table(catalog, program, (table, id), &names, &mut absent)?,
                None => {
                    // A table that always runs one action became part of the pipeline.
                    if !(table.fields.is_empty() && table.has_const_default) {
                        absent.add("table", &table.name, table.id)?;
                    }
                    BoundTable::default()
                }
            };
            binding.tables.insert(table.id, bound);
        }
        for profile in catalog.profiles.values() {
            let Some(id) = program.find_profile(&profile.name) else {
                absent.add("action profile", &profile.name, profile.id)?;
                continue;
            };
            let shape = &program.profiles[id.index()];
            if profile.has_selector != shape.selector.is_some() {
                return Err(unlike("action profile", &profile.name, "a selector"));
            }
            let mut actions = BTreeMap::new();
            let tables = profile.tables.iter();
            let tables = tables.filter(|id| !absent.ids.contains(id));
            let tables = tables.filter_map(|id| catalog.tables.get(id));
            for action in tables.flat_map(|table| table.actions.keys()) {
                let name = &catalog.actions[action].name;
                let found = find_action(program, &shape.actions, name);
                let found = found.ok_or_else(|| missing("action", name))?;
                actions.insert(*action, found);
            }
            let profile_of = BoundProfile {
                profile: id,
                actions,
            };
            binding.profiles.insert(profile.id, profile_of);
        }
        binding.bind_arrays(catalog, program, &mut absent)?;
        binding.bind_digests(catalog, program, &mut absent)?;
        binding.bind_sets(catalog, program, &mut absent)?;
        binding.absent = absent.ids;
        Ok(binding)
    }

    fn bind_arrays(
        &mut self,
        catalog: &Catalog,
        program: &Program,
        absent: &mut Absent,
    ) -> Result<()> {
        let arrays = &program.arrays;
        for counter in catalog.counters.values() {
            let Some(id) = arrays.find_counter(&counter.name) else {
                absent.add("counter", &counter.name, counter.id)?;
                continue;
            };
            let size = arrays.counters[id.index()].size;
            check_size("counter", &counter.name, counter.size, size)?;
            self.counters.insert(counter.id, id);
        }
        for meter in catalog.meters.values() {
            let Some(id) = arrays.find_meter(&meter.name) else {
                absent.add("meter", &meter.name, meter.id)?;
                continue;
            };
            let size = arrays.meters[id.index()].size;
            check_size("meter", &meter.name, meter.size, size)?;
            self.meters.insert(meter.id, id);
        }
        for register in catalog.registers.values() {
            let Some(id) = arrays.find_register(&register.name) else {
                absent.add("register", &register.name, register.id)?;
                let widths = register.shape.widths().len();
                self.absent_registers.insert(register.id, widths);
                continue;
            };
            let shape = &arrays.registers[id.index()];
            check_size("register", &register.name, register.size, shape.size)?;
            if register.shape.check().is_ok() && register.shape.widths() != [shape.width_bits] {
                return Err(unlike("register", &register.name, "another type"));
            }
            self.registers.insert(register.id, id);
        }
        Ok(())
    }

    fn bind_digests(
        &mut self,
        catalog: &Catalog,
        program: &Program,
        absent: &mut Absent,
    ) -> Result<()> {
        let arrays = &program.arrays;
        for digest in catalog.digests.values() {
            let mut lists = arrays.learn_lists.iter();
            let Some(index) = lists.position(|list| list.name == digest.name) else {
                absent.add("digest", &digest.name, digest.id)?;
                continue;
            };
            let fields = arrays.learn_lists[index].fields.iter();
            let widths = fields.map(|field| program.headers.field(*field).width_bits);
            let own = digest.shape.widths();
            let is_alike = own.len() == widths.len()
                && own.iter().zip(widths).all(|(own, width)| *own >= width);
            if digest.shape.check().is_ok() && !is_alike {
                return Err(unlike("digest", &digest.name, "another type"));
            }
            self.digests.insert(LearnListId(index as u32), digest.id);
        }
        Ok(())
    }

    fn bind_sets(
        &mut self,
        catalog: &Catalog,
        program: &Program,
        absent: &mut Absent,
    ) -> Result<()> {
        for set in catalog.value_sets.values() {
            let Some(id) = program.parser.find_value_set(&set.name) else {
                absent.add("value set", &set.name, set.id)?;
                continue;
            };
            let widths: Vec<u32> = set.fields.iter().map(|field| field.width).collect();
            let width = program.parser.value_sets[id.index()].width_bits;
            if widths.iter().sum::<u32>() != width {
                return Err(unlike("value set", &set.name, "another width"));
            }
            self.value_sets.insert(set.id, BoundSet { set: id, widths });
        }
        Ok(())
    }
}

/// Objects of P4Info that the program lacks; invariant 1.
struct Absent {
    ids: BTreeSet<u32>,
    /// Whether P4Info has everything that the program has.
    is_of_program: bool,
}

impl Absent {
    fn of(catalog: &Catalog, program: &Program) -> Absent {
        let tables: BTreeSet<&str> = named(&catalog.tables, |one| &one.name);
        let keyed = || program.tables.iter().filter(|one| !one.key.is_empty());
        // The compiler adds tables with entries that P4Info lacks: a `switch` becomes one.
        let mut open = keyed().filter(|one| one.entries.is_empty());
        let has_tables = open.all(|one| tables.contains(one.name.as_str()))
            && (keyed().next().is_none() || keyed().any(|one| tables.contains(one.name.as_str())));
        let arrays = &program.arrays;
        let counters = arrays.counters.iter();
        let counters = counters.filter(|one| one.direct_table.is_none());
        let meters = arrays.meters.iter();
        let meters = meters.filter(|one| one.direct_table.is_none());
        let (profiles, registers) = (program.profiles.iter(), arrays.registers.iter());
        let (lists, sets) = (arrays.learn_lists.iter(), program.parser.value_sets.iter());
        let has_others = has_all(
            &named(&catalog.counters, |one| &one.name),
            counters,
            |one| &one.name,
        ) && has_all(&named(&catalog.meters, |one| &one.name), meters, |one| {
            &one.name
        }) && has_all(
            &named(&catalog.profiles, |one| &one.name),
            profiles,
            |one| &one.name,
        ) && has_all(
            &named(&catalog.registers, |one| &one.name),
            registers,
            |one| &one.name,
        ) && has_all(&named(&catalog.digests, |one| &one.name), lists, |one| {
            &one.name
        }) && has_all(&named(&catalog.value_sets, |one| &one.name), sets, |one| {
            &one.name
        });
        Absent {
            ids: BTreeSet::new(),
            is_of_program: has_tables && has_others,
        }
    }

    /// Adds an absent object, or fails if P4Info belongs to another program.
    fn add(&mut self, kind: &str, name: &str, id: u32) -> Result<()> {
        if !self.is_of_program {
            return Err(missing(kind, name));
        }
        self.ids.insert(id);
        Ok(())
    }
}

fn named<T>(objects: &BTreeMap<u32, T>, name: impl Fn(&T) -> &String) -> BTreeSet<&str> {
    objects.values().map(|one| name(one).as_str()).collect()
}

fn has_all<'p, T: 'p>(
    names: &BTreeSet<&str>,
    mut own: impl Iterator<Item = &'p T>,
    name: impl Fn(&T) -> &String,
) -> bool {
    own.all(|one| names.contains(name(one).as_str()))
}

/// Lets controllers write to tables whose entries P4Info does not call constant.
///
/// The JSON does not distinguish `entries` from `const entries`, and gives the number of
/// entries as the size (P4Runtime 1.4.1, section 9.1.5, "Preinitialized tables").
pub fn open_tables(catalog: &Catalog, program: &mut Program) {
    for table in catalog.tables.values().filter(|table| !table.is_const) {
        let Some(id) = program.find_table(&table.name) else {
            continue;
        };
        if program.table(id).is_constant {
            let size = u32::try_from(table.size).unwrap_or(u32::MAX);
            program.open_table(id, if size == 0 { DEFAULT_SIZE } else { size });
        }
    }
}

fn bind_table(
    catalog: &Catalog,
    program: &Program,
    (table, id): (&Table, TableId),
    names: &Arc<ErrorNames>,
    absent: &mut Absent,
) -> Result<BoundTable> {
    let shape = program.table(id);
    if table.fields.len() != shape.key.len() {
        return Err(unlike("table", &table.name, "another number of fields"));
    }
    let mut parts = Vec::with_capacity(shape.key.len());
    for (place, part) in shape.key.iter().enumerate() {
        let mut fields = table.fields.iter();
        let field = fields
            .position(|field| field.name == part.name)
            .unwrap_or(place);
        let known = &table.fields[field];
        let shift = check_field(table, known, part)?;
        parts.push(Part {
            field,
            kind: part.kind,
            width: part.width_bits,
            shift,
            asked: known.kind,
            shared: known.width.min(part.width_bits - shift),
            names: known.is_error.then(|| names.clone()),
        });
    }
    let mut seen: Vec<usize> = parts.iter().map(|part| part.field).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != parts.len() {
        return Err(unlike("table", &table.name, "fields of other names"));
    }
    check_parts(table, shape)?;
    if let (Some(meter), None) = (table.direct_meter, shape.meter) {
        absent.add("direct meter of the table", &table.name, meter)?;
    }
    let mut actions = BTreeMap::new();
    for action in table.actions.keys() {
        let action = &catalog.actions[action];
        let found = find_action(program, &shape.actions, &action.name);
        let found = found.ok_or_else(|| missing("action", &action.name))?;
        let own = &program.action(found).parameters;
        let is_alike = own.len() == action.parameters.len()
            && own
                .iter()
                .zip(&action.parameters)
                .all(|(own, given)| given.width >= own.width_bits);
        if !is_alike {
            return Err(unlike("action", &action.name, "other parameters"));
        }
        actions.insert(action.id, found);
    }
    Ok(BoundTable {
        table: Some(id),
        parts,
        actions,
    })
}

/// Checks that the program's table has the resources that P4Info gives it.
fn check_parts(table: &Table, shape: &thalweg_p4::program::table::Table) -> Result<()> {
    if table.profile.is_some() != shape.profile.is_some() {
        return Err(unlike("table", &table.name, "an action profile"));
    }
    if table.direct_counter.is_some() && !shape.has_counters {
        return Err(unlike("table", &table.name, "a direct counter"));
    }
    if table.direct_meter.is_none() && shape.meter.is_some() {
        return Err(unlike("table", &table.name, "a direct meter"));
    }
    if table.has_idle_timeout && !shape.has_timeouts {
        return Err(unlike("table", &table.name, "idle time-outs"));
    }
    Ok(())
}

/// Checks a field against the program. Returns its lowest bit in the program's field.
fn check_field(
    table: &Table,
    field: &Field,
    part: &thalweg_p4::program::table::KeyPart,
) -> Result<u32> {
    let is_alike = match (field.kind, part.kind) {
        (MatchKind::Exact, Kind::Exact)
        | (MatchKind::Lpm, Kind::Lpm)
        | (MatchKind::Ternary, Kind::Ternary)
        | (MatchKind::Range, Kind::Range)
        // The compiler turns an optional match into a ternary one.
        | (MatchKind::Optional, Kind::Optional | Kind::Ternary) => true,
        _ => false,
    };
    let place = format!("{}.{}", table.name, field.name);
    if !is_alike {
        return Err(unlike("field", &place, "another kind of match"));
    }
    if field.width >= part.width_bits {
        return Ok(0);
    }
    // For a slice of a field, the bits of the mask are contiguous.
    let mask = part.mask.as_deref().unwrap_or(&[]);
    let set: u32 = mask.iter().map(|word| word.count_ones()).sum();
    let low = mask.iter().rev().scan(true, |is_low, word| {
        let zeros = if *is_low { word.trailing_zeros() } else { 0 };
        *is_low &= *word == 0;
        Some(zeros)
    });
    let shift: u32 = low.sum();
    let high = mask.iter().position(|word| *word != 0);
    let high = high.map_or(0, |word| {
        (mask.len() - word) as u32 * 64 - mask[word].leading_zeros()
    });
    if set == field.width && high - shift == set {
        return Ok(shift);
    }
    Err(unlike("field", &place, "another width"))
}

fn find_action(program: &Program, actions: &[ActionId], name: &str) -> Option<ActionId> {
    let mut actions = actions.iter().copied();
    actions.find(|action| program.action(*action).name == name)
}

fn check_size(kind: &str, name: &str, given: u64, own: u32) -> Result<()> {
    if given <= u64::from(own) {
        return Ok(());
    }
    Err(unlike(kind, name, "a smaller size"))
}

fn missing(kind: &str, name: &str) -> Problem {
    Problem::invalid(format!(
        "P4Info has the {kind} `{name}` and the program has not; give the P4Info that was \
         compiled with it"
    ))
}

fn unlike(kind: &str, name: &str, what: &str) -> Problem {
    Problem::invalid(format!(
        "P4Info and the program differ in the {kind} `{name}`: one has {what}; give the P4Info \
         that was compiled with it"
    ))
}
