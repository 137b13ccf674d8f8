//! One program with its state, bound to its P4Info.

use std::ops::Range;
use std::sync::Arc;

use thalweg_binding::{Binding, Converter, call_from, key_from, open_tables, problem_of, value_of};
use thalweg_control::{
    Catalog, Code, Count, EntryRef, EntryState, Initial, InitialEntry, Operation, Problem, Refusal,
    Value,
};
use thalweg_p4::state::{ActionCall, EntryAction, Update};
use thalweg_p4::{Digest, Program, Target};
use thalweg_packet::Instant;

type Result<T> = std::result::Result<T, Problem>;

/// A running or saved program.
pub(super) struct LoadedProgram {
    pub(super) target: Target,
    binding: Binding,
}

impl LoadedProgram {
    /// Loads a program. Returns it with its initial state.
    pub(super) fn load(
        catalog: &Catalog,
        program: &[u8],
        config: thalweg_p4::Config,
        cpu_port: Option<u32>,
    ) -> Result<(LoadedProgram, Initial)> {
        let text = std::str::from_utf8(program)
            .map_err(|_| Problem::invalid("the device configuration is not p4c's JSON"))?;
        let program = Program::from_json(text);
        let mut program = program.map_err(|error| Problem::invalid(error.to_string()))?;
        if cpu_port == Some(config.drop_port) {
            return Err(Problem::invalid("the controller's port is the drop port"));
        }
        let port_max = program.standard.port_max();
        if let Some(port) = cpu_port.filter(|port| u64::from(*port) > port_max) {
            return Err(Problem::invalid(format!(
                "the controller's port {port} does not fit the program, whose ports are 0 to \
                 {port_max}"
            )));
        }
        open_tables(catalog, &mut program);
        let binding = Binding::new(catalog, &program)?;
        let target = Target::new(Arc::new(program), config);
        let mut target = target.map_err(|error| Problem::invalid(error.to_string()))?;
        let initial = initial_of(catalog, &mut target, &binding);
        Ok((LoadedProgram { target, binding }, initial))
    }

    pub(super) fn apply(
        &mut self,
        change: &[Operation],
        cpu_port: Option<u32>,
        now: Instant,
    ) -> std::result::Result<(), Refusal> {
        let converter = Converter {
            binding: &self.binding,
            cpu_port,
        };
        let mut updates: Vec<Update> = Vec::with_capacity(change.len());
        let mut ends = Vec::with_capacity(change.len());
        for (index, operation) in change.iter().enumerate() {
            let pushed = converter.push(operation, &mut updates);
            pushed.map_err(|problem| Refusal { index, problem })?;
            ends.push(updates.len());
        }
        self.target.write(&updates, now).map_err(|failed| Refusal {
            index: ends.partition_point(|end| *end <= failed.index),
            problem: problem_of(&failed.error),
        })
    }

    pub(super) fn counts(&mut self, counter: u32, indices: Range<u64>) -> Result<Vec<Count>> {
        if self.binding.absent.contains(&counter) {
            return Ok(indices.map(|_| Count::default()).collect());
        }
        let id = self
            .binding
            .counters
            .get(&counter)
            .copied()
            .ok_or_else(gone)?;
        let state = self.target.state();
        let count = |index: u64| {
            let index = u32::try_from(index).map_err(|_| gone())?;
            let counter = state.counter(id, index).ok_or_else(gone)?;
            Ok(Count {
                bytes: counter.bytes,
                packets: counter.packets,
            })
        };
        indices.map(count).collect()
    }

    pub(super) fn registers(
        &mut self,
        register: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Vec<Value>>> {
        if let Some(count) = self.binding.absent_registers.get(&register) {
            let zeros = vec![Value::from(0); *count];
            return Ok(indices.map(|_| zeros.clone()).collect());
        }
        let id = self
            .binding
            .registers
            .get(&register)
            .copied()
            .ok_or_else(gone)?;
        let program = self.target.program().clone();
        let state = self.target.state();
        let numbers = |index: u64| {
            let index = u32::try_from(index).map_err(|_| gone())?;
            let number = state.register(&program, id, index);
            Ok(vec![value_of(&number.ok_or_else(gone)?)])
        };
        indices.map(numbers).collect()
    }

    pub(super) fn entries(
        &mut self,
        table: u32,
        entries: &[EntryRef],
        now: Instant,
    ) -> Result<Vec<EntryState>> {
        let converter = Converter {
            binding: &self.binding,
            cpu_port: None,
        };
        let program = self.target.program().clone();
        let state = self.target.state();
        let read = |entry: &EntryRef| {
            let EntryRef::Entry(key) = entry else {
                return Ok(EntryState::default());
            };
            let (id, matches, priority) = converter.key(table, key)?;
            let found = state.entry(&program, id, &matches, priority);
            let found = found
                .map_err(|error| problem_of(&error))?
                .ok_or_else(gone)?;
            let idle = now - found.last_hit();
            Ok(EntryState {
                count: Count {
                    bytes: found.counter().bytes,
                    packets: found.counter().packets,
                },
                idle_ns: u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX),
            })
        };
        entries.iter().map(read).collect()
    }

    /// Converts a digest to P4Info's form.
    pub(super) fn digest(&self, digest: Digest<'_>) -> Option<(u32, Vec<Value>)> {
        let id = *self.binding.digests.get(&digest.list)?;
        let program = self.target.program();
        let fields = &program.arrays.learn_lists[digest.list.index()].fields;
        let mut rest = digest.words;
        let mut numbers = Vec::with_capacity(fields.len());
        for field in fields {
            let count = program.headers.field(*field).words() as usize;
            let (words, after) = rest.split_at_checked(count)?;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            numbers.push(Value::shortest(&bytes));
            rest = after;
        }
        Some((id, numbers))
    }
}

/// The error when a session and its data plane disagree.
fn gone() -> Problem {
    Problem::new(Code::Internal, "the data plane does not have it")
}

/// The program's own entries as the target holds them, in normal form.
fn initial_of(catalog: &Catalog, target: &mut Target, binding: &Binding) -> Initial {
    let program = target.program().clone();
    let state = target.state();
    let mut initial = Initial {
        absent: binding.absent.clone(),
        ..Initial::default()
    };
    for (id, bound) in &binding.tables {
        let Some(table) = bound.table else {
            continue;
        };
        let call = |call: &ActionCall| call_from(&bound.actions, &program, call);
        for entry in state.entries(&program, table) {
            let EntryAction::Call(own) = &entry.action else {
                continue;
            };
            if let Some(action) = call(own) {
                initial.entries.push(InitialEntry {
                    table: *id,
                    key: key_from(bound, &entry.matches, entry.priority),
                    action,
                    is_const: catalog.tables[id].is_const,
                });
            }
        }
        let default = program.table(table).default.as_ref();
        let default = default.map(|own| ActionCall {
            action: own.action,
            data: own.data.clone(),
        });
        if let Some(action) = default.as_ref().and_then(call) {
            initial.defaults.push((*id, action));
        }
    }
    initial
}
