//! Runs a program beside its transformed form, with the keeper that fills the cache.

use std::sync::Arc;

use num_bigint::BigUint;
use thalweg_p4::behavior::transform::{
    CacheEntries, Keeper, Operation, PREFIX, Transformed, changed_by, report_of, transform,
};
use thalweg_p4::program::ids::{ActionId, CounterId, RegisterId, TableId};
use thalweg_p4::state::{ActionCall, Update};
use thalweg_p4::{Config, Outbox, Program, Target};
use thalweg_packet::Instant;

/// The original program, and the transformed one with its keeper.
pub(crate) struct Pair {
    pub(crate) plain: Target,
    pub(crate) cached: Target,
    pub(crate) keeper: Keeper,
    entries: CacheEntries,
    /// Reports that have not been read yet.
    pub(crate) reports: Vec<Vec<BigUint>>,
    outboxes: [Outbox; 2],
    nanos: u64,
    pub(crate) hits: u64,
    /// Hits that wrote a register; the next field counts hits that looked up a table again.
    pub(crate) wrote: u64,
    pub(crate) again: u64,
}

fn table(target: &Target, name: &str) -> TableId {
    target.program().find_table(name).expect("a table")
}

fn action(target: &Target, name: &str) -> ActionId {
    let actions = &target.program().actions;
    let found = actions.iter().position(|action| action.name == name);
    ActionId(found.expect("an action") as u32)
}

impl Pair {
    pub(crate) fn new(text: &str, entries: u32, threshold: u32) -> Pair {
        let Transformed { json, plan } =
            transform(text, entries).unwrap_or_else(|error| panic!("{error}"));
        let target = |text: &str| {
            let program = Program::from_json(text).unwrap_or_else(|error| panic!("{error}"));
            Target::new(Arc::new(program), Config::default()).expect("own entries")
        };
        let mut cached = target(&json.to_string());
        let registers = &cached.program().arrays;
        let register = registers
            .find_register(&format!("{PREFIX}.threshold"))
            .expect("the threshold");
        let set = Update::SetRegister(register, 0, threshold.into());
        cached.write(&[set], Instant::ZERO).expect("the threshold");
        let entries = CacheEntries::find(cached.program(), &plan).expect("the cache table");
        Pair {
            plain: target(text),
            cached,
            entries,
            keeper: Keeper::new(plan),
            reports: Vec::new(),
            outboxes: [Outbox::new(), Outbox::new()],
            nanos: 0,
            hits: 0,
            wrote: 0,
            again: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos)
    }

    /// Does the keeper's operations on the cache table.
    fn operate(&mut self, operations: Vec<Operation>) {
        let updates = self.entries.updates(operations);
        let written = self.cached.write(&updates, self.now());
        written.unwrap_or_else(|failed| panic!("{}", failed.error));
    }

    pub(crate) fn read_reports(&mut self, count: usize) {
        let count = count.min(self.reports.len());
        for report in self.reports.drain(..count).collect::<Vec<_>>() {
            let operations = self.keeper.handle_report(&report);
            self.operate(operations);
        }
    }

    /// Makes a change within the keeper's barrier.
    pub(crate) fn write(&mut self, updates: &[Update]) -> bool {
        let is_done = self.plain.write(updates, self.now());
        let program = self.plain.program();
        let changed = updates.iter().flat_map(|one| changed_by(program, one));
        let changed: Vec<_> = changed.collect();
        let operations = self.keeper.begin_change(&changed);
        self.operate(operations);
        let renamed: Vec<Update> = updates.iter().map(|one| self.renamed(one)).collect();
        let again = self.cached.write(&renamed, self.now());
        let text = |failed: thalweg_p4::state::BatchError| failed.error.to_string();
        let is_done = is_done.map_err(text);
        assert_eq!(is_done, again.map_err(text));
        let epoch = self.keeper.end_change();
        let begin = Update::SetDefault(
            table(&self.cached, &format!("{PREFIX}.begin")),
            Some(ActionCall {
                action: action(&self.cached, &format!("{PREFIX}.begin")),
                data: vec![epoch.into()],
            }),
        );
        self.cached.write(&[begin], self.now()).expect("the epoch");
        is_done.is_ok()
    }

    /// Egress tables have other numbers, after the added tables.
    fn renamed(&self, update: &Update) -> Update {
        let renamed = |id: &TableId| table(&self.cached, &self.plain.program().table(*id).name);
        match update.clone() {
            Update::InsertEntry(id, entry) => Update::InsertEntry(renamed(&id), entry),
            Update::ModifyEntry(id, entry) => Update::ModifyEntry(renamed(&id), entry),
            Update::DeleteEntry(id, matches, priority) => {
                Update::DeleteEntry(renamed(&id), matches, priority)
            }
            Update::SetDefault(id, call) => Update::SetDefault(renamed(&id), call),
            Update::ClearTable(id) => Update::ClearTable(renamed(&id)),
            other => other,
        }
    }

    pub(crate) fn receive(&mut self, port: u32, bytes: &[u8]) {
        self.nanos += 1_000;
        let now = self.now();
        let targets = [&mut self.plain, &mut self.cached];
        for (target, outbox) in targets.into_iter().zip(&mut self.outboxes) {
            outbox.clear();
            target.receive(port, bytes, now, outbox);
        }
        let [plain, cached] = &self.outboxes;
        assert!(plain.sent().eq(cached.sent()), "{bytes:02x?} at {port}");
        let program = self.cached.program();
        let lists = &program.arrays.learn_lists;
        let (ours, theirs): (Vec<_>, Vec<_>) = cached
            .digests()
            .partition(|digest| lists[digest.list.index()].name.starts_with(PREFIX));
        assert!(plain.digests().eq(theirs), "{bytes:02x?} at {port}");
        let reports = ours.iter().filter_map(|digest| report_of(program, digest));
        self.reports.extend(reports);
    }

    /// Compares counters and registers of the program.
    pub(crate) fn compare(&mut self) {
        let arrays = &self.plain.program().arrays;
        let (counters, registers) = (arrays.counters.len(), arrays.registers.len());
        let [plain, cached] = [&mut self.plain, &mut self.cached].map(|one| {
            let program = one.program().clone();
            let state = one.state();
            let mut all = (Vec::new(), Vec::new());
            for cell in 0..64 {
                for array in 0..counters as u32 {
                    all.0.push(state.counter(CounterId(array), cell));
                }
            }
            for array in 0..registers as u32 {
                for cell in 0..program.arrays.registers[array as usize].size {
                    all.1
                        .push(state.register(&program, RegisterId(array), cell));
                }
            }
            all
        });
        assert_eq!(plain, cached);
        self.compare_entries();
    }

    /// The original's registers, in the transformed program.
    fn registers(&mut self) -> String {
        let program = self.cached.program().clone();
        let count = self.plain.program().arrays.registers.len() as u32;
        let state = self.cached.state();
        let cells = (0..64).flat_map(|cell| (0..count).map(move |array| (array, cell)));
        let all = cells.map(|(array, cell)| state.register(&program, RegisterId(array), cell));
        format!("{:?}", all.collect::<Vec<_>>())
    }

    /// Compares the counts and times of last hit of entries.
    fn compare_entries(&mut self) {
        let program = self.plain.program().clone();
        let others = self.cached.program().clone();
        for (shape, id) in program.tables.iter().zip(0..) {
            let other = others.find_table(&shape.name).expect("the same table");
            let [plain, cached] = [
                (&mut self.plain, &program, TableId(id)),
                (&mut self.cached, &others, other),
            ]
            .map(|(target, program, id)| {
                let state = target.state();
                let entries = state.entries(program, id);
                let live = entries.iter().map(|entry| {
                    let found = state.entry(program, id, &entry.matches, entry.priority);
                    let found = found.expect("its own match").expect("it is there");
                    format!("{:?} {:?}", found.counter(), found.last_hit())
                });
                live.collect::<Vec<_>>()
            });
            assert_eq!(plain, cached, "{}", shape.name);
        }
    }

    /// Traces the packet to see whether the cache table matched.
    pub(crate) fn trace_hit(&mut self, port: u32, bytes: &[u8]) {
        let id = self.entries.table;
        let mut outbox = Outbox::new();
        let now = self.now();
        let before = self.registers();
        let steps = self.cached.trace(port, bytes, now, &mut outbox);
        self.plain.receive(port, bytes, now, &mut Outbox::new());
        let is_hit = |step: &thalweg_p4::TraceStep| {
            use thalweg_p4::TraceStep;
            matches!(step, TraceStep::Table(table, Some(_), _) if *table == id)
        };
        let is_one = steps.iter().any(is_hit);
        self.hits += u64::from(is_one);
        self.wrote += u64::from(is_one && self.registers() != before);
        let nodes = &self.cached.program().control.nodes;
        let again = |step: &thalweg_p4::TraceStep| match step {
            thalweg_p4::TraceStep::Do(node) => {
                let name = &nodes[node.index()].name;
                name.starts_with(&format!("{PREFIX}.put_"))
            }
            _ => false,
        };
        self.again += u64::from(steps.iter().any(again));
    }
}
